// SPDX-License-Identifier: GPL-2.0

//! Lines: the waiting connections of peers of one class, and the number of pages that Calls of such
//! peers hold.
//!
//! The stock of a pool has a line for each [`PeerClass`], under its lock. Each line has a budget of
//! its own, so unvalidated peers take no pages from validated ones. A connection waits in the line of
//! the class that its peer has, and moves when the peer is validated. A [`ReadBuffer`] keeps the class
//! until the pages come back, even if the peer is validated meanwhile. The order is that of proto's
//! `turns`.

use super::{
    read_buffer::ReadBuffer,
    sizes::LARGE, //
};
use crate::svc::{
    conn::endpoint::Endpoint,
    settings::ReadPages, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::mem::page_region::PageRegion;
use svcrdma_proto::{
    shares::{
        Budget,
        PeerClass, //
    },
    shortage,
    turns::{
        Host,
        Member,
        Turns,
        MAX_PAGES, //
    }, //
};

// The largest Call counts as a whole.
const _: () = assert!(LARGE <= MAX_PAGES as usize);

/// Returns the budget of the line of `class`.
fn budget(class: PeerClass, limits: ReadPages) -> Budget {
    Budget::new(class, limits.device, limits.connection, LARGE)
}

/// A connection whose Calls may wait for pages.
pub(crate) type Waiter = Arc<Endpoint>;

/// The place of a connection in the lines.
#[derive(Clone, Copy)]
pub(crate) struct Seat {
    /// The index in both lines.
    at: u32,
    /// The number of the connection.
    pub(crate) user: u64,
}

/// The line of one class.
pub(crate) struct Line {
    class: PeerClass,
    /// The waiting connections.
    pub(crate) waiting: Turns<KVVec<Member<Waiter>>, KVVec<Host>>,
    /// Pages that are lent to Calls.
    lent: usize,
    /// Pages among these that no Call has, because lanes keep them, as of the last look.
    pub(crate) idle: usize,
    /// The progress of the waiting connections.
    pub(crate) queue: shortage::Queue,
    /// True from the time that a look has found late Calls until one finds no connection that waits.
    pub(crate) is_short: bool,
}

/// Allocates `capacity` unused places. May sleep.
#[inline(never)]
fn places_with_capacity<T: Default>(capacity: usize) -> Result<KVVec<T>> {
    let mut places = KVVec::with_capacity(capacity, GFP_KERNEL)?;
    for _ in 0..capacity {
        places.push(T::default(), GFP_KERNEL)?;
    }
    Ok(places)
}

/// Places for connections and for their hosts.
type Room = (KVVec<Member<Waiter>>, KVVec<Host>);

impl Line {
    /// Returns a line that has no room for connections.
    pub(crate) fn new(class: PeerClass) -> Self {
        Self {
            class,
            waiting: Turns::new(KVVec::new(), KVVec::new()),
            lent: 0,
            idle: 0,
            queue: shortage::Queue::default(),
            is_short: false,
        }
    }

    /// Allocates room for `room` connections. May sleep.
    pub(crate) fn room(room: usize) -> Result<Room> {
        Ok((places_with_capacity(room)?, places_with_capacity(room)?))
    }

    /// Gives the line `room` for more connections. Returns the room that it had, or what it does not
    /// need. The caller drops that outside the lock.
    pub(crate) fn widen(&mut self, (members, hosts): Room) -> Room {
        self.waiting.widen(members, hosts)
    }

    /// Makes the connection wait. Returns the waiter if the connection has left, or waits already.
    pub(crate) fn wait(&mut self, seat: Seat, pages: usize, waiter: Waiter) -> Result<(), Waiter> {
        self.waiting.wait(seat.at, seat.user, count(pages), waiter)
    }

    /// Takes the first connection, which has its turn.
    pub(crate) fn serve(&mut self) -> Option<Waiter> {
        self.waiting.serve()
    }

    /// Takes the first connection if it is closing.
    pub(crate) fn take_closing(&mut self) -> Option<Waiter> {
        let first = self.waiting.first()?;
        let (at, user) = (first.at, first.owner);
        if !first.item.connection.is_closing() {
            return None;
        }
        Some(self.waiting.remove(at, user)?.1)
    }

    /// Returns the number of waiting connections.
    pub(crate) fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Returns true if no connection waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Returns true if the budget has `pages` pages left.
    pub(crate) fn fits(&self, limits: ReadPages, pages: usize) -> bool {
        budget(self.class, limits).fits(self.lent, pages)
    }

    /// Returns true if the Call whose turn is next exceeds what is left of the budget.
    pub(crate) fn is_blocked(&self, limits: ReadPages) -> bool {
        let first = self.waiting.first();
        first.is_some_and(|first| !self.fits(limits, first.pages as usize))
    }

    /// Lends `sink` with `pages` pages.
    pub(crate) fn lend(&mut self, sink: KBox<PageRegion>, pages: usize) -> ReadBuffer {
        self.lent = self.lent.saturating_add(pages);
        ReadBuffer::new(sink, self.class, pages)
    }

    /// Counts `pages` pages of a [`ReadBuffer`] as returned.
    pub(crate) fn release(&mut self, pages: usize) {
        self.lent = self.lent.saturating_sub(pages);
    }

    /// Returns the number of lent pages.
    pub(crate) fn lent(&self) -> usize {
        self.lent
    }

    /// Returns the most pages that a connection may have. Pages that connections wait for count as
    /// lent, so that the share of a connection does not grow while the refill makes them.
    pub(crate) fn share(&self, limits: ReadPages) -> usize {
        let lent = self.lent.saturating_sub(self.idle);
        let lent = lent.saturating_add(self.waiting.pages());
        budget(self.class, limits).most(lent)
    }
}

/// The lines of a pool.
pub(crate) struct Lines {
    /// The number of the last look at the lines; wraps around.
    pub(crate) looks: u32,
    /// The line of validated peers.
    pub(crate) validated: Line,
    /// The line of unvalidated peers.
    unvalidated: Line,
}

impl Lines {
    /// Returns lines that have no room for connections.
    pub(crate) fn new() -> Self {
        Self {
            looks: 0,
            validated: Line::new(PeerClass::Validated),
            unvalidated: Line::new(PeerClass::Unvalidated),
        }
    }

    /// Returns the line of `class`.
    pub(crate) fn of(&mut self, class: PeerClass) -> &mut Line {
        match class {
            PeerClass::Validated => &mut self.validated,
            PeerClass::Unvalidated => &mut self.unvalidated,
        }
    }

    /// Adds connection `user` of `host` to both lines. Returns None if one lacks room.
    pub(crate) fn join(&mut self, user: u64, host: u64) -> Option<Seat> {
        // Both lines have the same connections, so the indices are the same.
        let at = self.validated.waiting.join(user, host)?;
        if self.unvalidated.waiting.join(user, host).is_none() {
            self.validated.waiting.leave(at, user);
            return None;
        }
        Some(Seat { at, user })
    }

    /// Removes a connection from both lines. Returns the waiter if the connection has waited.
    pub(crate) fn leave(&mut self, Seat { at, user }: Seat) -> Option<Waiter> {
        let left = PeerClass::ALL.map(|class| self.of(class).waiting.leave(at, user));
        left.into_iter().flatten().next()
    }

    /// Moves a connection whose peer was validated to the line of its class, if it waits.
    pub(crate) fn promote(&mut self, seat: Seat) {
        if let Some((pages, waiter)) = self.unvalidated.waiting.remove(seat.at, seat.user) {
            // It does not wait in both lines.
            let _ = self.validated.wait(seat, pages as usize, waiter);
        }
    }

    /// Returns true if a waiting Call may start when lanes return what they keep. A Call of an
    /// unvalidated peer that waits for the budget of its own line may not.
    pub(crate) fn wait_for_others(&self, limits: ReadPages) -> bool {
        let unvalidated = &self.unvalidated;
        !self.validated.is_empty() || !unvalidated.is_empty() && !unvalidated.is_blocked(limits)
    }

    /// Returns true if no connection waits in any line.
    pub(crate) fn are_empty(&self) -> bool {
        self.validated.is_empty() && self.unvalidated.is_empty()
    }

    /// Returns the number of waiting connections.
    pub(crate) fn len(&self) -> usize {
        let validated = self.validated.len();
        validated.saturating_add(self.unvalidated.len())
    }
}

/// Converts a number of pages for proto's `shortage`. The number never exceeds `u32::MAX`.
pub(crate) fn count(pages: usize) -> u32 {
    u32::try_from(pages).unwrap_or(u32::MAX)
}
