// SPDX-License-Identifier: GPL-2.0

//! History: the last connections of a device that have closed, and why.

use super::cause::Cause;
use crate::abstractions::{
    addr::Addr,
    rdma::device::Name, //
};
use core::pin::Pin;
use kernel::{
    new_spinlock,
    prelude::*,
    seq_file::SeqFile,
    seq_print,
    sync::SpinLock,
    time::{
        Instant,
        Monotonic, //
    },
};

/// How many are remembered.
const CLOSES: usize = 32;

/// A connection that has closed.
#[derive(Clone, Copy)]
struct Close {
    number: u64,
    peer: Addr,
    cause: Cause,
    at: Instant<Monotonic>,
}

/// What the lock protects.
struct Closes {
    closes: KVec<Close>,
    /// Where the next one goes when there are [`CLOSES`]: in the place of the oldest.
    next: usize,
}

/// The last connections that have closed. In any process context.
pub(super) struct History(Pin<KBox<SpinLock<Closes>>>);

impl History {
    /// Makes an empty one. May sleep.
    pub(super) fn new() -> Result<Self> {
        let closes = Closes {
            closes: KVec::with_capacity(CLOSES, GFP_KERNEL)?,
            next: 0,
        };
        Ok(Self(KBox::pin_init(
            new_spinlock!(closes, "svcrdma history"),
            GFP_KERNEL,
        )?))
    }

    /// Remembers that the connection `number` of `peer` closes.
    pub(super) fn add(&self, number: u64, peer: Addr, cause: Cause) {
        let close = Close {
            number,
            peer,
            cause,
            at: Instant::now(),
        };
        let mut inner = self.0.lock();
        if inner.closes.len() < CLOSES {
            // There is room for as many.
            let _ = inner.closes.push_within_capacity(close);
            return;
        }
        let next = inner.next;
        if let Some(slot) = inner.closes.get_mut(next) {
            *slot = close;
        }
        inner.next = if next.saturating_add(1) < CLOSES {
            next.saturating_add(1)
        } else {
            0
        };
    }

    /// Writes a line for each, the oldest first.
    pub(super) fn show(&self, device: &Name, m: &SeqFile) {
        for i in 0..CLOSES {
            let Some(close) = self.nth(i) else {
                return;
            };
            seq_print!(
                m,
                "{} {} {} {} {}\n",
                device,
                close.number,
                close.peer,
                seconds_since(close.at),
                close.cause
            );
        }
    }

    /// A copy of the one that is `n` younger than the oldest: it is written without the lock.
    fn nth(&self, n: usize) -> Option<Close> {
        let inner = self.0.lock();
        let at = inner.next.saturating_add(n);
        let at = at.checked_sub(CLOSES).unwrap_or(at);
        inner.closes.get(at).copied()
    }
}

/// Seconds that have passed since `at`.
pub(super) fn seconds_since(at: Instant<Monotonic>) -> i64 {
    at.elapsed().as_millis() / 1000
}
