// SPDX-License-Identifier: GPL-2.0

//! Reply memory: the decision on whether nfsd may take another Call of a connection.
//!
//! The pages of a Reply stay in use until the peer has taken it, so a peer that takes no Replies
//! keeps their pages. While the device has pages left, a connection may hold pages up to its limit.
//! When the device has none left, each connection gets one Call at a time, and none while it holds
//! more than [`UNSIGNALLED`] pages. So the pages of all Replies exceed the limit of the device by
//! at most [`UNSIGNALLED`] pages and one Reply for each connection, and by one Reply for each Call
//! that was running when the limit was reached.
//!
//! A connection without space has a running Call, or holds a Reply whose Send is signalled. Both
//! end, and the caller decides again when they do. No connection waits for another one.

use crate::sq::Signals;

/// The most pages of Replies that the peer may have taken without a completion. Each of these
/// Replies has only its send buffer, and its Send is unsignalled: a later completion retires it.
pub const UNSIGNALLED: i32 = Signals::MAX_UNSIGNALLED as i32;

/// The state of a connection and of its device that the decision depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Pages that the Replies of the connection hold.
    pub held: i32,
    /// Calls of the connection that nfsd threads are working on.
    pub running: i32,
    /// The most pages that the Replies of the connection may hold.
    pub limit: u32,
    /// Pages that are left of the limit of the device; 0 or less when the limit is reached.
    pub left: i64,
}

impl Standing {
    /// Returns true if nfsd may take another Call.
    pub fn has_space(&self) -> bool {
        let is_idle = self.held <= UNSIGNALLED && self.running <= 0;
        is_idle || i64::from(self.held) < i64::from(self.limit).min(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Standing = Standing {
        held: 0,
        running: 0,
        limit: 10,
        left: 100,
    };

    #[test]
    fn an_idle_connection_always_gets_a_call() {
        for left in [i64::MIN, -1, 0, 1] {
            assert!(Standing { left, ..IDLE }.has_space());
        }
        assert!(Standing { limit: 0, ..IDLE }.has_space());
    }

    #[test]
    fn a_full_device_gives_one_call_at_a_time() {
        let full = Standing { left: 0, ..IDLE };
        assert!(!Standing { running: 1, ..full }.has_space());
        for (held, has_space) in [(1, true), (UNSIGNALLED, true), (UNSIGNALLED + 1, false)] {
            assert_eq!(Standing { held, ..full }.has_space(), has_space, "{held}");
        }
        let over = Standing { left: -5, ..IDLE };
        assert!(!Standing { running: 1, ..over }.has_space());
    }

    #[test]
    fn running_calls_do_not_count_while_pages_are_left() {
        assert!(Standing {
            running: 99,
            left: 1,
            ..IDLE
        }
        .has_space());
    }

    #[test]
    fn a_connection_may_hold_its_limit_or_the_pages_that_are_left() {
        assert!(Standing { held: 9, ..IDLE }.has_space());
        assert!(!Standing { held: 10, ..IDLE }.has_space());
        assert!(Standing {
            held: 6,
            left: 7,
            ..IDLE
        }
        .has_space());
        assert!(!Standing {
            held: 7,
            left: 7,
            ..IDLE
        }
        .has_space());
    }
}
