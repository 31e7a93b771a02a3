// SPDX-License-Identifier: GPL-2.0

//! The time for which the completions of a send queue are awaited.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    cm::Events,
    handler::Handler,
    send::{
        claim::Claim,
        inner::{
            Gate,
            Inner, //
        },
        progress::{
            Age,
            Load, //
        },
        work::Work, //
    },
};
use kernel::prelude::*;

/// Seconds after which a completion of unsignalled work is requested.
const UNSIGNALLED_SECONDS: u32 = 4;

impl<W: Work, H: Handler, E: Events> Inner<W, H, E> {
    /// Returns the load.
    pub(crate) fn load(&self) -> Load {
        Load {
            posted: self.queue.outstanding(),
            waiting: self
                .waiting
                .len()
                .saturating_add(usize::from(self.front.is_some())),
            oldest: self.slots.oldest_awaited(self.now),
            behind: self.progress.seconds(),
        }
    }

    /// Notes that `seconds` have passed.
    pub(crate) fn tick(&mut self, seconds: u32, rate: u32) -> Result<Age> {
        self.now = self.now.wrapping_add(seconds);
        self.mark()?;
        let is_awaited = self.slots.is_any_awaited();
        self.progress.look(rate);
        Ok(if is_awaited {
            self.age(rate)
        } else {
            Age::default()
        })
    }

    /// Posts a signalled work request behind unsignalled work that nothing has followed for some
    /// time. Its completion gives the memory of that work back, or is awaited if the peer does not
    /// take it.
    // Out of line: rarely needed, and its frame is large.
    #[inline(never)]
    fn mark(&mut self) -> Result {
        let Gate::Open(qp) = &mut self.gate else {
            return Ok(());
        };
        let Some(oldest) = self.queue.oldest() else {
            return Ok(());
        };
        if self.slots.is_any_awaited()
            || self.slots.age(oldest, self.now) < UNSIGNALLED_SECONDS
            || !qp.begin(&mut Claim::none(), self.queue.free()).mark()
        {
            return Ok(());
        }
        let Some(slot) = self.queue.post(1) else {
            return Ok(());
        };
        // SAFETY: The chain names no memory.
        let marked = unsafe { qp.post(true) };
        self.slots.fill(slot, self.now, true);
        self.progress.set_awaited(true);
        marked.inspect_err(|_| self.stop())
    }

    /// Returns the time for which completions are awaited.
    fn age(&self, rate: u32) -> Age {
        let posted = self.slots.work().map(|(_, amount)| amount.bytes);
        // The work at the front may be posted in part.
        let waiting = self.jobs().map(|job| job.work.amount().bytes);
        let largest = posted.max().max(waiting.max()).unwrap_or(0);
        Age {
            oldest: self.slots.oldest_awaited(self.now),
            behind: self.progress.behind(largest, rate),
        }
    }
}
