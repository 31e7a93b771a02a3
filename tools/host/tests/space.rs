// SPDX-License-Identifier: GPL-2.0

//! Reply memory: a model of nfsd threads and peers, some of which accept no Replies. The pages of
//! all Replies are bounded, a peer that accepts its Replies never waits forever, and a host leaves
//! others their share.

mod common;

use common::*;
use proptest::prelude::*;
use std::collections::VecDeque;
use svcrdma_proto::host_share::Holdings;
use svcrdma_proto::space::{Standing, UNSIGNALLED};

const THREADS: usize = 4;
const PEERS: usize = 6;

/// The number of hosts; the peer with number `n` is on host `n % HOSTS`.
const HOSTS: usize = 3;

/// The number of pages of the largest Reply, which exceeds that of small Replies in a row.
const REPLY: i32 = 2 * UNSIGNALLED;

/// An event of the peer or thread with this number.
#[derive(Clone, Copy, Debug)]
enum Event {
    /// A Call of the peer arrives.
    Arrive(usize),
    /// The thread takes a connection from the ready queue, and one of its Calls.
    Take(usize),
    /// The thread sends a Reply of this number of pages, or drops the Call if it is 0.
    Send(usize, i32),
    /// sunrpc no longer counts the Call of the thread as running.
    End(usize),
    /// The peer accepts its oldest Reply, if it accepts any.
    Complete(usize),
}

/// A peer and its connection.
#[derive(Clone, Debug, Default)]
struct Peer {
    takes_replies: bool,
    /// The number of Calls in the inbox.
    waiting: u32,
    /// True if a thread is about to take a Call (XPT_BUSY).
    is_busy: bool,
    running: i32,
    /// The pages of each Reply that waits for the peer.
    replies: VecDeque<i32>,
    is_missed: bool,
}

/// The state of a thread.
#[derive(Clone, Copy, Debug)]
enum Thread {
    Idle,
    /// The thread processes a Call of this peer.
    Handles(usize),
    /// The thread has sent the Reply to this peer.
    Sent(usize),
}

/// A server with one device.
struct Server {
    limit: i32,
    connection_limit: u32,
    peers: Vec<Peer>,
    threads: [Thread; THREADS],
    ready: VecDeque<usize>,
}

impl Server {
    fn new(limit: i32, connection_limit: u32, takes_replies: &[bool]) -> Self {
        let peer = |&takes_replies: &bool| Peer {
            takes_replies,
            ..Peer::default()
        };
        Self {
            limit,
            connection_limit,
            peers: takes_replies.iter().map(peer).collect(),
            threads: [Thread::Idle; THREADS],
            ready: VecDeque::new(),
        }
    }

    /// Returns the pages of all Replies.
    fn sum(&self) -> i32 {
        self.peers.iter().flat_map(|peer| &peer.replies).sum()
    }

    /// Returns the pages of all Replies to the peers on `host`.
    fn sum_of(&self, host: usize) -> i32 {
        let peers = self.peers.iter().skip(host).step_by(HOSTS);
        peers.flat_map(|peer| &peer.replies).sum()
    }

    /// Returns the pages of the host and of all hosts.
    fn holdings(&self, host: usize) -> Holdings {
        Holdings {
            host: self.sum_of(host).into(),
            all: self.sum().into(),
        }
    }

    /// Models `svc_xprt_enqueue` and `xpo_has_wspace`.
    fn enqueue(&mut self, number: usize) {
        let left = self.holdings(number % HOSTS).left(self.limit as u32);
        let peer = &mut self.peers[number];
        if peer.is_busy || peer.waiting == 0 {
            return;
        }
        let standing = Standing {
            held: peer.replies.iter().sum(),
            limit: self.connection_limit,
            left,
        };
        let running = peer.running;
        if standing.has_space(|| running) {
            peer.is_busy = true;
            self.ready.push_back(number);
        } else {
            peer.is_missed = true
        }
    }

