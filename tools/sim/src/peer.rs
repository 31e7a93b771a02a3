// SPDX-License-Identifier: GPL-2.0

//! A peer: makes Calls of all forms and checks each Reply, byte by byte.

use crate::{
    call::{Call, Form},
    callback, malformed,
    manner::Manner,
};
use bindings::{
    address, address6, bytes_of, connect, cq, ib_device, init_net,
    link::{Link, Use},
    net, words, Ptr,
};
use kernel::sim;
use std::collections::BTreeMap;

pub struct Peer {
    pub link: Ptr<Link>,
    pub manner: Manner,
    host: u32,
    pub credits: usize,
    xid: u32,
    calls: BTreeMap<u32, Call>,
    pub answered: u64,
    /// The callbacks that have arrived since the last Reply.
    pub called: usize,
    /// The peer refuses some callbacks.
    pub refuses: bool,
    /// nfsd drops Calls.
    pub may_lose: bool,
    /// The milliseconds within which each Call has to be answered.
    pub patience: u64,
}

/// The milliseconds that a peer needs which is too slow, but does not stall.
const TRICKLE: u64 = 20_000;
/// More messages than a peer may send that nobody waits for.
const MOST_UNASKED: usize = 1100;
/// The message type of an error, and the error if results fit nowhere.
const ERROR: u32 = 4;
const ERR_CHUNK: u32 = 2;
/// The patience of a peer that waits for others, or while things fail.
pub const LONG: u64 = 300_000;
/// The milliseconds after which a peer is closed that makes no Call, or that is behind: a minute, and
/// some looks of the watchdog.
const BEHIND: u64 = 90_000;
/// The patience of a peer while nothing fails and all others behave: less than a tick of the
/// watchdog, which would repeat what was forgotten.
pub const SHORT: u64 = 250;

/// Takes words off a message.
struct Words<'a>(&'a [u8]);

impl Words<'_> {
    fn next(&mut self) -> u32 {
        let (word, rest) = self
            .0
            .split_first_chunk::<4>()
            .expect("a Reply has its words");
        self.0 = rest;
        u32::from_be_bytes(*word)
    }
}

impl Peer {
    /// Connects a peer with the address `host`. Returns None if the server refuses.
    pub fn connect(device: Ptr<ib_device>, host: u32, manner: Manner) -> Option<Self> {
        Self::connect_from(init_net(), device, host, 1024, manner)
    }

    /// Connects a peer with the address `host` and `port` to the server of `net`, as
    /// [`Self::connect`].
    pub fn connect_from(
        net: *mut net,
        device: Ptr<ib_device>,
        host: u32,
        port: u16,
        manner: Manner,
    ) -> Option<Self> {
        let addr = match host % 2 {
            0 => address6(host, port),
            _ => address(0x0a00_0000 + host, port),
        };
        // None, or version 1 with 4 KiB for both thresholds and maybe remote invalidation.
        let invalidation = sim::below(2) as u8;
        let private = [0xf6, 0xab, 0x0e, 0x18, 1, invalidation, 3, 3];
        let private = &private[..[8, 8, 0][sim::below(3) as usize]];
        let link = connect(net, device, addr, private, |link| {
            link.get().receives = callback::RECEIVES;
            link.get().is_slow = manner == Manner::Slow;
            if !private.is_empty() {
                link.get().longest = 4096;
            }
            if manner == Manner::Fleeting {
                vanish_soon(link);
            }
        })?;
        sim::event(format_args!("peer {host}: connected, {manner:?}"));
        Some(Self {
            link,
            manner,
            host,
            credits: 1,
            xid: host << 16,
            calls: BTreeMap::new(),
            answered: 0,
            called: 0,
            refuses: true,
            may_lose: false,
            patience: LONG,
        })
    }

    /// Makes `count` Calls, and waits for all Replies. Returns false if the connection ended.
    pub fn run(&mut self, count: u32) -> bool {
        let turn = match self.manner {
            Manner::Silent => 0,
            _ => sim::below(count.into()) as u32,
        };
        for n in 0..count {
            if n == turn && self.misbehave() {
                return false;
            }
            while self.calls.len() >= self.room() {
                if !self.take_reply() {
                    return false;
                }
            }
            if !self.call() {
                return false;
            }
            if sim::chance(100) {
                sim::sleep(sim::below(10));
            }
        }
        while !self.calls.is_empty() {
            if !self.take_reply() {
                return false;
            }
        }
        true
    }

    fn room(&self) -> usize {
        match self.manner {
            Manner::Overrunning => usize::MAX,
            _ => self.credits,
        }
    }

