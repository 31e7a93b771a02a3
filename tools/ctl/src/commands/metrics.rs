// SPDX-License-Identifier: GPL-2.0

//! `metrics`: numbers for Prometheus.

use crate::{
    answer::Answer,
    atomic,
    checks,
    cli,
    close_reason,
    counter::{
        Class,
        Values,
        COUNTERS, //
    },
    error::{
        Error,
        Result, //
    },
    finding,
    latency::{
        Histogram,
        Kind, //
    },
    listener::Listener,
    metric::{
        Metric,
        Type, //
    },
    setting::SETTINGS,
    system::{
        Server,
        System, //
    },
    table::Table, //
};
use serde_json::{
    json,
    Value, //
};
use std::collections::BTreeMap;

/// Columns of the table `devices` that are no numbers of the device.
const DEVICE: [&str; 2] = ["device", "state"];

/// Prints all metrics, or writes them to a file. Where svcrdma does not serve, `svcrdma_up` is 0.
pub(crate) fn run(args: &cli::Metrics, system: &System) -> Result<Answer> {
    let metrics = collect(system);
    let text: String = metrics.iter().map(Metric::text).collect();
    let list: Vec<Value> = metrics.iter().map(Metric::json).collect();
    let Some(file) = &args.output else {
        return Ok(Answer::new(text, json!({"metrics": list})));
    };
    atomic::write(file, text.as_bytes(), 0o644)
        .map_err(|error| Error::not_written(file, &error))?;
    Ok(Answer::new(
        String::new(),
        json!({"file": file, "metrics": list}),
    ))
}

/// Returns all metrics that can be read.
fn collect(system: &System) -> Vec<Metric> {
    let mut metrics = server(system);
    if let Ok(values) = system.values() {
        metrics.extend(counters(&values));
        metrics.push(settings(&values));
        metrics.push(latencies(&values));
    }
    if let Ok(table) = system.table("devices") {
        metrics.extend(devices(&table));
    }
    if let Ok(table) = system.table("connections") {
        metrics.extend(connections(&table));
    }
    if let Ok(table) = system.table("closes") {
        metrics.push(closes(&table));
    }
    metrics
}

/// Returns which server serves, and what `check` thinks of the host.
fn server(system: &System) -> Vec<Metric> {
    let server = system.server();
    let mut up = Metric::new("up", Type::Gauge, "1 if svcrdma is loaded, 0 if not.");
    up.push(&[], u64::from(server == Server::Ours));
    let mut info = Metric::new(
        "info",
        Type::Gauge,
        "Module that serves RDMA, its version, and the kernel.",
    );
    let version = system.version().unwrap_or_default();
    info.push(
        &[
            ("server", server.module().unwrap_or("none")),
            ("version", &version),
            ("kernel", &system.kernel()),
        ],
        1,
    );
    let mut check = Metric::new(
        "check_status",
        Type::Gauge,
        "Exit status of svcrdmactl check: 0 good, 1 warning, 2 broken, 3 unknown.",
    );
    check.push(
        &[],
        u64::from(finding::worst(&checks::all(system)).status()),
    );
    vec![up, info, check, listeners(system)]
}

/// Returns the state of each listener of svcrdma.
fn listeners(system: &System) -> Metric {
    let mut metric = Metric::new(
        "listener_up",
        Type::Gauge,
        "1 if clients can connect to the listener, 0 if its device is lost.",
    );
    if system.server() == Server::Ours {
        let listeners = Listener::all(system).unwrap_or_default().into_iter();
        // Those that nfsd is closing have no address any more.
        for listener in listeners.filter(|listener| listener.address.is_some()) {
            let net = listener.net.map(|net| net.to_string()).unwrap_or_default();
            let up = listener.state.as_deref() == Some("listening");
            metric.push(
                &[("address", &listener.name()), ("net", &net)],
                u64::from(up),
            );
        }
    }
    metric
}

/// Returns the counters, those included that this program does not know.
fn counters(values: &Values) -> Vec<Metric> {
    let metrics = values.counters().map(|(name, value)| {
        let known = COUNTERS.iter().find(|counter| counter.name == name);
        let mut metric = match known {
            Some(counter) if counter.class == Class::Counter => {
                Metric::new(&format!("{name}_total"), Type::Counter, counter.help)
            }
            Some(counter) => Metric::new(name, Type::Gauge, counter.help),
            None => Metric::new(
                name,
                Type::Untyped,
                format!("The file {name} of /proc/sys/sunrpc/svcrdma."),
            ),
        };
        metric.push(&[], value);
        metric
    });
    metrics.collect()
}

/// Returns the settings.
fn settings(values: &Values) -> Metric {
    let mut metric = Metric::new(
        "setting",
        Type::Gauge,
        "Settings, see svcrdmactl settings explain.",
    );
    for setting in SETTINGS {
        if let Some(value) = values.get(setting.name) {
            metric.push(&[("name", setting.name)], value);
        }
    }
    metric
}

/// Returns the histograms of the network namespace.
fn latencies(values: &Values) -> Metric {
    let mut metric = Metric::new(
        "latency_seconds",
        Type::Histogram,
        "Latencies of the Calls that are timed.",
    );
    for kind in Kind::ALL {
        if let Some(numbers) = values.list(&format!("latency_{}", kind.name())) {
            metric.push_histogram(("kind", kind.name()), &Histogram(numbers.to_vec()));
        }
    }
    metric
}

/// Returns a metric for each numeric column of the table of devices.
fn devices(table: &Table) -> Vec<Metric> {
    let titles = table
        .titles()
        .iter()
        .filter(|title| !DEVICE.contains(&title.as_str()));
    let metrics = titles.map(|title| {
        let help = format!("Column {title} of the table devices.");
        let mut metric = Metric::new(&format!("device_{title}"), Type::Gauge, help);
        for row in &table.rows {
            if let (Some(device), Some(value)) = (row.text("device"), row.number(title)) {
                metric.push(&[("device", device)], value);
            }
        }
        metric
    });
    metrics.collect()
}

/// Returns sums over the connections of all network namespaces. There is no metric for each peer,
/// because Prometheus would keep one for each connection that ever was.
fn connections(table: &Table) -> Vec<Metric> {
    let numbers = |title: &'static str| table.rows.iter().filter_map(move |row| row.number(title));
    let mut unanswered = Metric::new(
        "unanswered_calls",
        Type::Gauge,
        "Calls without a posted Reply.",
    );
    unanswered.push(&[], numbers("unanswered").sum());
    let mut behind = Metric::new(
        "behind_seconds",
        Type::Gauge,
        "Time that the slowest peer is behind, see stall_seconds.",
    );
    behind.push(&[], numbers("behind_seconds").max().unwrap_or(0));
    vec![unanswered, behind]
}

/// Returns how often each reason is among the last closes.
fn closes(table: &Table) -> Metric {
    let mut metric = Metric::new(
        "recent_closes",
        Type::Gauge,
        "Close reasons of the last 32 closes of each device, by number.",
    );
    let mut counts: BTreeMap<Option<u64>, u64> = BTreeMap::new();
    for row in &table.rows {
        let known = close_reason::find(row.text("reason").unwrap_or(""));
        *counts.entry(known.map(|reason| reason.number)).or_default() += 1;
    }
    for (number, count) in counts {
        let number = number.map_or_else(|| "unknown".to_owned(), |number| number.to_string());
        metric.push(&[("reason", &number)], count);
    }
    metric
}
