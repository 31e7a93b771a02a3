// SPDX-License-Identifier: GPL-2.0

//! Turns: the connections whose Calls wait for pages of the pool.
//!
//! # Context
//!
//! Any process context; functions that may sleep say so.

use super::{
    line::{
        Line,
        Seat,
        Waiter, //
    },
    pool::Pool,
    read_buffer::ReadBuffer,
    stock::{
        Demand,
        Unparked, //
    }, //
};
use crate::svc::settings::ReadPages;
use kernel::prelude::*;
use svcrdma_proto::shares::PeerClass;

/// The connections that the lines have room for at first.
const MIN_ROOM: usize = 16;

/// The result of a request for a sink.
pub(crate) enum Wait {
    /// The sink.
    Ready(ReadBuffer),
    /// The connection waits; the pool will serve it.
    Waits,
    /// The connection has left the lines, or the pool is closed.
    Closed,
}

impl Pool {
    /// Adds connection `user` of `host` to the lines, until [`Self::leave`]. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn join(&self, user: u64, host: u64) -> Result<Seat> {
        loop {
            let room = {
                let mut inner = self.inner.lock();
                if let Some(seat) = inner.lines.join(user, host) {
                    return Ok(seat);
                }
                inner.lines.validated.waiting.room()
            };
            let room = room.saturating_mul(2).max(MIN_ROOM);
            // Both before one is widened, so that the lines keep the same room.
            let rooms = [Line::room(room)?, Line::room(room)?];
            for (class, wider) in PeerClass::ALL.into_iter().zip(rooms) {
                // Outside the lock: dropping the old room sleeps.
                let before = self.inner.lock().lines.of(class).widen(wider);
                drop(before);
            }
        }
    }

    /// Removes a connection from the lines, because it has ended. It waits no more. In any process
    /// context.
    pub(crate) fn leave(&self, seat: Seat) {
        let mut inner = self.inner.lock();
        let waiter = inner.lines.leave(seat);
        self.publish(&mut inner);
        drop(inner);
        if waiter.is_some() {
            // Others may be first now.
            self.unpark();
        }
    }

    /// Moves a connection, whose peer was validated, to the line of validated peers if it waits. In
    /// any process context.
    pub(crate) fn promote(&self, seat: Seat) {
        let mut inner = self.inner.lock();
        inner.lines.promote(seat);
        self.publish(&mut inner);
        drop(inner);
        self.unpark();
    }

    /// Lends a sink to a Call of connection `user`, whose peer has the class `class`, unless the Call
    /// must wait.
    pub(crate) fn sink(&self, class: PeerClass, user: u64, pages: usize) -> Option<ReadBuffer> {
        let user = Some(user);
        let mut inner = self.inner.lock();
        inner.pd.as_ref()?;
        let sink = inner.lend_first(class, Demand { pages, user })?;
        self.publish(&mut inner);
        Some(sink)
    }

    /// Lends a sink to the first waiting Call of a connection, or makes the connection wait until the
    /// pool has one.
    pub(crate) fn wait(&self, waiter: Waiter, pages: usize) -> Wait {
        let mut inner = self.inner.lock();
        if inner.pd.is_none() {
            return Wait::Closed;
        }
        // Read under the lock, so that `promote()` finds the connection in the line of this class.
        let class = waiter.connection.class();
        let seat = waiter.place.seat();
        let user = Some(seat.user);
        let wait = if let Some(sink) = inner.lend_first(class, Demand { pages, user }) {
            Wait::Ready(sink)
        } else {
            match inner.lines.of(class).wait(seat, pages, waiter) {
                Ok(()) => Wait::Waits,
                Err(refused) => {
                    drop(inner);
                    drop(refused);
                    return Wait::Closed;
                }
            }
        };
        self.publish(&mut inner);
        wait
    }

    /// Starts waiting Calls while the stock has all that the next one needs. Only one thread does so
    /// at a time.
    pub(crate) fn unpark(&self) {
        if core::mem::replace(&mut self.inner.lock().unparking, true) {
            return;
        }
        while let Some(unparked) = self.next_unparked() {
            match unparked {
                Unparked::Ready(waiter, sink) => {
                    if let Some(sink) = waiter.serve(sink) {
                        self.keep_sink(sink);
                    }
                }
                // The teardown drops its Calls.
                Unparked::Closing(waiter) => drop(waiter),
            }
        }
    }

    /// Takes the next connection whose Call can start out of its line.
    fn next_unparked(&self) -> Option<Unparked> {
        let mut inner = self.inner.lock();
        let is_needed = !inner.lines.are_empty();
        let unparked = is_needed.then(|| inner.unpark(ReadPages::now())).flatten();
        // Cleared under the lock under which no Call was found, so that a thread that returns pages
        // from now on unparks Calls itself.
        inner.unparking = unparked.is_some();
        self.publish(&mut inner);
        unparked
    }

    /// Returns true if a waiting Call fits into the budget of its line, so that it only waits for pages
    /// or regions.
    pub(crate) fn lacks_objects(&self) -> bool {
        let mut inner = self.inner.lock();
        inner.next_demand(ReadPages::now()).is_some()
    }
}
