// SPDX-License-Identifier: GPL-2.0

//! The chart: bytes per second of each operation by size, as SVG. Both axes are logarithmic.

use super::{
    cell::Kind,
    table::{human, Row},
};

/// The edges of the plot, in the picture of 900 x 520.
const LEFT: f64 = 90.0;
const RIGHT: f64 = 720.0;
const TOP: f64 = 50.0;
const BOTTOM: f64 = 460.0;

/// A line of the plot: what is measured, and the bytes per second of each size.
struct Series {
    kind: Kind,
    points: Vec<(u32, f64)>,
}

impl Series {
    /// Returns the series of all operations that move bytes.
    fn all(rows: &[Row<'_>]) -> Vec<Self> {
        let series = |kind: Kind| {
            let points = rows
                .iter()
                .filter_map(|row| Some((row.size, row.bytes(kind)?)));
            let points = points.filter(|(_, bytes)| *bytes > 0.0).collect();
            Self { kind, points }
        };
        let all = Kind::ALL.into_iter().map(series);
        all.filter(|series| !series.points.is_empty()).collect()
    }

    /// Returns the color: one for each way in which bytes move.
    fn color(&self) -> &'static str {
        match self.kind {
            Kind::Send | Kind::Null => "#555555",
            Kind::Pull | Kind::Write => "#d55e00",
            Kind::Push | Kind::Read => "#0072b2",
            Kind::OfferRead => "#56b4e9",
            Kind::OfferWrite => "#e69f00",
        }
    }

    /// Returns the elements: the line, its points, and the `nth` line of the legend.
    fn draw(&self, plot: &Plot, nth: usize) -> String {
        let (color, name) = (self.color(), self.kind.name());
        let dash = match self.kind.is_nfs() {
            true => " stroke-dasharray=\"6 4\"",
            false => "",
        };
        let points = self
            .points
            .iter()
            .map(|&(size, bytes)| (plot.x(size), plot.y(bytes)));
        let line: Vec<_> = points
            .clone()
            .map(|(x, y)| format!("{x:.1},{y:.1}"))
            .collect();
        let (line, y) = (line.join(" "), TOP + 24.0 * (nth as f64 + 1.0));
        let dots = points.map(|(x, y)| {
            format!("<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"3\" fill=\"{color}\"/>\n")
        });
        let stroke = format!("fill=\"none\" stroke=\"{color}\" stroke-width=\"2\"{dash}");
        let (from, to, text) = (RIGHT + 20.0, RIGHT + 60.0, RIGHT + 68.0);
        let key = format!("<line x1=\"{from}\" y1=\"{y}\" x2=\"{to}\" y2=\"{y}\" {stroke}/>\n");
        let dots: String = dots.collect();
        format!(
            "<polyline points=\"{line}\" {stroke}/>\n{dots}{key}{}",
            label(text, y + 4.0, "start", name)
        )
    }
}

/// The axes.
struct Plot {
    sizes: Vec<u32>,
    /// The powers of ten of bytes per second at both ends.
    least: i32,
    most: i32,
}

impl Plot {
    /// Returns the axes that have room for all series.
    fn new(all: &[Series]) -> Self {
        let points = || all.iter().flat_map(|series| &series.points);
        let mut sizes: Vec<u32> = points().map(|(size, _)| *size).collect();
        sizes.sort_unstable();
        sizes.dedup();
        let powers = || points().map(|(_, bytes)| bytes.log10());
        let least = powers().fold(f64::INFINITY, f64::min).floor();
        let most = powers().fold(f64::NEG_INFINITY, f64::max).ceil();
        let (least, most) = match least.is_finite() {
            true => (least as i32, most as i32),
            false => (6, 9),
        };
        let most = most.max(least + 1);
        Self { sizes, least, most }
    }

    /// Returns the place of a size.
    fn x(&self, size: u32) -> f64 {
        let power = |size: Option<&u32>| size.map_or(0.0, |&size| f64::from(size.max(1)).log2());
        let (first, last) = (power(self.sizes.first()), power(self.sizes.last()));
        LEFT + (RIGHT - LEFT) * (power(Some(&size)) - first) / (last - first).max(1.0)
    }

    /// Returns the place of a number of bytes per second.
    fn y(&self, bytes: f64) -> f64 {
        let all = f64::from(self.most - self.least);
        BOTTOM - (BOTTOM - TOP) * (bytes.log10() - f64::from(self.least)) / all
    }

