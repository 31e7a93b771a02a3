// SPDX-License-Identifier: GPL-2.0

//! Bounds: what has to end within some simulated time. The clock checks them before it moves on, so a
//! run that waits for ever fails soon.

use super::world;
use std::collections::BTreeMap;

/// The milliseconds from the close of a connection to its end: 10 seconds for the peer to confirm the
/// disconnect, and three looks of the watchdog.
const TEARDOWN: u64 = 14_000;

#[derive(Default)]
pub(super) struct Bounds {
    /// The reasons of all closes.
    closes: Vec<u32>,
    /// The things that have not ended yet, and the times by which they must.
    open: BTreeMap<(&'static str, u64), u64>,
    /// Time that is allowed in addition.
    slack: u64,
}

impl Bounds {
    /// Returns what should have ended before `now`.
    pub(super) fn exceeded(&self, now: u64) -> Option<(&'static str, u64)> {
        let mut open = self.open.iter();
        let is_late = |until: u64| until + self.slack < now;
        open.find(|(_, until)| is_late(**until))
            .map(|(what, _)| *what)
    }
}

/// Allows `millis` more for all that has to end.
pub fn allow(millis: u64) {
    world(|world| world.bounds.slack = millis);
}

fn begin(what: (&'static str, u64), millis: u64) {
    world(|world| world.bounds.open.insert(what, world.now + millis));
}

fn end(what: (&'static str, u64)) {
    world(|world| world.bounds.open.remove(&what));
}

/// Calls `f`, which has to return within `millis`.
pub fn within<R>(what: &'static str, millis: u64, f: impl FnOnce() -> R) -> R {
    begin((what, 0), millis);
    let result = f();
    end((what, 0));
    result
}

/// Notes that the module closes connection `number`, which has to end.
pub fn note_close(number: u64, reason: u32) {
    world(|world| world.bounds.closes.push(reason));
    begin(("teardown of connection", number), TEARDOWN);
}

/// Notes that nothing is left of connection `number`.
pub fn note_dead(number: u64) {
    end(("teardown of connection", number));
}

/// Returns the reasons of all closes.
pub fn closes() -> Vec<u32> {
    world(|world| world.bounds.closes.clone())
}