    /// Does what the manner says. Returns true if the peer is done.
    fn misbehave(&mut self) -> bool {
        let link = self.link;
        sim::event(format_args!(
            "peer {}: {:?} from here",
            self.host, self.manner
        ));
        match self.manner {
            Manner::Correct
            | Manner::Slow
            | Manner::Overrunning
            | Manner::Fleeting
            | Manner::Malformed => return false,
            Manner::Silent => self.wait_for_close(),
            Manner::Vanishing => link.lose(),
            Manner::Leaving => link.close(),
            Manner::Unserving => {
                link.get().serves_reads = false;
                self.patience = BEHIND;
                return false;
            }
            Manner::Untaking => {
                // Its Calls go on, but it posts no Receives for their Replies.
                link.get().receives = 0;
                let more = self.credits.saturating_sub(self.calls.len());
                for _ in 0..more {
                    self.call();
                    link.get().receives = 0;
                }
                // The others may have been answered, and nfsd may drop all of these.
                if more > 0 && self.may_lose {
                    sim::wait_for(link.0, BEHIND, || link.has_ended());
                } else if more > 0 {
                    self.wait_for_close();
                }
                self.close();
            }
            Manner::Trickling => {
                link.get().delay = TRICKLE;
                self.call_until_closed();
            }
            Manner::Chattering => {
                // The refusal of a callback that nobody has made.
                let message = words(&[0xcbff_ffff, 1, 8, ERROR, ERR_CHUNK]);
                for _ in 0..MOST_UNASKED {
                    if link.send(&message).is_none() {
                        break;
                    }
                }
                self.wait_for_close();
            }
            Manner::Writing => {
                link.use_receive(Use::Immediate);
                self.wait_for_close();
            }
            Manner::Invalidating => {
                link.use_receive(Use::Invalidation);
                self.wait_for_close();
            }
        }
        true
    }

    /// Makes Calls until the server closes the connection.
    fn call_until_closed(&mut self) {
        let start = sim::now();
        loop {
            let end = start.max(cq::stopped_until()) + 2 * BEHIND;
            assert!(sim::now() < end, "peer {} is not closed", self.host);
            let has_room = self.calls.len() < self.credits;
            if !(has_room && self.call() || self.take_reply()) {
                return;
            }
        }
    }

    /// Waits until the server closes the connection, which takes nothing of it. Closes it if the
    /// server has not been told why.
    fn wait_for_close(&self) {
        let link = self.link;
        while !sim::wait_for(link.0, BEHIND, || link.has_ended()) {
            if link.is_unheard() {
                return link.close();
            }
            let is_late = sim::now() > cq::stopped_until() + BEHIND;
            assert!(!is_late, "peer {} is not closed", self.host);
        }
    }

    /// Makes a Call of this form, and waits for its Reply. Returns false if the connection has
    /// ended.
    pub fn make(&mut self, form: Form) -> bool {
        self.xid += 1;
        let (call, message) = Call::new(self.link, self.xid, form);
        self.calls.insert(self.xid, call);
        self.link.get().receives += 1;
        let sent = self.link.send(&message);
        assert!(
            sent != Some(true),
            "a Call within the grant found no Receive"
        );
        let mut is_open = sent.is_some();
        while is_open && !self.calls.is_empty() {
            is_open = self.take_reply();
        }
        is_open
    }

    /// Answers callbacks for `millis`, or until `is_enough`.
    pub fn listen(&mut self, millis: u64, is_enough: impl Fn() -> bool) {
        let end = sim::now() + millis;
        while sim::now() < end && !is_enough() && self.take_reply() {}
    }

    /// Answers callbacks until none has arrived for `millis`.
    pub fn listen_until_quiet(&mut self, millis: u64) {
        while self.takes_callback(millis) {}
    }

    /// Answers a callback. Returns false if none arrives within `millis`.
    pub fn takes_callback(&mut self, millis: u64) -> bool {
        let (before, end) = (self.called, sim::now() + millis);
        while self.called == before {
            let left = end.saturating_sub(sim::now());
            if left == 0 || !self.take(left) {
                return false;
            }
        }
        true
    }

    /// Makes one Call. Returns false if the connection has ended.
    fn call(&mut self) -> bool {
        self.xid += 1;
        let is_changed = self.manner == Manner::Malformed && sim::chance(300);
        // No change of an XID makes it that of another Call.
        let xid = self.xid | (u32::from(is_changed) << 31);
        let (mut call, mut message) = Call::draw(self.link, xid);
        call.is_changed = is_changed;
        if is_changed {
            malformed::change(&mut message);
        }
        self.calls.insert(xid, call);
        self.link.get().receives += 1;
        let sent = self.link.send(&message);
        let is_within = self.manner.is_correct() && !self.may_lose;
        let has_waited = is_within && sent == Some(true);
        assert!(!has_waited, "a Call within the grant found no Receive");
        sent.is_some()
    }

    /// Takes a message. Returns false if the connection has ended.
    fn take_reply(&mut self) -> bool {
        self.take(1000)
    }

    /// Takes a message, if one arrives within `millis`. Returns false if the connection has ended.
    fn take(&mut self, millis: u64) -> bool {
        let Some(message) = self.link.receive(millis) else {
            self.forget_changed();
            return self.check_age() && !self.link.has_ended();
        };
        let mut words = Words(&message);
        let head = [words.next(), words.next(), words.next(), words.next()];
        if callback::is_call(&message) {
            self.called += 1;
            return callback::answer(self.link, self.manner, self.refuses, head[0]);
        }
        self.reply(head, words);
        true
    }

