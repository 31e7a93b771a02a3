// SPDX-License-Identifier: GPL-2.0

//! The credits that a connection is granted, and Calls that use them.

use crate::{
    error::{Error, Result},
    message::{Answer, Message},
    peer::{Incoming, Peer, PATIENCE},
    rpc,
};

/// The most credits to ask for: what the Linux client has.
pub(crate) const MOST: u32 = 128;

/// How many Calls a connection may have under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The last grant.
    granted: u32,
    /// The most Calls, whatever is granted.
    depth: u32,
    /// The multiple of the grant that is used; 1 for a client that keeps to it.
    times: u32,
    under_way: u32,
}

impl Window {
    /// Begins with a grant and no Call.
    pub(crate) fn new(granted: u32, depth: u32, times: u32) -> Self {
        Self {
            granted,
            depth,
            times,
            under_way: 0,
        }
    }

    /// Returns the last grant.
    pub(crate) fn granted(&self) -> u32 {
        self.granted
    }

    /// Returns how many Calls are unanswered.
    pub(crate) fn under_way(&self) -> u32 {
        self.under_way
    }

    /// Counts one more Call and returns true, if there may be one more.
    pub(crate) fn take(&mut self) -> bool {
        // Without any credit nothing could be said any more.
        let most = self.granted.max(1).saturating_mul(self.times);
        let is_free = self.under_way < most.min(self.depth);
        self.under_way += u32::from(is_free);
        is_free
    }

    /// Notes an answer, which may grant another number of credits.
    pub(crate) fn answered(&mut self, granted: Option<u32>) {
        self.under_way = self.under_way.saturating_sub(1);
        self.granted = granted.unwrap_or(self.granted);
    }
}

/// Makes a NULL Call that asks for [`MOST`] credits; returns how many are granted.
pub(crate) fn first(peer: &mut Peer) -> Result<u32> {
    let message = null(peer);
    match peer.exchange(&message)? {
        Incoming::Answer(Answer::Reply(reply)) => Ok(reply.credits),
        other => Err(Error::new(format!("no reply but {other:?}"))),
    }
}

/// Makes `calls` NULL Calls, as many at a time as are granted, so that the grant grows; returns the
/// last one. `peer` has [`MOST`] Receives.
pub(crate) fn raise(peer: &mut Peer, calls: u32) -> Result<u32> {
    let mut window = Window::new(first(peer)?, MOST, 1);
    let mut left = calls;
    while left > 0 || window.under_way() > 0 {
        while left > 0 && window.take() {
            left -= 1;
            let message = null(peer);
            peer.send(&message)?;
        }
        match peer.receive(PATIENCE)? {
            Incoming::Answer(answer) => window.answered(answer.credits()),
            other => return Err(Error::new(format!("no reply but {other:?}"))),
        }
    }
    Ok(window.granted())
}

/// A NULL Call that asks for [`MOST`] credits.
fn null(peer: &Peer) -> Message {
    let xid = peer.xid();
    let mut message = Message::inline(xid, rpc::null(xid));
    message.credits = MOST;
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    /// How many more Calls there may be.
    fn room(mut window: Window) -> u32 {
        (0..).find(|_| !window.take()).unwrap()
    }

    #[test]
    fn a_window_is_as_large_as_the_grant() {
        let mut window = Window::new(8, MOST, 1);
        assert_eq!(room(window), 8);
        assert!(window.take() && window.take());
        assert_eq!((window.under_way(), room(window)), (2, 6));
        window.answered(Some(9));
        assert_eq!((window.granted(), room(window)), (9, 8));
        window.answered(None);
        assert_eq!(room(window), 9);
    }

    #[test]
    fn one_call_is_possible_without_a_credit() {
        assert_eq!(room(Window::new(0, MOST, 1)), 1);
    }

    #[test]
    fn a_multiple_of_the_grant_ends_at_the_depth() {
        assert_eq!(room(Window::new(8, 1280, 10)), 80);
        assert_eq!(room(Window::new(8, 50, 10)), 50);
        assert_eq!(room(Window::new(u32::MAX, 50, 10)), 50);
    }
}
