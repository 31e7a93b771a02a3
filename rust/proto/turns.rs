// SPDX-License-Identifier: GPL-2.0

//! Turns: the order in which waiting connections get pages.
//!
//! Hosts take turns, and the connections of a host take turns within those of the host. Both are
//! deficit round robin: in each round a host, or a connection of it, may take [`QUANTUM`] pages. A
//! Call that needs more is served at once, and its connection and its host then skip the rounds that
//! the Call has used in advance. So a host with many connections gets no more pages than a host with
//! one, and large Calls do not delay small ones.
//!
//! A newcomer, which was not served in the present round, is due in the next one. If somebody who has
//! not overtaken was served since the last newcomer overtook, this one overtakes all that wait. So a
//! client that begins to wait is served soon, and each of those that wait is overtaken once for each
//! turn before its own, however many newcomers there are.
//!
//! No function allocates, and none but [`Turns::join`] and [`Turns::widen`] depends on the number of
//! connections.

use core::{
    mem::{
        replace,
        swap,
        take, //
    },
    ops::DerefMut, //
};

/// The pages that a host, or a connection of it, may take in each round.
pub const QUANTUM: u32 = 64;

/// The rounds that an [`Order`] has a list for.
const ROUNDS: u64 = 32;

/// The most pages that count for a Call: its connection is due again within 32 rounds.
pub const MAX_PAGES: u32 = 31 * QUANTUM;

/// The index of no member, and of no host.
const NONE: u32 = u32::MAX;

/// The place of a member or of a host in an [`Order`].
#[derive(Clone, Copy)]
struct Turn {
    /// The round of the next turn.
    due: u64,
    /// The pages that were taken in that round.
    spent: u32,
    /// The places before and behind this one in the list of the round. [`NONE`] if this one is in no
    /// list.
    prev: u32,
    next: u32,
    /// True if this place has overtaken others in the list.
    overtakes: bool,
}

impl Default for Turn {
    fn default() -> Self {
        Self {
            due: 0,
            spent: 0,
            prev: NONE,
            next: NONE,
            overtakes: false,
        }
    }
}

/// Places in the order of their turns, with a list for each round from `now` on.
///
/// # Invariants
///
/// - Each list is a ring of places, linked by `prev` and `next`. `lists` has its first place, or
///   [`NONE`].
/// - Bit `i` of `busy` is set if `lists[i]` has a place.
/// - A place is in the list of its round `due`, which is one of the [`ROUNDS`] from `now` on.
struct Order {
    now: u64,
    lists: [u32; ROUNDS as usize],
    busy: u32,
    /// True if the next newcomer may overtake the places that wait.
    may_overtake: bool,
}

impl Default for Order {
    fn default() -> Self {
        Self {
            // Round 0 is over, so that a place that was never served is a newcomer.
            now: 1,
            lists: [NONE; ROUNDS as usize],
            busy: 0,
            may_overtake: false,
        }
    }
}

impl Order {
    /// Returns the index of the list of `round`.
    fn list(round: u64) -> u32 {
        // CAST: Less than `ROUNDS`.
        (round % ROUNDS) as u32
    }

    /// Returns the place whose turn is next.
    fn first(&self) -> Option<u32> {
        let now = Self::list(self.now);
        let ahead = self.busy.rotate_right(now).trailing_zeros();
        let list = Self::list(u64::from(now).wrapping_add(ahead.into()));
        let first = *self.lists.get(list as usize)?;
        (first != NONE).then_some(first)
    }

    /// Returns true if no place is in a list.
    fn is_empty(&self) -> bool {
        self.busy == 0
    }

    /// Adds the place `at`, which is in no list. `turn` returns a place.
    fn add<P: Place>(&mut self, at: u32, places: &mut [P]) {
        let Some(place) = turn(places, at) else {
            return;
        };
        let is_new = place.due < self.now;
        let overtakes = is_new && self.may_overtake && self.busy != 0;
        if is_new {
            let later = u64::from(!overtakes);
            (place.due, place.spent) = (self.now.saturating_add(later), 0);
        }
        place.overtakes = overtakes;
        let list = Self::list(place.due);
        let Some(head) = self.lists.get_mut(list as usize) else {
            return;
        };
        let first = if *head == NONE { at } else { *head };
        let last = match turn(places, first) {
            Some(behind) if first != at => replace(&mut behind.prev, at),
            _ => at,
        };
        // INVARIANT: The place is between the last and the first one of its ring.
        if let Some(before) = turn(places, last) {
            before.next = at;
        }
        if let Some(place) = turn(places, at) {
            (place.prev, place.next) = (last, first);
        }
        if overtakes {
            self.may_overtake = false;
        }
        if overtakes || *head == NONE {
            *head = at;
        }
        self.busy |= 1u32.wrapping_shl(list);
    }

