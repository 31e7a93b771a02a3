// SPDX-License-Identifier: GPL-2.0

//! `watch`, on a trace in the format of a kernel.

use crate::host::{
    fixture,
    Host, //
};
use serde_json::{
    json,
    Value, //
};
use std::{
    fs,
    io::{
        BufRead,
        BufReader,
        Write, //
    },
    os::unix::fs::PermissionsExt,
    process::{
        Child,
        Command,
        Stdio, //
    },
    thread,
    time::Duration, //
};

const INSTANCES: &str = "sys/kernel/tracing/instances";
/// The files of a new instance.
const NEW: &str = "sys/kernel/tracing/new-instance";

/// Returns a host whose instances have a trace_pipe with the text `trace`.
pub(crate) fn host(trace: &str) -> Host {
    let host = Host::serving();
    fs::create_dir_all(host.path(INSTANCES)).expect("a folder");
    for file in ["buffer_size_kb", "trace_clock"] {
        host.write(&format!("{NEW}/{file}"), "");
    }
    for event in [
        "accept",
        "close",
        "shortage",
        "listener",
        "lane_retired",
        "call",
    ] {
        host.write(&enable(event), "0");
    }
    for event in ["module_load", "module_free"] {
        host.write(&format!("{NEW}/events/module/{event}/enable"), "0");
    }
    host.write(&format!("{NEW}/trace_pipe"), trace);
    host
}

/// Returns the file that enables an event.
fn enable(event: &str) -> String {
    format!("{NEW}/events/svcrdma_rs/svcrdma_rs_{event}/enable")
}

/// Returns a trace in the format in which a kernel writes it.
pub(crate) fn written() -> String {
    fs::read_to_string(fixture("trace_pipe")).expect("a file")
}

/// Returns the names of the instances.
fn instances(host: &Host) -> usize {
    let folder = host.path(INSTANCES);
    folder.read_dir().expect("a folder").count()
}

/// Runs `watch --json` to the end of the trace, and returns the objects.
#[track_caller]
pub(crate) fn objects(host: &Host, args: &[&str]) -> Vec<Value> {
    let done = host.run(&[&["watch", "--json"], args].concat()).exits(0);
    let lines = done.out.lines();
    lines
        .map(|line| serde_json::from_str(line).expect("JSON"))
        .collect()
}

/// Returns one key of each object.
fn values<'a>(objects: &'a [Value], key: &str) -> Vec<&'a Value> {
    objects.iter().map(|object| &object[key]).collect()
}

#[test]
fn lines_are_those_of_the_trace() {
    let host = host(&written());
    let done = host.run(&["watch"]).exits(0);
    let texts: Vec<&str> = done
        .out
        .lines()
        .map(|line| {
            let (time, text) = line.split_once(' ').expect("a time and a text");
            assert!(time.starts_with("2026-") && time.ends_with('Z'), "{time}");
            text
        })
        .collect();
    assert_eq!(
        texts,
        [
            "connection 2 of 10.77.0.1:48617: opened",
            "connection 2 of 10.77.0.1:48617: closed: closed by the peer (event 10)",
            "rxe0: lane 0 retired",
            "connection 3 of 10.77.0.1:50961: opened",
            "connection 3 of 10.77.0.1:50961: closed abnormally: Send, Read or Write failed: remote access error",
            "lost 12 events of CPU 1: too many at a time",
            "rxe0: shortage begins: Calls of unvalidated peers wait for 513 pages",
            "rxe0: shortage ends: no Call of unvalidated peers waits for pages",
            "listener 10.77.0.2:20049: lost: device removed or its address changed",
            "listener 10.77.0.2:20049: listening again",
            "svcrdma: unloaded",
            "svcrdma: loaded",
        ]
    );
    assert_eq!(host.read(&format!("{NEW}/trace_clock")), "tai");
    assert_eq!(host.read(&enable("close")), "1");
    assert_eq!(host.read(&enable("lane_retired")), "1");
    assert_eq!(host.read(&enable("call")), "0");
    assert_eq!(instances(&host), 0);
}

#[test]
fn objects_have_the_keys_of_their_event() {
    let host = host(&written());
    let all = objects(&host, &[]);
    assert_eq!(
        values(&all, "event"),
        [
            "opened", "closed", "lane", "opened", "closed", "lost", "shortage", "shortage",
            "listener", "listener", "module", "module"
        ]
    );
    let mut closed = all[4].clone();
    let time = closed["time"].take();
    assert!(
        time.as_str().is_some_and(|time| time.contains('T')),
        "{time}"
    );
    assert!(closed["advice"].take().is_string());
    assert_eq!(
        closed,
        json!({
            "schema": 1, "command": "watch", "time": null, "event": "closed", "connection": 3,
            "peer": "10.77.0.1:50961", "abnormal": true, "advice": null, "reason_number": 9,
            "reason": "Send, Read or Write failed: remote access error",
        })
    );
    assert_eq!(all[1]["abnormal"], false);
    assert_eq!((&all[5]["cpu"], &all[5]["count"]), (&json!(1), &json!(12)));
    assert_eq!(all[6]["standing"], "unvalidated");
    assert_eq!(
        (&all[6]["state"], &all[7]["state"]),
        (&json!("begins"), &json!("ends"))
    );
    assert_eq!(
        (&all[8]["state"], &all[9]["state"]),
        (&json!("lost"), &json!("listening"))
    );
    assert_eq!(all[8]["net"], 4_026_531_833_u64);
}

