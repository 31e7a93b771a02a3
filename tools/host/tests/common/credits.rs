// SPDX-License-Identifier: GPL-2.0

//! A client that uses credits, a server that adds Receive buffers now and then, and the messages
//! between the two.

use super::*;
use std::collections::VecDeque;
use svcrdma_proto::credits::{Credits, Overrun, START};

/// The initial number of Calls with room, and a sequence of events, each with a number.
pub(crate) type Events = (u32, Vec<(u8, u32)>);

pub(crate) fn events() -> impl Strategy<Value = Events> {
    (0..64u32, prop::collection::vec((0..10u8, 0..80u32), 0..600))
}

/// The client's side: it sends a Call only while fewer are unanswered than the last Reply that it
/// has received grants.
struct Client {
    /// Calls sent, and Replies received.
    sent: u32,
    received: u32,
    grant: u32,
}

impl Client {
    /// Returns true if the client may send another Call.
    fn may_send(&self) -> bool {
        self.sent - self.received < self.grant
    }
}

/// Checks that no grant exceeds the request, the limit or the buffers, that none grows by more than
/// one, that each Call of a client which keeps to its grants is accepted, whatever is under way
/// between the two, and that a Call beyond what posted Replies allow is an overrun.
pub(crate) fn check((start, events): &Events) -> Verdict {
    let (mut credits, mut arrivals) = Credits::new(*start);
    let mut limit = *start;
    let mut asked = START.min(*start).max(1);
    let mut client = Client {
        sent: 0,
        received: 0,
        grant: 1,
    };
    // Calls that the client has sent and that have not arrived, with the credits that they ask for;
    // grants of Replies that wait, and of those that are posted and not received.
    let (mut calls, mut waiting, mut replies) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
    // Calls that have arrived, those that have ended, and the number that posted Replies allow.
    let (mut arrived, mut ended, mut allowed) = (0, 0, START.min(*start).max(1));
    for (event, number) in events {
        let (before, backed) = (credits.grant(), credits.backed());
        let open = arrived - ended;
        match event {
            0 if client.may_send() => {
                client.sent += 1;
                calls.push_back(*number);
            }
            1 => {
                if let Some(requested) = calls.pop_front() {
                    prop_assert_eq!(arrivals.on_call(requested, credits.allowed()), Ok(()));
                    (arrived, asked) = (arrived + 1, requested);
                }
            }
            2 if waiting.len() < open as usize => {
                let grant = credits.on_reply(arrivals, limit);
                prop_assert!(grant >= 1 && grant <= limit.min(asked).min(backed).max(1));
                prop_assert!(credits.grant() <= before + 1);
                waiting.push_back(grant);
            }
            3 => {
                if let Some(grant) = waiting.pop_front() {
                    credits.on_posted(grant);
                    replies.push_back(grant);
                    ended += 1;
                    allowed = allowed.max(ended + grant);
                }
            }
            4 => {
                if let Some(grant) = replies.pop_front() {
                    client.received += 1;
                    client.grant = grant;
                }
            }
            // A Call that gets no Reply, on which the client gives up.
            5 if waiting.len() < open as usize => {
                credits.on_end();
                client.received += 1;
                ended += 1;
                allowed += 1;
            }
            6 => limit = *number,
            7 => {
                if credits.asks_for_more(arrivals) {
                    prop_assert!(credits.wanted(arrivals) > backed);
                    credits.set_backed(*number);
                    prop_assert_eq!(credits.backed(), backed.max(*number));
                    prop_assert!(*number > backed || !credits.asks_for_more(arrivals));
                }
            }
            8 => {
                let wanted = credits.look(arrivals);
                prop_assert!(credits.grant() <= before && credits.grant() >= START.min(before));
                prop_assert!(credits.backed() <= backed && credits.backed() <= wanted);
            }
            // Unsolicited messages cost no credit.
            9 => drop(credits.on_unasked(arrivals)),
            _ => {}
        }
        prop_assert_eq!(credits.unanswered(arrivals), arrived - ended);
        prop_assert_eq!(credits.allowed(), allowed);
        prop_assert_eq!(credits.held(), allowed - ended);
        prop_assert!(credits.grant().max(credits.held()) <= credits.backed());
    }
    // A client that sends on nevertheless is detected with the first Call that no Reply allows.
    for _ in arrived..allowed {
        prop_assert_eq!(arrivals.on_call(None, credits.allowed()), Ok(()));
    }
    prop_assert_eq!(arrivals.on_call(None, credits.allowed()), Err(Overrun));
    Ok(())
}