    /// Removes the place `at`, which is in a list. The pages that it has taken still count.
    fn remove<P: Place>(&mut self, at: u32, places: &mut [P]) {
        let Some(place) = turn(places, at) else {
            return;
        };
        let list = Self::list(place.due);
        let (prev, next) = (
            replace(&mut place.prev, NONE),
            replace(&mut place.next, NONE),
        );
        let Some(head) = self.lists.get_mut(list as usize) else {
            return;
        };
        // INVARIANT: The neighbours are linked to each other, and the list begins with one of them.
        if next == at {
            *head = NONE;
            self.busy &= !1u32.wrapping_shl(list);
            return;
        }
        if *head == at {
            *head = next;
        }
        if let Some(before) = turn(places, prev) {
            before.next = next;
        }
        if let Some(behind) = turn(places, next) {
            behind.prev = prev;
        }
    }

    /// Serves the place `at`, which is the first one, with `pages` pages: removes it.
    fn serve<P: Place>(&mut self, at: u32, pages: u32, places: &mut [P]) {
        self.remove(at, places);
        let Some(place) = turn(places, at) else {
            return;
        };
        if !take(&mut place.overtakes) {
            self.may_overtake = true;
        }
        self.now = place.due;
        // INVARIANT: Less than a round was spent before, so this adds at most `ROUNDS - 1` rounds.
        let spent = place.spent.saturating_add(pages.min(MAX_PAGES));
        let rounds = u64::from(spent / QUANTUM);
        place.due = place.due.saturating_add(rounds);
        place.spent = spent % QUANTUM;
    }
}

/// An item that has a place in an [`Order`].
trait Place {
    fn turn(&mut self) -> &mut Turn;
}

/// Returns the place with the index `at`.
fn turn<P: Place>(places: &mut [P], at: u32) -> Option<&mut Turn> {
    Some(places.get_mut(at as usize)?.turn())
}

impl<T> Place for Member<T> {
    fn turn(&mut self) -> &mut Turn {
        &mut self.turn
    }
}

impl Place for Host {
    fn turn(&mut self) -> &mut Turn {
        &mut self.turn
    }
}

/// A connection among the [`Turns`], or an unused place for one.
pub struct Member<T> {
    /// The number of the connection.
    owner: u64,
    /// The index of its host. [`NONE`] for an unused place.
    host: u32,
    /// The pages of its first Call and the item that it waits with, while it waits.
    waiting: Option<(u32, T)>,
    turn: Turn,
}

impl<T> Default for Member<T> {
    /// Returns an unused place.
    fn default() -> Self {
        Self {
            owner: 0,
            host: NONE,
            waiting: None,
            turn: Turn::default(),
        }
    }
}

/// A host among the [`Turns`], or an unused place for one.
#[derive(Default)]
pub struct Host {
    name: u64,
    /// The number of its connections, 0 for an unused place.
    members: u32,
    turn: Turn,
    /// Its waiting connections.
    order: Order,
}

/// The first waiting connection.
pub struct First<'a, T> {
    /// The index of the connection.
    pub at: u32,
    /// The number of the connection.
    pub owner: u64,
    /// The pages of its first Call.
    pub pages: u32,
    /// The item that the connection waits with.
    pub item: &'a T,
}

/// The waiting connections of one class, in the order of their turns, over preallocated places for
/// all connections and their hosts.
///
/// # Invariants
///
/// - A member is in the order of its host if it waits, and a host is in `order` if a member of it
///   waits.
/// - `len` connections wait, for `pages` pages.
pub struct Turns<M, H> {
    members: M,
    hosts: H,
    order: Order,
    len: usize,
    pages: usize,
}