    /// Executes `event`. Returns false if it is not possible.
    fn step(&mut self, event: Event) -> bool {
        match event {
            Event::Arrive(number) => {
                self.peers[number].waiting += 1;
                self.enqueue(number);
            }
            Event::Take(thread) => return self.take(thread),
            Event::Send(thread, pages) => {
                let Thread::Handles(number) = self.threads[thread] else {
                    return false;
                };
                self.threads[thread] = Thread::Sent(number);
                if pages > 0 {
                    self.peers[number].replies.push_back(pages);
                }
            }
            Event::End(thread) => {
                let Thread::Sent(number) = self.threads[thread] else {
                    return false;
                };
                self.threads[thread] = Thread::Idle;
                self.peers[number].running -= 1;
                self.enqueue(number);
            }
            Event::Complete(number) => return self.complete(number),
        }
        true
    }

    fn take(&mut self, thread: usize) -> bool {
        if !matches!(self.threads[thread], Thread::Idle) {
            return false;
        }
        let Some(number) = self.ready.pop_front() else {
            return false;
        };
        self.threads[thread] = Thread::Handles(number);
        let peer = &mut self.peers[number];
        peer.running += 1;
        peer.waiting -= 1;
        peer.is_busy = false;
        self.enqueue(number);
        true
    }

    fn complete(&mut self, number: usize) -> bool {
        let peer = &mut self.peers[number];
        if !peer.takes_replies || peer.replies.pop_front().is_none() {
            return false;
        }
        if std::mem::take(&mut peer.is_missed) {
            self.enqueue(number);
        }
        true
    }

    /// Executes events other than the arrival of Calls until none is possible.
    fn settle(&mut self) {
        let mut has_moved = true;
        while has_moved {
            has_moved = false;
            for thread in 0..THREADS {
                has_moved |= self.step(Event::Take(thread));
                has_moved |= self.step(Event::Send(thread, REPLY));
                has_moved |= self.step(Event::End(thread));
            }
            for number in 0..self.peers.len() {
                has_moved |= self.step(Event::Complete(number));
            }
        }
    }

    fn check(&self) -> Verdict {
        let peers = (REPLY + UNSIGNALLED) * PEERS as i32;
        let beyond = peers + REPLY * THREADS as i32;
        let most = (self.limit - 1).max(0) + beyond;
        prop_assert!(self.sum() <= most, "{} pages, bound {most}", self.sum());
        for host in 0..HOSTS {
            let (sum, most) = (self.sum_of(host), self.limit - self.limit / 4 + beyond);
            prop_assert!(sum <= most, "host {host}: {sum} pages, bound {most}");
        }
        Ok(())
    }
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = pick![
        3 => (0..PEERS).prop_map(Event::Arrive),
        4 => (0..THREADS).prop_map(Event::Take),
        2 => (0..THREADS, 0..=REPLY).prop_map(|(thread, pages)| Event::Send(thread, pages)),
        2 => (0..THREADS).prop_map(Event::End),
        2 => (0..PEERS).prop_map(Event::Complete),
    ];
    prop::collection::vec(event, 0..400)
}

/// All threads serve the Calls of one peer after another.
#[test]
fn peers_that_take_no_replies_hold_one_each_beyond_the_limit() {
    let mut server = Server::new(1, u32::MAX, &[false; PEERS]);
    for number in 0..PEERS {
        for _ in 0..THREADS {
            server.step(Event::Arrive(number));
        }
        for thread in 0..THREADS {
            server.step(Event::Take(thread));
        }
        for thread in 0..THREADS {
            server.step(Event::Send(thread, REPLY));
            server.step(Event::End(thread));
        }
        assert!(server.check().is_ok(), "{} pages", server.sum());
    }
    server.settle();
    assert!(server.peers.iter().all(|peer| !peer.replies.is_empty()));
}

proptest! {
    #![proptest_config(cases(2048))]

    #[test]
    fn reply_memory_is_bounded_and_no_peer_waits_forever(
        limit in 1..200i32,
        connection_limit in 1..200u32,
        takes_replies in prop::collection::vec(any::<bool>(), PEERS),
        events in events(),
    ) {
        let mut server = Server::new(limit, connection_limit, &takes_replies);
        for event in events {
            server.step(event);
            server.check()?;
        }
        server.settle();
        server.check()?;
        for peer in &server.peers {
            // Each peer gets at least its first Reply, even beside peers that accept none.
            prop_assert!(peer.waiting == 0 || !peer.takes_replies && !peer.replies.is_empty());
        }
    }
}