    /// A message that was changed may have no Reply.
    fn forget_changed(&mut self) {
        let (link, calls) = (self.link.get(), std::mem::take(&mut self.calls));
        for (xid, call) in calls {
            match call.is_changed {
                true => call.invalidate(link),
                false => drop(self.calls.insert(xid, call)),
            }
        }
    }

    /// Returns false if a Call was dropped: then the peer makes it again over a new connection.
    fn check_age(&self) -> bool {
        let oldest = self.calls.values().map(|call| call.since).min();
        let waited = sim::now() - oldest.unwrap_or(sim::now());
        if self.may_lose && waited > 60_000 {
            self.link.close();
            return false;
        }
        self.check_wait(waited);
        true
    }

    fn check_wait(&self, waited: u64) {
        assert!(
            waited < self.patience,
            "peer {}: a Call was not answered for {waited} ms",
            self.host
        );
    }

    fn reply(&mut self, [xid, version, credits, kind]: [u32; 4], mut words: Words<'_>) {
        let call = self.calls.remove(&xid);
        if self.manner == Manner::Malformed && call.as_ref().is_none_or(|call| call.is_changed) {
            // An answer to a changed message, whose XID may be changed, too.
            call.into_iter()
                .for_each(|call| call.invalidate(self.link.get()));
            return;
        }
        let call = call.expect("a Reply for a Call that waits");
        assert_eq!(version, 1, "the version of a Reply");
        assert!(credits > 0, "a Reply grants no credits");
        self.credits = credits as usize;
        let waited = sim::now() - call.since;
        self.called = 0;
        if call.is_homeless {
            assert_eq!((kind, words.next()), (ERROR, ERR_CHUNK), "results fit");
            call.invalidate(self.link.get());
        } else {
            assert!(kind < 2, "an error for a Call that is correct");
            let (written, replied) = lists(&mut words);
            self.check(xid, call, words.0, &written, replied);
        }
        self.check_grant();
        self.check_wait(waited);
        self.answered += 1;
    }

    /// Each Call that the grant allows has a Receive.
    fn check_grant(&self) {
        let more = self.credits.saturating_sub(self.calls.len());
        assert!(
            !self.manner.is_correct()
                || self.may_lose
                || self.link.has_ended()
                || self.link.posted() >= more,
            "{more} more Calls are granted, but {} Receives are posted",
            self.link.posted()
        );
    }

    /// Checks the results of a Call.
    fn check(&self, xid: u32, mut call: Call, inline: &[u8], written: &[usize], replied: usize) {
        let (tag, wanted) = (call.tag, call.wanted);
        let compound = call.compound.take();
        let [_, write, reply, _] = call.take_regions(self.link.get());
        let mut message = inline.to_vec();
        if let (Some(reply), true) = (&reply, replied > 0) {
            message = reply.bytes[..replied].to_vec();
        }
        if let Some(compound) = compound {
            let regions = compound.take_regions(self.link.get());
            let head = bindings::words(&[xid, 1, 0, 0, 0, 0, tag]);
            assert!(message.starts_with(&head), "the results' head");
            return compound.check(tag, &message, &regions, written);
        }
        let mut words = Words(&message);
        let head: Vec<u32> = (0..8).map(|_| words.next()).collect();
        assert_eq!(
            head,
            [xid, 1, 0, 0, 0, 0, tag, wanted as u32],
            "the results' head"
        );
        let data = match &write {
            Some(write) => &write.bytes[..written.iter().sum()],
            None => &words.0[..wanted],
        };
        assert!(
            data[..wanted] == bytes_of(tag, wanted),
            "the data of Call {xid:#x}"
        );
    }

    /// Vanishes, without a word.
    pub fn vanish(&self) {
        self.link.lose();
    }

    /// Closes the connection, unless it has vanished.
    pub fn close(&self) {
        self.link.close();
    }
}

/// Vanishes when other tasks have run for a while, in whatever state the connection is then.
fn vanish_soon(link: Ptr<Link>) {
    sim::spawn_short("fleeting", move || {
        for _ in 0..sim::below(1 << sim::below(12)) {
            sim::point();
        }
        sim::event(format_args!("vanishes"));
        link.lose();
    });
}

/// Takes the lists off a Reply, and returns the bytes of each Write chunk and of the Reply chunk.
fn lists(words: &mut Words<'_>) -> (Vec<usize>, usize) {
    assert_eq!(words.next(), 0, "a Reply has no Read list");
    let chunk = |words: &mut Words<'_>| {
        let mut len = 0;
        for _ in 0..words.next() {
            words.next();
            len += words.next() as usize;
            words.next();
            words.next();
        }
        len
    };
    let mut written = Vec::new();
    while words.next() != 0 {
        written.push(chunk(words));
    }
    let replied = if words.next() != 0 { chunk(words) } else { 0 };
    (written, replied)
}