impl<T, M, H> Turns<M, H>
where
    M: DerefMut<Target = [Member<T>]>,
    H: DerefMut<Target = [Host]>,
{
    /// Returns turns with room for as many connections as there are unused places in both.
    pub fn new(members: M, hosts: H) -> Self {
        Self {
            members,
            hosts,
            order: Order::default(),
            len: 0,
            pages: 0,
        }
    }

    /// Returns the number of waiting connections.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns true if no connection waits.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Returns the number of pages of the first Calls of all waiting connections.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Returns the most connections that there is room for.
    pub fn room(&self) -> usize {
        self.members.len().min(self.hosts.len())
    }

    /// Makes room: moves all connections and hosts to `members` and `hosts`, unused places of which
    /// there are more than now. Returns the old places.
    pub fn widen(&mut self, members: M, hosts: H) -> (M, H) {
        let (mut members, mut hosts) = (members, hosts);
        if members.len() > self.members.len() && hosts.len() > self.hosts.len() {
            swap(&mut self.members, &mut members);
            swap(&mut self.hosts, &mut hosts);
            // INVARIANT: All keep their index.
            for (new, old) in self.members.iter_mut().zip(members.iter_mut()) {
                swap(new, old);
            }
            for (new, old) in self.hosts.iter_mut().zip(hosts.iter_mut()) {
                swap(new, old);
            }
        }
        (members, hosts)
    }

    /// Adds connection `owner` of the host that is named `host`. Returns its index, or `None` if
    /// there is no room.
    pub fn join(&mut self, owner: u64, host: u64) -> Option<u32> {
        let known = |one: &Host| one.members > 0 && one.name == host;
        let at_host = self.hosts.iter().position(known);
        let at_host = at_host.or_else(|| self.hosts.iter().position(|one| one.members == 0))?;
        let at = self.members.iter().position(|one| one.host == NONE)?;
        let one = self.hosts.get_mut(at_host)?;
        if one.members == 0 {
            *one = Host {
                name: host,
                ..Host::default()
            };
        }
        one.members = one.members.saturating_add(1);
        *self.members.get_mut(at)? = Member {
            owner,
            host: u32::try_from(at_host).ok()?,
            ..Member::default()
        };
        u32::try_from(at).ok()
    }

    /// Removes connection `owner` with the index `at`. Returns its item if it has waited.
    pub fn leave(&mut self, at: u32, owner: u64) -> Option<T> {
        let removed = self.remove(at, owner);
        let member = self.member(at, owner)?;
        let host = take(member).host;
        if let Some(host) = self.hosts.get_mut(host as usize) {
            host.members = host.members.saturating_sub(1);
        }
        Some(removed?.1)
    }

    /// Makes connection `owner` with the index `at` wait for `pages` pages.
    ///
    /// # Errors
    ///
    /// Returns `item` if the connection waits already, or has left.
    pub fn wait(&mut self, at: u32, owner: u64, pages: u32, item: T) -> Result<(), T> {
        let Some(member) = self.member(at, owner).filter(|one| one.waiting.is_none()) else {
            return Err(item);
        };
        member.waiting = Some((pages, item));
        let at_host = member.host;
        // At most the number of connections, and of all their pages.
        self.len = self.len.saturating_add(1);
        self.pages = self.pages.saturating_add(pages as usize);
        if let Some(host) = self.hosts.get_mut(at_host as usize) {
            let is_first = host.order.is_empty();
            host.order.add(at, &mut self.members);
            if is_first {
                self.order.add(at_host, &mut self.hosts);
            }
        }
        Ok(())
    }

    /// Returns the connection whose turn is next.
    pub fn first(&self) -> Option<First<'_, T>> {
        let host = self.hosts.get(self.order.first()? as usize)?;
        let at = host.order.first()?;
        let member = self.members.get(at as usize)?;
        let (pages, item) = member.waiting.as_ref()?;
        Some(First {
            at,
            owner: member.owner,
            pages: *pages,
            item,
        })
    }

    /// Gives the first connection its turn: it does not wait any more. Returns its item.
    pub fn serve(&mut self) -> Option<T> {
        let at_host = self.order.first()?;
        let host = self.hosts.get_mut(at_host as usize)?;
        let at = host.order.first()?;
        let (pages, item) = self.members.get_mut(at as usize)?.waiting.take()?;
        host.order.serve(at, pages, &mut self.members);
        let is_last = host.order.is_empty();
        self.order.serve(at_host, pages, &mut self.hosts);
        if !is_last {
            self.order.add(at_host, &mut self.hosts);
        }
        self.forget(pages);
        Some(item)
    }

    /// Ends the wait of connection `owner` with the index `at` without giving it a turn. Returns its
    /// pages and its item, or `None` if it does not wait.
    pub fn remove(&mut self, at: u32, owner: u64) -> Option<(u32, T)> {
        let member = self.member(at, owner)?;
        let at_host = member.host;
        member.waiting.as_ref()?;
        let host = self.hosts.get_mut(at_host as usize)?;
        host.order.remove(at, &mut self.members);
        if host.order.is_empty() {
            self.order.remove(at_host, &mut self.hosts);
        }
        let (pages, item) = self.members.get_mut(at as usize)?.waiting.take()?;
        self.forget(pages);
        Some((pages, item))
    }

    /// Notes that a connection does not wait for `pages` pages any more.
    fn forget(&mut self, pages: u32) {
        self.len = self.len.saturating_sub(1);
        self.pages = self.pages.saturating_sub(pages as usize);
    }

    /// Returns connection `owner` with the index `at`, unless it has left.
    fn member(&mut self, at: u32, owner: u64) -> Option<&mut Member<T>> {
        let member = self.members.get_mut(at as usize)?;
        (member.host != NONE && member.owner == owner).then_some(member)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Waiting = Turns<Vec<Member<u64>>, Vec<Host>>;

    /// Returns turns for `connections`, each with the number of its host. The number of a connection
    /// is its index.
    fn turns(connections: &[u64]) -> Waiting {
        let mut turns = Turns::new(Vec::new(), Vec::new());
        for (owner, host) in connections.iter().enumerate() {
            add(&mut turns, owner, *host);
        }
        turns
    }

    /// Adds connection `owner` of `host`, and makes room for it.
    fn add(turns: &mut Waiting, owner: usize, host: u64) {
        let room = turns.room() + 1;
        let members = (0..room).map(|_| Member::default()).collect();
        let hosts = (0..room).map(|_| Host::default()).collect();
        turns.widen(members, hosts);
        assert_eq!(turns.join(owner as u64, host), Some(owner as u32));
    }

    fn wait(turns: &mut Waiting, owner: usize, pages: u32) {
        let waits = turns.wait(owner as u32, owner as u64, pages, owner as u64);
        assert_eq!(waits, Ok(()));
    }

    /// Serves the first connection and makes it wait again. Returns the connection.
    fn serve(turns: &mut Waiting, pages: impl Fn(usize) -> u32) -> usize {
        let owner = turns.serve().expect("a connection waits") as usize;
        wait(turns, owner, pages(owner));
        owner
    }

    #[test]
    fn waiting_connections_are_counted() {
        let mut turns = turns(&[1, 1, 2]);
        assert!(turns.is_empty());
        wait(&mut turns, 0, 1);
        wait(&mut turns, 2, 1);
        assert_eq!((turns.len(), turns.is_empty()), (2, false));
        turns.serve();
        turns.serve();
        assert_eq!((turns.len(), turns.is_empty()), (0, true));
    }

    #[test]
    fn places_must_be_wider_in_both_parts() {
        let mut turns = turns(&[1, 1]);
        let members = |n| (0..n).map(|_| Member::default()).collect();
        let hosts = |n| (0..n).map(|_| Host::default()).collect();
        for (n, m) in [(3, 0), (3, 2), (2, 3), (0, 3)] {
            let (members, hosts) = turns.widen(members(n), hosts(m));
            assert_eq!((members.len(), hosts.len(), turns.room()), (n, m, 2));
        }
    }

    #[test]
    fn hosts_get_equal_pages_however_many_connections_they_have() {
        let sizes = [1, 2, 64, 65, 257, 1028];
        for (few, many) in sizes.into_iter().flat_map(|a| sizes.map(|b| (a, b))) {
            let mut hosts = [2; 65];
            hosts[0] = 1;
            let mut turns = turns(&hosts);
            let pages = |owner| if owner == 0 { few } else { many };
            (0..65).for_each(|owner| wait(&mut turns, owner, pages(owner)));
            let mut got = [0, 0];
            while got[0] + got[1] < 100_000 {
                let owner = serve(&mut turns, pages);
                got[usize::from(owner > 0)] += pages(owner);
                // A round, and one Call of each.
                assert!(
                    got[0].abs_diff(got[1]) <= QUANTUM + few + many,
                    "{few} {many}"
                );
            }
            assert!(got[0].max(got[1]) * 10 < got[0].min(got[1]) * 13, "{got:?}");
        }
    }

    #[test]
    fn connections_of_a_host_get_equal_pages() {
        let mut turns = turns(&[7; 17]);
        let pages = |owner| if owner == 0 { 1 } else { 257 };
        (0..17).for_each(|owner| wait(&mut turns, owner, pages(owner)));
        let mut got = [0; 17];
        for _ in 0..100_000 {
            let owner = serve(&mut turns, pages);
            got[owner] += pages(owner);
        }
        let most = got.into_iter().fold(0, u32::max);
        let least = got.into_iter().fold(u32::MAX, u32::min);
        assert!(most - least <= QUANTUM + 257);
    }

    #[test]
    fn a_client_is_next_beside_many_slow_connections_of_another_host() {
        let mut hosts = [1; 151];
        hosts[150] = 2;
        let mut turns = turns(&hosts);
        (0..150).for_each(|owner| wait(&mut turns, owner, 1028));
        for _ in 0..1000 {
            serve(&mut turns, |_| 1028);
            // A WRITE of 1 MiB, and those that the client makes while others wait for their pages.
            wait(&mut turns, 150, 257);
            assert_eq!(turns.serve(), Some(150));
        }
        // If the client always has one, the other host gets as many pages.
        wait(&mut turns, 150, 257);
        let served: Vec<usize> = (0..500)
            .map(|_| serve(&mut turns, |owner| if owner == 150 { 257 } else { 1028 }))
            .collect();
        assert_eq!(served.iter().filter(|owner| **owner == 150).count(), 400);
        assert!(served.windows(2).all(|two| two.contains(&150)));
    }

    #[test]
    fn a_client_that_has_just_connected_is_next_after_the_calls_that_run() {
        for hosts in 1..8 {
            let peers: Vec<u64> = (0..63).map(|owner| owner % hosts).collect();
            for served in 0..200 {
                let mut turns = turns(&peers);
                (0..63).for_each(|owner| wait(&mut turns, owner, 1028));
                for _ in 0..served {
                    serve(&mut turns, |_| 1028);
                }
                add(&mut turns, 63, 99);
                wait(&mut turns, 63, 257);
                // Before anybody was served, each host has a turn.
                let before = if served == 0 { hosts } else { 0 };
                (0..before).for_each(|_| assert!(serve(&mut turns, |_| 1028) < 63));
                assert_eq!(turns.serve(), Some(63), "{hosts} {served}");
            }
        }
    }

    #[test]
    fn newcomers_overtake_those_that_wait_once_for_each_turn() {
        let mut turns = turns(&[0, 1, 2, 3]);
        (0..4).for_each(|owner| wait(&mut turns, owner, 64));
        assert_eq!(serve(&mut turns, |_| 64), 0);
        // Ever more hosts begin to wait, faster than they are served.
        let mut newcomers = 4..;
        let served = [(); 8].map(|()| {
            for newcomer in newcomers.by_ref().take(3) {
                add(&mut turns, newcomer, newcomer as u64);
                wait(&mut turns, newcomer, 1028);
            }
            turns.serve().expect("a connection waits")
        });
        let old: Vec<u64> = served.into_iter().filter(|owner| *owner < 4).collect();
        assert_eq!(old, [1, 2, 3, 0]);
    }

    #[test]
    fn a_large_call_uses_the_next_rounds_in_advance() {
        let mut turns = turns(&[0, 1]);
        wait(&mut turns, 0, u32::MAX);
        wait(&mut turns, 1, QUANTUM);
        let pages = |owner| if owner == 0 { u32::MAX } else { QUANTUM };
        let served: Vec<usize> = (0..66).map(|_| serve(&mut turns, pages)).collect();
        let large: Vec<usize> = (0..66).filter(|at| served[*at] == 0).collect();
        assert_eq!(large, [0, 32, 64]);
    }

    #[test]
    fn a_connection_that_leaves_does_not_get_its_pages_again() {
        let mut turns = turns(&[0, 0, 1]);
        (0..3).for_each(|owner| wait(&mut turns, owner, 640));
        assert_eq!(turns.serve(), Some(0));
        // Its host has had ten rounds, and keeps them for connection 1.
        assert_eq!(turns.leave(0, 0), None);
        assert_eq!(turns.join(9, 0), Some(0));
        assert_eq!(turns.wait(0, 0, 1, 0), Err(0));
        assert_eq!(turns.wait(0, 9, 1, 9), Ok(()));
        assert_eq!(turns.wait(0, 9, 1, 8), Err(8));
        assert_eq!(
            [(); 4].map(|()| turns.serve()),
            [Some(2), Some(9), Some(1), None]
        );
    }

    #[test]
    fn without_room_nobody_joins() {
        let mut turns = turns(&[5]);
        assert_eq!(
            (turns.join(1, 5), turns.join(1, 6), turns.room()),
            (None, None, 1)
        );
        assert_eq!((turns.leave(0, 7), turns.remove(9, 0)), (None, None));
        wait(&mut turns, 0, 3);
        assert_eq!((turns.len(), turns.pages()), (1, 3));
        // No smaller places replace those in use.
        turns.widen(Vec::new(), Vec::new());
        assert_eq!(
            turns.first().map(|first| (first.owner, first.pages)),
            Some((0, 3))
        );
        assert_eq!((turns.leave(0, 0), turns.is_empty()), (Some(0), true));
        assert_eq!(turns.join(1, 6), Some(0));
    }
}
