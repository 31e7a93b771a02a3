// SPDX-License-Identifier: GPL-2.0

//! History: the last connections of a device that have closed, and why.

use super::close_reason::CloseReason;
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
use rdma::device::Name;
use support::addr::Addr;

/// How many are remembered.
const CLOSES: usize = 32;

/// A connection that has closed.
#[derive(Clone, Copy)]
struct Close {
    number: u64,
    peer: Addr,
    reason: CloseReason,
    at: Instant<Monotonic>,
}

/// What the lock protects.
struct Closes {
    /// [`CLOSES`] of them.
    closes: KVec<Option<Close>>,
    /// Where the next one goes: in the place of the oldest.
    next: usize,
}

/// The last connections that have closed. In any process context.
pub(crate) struct History(Pin<KBox<SpinLock<Closes>>>);

impl History {
    /// Makes an empty one. May sleep.
    pub(crate) fn new() -> Result<Self> {
        let mut closes = KVec::with_capacity(CLOSES, GFP_KERNEL)?;
        for _ in 0..CLOSES {
            closes.push(None, GFP_KERNEL)?;
        }
        let closes = Closes { closes, next: 0 };
        Ok(Self(KBox::pin_init(
            new_spinlock!(closes, "svcrdma history"),
            GFP_KERNEL,
        )?))
    }

    /// Remembers that the connection `number` of `peer` closes.
    // Addresses are large: they are to be on the stack here only.
    #[inline(never)]
    pub(crate) fn add(&self, number: u64, peer: &Addr, reason: CloseReason) {
        let mut inner = self.0.lock();
        let next = inner.next;
        if let Some(slot) = inner.closes.get_mut(next) {
            *slot = Some(Close {
                number,
                peer: *peer,
                reason,
                at: Instant::now(),
            });
        }
        let next = next.saturating_add(1);
        inner.next = if next < CLOSES { next } else { 0 };
    }

    /// Writes a line for each, the oldest first.
    pub(crate) fn show(&self, device: &Name, m: &SeqFile) {
        for i in 0..CLOSES {
            let Some(close) = self.nth(i) else {
                continue;
            };
            seq_print!(
                m,
                "{} {} {} {} {}\n",
                device,
                close.number,
                close.peer,
                seconds_since(close.at),
                close.reason
            );
        }
    }

    /// A copy of the `n`th, the oldest first, if there are so many: it is written without the lock.
    fn nth(&self, n: usize) -> Option<Close> {
        let inner = self.0.lock();
        let at = inner.next.saturating_add(n);
        let at = at.checked_sub(CLOSES).unwrap_or(at);
        inner.closes.get(at).copied().flatten()
    }
}

/// Seconds that have passed since `at`.
pub(crate) fn seconds_since(at: Instant<Monotonic>) -> i64 {
    at.elapsed().as_millis() / 1000
}
