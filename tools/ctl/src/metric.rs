// SPDX-License-Identifier: GPL-2.0

//! Metrics in the text format of Prometheus.

use crate::latency::Histogram;
use serde_json::{
    json,
    Map,
    Value, //
};

/// The type of a metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Type {
    Counter,
    Gauge,
    Histogram,
    /// A number of which this program does not know how it changes.
    Untyped,
}

impl Type {
    /// Returns the word after `# TYPE`.
    fn name(self) -> &'static str {
        match self {
            Type::Counter => "counter",
            Type::Gauge => "gauge",
            Type::Histogram => "histogram",
            Type::Untyped => "untyped",
        }
    }
}

/// A label and its value.
pub(crate) type Label<'a> = (&'a str, &'a str);

/// All samples of a name.
#[derive(Clone, Debug)]
pub(crate) struct Metric {
    name: String,
    class: Type,
    help: String,
    samples: Vec<Sample>,
}

/// One line of a metric.
#[derive(Clone, Debug)]
struct Sample {
    /// The end of the name, behind that of the metric.
    suffix: &'static str,
    labels: Vec<(String, String)>,
    value: u64,
}

impl Metric {
    /// Creates a metric without samples. All names begin with `svcrdma_`.
    pub(crate) fn new(name: &str, class: Type, help: impl Into<String>) -> Self {
        Self {
            name: format!("svcrdma_{name}"),
            class,
            help: help.into(),
            samples: Vec::new(),
        }
    }

    /// Appends a sample.
    pub(crate) fn push(&mut self, labels: &[Label<'_>], value: u64) {
        self.add("", labels, value);
    }

    /// Appends the samples of a histogram of microseconds. Its sum is not known, and is left out.
    pub(crate) fn push_histogram(&mut self, label: Label<'_>, histogram: &Histogram) {
        let mut below = 0u64;
        let last = histogram.0.len().saturating_sub(1);
        for (n, calls) in histogram.0.iter().enumerate().take(last) {
            below = below.saturating_add(*calls);
            // Powers of two are exact.
            let end = Histogram::end(n) as f64 / 1e6;
            self.add("_bucket", &[label, ("le", &end.to_string())], below);
        }
        self.add("_bucket", &[label, ("le", "+Inf")], histogram.count());
        self.add("_count", &[label], histogram.count());
    }

    fn add(&mut self, suffix: &'static str, labels: &[Label<'_>], value: u64) {
        let labels = labels
            .iter()
            .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
        self.samples.push(Sample {
            suffix,
            labels: labels.collect(),
            value,
        });
    }

    /// Returns the lines, or none without samples.
    pub(crate) fn text(&self) -> String {
        let Self { name, help, .. } = self;
        if self.samples.is_empty() {
            return String::new();
        }
        let help = help.replace('\\', "\\\\").replace('\n', " ");
        let mut text = format!(
            "# HELP {name} {help}\n# TYPE {name} {}\n",
            self.class.name()
        );
        for sample in &self.samples {
            text += &format!(
                "{name}{}{} {}\n",
                sample.suffix,
                sample.label_text(),
                sample.value
            );
        }
        text
    }

    /// Returns the JSON object.
    pub(crate) fn json(&self) -> Value {
        let samples: Vec<Value> = self.samples.iter().map(Sample::json).collect();
        json!({"name": self.name, "type": self.class.name(), "help": self.help, "samples": samples})
    }
}

impl Sample {
    /// Returns `{NAME="VALUE",...}`, or nothing without labels.
    fn label_text(&self) -> String {
        let labels = self.labels.iter().map(|(name, value)| {
            let value = value
                .replace('\\', "\\\\")
                .replace('"', "\\\"")
                .replace('\n', "\\n");
            format!("{name}=\"{value}\"")
        });
        let labels: Vec<String> = labels.collect();
        match labels.as_slice() {
            [] => String::new(),
            labels => format!("{{{}}}", labels.join(",")),
        }
    }

    fn json(&self) -> Value {
        let labels = self
            .labels
            .iter()
            .cloned()
            .map(|(name, value)| (name, value.into()));
        let labels = Value::Object(Map::from_iter(labels));
        json!({"suffix": self.suffix, "labels": labels, "value": self.value})
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_escaped() {
        let mut metric = Metric::new("x", Type::Gauge, "a \\ b");
        metric.push(&[("l", "q\"\\\n")], u64::MAX);
        assert_eq!(
            metric.text(),
            "# HELP svcrdma_x a \\\\ b\n# TYPE svcrdma_x gauge\nsvcrdma_x{l=\"q\\\"\\\\\\n\"} 18446744073709551615\n"
        );
        assert_eq!(Metric::new("x", Type::Gauge, "").text(), "");
    }

    #[test]
    fn histograms_are_cumulative() {
        let mut metric = Metric::new("t", Type::Histogram, "");
        metric.push_histogram(("kind", "server"), &Histogram(vec![1, 2, 4]));
        let lines: Vec<String> = metric.text().lines().skip(2).map(str::to_owned).collect();
        assert_eq!(
            lines,
            [
                "svcrdma_t_bucket{kind=\"server\",le=\"0.000002\"} 1",
                "svcrdma_t_bucket{kind=\"server\",le=\"0.000004\"} 3",
                "svcrdma_t_bucket{kind=\"server\",le=\"+Inf\"} 7",
                "svcrdma_t_count{kind=\"server\"} 7",
            ]
        );
    }
}
