// SPDX-License-Identifier: GPL-2.0

//! Posts and completions of a send queue, compared with a model whose numbers do not wrap.

use super::*;
use svcrdma_proto::sq::{Signals, SqSlots};

#[derive(Clone, Debug)]
pub(crate) enum Event {
    /// This number of entries is posted.
    Post(u32),
    /// The entry this far behind the oldest completes.
    Retire(u32),
    /// A Send is posted, which holds resources if true.
    Send(bool),
}

/// The depth of a queue and its events.
pub(crate) type Events = (u32, Vec<Event>);

pub(crate) fn events() -> impl Strategy<Value = Events> {
    let number = || pick![3 => 0..24u32, 1 => any::<u32>()];
    let event = pick![
        number().prop_map(Event::Post),
        number().prop_map(Event::Retire),
        any::<bool>().prop_map(Event::Send),
    ];
    let depth = pick![0..24u32, any::<u32>(), Just(u32::MAX)];
    (depth, prop::collection::vec(event, 0..200))
}

/// Checks that the queue agrees with a model whose sequence numbers never wrap.
pub(crate) fn check((depth, events): &Events) -> Verdict {
    let (mut queue, mut signals) = (SqSlots::new(*depth), Signals::new());
    let (mut posted, mut retired, mut unsignalled) = (0u64, 0u64, 0);
    for event in events {
        match *event {
            Event::Post(n) => {
                let fits = posted - retired + u64::from(n) <= u64::from(*depth);
                let first = posted.checked_rem(u64::from(*depth)).unwrap_or(0) as usize;
                prop_assert_eq!(queue.post(n), fits.then_some(first));
                posted += if fits { n.into() } else { 0 };
            }
            Event::Retire(n) => {
                let entry = retired + u64::from(n);
                let slot = entry.checked_rem(u64::from(*depth)).unwrap_or(0) as usize;
                // The slot may be that of an entry that is further ahead.
                let before = u64::from(n).checked_rem(u64::from(*depth)).unwrap_or(0);
                let count = if retired + before < posted {
                    before + 1
                } else {
                    0
                };
                prop_assert_eq!(u64::from(queue.up_to(slot)), count);
                queue.retire(count as u32);
                retired += count;
            }
            Event::Send(holds) => {
                let signalled = signals.next(holds);
                prop_assert_eq!(signalled, holds || unsignalled == Signals::MAX_UNSIGNALLED);
                unsignalled = if signalled { 0 } else { unsignalled + 1 };
            }
        }
        let outstanding = posted - retired;
        prop_assert_eq!(u64::from(queue.outstanding()), outstanding);
        prop_assert_eq!(u64::from(queue.room()), u64::from(*depth) - outstanding);
        prop_assert_eq!(queue.is_empty(), outstanding == 0);
        let oldest = (retired..posted).next();
        let slot = oldest.map(|entry| (entry % u64::from(*depth)) as usize);
        prop_assert_eq!(queue.oldest(), slot);
        // Each entry has the slot behind that of the entry before.
        if let Some(slot) = slot {
            let next = ((retired + 1) % u64::from(*depth)) as usize;
            prop_assert_eq!(queue.next(slot), next);
        }
    }
    Ok(())
}
