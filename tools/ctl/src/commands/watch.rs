// SPDX-License-Identifier: GPL-2.0

//! `watch`: a line for each event, as it happens.

use crate::{
    answer::Answer,
    cli::{
        EventKind,
        Watch, //
    },
    close_reason,
    error::{
        Error,
        Result, //
    },
    human::plural,
    system::System,
    trace_event::{
        Event,
        Line, //
    },
    tracefs::Instance,
    wall_clock::Time, //
};
use rustix::event::{
    poll,
    PollFd,
    PollFlags, //
};
use serde_json::{
    json,
    Value, //
};
use signal_hook::{
    consts::{
        SIGHUP,
        SIGINT,
        SIGTERM, //
    },
    low_level::pipe, //
};
use std::{
    io,
    os::unix::net::UnixStream, //
};

/// The name of the command in JSON.
const NAME: &str = "watch";
/// Events that say when the events of svcrdma come and go.
const MODULE: [&str; 2] = ["module/module_load", "module/module_free"];

impl EventKind {
    const ALL: [EventKind; 5] = [
        EventKind::Opened,
        EventKind::Closed,
        EventKind::Shortage,
        EventKind::Listener,
        EventKind::Lane,
    ];

    /// Returns the name of the trace event.
    fn trace_event(self) -> &'static str {
        match self {
            EventKind::Opened => "accept",
            EventKind::Closed => "close",
            EventKind::Shortage => "shortage",
            EventKind::Listener => "listener",
            EventKind::Lane => "lane_retired",
        }
    }

    /// Returns true if the event is one of a connection.
    fn has_peer(self) -> bool {
        matches!(self, EventKind::Opened | EventKind::Closed)
    }
}

/// Prints events until a signal comes or nobody reads them any more.
pub(crate) fn run(args: &Watch, system: &System, is_json: bool) -> Result<Answer> {
    // Before the instance exists: from here on a signal ends the command by way of `wait`.
    let signals = signals().map_err(|error| Error::failed("signals", error.to_string()))?;
    let mut instance = Instance::create(system)?;
    let watcher = Watcher {
        args,
        is_json,
        signals: &signals,
    };
    for event in MODULE {
        instance.enable(event)?;
    }
    if !watcher.enable(&instance)? {
        let at = Time::now();
        let waits = Report::new(
            at,
            "svcrdma: not loaded, waiting for it",
            module("unloaded"),
        );
        if !watcher.print(waits)? {
            return Ok(Answer::printed());
        }
    }
    while wait(&instance, &signals)? {
        let Some(lines) = instance.read()? else {
            break;
        };
        for line in lines {
            if !watcher.take(&line, &instance)? {
                return Ok(Answer::printed());
            }
        }
    }
    Ok(Answer::printed())
}

/// Returns the end of a socket that becomes readable when a signal comes.
fn signals() -> io::Result<UnixStream> {
    let (reader, writer) = UnixStream::pair()?;
    for signal in [SIGHUP, SIGINT, SIGTERM] {
        pipe::register(signal, writer.try_clone()?)?;
    }
    Ok(reader)
}

/// Waits until something is traced. Returns false if a signal came, or nobody reads the output.
fn wait(instance: &Instance, signals: &UnixStream) -> Result<bool> {
    let output = io::stdout();
    let Some(trace) = instance.pipe() else {
        return Ok(false);
    };
    let mut files = [
        PollFd::new(signals, PollFlags::IN),
        // Only errors are of interest: the other end of a pipe was closed.
        PollFd::new(&output, PollFlags::empty()),
        PollFd::from_borrowed_fd(trace, PollFlags::IN),
    ];
    match poll(&mut files, None) {
        Ok(_) | Err(rustix::io::Errno::INTR) => {}
        Err(error) => return Err(Error::failed("no-tracing", format!("poll: {error}"))),
    }
    let [signals, output, _] = &files;
    Ok(signals.revents().is_empty() && output.revents().is_empty())
}

