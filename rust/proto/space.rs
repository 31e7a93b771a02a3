// SPDX-License-Identifier: GPL-2.0

//! Reply memory: the decision on whether nfsd may take another Call of a connection.
//!
//! The pages of a Reply stay in use until the peer has taken it, so a peer that takes no Replies
//! keeps their pages. While its host may hold more ([`host_share`](crate::host_share)), a
//! connection may hold pages up to its limit. When the host may not, each connection gets one Call
//! at a time, and none while it holds more than [`UNSIGNALLED`] pages. So the pages of all
//! Replies exceed the limit of the device by at most [`UNSIGNALLED`] pages and one Reply for each
//! connection, and by one Reply for each Call that was running when the limit was reached.
//!
//! The same decides on reading the Read chunks of another Call, whose pages wait behind the Replies
//! of the connection: while there is no space, one Call at a time is read.
//!
//! A connection without space has a running Call, or holds a Reply whose Send is signalled. Both
//! end, and the caller decides again when they do. No connection waits for another one.

use crate::sq::Signals;

/// The most pages of Replies that the peer may have taken without a completion. Each of these
/// Replies has only its send buffer, and its Send is unsignalled: a later completion retires it.
pub const UNSIGNALLED: i32 = Signals::MAX_UNSIGNALLED as i32;

/// The state of a connection and of its host that the decision depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    /// Pages that the Replies of the connection hold.
    pub held: i32,
    /// The most pages that the Replies of the connection may hold.
    pub limit: u32,
    /// Pages that the host may hold beyond those that it holds; 0 or less if it may hold no more.
    pub left: i64,
}

impl Standing {
    /// Returns true if nfsd may take another Call. `running` returns the number of Calls of the
    /// connection that nfsd threads are working on; it is called only if that matters.
    #[inline]
    pub fn has_space(&self, running: impl FnOnce() -> i32) -> bool {
        self.has_room() || self.held <= UNSIGNALLED && running() <= 0
    }

    /// Returns true if the connection may hold more pages. While it may not, no Read chunks of a
    /// second Call are read: their pages would wait for the Replies, and count nowhere as these do.
    #[inline]
    pub fn has_room(&self) -> bool {
        i64::from(self.held) < i64::from(self.limit).min(self.left)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDLE: Standing = Standing {
        held: 0,
        limit: 10,
        left: 100,
    };

    #[test]
    fn an_idle_connection_always_gets_a_call() {
        for left in [i64::MIN, -1, 0, 1] {
            assert!(Standing { left, ..IDLE }.has_space(|| 0));
        }
        assert!(Standing { limit: 0, ..IDLE }.has_space(|| 0));
    }

    #[test]
    fn a_host_without_pages_gives_one_call_at_a_time() {
        let full = Standing { left: 0, ..IDLE };
        assert!(!full.has_space(|| 1));
        for (held, has_space) in [(1, true), (UNSIGNALLED, true), (UNSIGNALLED + 1, false)] {
            assert_eq!(
                Standing { held, ..full }.has_space(|| 0),
                has_space,
                "{held}"
            );
        }
        assert!(!Standing { left: -5, ..IDLE }.has_space(|| 1));
    }

    #[test]
    fn nothing_more_is_read_behind_replies_at_a_limit() {
        assert!(IDLE.has_room());
        assert!(!Standing { held: 10, ..IDLE }.has_room());
        for left in [0, -1, i64::MIN] {
            assert!(!Standing { left, ..IDLE }.has_room());
        }
        assert!(!Standing {
            held: 5,
            left: 5,
            ..IDLE
        }
        .has_room());
        assert!(Standing {
            held: 4,
            left: 5,
            ..IDLE
        }
        .has_room());
    }

    /// Connections of one host take no Reply and are given as many Calls as allowed: another host
    /// has as many pages as it may have beside one connection.
    #[test]
    fn slow_connections_of_one_host_leave_the_others_their_share() {
        use crate::host_share::Holdings;
        const DEVICE: u32 = 16384;
        const REPLY: i32 = 259;
        let other = Holdings { host: 0, all: 0 }.share(DEVICE);
        for connections in [1, 8, 100] {
            let mut held = vec![0; connections];
            let mut has_served = true;
            while has_served {
                has_served = false;
                for connection in 0..connections {
                    let host = held.iter().sum::<i32>().into();
                    let standing = Standing {
                        held: held[connection],
                        limit: 2112,
                        left: Holdings { host, all: host }.left(DEVICE),
                    };
                    if standing.has_space(|| 0) {
                        held[connection] += REPLY;
                        has_served = true;
                    }
                }
            }
            let all: i64 = held.iter().sum::<i32>().into();
            let beside = Holdings { host: 0, all }.left(DEVICE);
            // Each connection may have one Reply more, and 100 of those exceed the limit.
            assert!(all <= other + i64::from(REPLY) * connections as i64);
            assert!(beside >= 3000 || connections > 8, "{beside} pages left");
        }
    }

    #[test]
    fn running_calls_do_not_count_while_pages_are_left() {
        assert!(Standing { left: 1, ..IDLE }.has_space(|| unreachable!()));
    }

    #[test]
    fn a_connection_may_hold_its_limit_or_the_pages_that_are_left() {
        let most = UNSIGNALLED + 7;
        let limit = most.unsigned_abs() + 1;
        let at = |held, left| Standing { held, left, limit };
        assert!(at(most, 100).has_space(|| 1));
        assert!(!at(most + 1, 100).has_space(|| 0));
        assert!(at(most - 1, most.into()).has_space(|| 1));
        assert!(!at(most, most.into()).has_space(|| 0));
    }
}
