// SPDX-License-Identifier: GPL-2.0

//! A peer: makes Calls of all forms and checks each Reply, byte by byte.

use bindings::{
    address, bytes_of, connect, ib_device,
    link::{Link, Region},
    Ptr,
};
use kernel::sim;
use std::collections::HashMap;

/// What a peer does, beside its Calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Manner {
    /// Nothing that the protocol forbids.
    Correct,
    /// Serves Reads and takes Replies, but slowly.
    Slow,
    /// Vanishes without a word after some Calls.
    Vanishing,
    /// Closes its connection after some Calls, with others unanswered.
    Leaving,
    /// Serves no Reads from some Call on.
    Unserving,
    /// Takes no Replies from some Call on.
    Untaking,
    /// Sends more Calls than it has credits.
    Overrunning,
}

impl Manner {
    pub const ALL: [Self; 7] = [
        Self::Correct,
        Self::Slow,
        Self::Vanishing,
        Self::Leaving,
        Self::Unserving,
        Self::Untaking,
        Self::Overrunning,
    ];

    /// Returns true if each Call has to be answered.
    pub fn is_correct(self) -> bool {
        matches!(self, Self::Correct | Self::Slow)
    }
}

/// A Call that waits for its Reply.
struct Call {
    tag: u32,
    wanted: usize,
    read: Option<u32>,
    write: Option<u32>,
    reply: Option<u32>,
    since: u64,
}

pub struct Peer {
    link: Ptr<Link>,
    pub manner: Manner,
    host: u32,
    credits: usize,
    xid: u32,
    calls: HashMap<u32, Call>,
    pub answered: u64,
}

