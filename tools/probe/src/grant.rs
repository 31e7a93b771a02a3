// SPDX-License-Identifier: GPL-2.0

//! Tracks granted credits and the Calls that use them.

use crate::{
    error::{Error, Result},
    message::{Answer, Message},
    peer::{Incoming, Peer, PATIENCE},
};

/// The largest number of credits that the probe requests, as the Linux client does.
pub(crate) const MOST: u32 = 128;

/// The number of Calls that a connection may have in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Window {
    /// The last grant.
    granted: u32,
    /// The limit that applies in addition to the grant.
    depth: u32,
    /// The factor by which the grant is exceeded; 1 for a compliant client.
    times: u32,
    in_flight: u32,
}

impl Window {
    /// Creates a window without Calls in flight.
    pub(crate) fn new(granted: u32, depth: u32, times: u32) -> Self {
        Self {
            granted,
            depth,
            times,
            in_flight: 0,
        }
    }

    /// Returns the last grant.
    pub(crate) fn granted(&self) -> u32 {
        self.granted
    }

    /// Returns the number of Calls in flight.
    pub(crate) fn in_flight(&self) -> u32 {
        self.in_flight
    }

    /// Counts one more Call and returns true, unless the window is full.
    pub(crate) fn take(&mut self) -> bool {
        // At least one Call, or a grant of 0 would stall the connection for good.
        let most = self.granted.max(1).saturating_mul(self.times);
        let is_free = self.in_flight < most.min(self.depth);
        self.in_flight += u32::from(is_free);
        is_free
    }

    /// Notes an answer and its grant of credits, if it has one.
    pub(crate) fn answered(&mut self, granted: Option<u32>) {
        self.in_flight = self.in_flight.saturating_sub(1);
        self.granted = granted.unwrap_or(self.granted);
    }
}

/// Makes a NULL Call that requests [`MOST`] credits. Returns the grant.
pub(crate) fn first(peer: &mut Peer) -> Result<u32> {
    let message = null(peer);
    match peer.exchange(&message)? {
        Incoming::Answer(Answer::Reply(reply)) => Ok(reply.credits),
        other => Err(Error::new(format!("no reply but {other:?}"))),
    }
}

/// Makes `calls` NULL Calls, as many at a time as the server grants, so that the grant grows.
/// Returns the last grant. `peer` must have [`MOST`] Receives.
pub(crate) fn raise(peer: &mut Peer, calls: u32) -> Result<u32> {
    let mut window = Window::new(first(peer)?, MOST, 1);
    let mut left = calls;
    while left > 0 || window.in_flight() > 0 {
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

/// Builds a NULL Call that requests [`MOST`] credits.
fn null(peer: &Peer) -> Message {
    let xid = peer.xid();
    let mut message = Message::inline(xid, peer.null_rpc(xid));
    message.credits = MOST;
    message
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the number of Calls for which the window has room.
    fn room(mut window: Window) -> u32 {
        (0..).find(|_| !window.take()).unwrap()
    }

    #[test]
    fn a_window_is_as_large_as_the_grant() {
        let mut window = Window::new(8, MOST, 1);
        assert_eq!(room(window), 8);
        assert!(window.take() && window.take());
        assert_eq!((window.in_flight(), room(window)), (2, 6));
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