#[test]
fn events_are_selected() {
    let host = host(&written());
    let closed = objects(&host, &["--event", "closed,lane"]);
    assert_eq!(
        values(&closed, "event"),
        ["closed", "lane", "closed", "lost", "module", "module"]
    );
    assert_eq!(host.read(&enable("accept")), "0");

    let other = objects(&host, &["--peer", "10.77.0.0/24", "--event", "opened"]);
    assert_eq!(
        values(&other, "connection"),
        [
            &json!(2),
            &json!(3),
            &json!(null),
            &json!(null),
            &json!(null)
        ]
    );
    let none = objects(&host, &["--peer", "fd77::/64"]);
    assert_eq!(values(&none, "event"), ["lost", "module", "module"]);
    host.run(&["watch", "--event", "weather"]).exits(2);
}

#[test]
fn a_module_that_comes_later_is_awaited() {
    let host = host("");
    host.remove(&format!("{NEW}/events/svcrdma_rs"));
    let waiting = objects(&host, &[]);
    assert_eq!(values(&waiting, "state"), ["unloaded"]);
    assert_eq!(
        host.read(&format!("{NEW}/events/module/module_load/enable")),
        "1"
    );
}

#[test]
fn an_older_module_has_no_peers() {
    let line =
        " nfsd-9 [000] ..... 1764361234.000001: svcrdma_rs_close: conn=7 reason=24 detail=0\n";
    let host = host(line);
    host.remove(&format!("{NEW}/events/svcrdma_rs/svcrdma_rs_shortage"));
    host.run(&["watch"])
        .exits(0)
        .says(" connection 7: closed abnormally: the peer is slower than minimum_rate\n");
    assert!(objects(&host, &[])[0]["peer"].is_null());
}

/// Starts `watch` on a trace that goes on, and reads its first line.
fn going_on(host: &Host) -> (Child, fs::File) {
    let pipe = host.path(&format!("{NEW}/trace_pipe"));
    fs::remove_file(&pipe).expect("a file");
    assert!(Command::new("mkfifo")
        .arg(&pipe)
        .status()
        .expect("mkfifo")
        .success());
    // Open for reading as well, so that opening it does not wait.
    let mut trace = fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(&pipe)
        .expect("a pipe");
    let mut command = host.command(&["watch"]);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    // Half a line, and then the rest.
    let written = written();
    let (first, second) = written.split_at(40);
    trace.write_all(first.as_bytes()).expect("a trace");
    trace.write_all(second.as_bytes()).expect("a trace");
    let mut line = String::new();
    let output = child.stdout.as_mut().expect("a pipe");
    BufReader::with_capacity(1, output)
        .read_line(&mut line)
        .expect("a line");
    assert!(line.ends_with("opened\n"), "{line}");
    assert_eq!(instances(host), 1);
    (child, trace)
}

#[test]
fn signals_end_it_and_remove_the_instance() {
    for signal in ["INT", "TERM", "HUP"] {
        let host = host("");
        let (mut child, _trace) = going_on(&host);
        let killed = Command::new("kill")
            .arg(format!("-{signal}"))
            .arg(child.id().to_string())
            .status();
        assert!(killed.expect("kill runs").success());
        assert_eq!(child.wait().expect("an end").code(), Some(0), "{signal}");
        assert_eq!(instances(&host), 0, "{signal}");
    }
}

#[test]
fn a_signal_ends_it_although_its_reader_does_not_read() {
    let line = written().lines().next().expect("a line").to_owned() + "\n";
    // More than the pipe of the output takes.
    let host = host(&line.repeat(2000));
    let mut command = host.command(&["watch"]);
    let mut child = command
        .stdout(Stdio::piped())
        .spawn()
        .expect("the program runs");
    let output = child.stdout.take().expect("a pipe");
    // The first line is written when the handlers of signals exist; the pipe is filled soon.
    let mut output = BufReader::with_capacity(1, output);
    output.read_line(&mut String::new()).expect("a line");
    let killed = Command::new("kill").arg(child.id().to_string()).status();
    assert!(killed.expect("kill runs").success());
    let ended = (0..600).find_map(|_| {
        thread::sleep(Duration::from_millis(100));
        child.try_wait().expect("a child")
    });
    if ended.is_none() {
        child.kill().expect("the end of the child");
    }
    assert_eq!(ended.and_then(|status| status.code()), Some(0));
    assert_eq!(instances(&host), 0);
}

#[test]
fn the_end_of_its_reader_ends_it_although_nothing_happens() {
    let host = host("");
    let (mut child, _trace) = going_on(&host);
    drop(child.stdout.take());
    assert_eq!(child.wait().expect("an end").code(), Some(0));
    assert_eq!(instances(&host), 0);
}

#[test]
fn instances_of_killed_programs_are_removed() {
    let host = host(&written());
    host.write(&format!("{INSTANCES}/svcrdmactl-1-0/trace_pipe"), "");
    host.write(&format!("{INSTANCES}/others/trace_pipe"), "");
    host.run(&["watch"]).exits(0);
    assert!(!host.path(&format!("{INSTANCES}/svcrdmactl-1-0")).exists());
    assert!(host.path(&format!("{INSTANCES}/others")).exists());
}

#[test]
fn what_prevents_it_is_said() {
    let host = host("");
    let folder = host.path(INSTANCES);
    fs::set_permissions(&folder, fs::Permissions::from_mode(0o555)).expect("permissions");
    host.run_as_user(&["watch"])
        .exits(3)
        .complains("/sys/kernel/tracing/instances cannot be written: run this as root");
    host.remove(INSTANCES);
    host.run(&["watch"])
        .exits(3)
        .complains("tracefs is not mounted at /sys/kernel/tracing: mount -t tracefs tracefs /sys/kernel/tracing");
    let error = host.run(&["watch", "--json"]).exits(3).json();
    assert_eq!(error["error"]["id"], "no-tracefs");
}
