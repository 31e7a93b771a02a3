// SPDX-License-Identifier: GPL-2.0

//! Faults: by chance, or from the n-th attempt on for some attempts.

use super::{chance, event, world};
use std::collections::HashMap;

/// An operation that may fail.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Fault {
    /// An allocation, or a call of the connection manager.
    Memory,
    /// A DMA mapping.
    Map,
    /// A post of Sends, Reads, or Writes.
    Post,
    /// A post of Receives.
    Receive,
}

impl Fault {
    pub const ALL: [Self; 4] = [Self::Memory, Self::Map, Self::Post, Self::Receive];
}

#[derive(Default)]
pub(super) struct Faults {
    /// Each fault's chance, in 1024ths.
    chances: HashMap<Fault, u64>,
    /// The fault that happens at a certain attempt.
    nth: Option<Nth>,
}

struct Nth {
    fault: Fault,
    /// The attempts left until it happens, and the times that it happens then.
    left: u64,
    times: u64,
}

impl Faults {
    /// Counts an attempt. Returns true if it is one to fail.
    fn is_nth(&mut self, fault: Fault) -> bool {
        let Some(nth) = self.nth.as_mut().filter(|nth| nth.fault == fault) else {
            return false;
        };
        nth.left = nth.left.saturating_sub(1);
        let fails = nth.left == 0 && nth.times > 0;
        nth.times -= u64::from(fails);
        fails
    }
}

/// Sets the chances of the first faults, in 1024ths. Posts of Receives do not fail by chance.
pub fn set_faults(chances: [u64; 3]) {
    let chances = Fault::ALL.into_iter().zip(chances);
    world(|world| world.faults.chances.extend(chances));
}

/// Lets the `n`-th attempt from now on fail, which is the first if `n` is 1; with those behind it,
/// `times` attempts.
pub fn fail_nth(fault: Fault, n: u64, times: u64) {
    let left = n;
    world(|world| world.faults.nth = Some(Nth { fault, left, times }));
}

/// Ends what `fail_nth()` has begun. Returns true if the attempt has failed, false if there were
/// fewer attempts.
pub fn has_failed() -> bool {
    let nth = world(|world| world.faults.nth.take());
    nth.is_some_and(|nth| nth.left == 0)
}

/// Returns true if `fault` happens now.
pub fn fails(fault: Fault) -> bool {
    let n = world(|world| world.faults.chances.get(&fault).copied().unwrap_or(0));
    let fails = world(|world| world.faults.is_nth(fault)) || (n > 0 && chance(n));
    if fails {
        event(format_args!("fault: {fault:?}"));
    }
    fails
}