/// Waits until a line can be written. Returns false if a signal came while its reader did not read.
///
/// A write that waits for the reader would not end with a signal. Meanwhile the trace buffer keeps what
/// is traced, and counts what it loses. Lines are shorter than the page that a pipe then has room for.
fn wait_for_reader(signals: &UnixStream) -> Result<bool> {
    let output = io::stdout();
    loop {
        let mut files = [
            PollFd::new(signals, PollFlags::IN),
            PollFd::new(&output, PollFlags::OUT),
        ];
        match poll(&mut files, None) {
            Ok(_) => {
                let [_, output] = &files;
                return Ok(!output.revents().is_empty());
            }
            Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(Error::failed("not-written", format!("poll: {error}"))),
        }
    }
}

/// A line of the output.
struct Report {
    at: Time,
    text: String,
    json: Value,
}

impl Report {
    /// Creates a line. `json` is an object.
    fn new(at: Time, text: impl Into<String>, json: Value) -> Self {
        let text = text.into();
        Self { at, text, json }
    }
}

/// Selects and prints events.
struct Watcher<'a> {
    args: &'a Watch,
    is_json: bool,
    /// The socket of [`signals`].
    signals: &'a UnixStream,
}

impl Watcher<'_> {
    /// Returns true if events of this kind are printed.
    fn wants(&self, kind: EventKind) -> bool {
        let is_named = self.args.event.is_empty() || self.args.event.contains(&kind);
        is_named && (self.args.peer.is_none() || kind.has_peer())
    }

    /// Enables the trace events. Returns false if svcrdma is not loaded. An older module may lack some
    /// events.
    fn enable(&self, instance: &Instance) -> Result<bool> {
        let mut is_loaded = false;
        for kind in EventKind::ALL {
            // An event that each module has shows if it is loaded.
            if self.wants(kind) || kind == EventKind::Closed {
                let event = format!("svcrdma_rs/svcrdma_rs_{}", kind.trace_event());
                is_loaded |= instance.enable(&event)?;
            }
        }
        Ok(is_loaded)
    }

    /// Prints what a line of the trace says. Returns false if nobody reads it.
    fn take(&self, line: &str, instance: &Instance) -> Result<bool> {
        let report = match Line::parse(line) {
            None => return Ok(true),
            Some(Line::Event(event)) => match self.event(&event) {
                Some(report) => report,
                None => return Ok(true),
            },
            Some(Line::Lost { cpu, count }) => {
                let text = format!(
                    "lost {} of CPU {cpu}: too many at a time",
                    plural(count, "event")
                );
                let json = json!({"event": "lost", "cpu": cpu, "count": count});
                Report::new(Time::now(), text, json)
            }
            Some(Line::Module { at, is_loaded }) => {
                let state = if is_loaded { "loaded" } else { "unloaded" };
                if is_loaded {
                    self.enable(instance)?;
                }
                Report::new(at, format!("svcrdma: {state}"), module(state))
            }
        };
        self.print(report)
    }

    /// Returns the line about an event, unless it is not wanted.
    fn event(&self, event: &Event<'_>) -> Option<Report> {
        let is_its_name = |kind: &EventKind| kind.trace_event() == event.name;
        let kind = EventKind::ALL.into_iter().find(is_its_name)?;
        if !self.wants(kind) {
            return None;
        }
        if let Some(filter) = self.args.peer {
            let peer = event.text("peer")?;
            if !filter.matches(peer) {
                return None;
            }
        }
        match kind {
            EventKind::Opened => opened(event),
            EventKind::Closed => closed(event),
            EventKind::Shortage => shortage(event),
            EventKind::Listener => listener(event),
            EventKind::Lane => lane(event),
        }
    }

    /// Prints a line. Returns false if nobody reads it, or if a signal ends the wait for its reader.
    fn print(&self, Report { at, text, json }: Report) -> Result<bool> {
        if !wait_for_reader(self.signals)? {
            return Ok(false);
        }
        let mut answer = Answer::new(format!("{at} {text}\n"), json);
        answer.json.insert("time".to_owned(), at.to_string().into());
        let printed = match self.is_json {
            true => answer.print_json(NAME),
            false => answer.print_text(),
        };
        match printed {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(false),
            Err(error) => Err(Error::failed(
                "not-written",
                format!("standard output: {error}"),
            )),
            Ok(()) => Ok(true),
        }
    }
}

