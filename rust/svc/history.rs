// SPDX-License-Identifier: GPL-2.0

//! History: the connections of a device that closed last, and their close reasons.

use crate::svc::close_reason::CloseReason;
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

/// The number of closed connections that a device remembers.
const CLOSES: usize = 32;

/// A closed connection.
#[derive(Clone, Copy)]
struct Close {
    number: u64,
    peer: Addr,
    reason: CloseReason,
    at: Instant<Monotonic>,
}

/// The data under the lock.
struct Closes {
    /// [`CLOSES`] slots, used in turn.
    closes: KVec<Option<Close>>,
    /// The index of the slot that is used next: that of the oldest entry.
    next: usize,
}

/// The connections of a device that closed last.
///
/// # Context
///
/// Any process context. The history has a spinlock, a leaf.
pub(crate) struct History(Pin<KBox<SpinLock<Closes>>>);

impl History {
    /// Creates an empty history. May sleep.
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

    /// Records that the connection `number` of `peer` closes for `reason`.
    // Out of line: an [`Addr`] is 128 bytes, which the callers need not have on their stacks.
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

    /// Prints one line for each entry, the oldest first.
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

    /// Returns a copy of the `n`th entry, the oldest first. The caller prints the copy without the
    /// lock.
    fn nth(&self, n: usize) -> Option<Close> {
        let inner = self.0.lock();
        let at = inner.next.saturating_add(n);
        let at = at.checked_sub(CLOSES).unwrap_or(at);
        inner.closes.get(at).copied().flatten()
    }
}

/// Returns the seconds that have passed since `at`.
pub(crate) fn seconds_since(at: Instant<Monotonic>) -> i64 {
    at.elapsed().as_millis() / 1000
}
