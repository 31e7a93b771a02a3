// SPDX-License-Identifier: GPL-2.0

//! A client that spends credits, and a server that is short of room now and then.

use super::*;
use std::collections::VecDeque;
use svcrdma_proto::credits::{Credits, Overrun, Room, START};

/// How many Calls there is room for, and what happens: which event, and a number for it.
pub(crate) type Events = (u32, Vec<(u8, u32)>);

pub(crate) fn events() -> impl Strategy<Value = Events> {
    (0..64u32, prop::collection::vec((0..7u8, 0..80u32), 0..400))
}

/// A client that respects what it was granted never overruns, however the grant moves; any other
/// is told at the first Call that there is no room for.
pub(crate) fn check((start, events): &Events) -> Verdict {
    let mut credits = Credits::new(*start);
    let mut limit = *start;
    let (mut known, room_for) = (1, limit.max(1));
    let (mut open, mut asked) = (0, START.min(room_for));
    let mut room = Room::Plenty;
    // Grants of replies that have not gone out.
    let mut replies = VecDeque::new();
    for (event, number) in events {
        let before = credits.grant();
        match event {
            0 if open < known => {
                prop_assert_eq!(credits.on_call(*number), Ok(()));
                (open, asked) = (open + 1, *number);
            }
            1 if replies.len() < open as usize => {
                let grant = credits.on_reply(room, limit);
                prop_assert!(grant >= 1 && grant <= limit.min(asked).min(room_for).max(1));
                replies.push_back(grant);
                let most = if room == Room::Plenty {
                    before + 1
                } else {
                    before
                };
                prop_assert!(credits.grant() <= most);
            }
            2 if open > 0 => {
                // A reply goes out, or a Call that has none is given up.
                known = replies.pop_front().unwrap_or(known);
                credits.on_end();
                open -= 1;
            }
            3 => limit = *number,
            4 => room = Room::of(*number, 80),
            5 => {
                credits.look();
                prop_assert!(credits.grant() <= before && credits.grant() >= START.min(before));
            }
            6 if open < room_for => {
                prop_assert_eq!(credits.on_call(*number), Ok(()));
                (open, asked) = (open + 1, *number);
            }
            6 => prop_assert_eq!(credits.on_call(*number), Err(Overrun)),
            _ => {}
        }
        prop_assert_eq!(credits.unanswered(), open);
    }
    Ok(())
}
