// SPDX-License-Identifier: GPL-2.0

//! A client that uses credits, and a server that adds Receive buffers now and then.

use super::*;
use std::collections::VecDeque;
use svcrdma_proto::credits::{Credits, Overrun, START};

/// The initial number of Calls with room, and a sequence of events, each with a number.
pub(crate) type Events = (u32, Vec<(u8, u32)>);

pub(crate) fn events() -> impl Strategy<Value = Events> {
    (0..64u32, prop::collection::vec((0..7u8, 0..80u32), 0..400))
}

/// Checks that no grant exceeds the request, the limit or the buffers, that none grows by more than
/// one, and that a Call without room is detected.
pub(crate) fn check((start, events): &Events) -> Verdict {
    let room_for = *start + START;
    let (mut credits, mut arrivals) = Credits::new(*start);
    let mut limit = *start;
    let mut known = 1;
    let (mut open, mut asked) = (0, START.min(*start).max(1));
    // Grants of Replies that are not sent yet.
    let mut replies = VecDeque::new();
    for (event, number) in events {
        let (before, backed) = (credits.grant(), credits.backed());
        match event {
            0 if open < known => {
                prop_assert_eq!(arrivals.on_call(*number, credits.ended(), room_for), Ok(()));
                (open, asked) = (open + 1, *number);
            }
            1 if replies.len() < open as usize => {
                let grant = credits.on_reply(arrivals, limit);
                prop_assert!(grant >= 1 && grant <= limit.min(asked).min(backed).max(1));
                replies.push_back(grant);
                prop_assert!(credits.grant() <= before + 1);
            }
            2 if open > 0 => {
                // A Reply is sent, or a Call without a Reply is dropped.
                known = replies.pop_front().unwrap_or(known);
                credits.on_end();
                open -= 1;
            }
            3 => limit = *number,
            4 => {
                if credits.asks_for_more(arrivals) {
                    prop_assert!(credits.wanted(arrivals) > backed);
                    let made = (*number).min(room_for);
                    credits.set_backed(made);
                    prop_assert_eq!(credits.backed(), backed.max(made));
                    prop_assert!(made > backed || !credits.asks_for_more(arrivals));
                }
            }
            5 => {
                let wanted = credits.look(arrivals);
                prop_assert!(credits.grant() <= before && credits.grant() >= START.min(before));
                prop_assert!(credits.backed() <= backed && credits.backed() <= wanted);
            }
            6 if open < room_for => {
                prop_assert_eq!(arrivals.on_call(*number, credits.ended(), room_for), Ok(()));
                (open, asked) = (open + 1, *number);
            }
            6 => prop_assert_eq!(
                arrivals.on_call(*number, credits.ended(), room_for),
                Err(Overrun)
            ),
            _ => {}
        }
        prop_assert_eq!(credits.unanswered(arrivals), open);
        prop_assert!(credits.grant().max(credits.held()) <= credits.backed());
    }
    Ok(())
}