    /// Returns the elements: a line and a number for each power of ten, and for each size.
    fn draw(&self) -> String {
        let rates = (self.least..=self.most).map(|power| {
            let y = self.y(10f64.powi(power));
            let text = format!("{} MB/s", 10f64.powi(power - 6));
            rule((LEFT, y), (RIGHT, y)) + &label(LEFT - 8.0, y + 4.0, "end", &text)
        });
        let sizes = self.sizes.iter().map(|&size| {
            let x = self.x(size);
            rule((x, TOP), (x, BOTTOM)) + &label(x, BOTTOM + 20.0, "middle", &human(size))
        });
        rates.chain(sizes).collect()
    }
}

/// Returns a thin line.
fn rule(from: (f64, f64), to: (f64, f64)) -> String {
    let ((x1, y1), (x2, y2)) = (from, to);
    format!(
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"#dddddd\"/>\n"
    )
}

/// Returns a text.
fn label(x: f64, y: f64, anchor: &str, text: &str) -> String {
    let text = escaped(text);
    format!("<text x=\"{x:.1}\" y=\"{y:.1}\" text-anchor=\"{anchor}\">{text}</text>\n")
}

/// Returns a text without what XML gives a meaning, or does not allow.
fn escaped(text: &str) -> String {
    let one = |char: char| match char {
        '&' => "&amp;".to_owned(),
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        char if char.is_control() => " ".to_owned(),
        char => char.to_string(),
    };
    text.chars().map(one).collect()
}

/// Returns the picture. `host` is in its title.
pub(super) fn svg(host: &str, rows: &[Row<'_>]) -> String {
    let all = Series::all(rows);
    let plot = Plot::new(&all);
    let title = format!("{host}: the fabric, and NFS on it (dashed), at the best depth");
    let series = all
        .iter()
        .enumerate()
        .map(|(nth, series)| series.draw(&plot, nth));
    let series: String = series.collect();
    format!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n\
         <svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 900 520\" font-family=\"sans-serif\" \
         font-size=\"12\">\n<rect width=\"900\" height=\"520\" fill=\"white\"/>\n{}{}{series}</svg>\n",
        label(LEFT, 28.0, "start", &title),
        plot.draw()
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fabric::table::{rows, tests::figures};

    #[test]
    fn a_picture_has_a_line_for_each_operation_and_a_dot_for_each_size() {
        let all = [
            figures(Kind::Push, 64, 1, 100.0, 10),
            figures(Kind::Push, 4096, 1, 100.0, 10),
            figures(Kind::Read, 64, 1, 50.0, 10),
            figures(Kind::Read, 4096, 1, 50.0, 10),
            figures(Kind::Send, 64, 1, 50.0, 10),
            figures(Kind::Null, 64, 1, 50.0, 10),
        ];
        let svg = svg("a<b>&\n", &rows(&all));
        let count = |what: &str| svg.matches(what).count();
        // NULL moves no bytes.
        assert_eq!((count("<polyline"), count("<circle")), (3, 5));
        assert_eq!(count("stroke-dasharray"), 2);
        assert!(
            svg.contains("a&lt;b&gt;&amp; :") && svg.contains(">4 KiB<"),
            "{svg}"
        );
        assert_eq!(count("<text"), count("</text>"));
        assert!(svg.starts_with("<?xml ") && svg.ends_with("</svg>\n"));
    }

    #[test]
    fn all_points_are_inside() {
        let all = [
            figures(Kind::Pull, 64, 1, 1.0, 10),
            figures(Kind::Pull, 4 << 20, 1, 10_000.0, 10),
            figures(Kind::OfferRead, 64, 1, 1e7, 10),
        ];
        let rows = rows(&all);
        let series = Series::all(&rows);
        let plot = Plot::new(&series);
        for (size, bytes) in series.iter().flat_map(|series| &series.points) {
            let (x, y) = (plot.x(*size), plot.y(*bytes));
            assert!(
                (LEFT..=RIGHT).contains(&x) && (TOP..=BOTTOM).contains(&y),
                "{x} {y}"
            );
        }
    }

    #[test]
    fn nothing_and_one_point_can_be_drawn() {
        for all in [vec![], vec![figures(Kind::Pull, 64, 1, 1.0, 10)]] {
            let svg = svg("host", &rows(&all));
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }
}
