// SPDX-License-Identifier: GPL-2.0

//! Faults: by chance, or the n-th attempt alone.

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
}

impl Fault {
    pub const ALL: [Self; 3] = [Self::Memory, Self::Map, Self::Post];
}

#[derive(Default)]
pub(super) struct Faults {
    /// Each fault's chance, in 1024ths.
    chances: HashMap<Fault, u64>,
    /// The fault that happens once, and the attempts left until it does.
    nth: Option<(Fault, u64)>,
}

impl Faults {
    /// Counts an attempt. Returns true if it is the one to fail.
    fn is_nth(&mut self, fault: Fault) -> bool {
        match &mut self.nth {
            Some((nth, left)) if *nth == fault => {
                *left -= 1;
                if *left == 0 {
                    self.nth = None;
                    return true;
                }
                false
            }
            _ => false,
        }
    }
}

/// Sets the chances of the faults, in 1024ths.
pub fn set_faults(chances: [u64; 3]) {
    let chances = Fault::ALL.into_iter().zip(chances);
    world(|world| world.faults.chances.extend(chances));
}

/// Lets the `n`-th attempt from now on fail, which is the first if `n` is 1.
pub fn fail_nth(fault: Fault, n: u64) {
    world(|world| world.faults.nth = Some((fault, n)));
}

/// Ends what `fail_nth()` has begun. Returns true if the attempt has failed, false if there were
/// fewer attempts.
pub fn has_failed() -> bool {
    world(|world| world.faults.nth.take().is_none())
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