fn push(message: &mut Vec<u8>, words: &[u32]) {
    for word in words {
        message.extend_from_slice(&word.to_be_bytes());
    }
}

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
        // Version 1: no remote invalidation, 4 KiB for both thresholds.
        let private = [0xf6, 0xab, 0x0e, 0x18, 1, 0, 3, 3];
        let link = connect(device, address(0x0a00_0000 + host, 1024), &private, 16)?;
        link.get().is_slow = manner == Manner::Slow;
        sim::event(format_args!("peer {host}: connected, {manner:?}"));
        Some(Self {
            link,
            manner,
            host,
            credits: 1,
            xid: host << 16,
            calls: HashMap::new(),
            answered: 0,
        })
    }

    /// Makes `count` Calls, and waits for all Replies. Returns false if the connection ended.
    pub fn run(&mut self, count: u32) -> bool {
        let turn = sim::below(count.into()) as u32;
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
            Manner::Correct | Manner::Slow | Manner::Overrunning => return false,
            Manner::Vanishing => link.lose(),
            Manner::Leaving => link.close(),
            Manner::Unserving => {
                link.get().serves_reads = false;
                return false;
            }
            Manner::Untaking => {
                // Its Calls go on, but it posts no Receives for their Replies.
                link.get().receives = 0;
                for _ in 0..self.credits.saturating_sub(self.calls.len()) {
                    self.call();
                    link.get().receives = 0;
                }
                sim::wait_for(link.0, 400_000, || link.has_ended());
            }
        }
        true
    }

    /// Makes one Call. Returns false if the connection has ended.
    fn call(&mut self) -> bool {
        self.xid += 1;
        let (xid, tag) = (self.xid, self.xid.wrapping_mul(77));
        let form = sim::below(6);
        let sizes = [0, 1, 100, 1000, 5000, 20_000, 70_000];
        let size = |limit: usize| (sizes[sim::below(limit as u64) as usize]).max(1);
        let (sent, wanted) = match form {
            0 => (sim::below(900) as usize, sim::below(900) as usize),
            1 | 2 => (size(7).max(1024), 0),
            3 | 4 => (0, size(7)),
            _ => (0, size(6).max(5000)),
        };
        let mut call = Call {
            tag,
            wanted,
            read: None,
            write: None,
            reply: None,
            since: sim::now(),
        };
        let procedure = if form == 1 || form == 2 { 7 } else { 6 };
        let mut rpc = Vec::new();
        push(&mut rpc, &[xid, 0, 2, 100_003, 3, procedure, 0, 0, 0, 0]);
        push(&mut rpc, &[tag, wanted as u32, sent as u32]);
        let mut message = Vec::new();
        push(&mut message, &[xid, 1, 32, 0]);
        let data = bytes_of(tag, sent);
        let padded = |len: usize| len.next_multiple_of(4);
        match form {
            1 | 2 => {
                // Some clients send the padding, too.
                let mut bytes = data;
                if sim::chance(512) {
                    bytes.resize(padded(sent), 0);
                    bytes.truncate(padded(sent).min(sent));
                }
                self.push_reads(&mut message, &mut call, rpc.len() as u32, bytes);
                push(&mut message, &[0, 0, 0]);
            }
            3 | 4 => {
                push(&mut message, &[0, 1]);
                call.write = Some(self.push_chunk(&mut message, padded(wanted)));
                push(&mut message, &[0, 0]);
                rpc.extend_from_slice(&data);
            }
            5 => {
                push(&mut message, &[0, 0, 1]);
                call.reply = Some(self.push_chunk(&mut message, padded(wanted) + 100));
                rpc.extend_from_slice(&data);
            }
            _ => {
                push(&mut message, &[0, 0, 0]);
                rpc.extend_from_slice(&data);
            }
        }
        rpc.resize(padded(rpc.len()), 0);
        message.extend_from_slice(&rpc);
        self.calls.insert(xid, call);
        self.link.get().receives += 1;
        let sent = self.link.send(&message);
        let has_waited = self.manner.is_correct() && sent == Some(true);
        assert!(!has_waited, "a Call within the grant found no Receive");
        sent.is_some()
    }

    /// Adds a Read chunk, in up to three segments of one region.
    fn push_reads(&self, message: &mut Vec<u8>, call: &mut Call, position: u32, bytes: Vec<u8>) {
        let addr = 0x7000 + sim::below(5000);
        let (len, mut at) = (bytes.len(), 0);
        let key = self.link.get().register(Region {
            addr,
            bytes,
            is_sink: false,
        });
        call.read = Some(key);
        while at < len {
            let part = match sim::below(3) {
                0 => (len - at).div_ceil(2),
                _ => len - at,
            };
            let remote = addr + at as u64;
            push(message, &[1, position, key, part as u32]);
            push(message, &[(remote >> 32) as u32, remote as u32]);
            at += part;
        }
        push(message, &[0]);
        // The end of the list, before the Write list and the Reply chunk.
        message.truncate(message.len() - 4);
    }

    /// Adds a chunk that the server writes to, in up to two segments.
    fn push_chunk(&self, message: &mut Vec<u8>, len: usize) -> u32 {
        let addr = 0x9000 + sim::below(5000);
        let key = self.link.get().register(Region {
            addr,
            bytes: vec![0xee; len],
            is_sink: true,
        });
        let first = if len > 1 && sim::chance(400) {
            len / 2
        } else {
            len
        };
        let parts = [(0, first), (first, len - first)];
        let parts = parts.iter().filter(|part| part.1 > 0);
        push(message, &[parts.clone().count() as u32]);
        for (at, part) in parts {
            let remote = addr + *at as u64;
            push(
                message,
                &[key, *part as u32, (remote >> 32) as u32, remote as u32],
            );
        }
        key
    }

    /// Takes a Reply. Returns false if the connection has ended.
    fn take_reply(&mut self) -> bool {
        let Some(message) = self.link.receive(1000) else {
            let oldest = self.calls.values().map(|call| call.since).min();
            let waited = sim::now() - oldest.unwrap_or(sim::now());
            assert!(
                waited < 300_000,
                "peer {}: a Call was not answered for {waited} ms",
                self.host
            );
            return !self.link.has_ended();
        };
        let mut words = Words(&message);
        let (xid, version, credits, kind) =
            (words.next(), words.next(), words.next(), words.next());
        assert_eq!(version, 1, "the version of a Reply");
        assert!(credits > 0, "a Reply grants no credits");
        self.credits = credits as usize;
        let call = self
            .calls
            .remove(&xid)
            .expect("a Reply for a Call that waits");
        assert!(kind < 2, "an error for a Call that is correct");
        let (written, replied) = lists(&mut words);
        self.check(xid, &call, words.0, written, replied);
        self.answered += 1;
        true
    }

    /// Checks the results of a Call.
    fn check(&self, xid: u32, call: &Call, inline: &[u8], written: usize, replied: usize) {
        let regions = |key: Option<u32>| key.map(|key| self.link.get().invalidate(key));
        regions(call.read);
        let (write, reply) = (regions(call.write), regions(call.reply));
        let mut message = inline.to_vec();
        if let (Some(reply), true) = (&reply, replied > 0) {
            message = reply.bytes[..replied].to_vec();
        }
        let mut words = Words(&message);
        let head: Vec<u32> = (0..8).map(|_| words.next()).collect();
        assert_eq!(
            head,
            [xid, 1, 0, 0, 0, 0, call.tag, call.wanted as u32],
            "the results' head"
        );
        let data = match &write {
            Some(write) => &write.bytes[..written],
            None => &words.0[..call.wanted],
        };
        assert!(
            data[..call.wanted] == bytes_of(call.tag, call.wanted),
            "the data of Call {xid:#x}"
        );
    }

    /// Closes the connection, unless it has vanished.
    pub fn close(self) {
        self.link.close();
    }
}

/// Takes the lists off a Reply, and returns the bytes of its Write chunk and of its Reply chunk.
fn lists(words: &mut Words<'_>) -> (usize, usize) {
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
    let mut written = 0;
    while words.next() != 0 {
        written += chunk(words);
    }
    let replied = if words.next() != 0 { chunk(words) } else { 0 };
    (written, replied)
}