/// Returns the JSON of a line about svcrdma itself.
fn module(state: &str) -> Value {
    json!({"event": "module", "state": state})
}

/// Returns number and peer of a connection. An older module does not trace the peer.
fn connection(event: &Event<'_>) -> Option<(u64, String)> {
    let number = event.number("conn")?;
    let of = event
        .text("peer")
        .map_or_else(String::new, |peer| format!(" of {peer}"));
    Some((number, format!("connection {number}{of}")))
}

/// Returns the line about an accepted connection. One that was not accepted is closed.
fn opened(event: &Event<'_>) -> Option<Report> {
    let (number, name) = connection(event)?;
    if event.number::<i32>("status")? != 0 {
        return None;
    }
    let json = json!({"event": "opened", "connection": number, "peer": event.text("peer")});
    Some(Report::new(event.at, format!("{name}: opened"), json))
}

/// Returns the line about a closed connection.
fn closed(event: &Event<'_>) -> Option<Report> {
    let (number, name) = connection(event)?;
    let (reason_number, detail) = (event.number("reason")?, event.number("detail")?);
    let (known, reason) = close_reason::of_trace(reason_number, detail);
    let advice = known.and_then(|known| known.advice);
    let is_abnormal = known.is_none() || advice.is_some();
    let json = json!({
        "event": "closed",
        "connection": number,
        "peer": event.text("peer"),
        "reason": reason,
        "reason_number": reason_number,
        "abnormal": is_abnormal,
        "advice": advice,
    });
    let closed = if is_abnormal {
        "closed abnormally"
    } else {
        "closed"
    };
    Some(Report::new(
        event.at,
        format!("{name}: {closed}: {reason}"),
        json,
    ))
}

/// Returns the line about a shortage of pages.
fn shortage(event: &Event<'_>) -> Option<Report> {
    let device = event.text("device")?;
    let standing = match event.number::<u32>("unvalidated")? {
        0 => "validated",
        _ => "unvalidated",
    };
    let pages: u64 = event.number("pages")?;
    let (state, text) = match event.number::<u32>("begins")? {
        0 => (
            "ends",
            format!("no Call of {standing} peers waits for pages"),
        ),
        _ => {
            let pages = plural(pages, "page");
            (
                "begins",
                format!("Calls of {standing} peers wait for {pages}"),
            )
        }
    };
    let json = json!({
        "event": "shortage",
        "device": device,
        "state": state,
        "standing": standing,
        "pages": pages,
    });
    Some(Report::new(
        event.at,
        format!("{device}: shortage {state}: {text}"),
        json,
    ))
}

/// Returns the line about a listener.
fn listener(event: &Event<'_>) -> Option<Report> {
    let address = event.text("address")?;
    let (state, text) = match event.number::<u32>("listens")? {
        0 => ("lost", "lost: device removed or its address changed"),
        _ => ("listening", "listening again"),
    };
    let net: u64 = event.number("net")?;
    let json = json!({"event": "listener", "address": address, "net": net, "state": state});
    Some(Report::new(
        event.at,
        format!("listener {address}: {text}"),
        json,
    ))
}

/// Returns the line about a retired lane.
fn lane(event: &Event<'_>) -> Option<Report> {
    let device = event.text("device")?;
    let lane: u64 = event.number("lane")?;
    let has_failed = event.number::<u32>("failed")? != 0;
    let why = if has_failed {
        ", a completion queue has failed"
    } else {
        ""
    };
    let json = json!({"event": "lane", "device": device, "lane": lane, "failed": has_failed});
    Some(Report::new(
        event.at,
        format!("{device}: lane {lane} retired{why}"),
        json,
    ))
}
