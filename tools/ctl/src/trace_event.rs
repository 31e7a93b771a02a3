// SPDX-License-Identifier: GPL-2.0

//! Lines of trace_pipe.

use crate::wall_clock::Time;

/// The text between the context of an event, which begins with the name of a task, and the event.
const SYSTEM: &str = ": svcrdma_rs_";
const MODULE: &str = ": module_";

/// A line of trace_pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Line<'a> {
    /// An event of svcrdma.
    Event(Event<'a>),
    /// svcrdma was loaded or unloaded.
    Module { at: Time, is_loaded: bool },
    /// The buffer of a CPU was full, and `count` events are lost.
    Lost { cpu: u64, count: u64 },
}

/// An event of svcrdma.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Event<'a> {
    pub(crate) at: Time,
    /// The name, without `svcrdma_rs_`.
    pub(crate) name: &'a str,
    fields: &'a str,
}

impl<'a> Line<'a> {
    /// Parses a line. Returns nothing for lines of other events.
    pub(crate) fn parse(line: &'a str) -> Option<Self> {
        if let Some(lost) = Self::lost(line) {
            return Some(lost);
        }
        // The name of a task may have any characters, but no device or address has a colon and a space.
        if let Some((context, event)) = line.rsplit_once(SYSTEM) {
            let (name, fields) = event.split_once(": ")?;
            let at = time(context)?;
            return Some(Self::Event(Event { at, name, fields }));
        }
        let (context, event) = line.rsplit_once(MODULE)?;
        let (name, fields) = event.split_once(": ")?;
        let is_loaded = match name {
            "load" => true,
            "free" => false,
            _ => return None,
        };
        let at = time(context)?;
        (fields.split(' ').next() == Some("svcrdma")).then_some(Self::Module { at, is_loaded })
    }

    /// Parses `CPU:1 [LOST 12 EVENTS]`.
    fn lost(line: &str) -> Option<Self> {
        let (cpu, rest) = line.strip_prefix("CPU:")?.split_once(" [LOST ")?;
        let count = rest.strip_suffix(" EVENTS]")?;
        Some(Self::Lost {
            cpu: cpu.parse().ok()?,
            count: count.parse().ok()?,
        })
    }
}

impl<'a> Event<'a> {
    /// Returns the number in a field, or nothing if the event of this module has no such field.
    pub(crate) fn number<T: std::str::FromStr>(&self, field: &str) -> Option<T> {
        self.after(field)?.split(' ').next()?.parse().ok()
    }

    /// Returns the text in a field, which is the last one.
    pub(crate) fn text(&self, field: &str) -> Option<&'a str> {
        self.after(field)
    }

    /// Returns what follows `field=`.
    fn after(&self, field: &str) -> Option<&'a str> {
        let starts = std::iter::once(0).chain(self.fields.match_indices(' ').map(|(at, _)| at + 1));
        let mut rests = starts.filter_map(|at| self.fields.get(at..));
        rests.find_map(|rest| rest.strip_prefix(field)?.strip_prefix('='))
    }
}

/// Returns the time at the end of the context of an event.
fn time(context: &str) -> Option<Time> {
    Time::of_tai(context.rsplit(' ').next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_have_names_and_fields() {
        let line = "  : svcrdma_rs_x: 1-99      [001] ..... 1234.567890: svcrdma_rs_close: conn=7 reason=9 detail=-5 peer=[fe80::1%3]:77";
        let Some(Line::Event(event)) = Line::parse(line) else {
            panic!("not an event");
        };
        assert_eq!(event.name, "close");
        assert_eq!(Some(event.at), Time::of_tai("1234.567890"));
        assert_eq!(event.number::<u64>("conn"), Some(7));
        assert_eq!(event.number::<i32>("detail"), Some(-5));
        assert_eq!(event.text("peer"), Some("[fe80::1%3]:77"));
        assert_eq!(event.text("eer"), None);
        assert_eq!(event.number::<u32>("peer"), None);
    }

    #[test]
    fn modules_and_lost_events() {
        let at = Time::of_tai("1.000002").expect("a time");
        let module = |line, is_loaded| {
            assert_eq!(Line::parse(line), Some(Line::Module { at, is_loaded }));
        };
        module(
            " modprobe-9 [000] ..... 1.000002: module_load: svcrdma OE",
            true,
        );
        module(" rmmod-9 [000] ..... 1.000002: module_free: svcrdma", false);
        assert_eq!(
            Line::parse(" x-9 [000] ..... 1.000002: module_load: nfs"),
            None
        );
        assert_eq!(
            Line::parse("CPU:1 [LOST 12 EVENTS]"),
            Some(Line::Lost { cpu: 1, count: 12 })
        );
        for other in [
            "",
            "CPU:1 [LOST EVENTS]",
            "x",
            " x-9 [000] ..... 1: svcrdma_rs_dead: conn=1",
        ] {
            assert_eq!(Line::parse(other), None, "{other}");
        }
    }
}
