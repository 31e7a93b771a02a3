// SPDX-License-Identifier: GPL-2.0

//! The turns of waiting connections agree with a model that searches plain lists: no connection is
//! lost, none is served twice, and the order is the same.

mod common;

use common::*;
use proptest::prelude::*;
use svcrdma_proto::turns::{Host, Member, Turns, MAX_PAGES, QUANTUM};

/// The connections of the tests and their hosts.
const HOSTS: [u64; 6] = [0, 0, 0, 1, 1, 2];

#[derive(Clone, Copy, Debug)]
enum Event {
    Wait(usize, u32),
    Remove(usize),
    Serve,
    /// The connection leaves, and another one takes its place.
    Replace(usize),
}

/// A place that waits: its round, its pages in that round, and if it overtook.
#[derive(Clone, Copy, Default)]
struct Place {
    due: u64,
    spent: u32,
    overtakes: bool,
}

/// The places that wait, in the order in which they came, except for those that overtook.
#[derive(Clone)]
struct Order {
    now: u64,
    may_overtake: bool,
    list: Vec<usize>,
}

impl Order {
    fn new() -> Self {
        Self {
            now: 1,
            may_overtake: false,
            list: Vec::new(),
        }
    }

    fn first(&self, places: &[Place]) -> Option<usize> {
        self.list.iter().copied().min_by_key(|at| places[*at].due)
    }

    fn add(&mut self, at: usize, places: &mut [Place]) {
        let place = &mut places[at];
        place.overtakes = false;
        if place.due < self.now {
            place.overtakes = self.may_overtake && !self.list.is_empty();
            (place.due, place.spent) = (self.now + u64::from(!place.overtakes), 0);
        }
        if place.overtakes {
            self.may_overtake = false;
            self.list.insert(0, at);
        } else {
            self.list.push(at);
        }
    }

    fn serve(&mut self, at: usize, pages: u32, places: &mut [Place]) {
        self.list.retain(|one| *one != at);
        let place = &mut places[at];
        self.may_overtake |= !place.overtakes;
        self.now = place.due;
        let spent = place.spent + pages.min(MAX_PAGES);
        place.due += u64::from(spent / QUANTUM);
        place.spent = spent % QUANTUM;
    }
}

struct Model {
    members: [Place; HOSTS.len()],
    owners: [u64; HOSTS.len()],
    waiting: [Option<u32>; HOSTS.len()],
    hosts: [Place; 3],
    orders: [Order; 3],
    order: Order,
}

impl Model {
    fn first(&self) -> Option<usize> {
        self.orders[self.order.first(&self.hosts)?].first(&self.members)
    }

    fn wait(&mut self, at: usize, pages: u32) {
        let host = HOSTS[at] as usize;
        self.waiting[at] = Some(pages);
        self.orders[host].add(at, &mut self.members);
        if self.orders[host].list.len() == 1 {
            self.order.add(host, &mut self.hosts);
        }
    }

    fn remove(&mut self, at: usize) -> Option<u32> {
        let host = HOSTS[at] as usize;
        let pages = self.waiting[at].take()?;
        self.orders[host].list.retain(|one| *one != at);
        if self.orders[host].list.is_empty() {
            self.order.list.retain(|one| *one != host);
        }
        Some(pages)
    }

    fn serve(&mut self) -> Option<u64> {
        let at = self.first()?;
        let host = HOSTS[at] as usize;
        let pages = self.waiting[at].take()?;
        self.orders[host].serve(at, pages, &mut self.members);
        self.order.serve(host, pages, &mut self.hosts);
        if !self.orders[host].list.is_empty() {
            self.order.add(host, &mut self.hosts);
        }
        Some(self.owners[at])
    }
}

/// Checks that the turns agree with the model after each event. A connection beyond `HOSTS` keeps
/// each host known.
fn check(events: &[Event]) -> Verdict {
    let all = HOSTS.len() + 3;
    let mut turns = Turns::new(
        (0..all).map(|_| Member::default()).collect::<Vec<_>>(),
        (0..3).map(|_| Host::default()).collect::<Vec<_>>(),
    );
    let mut model = Model {
        members: Default::default(),
        owners: std::array::from_fn(|at| at as u64),
        waiting: Default::default(),
        hosts: Default::default(),
        orders: [(); 3].map(|()| Order::new()),
        order: Order::new(),
    };
    for (owner, host) in HOSTS.into_iter().chain(0..3).enumerate() {
        prop_assert_eq!(turns.join(owner as u64, host), Some(owner as u32));
    }
    let mut next = all as u64;
    for event in events {
        match *event {
            Event::Wait(at, pages) => {
                let owner = model.owners[at];
                let waits = turns.wait(at as u32, owner, pages, owner);
                prop_assert_eq!(waits.is_ok(), model.waiting[at].is_none());
                if waits.is_ok() {
                    model.wait(at, pages);
                }
            }
            Event::Remove(at) => {
                let owner = model.owners[at];
                let removed = model.remove(at).map(|pages| (pages, owner));
                prop_assert_eq!(turns.remove(at as u32, owner), removed);
            }
            Event::Serve => prop_assert_eq!(turns.serve(), model.serve()),
            Event::Replace(at) => {
                let owner = model.owners[at];
                let waited = model.remove(at).map(|_| owner);
                prop_assert_eq!(turns.leave(at as u32, owner), waited);
                prop_assert_eq!(turns.join(next, HOSTS[at]), Some(at as u32));
                prop_assert_eq!(turns.remove(at as u32, owner), None);
                (model.owners[at], model.members[at]) = (next, Place::default());
                next += 1;
            }
        }
        let first = model
            .first()
            .map(|at| (model.owners[at], model.waiting[at].unwrap_or(0)));
        prop_assert_eq!(turns.first().map(|first| (first.owner, first.pages)), first);
        let waiting = model.waiting.iter().flatten();
        prop_assert_eq!(turns.len(), waiting.clone().count());
        prop_assert_eq!(turns.pages(), waiting.sum::<u32>() as usize);
    }
    Ok(())
}

fn event() -> impl Strategy<Value = Event> {
    let at = || 0..HOSTS.len();
    let pages = pick![1..3u32, 60..70u32, 0..2000u32];
    pick![
        6 => (at(), pages).prop_map(|(at, pages)| Event::Wait(at, pages)),
        1 => at().prop_map(Event::Remove),
        4 => Just(Event::Serve),
        1 => at().prop_map(Event::Replace),
    ]
}

proptest! {
    #![proptest_config(cases(2048))]

    #[test]
    fn the_order_is_that_of_the_model(events in prop::collection::vec(event(), 0..200)) {
        check(&events)?;
    }
}

/// All sequences of six events of two connections of one host and one of another.
#[test]
fn the_order_of_all_short_sequences_is_that_of_the_model() -> Verdict {
    let of = |at| {
        [
            Event::Wait(at, 1),
            Event::Wait(at, 100),
            Event::Remove(at),
            Event::Replace(at),
        ]
    };
    let some = |at| [Event::Wait(at, 63), Event::Remove(at)];
    let all: Vec<Event> = of(0)
        .into_iter()
        .chain(some(1))
        .chain(some(3))
        .chain([Event::Serve])
        .collect();
    let mut at = [0; 6];
    loop {
        check(&at.map(|at| all[at]))?;
        let Some(last) = at.iter().rposition(|at| *at + 1 < all.len()) else {
            return Ok(());
        };
        at[last] += 1;
        at[last + 1..].fill(0);
    }
}
