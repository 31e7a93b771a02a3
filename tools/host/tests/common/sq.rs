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
    // In a deep queue the sequence numbers wrap after two events.
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
                prop_assert_eq!(queue.post(n), fits.then_some(posted as u32));
                posted += if fits { n.into() } else { 0 };
            }
            Event::Retire(n) => {
                let outstanding = retired + u64::from(n) < posted;
                let count = if outstanding { u64::from(n) + 1 } else { 0 };
                let seq = (retired as u32).wrapping_add(n);
                prop_assert_eq!(u64::from(queue.retire(seq)), count);
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
        prop_assert_eq!(queue.oldest(), (outstanding > 0).then_some(retired as u32));
        // There is a slot per entry; outstanding entries have different slots.
        for entry in [retired, retired + outstanding / 2, posted.saturating_sub(1)] {
            if (retired..posted).contains(&entry) {
                let slot = (entry % u64::from(*depth)) as usize;
                prop_assert_eq!(queue.slot(entry as u32), slot);
            }
        }
    }
    Ok(())
}
