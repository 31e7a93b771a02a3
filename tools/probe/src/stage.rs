// SPDX-License-Identifier: GPL-2.0

//! How far a peer gets before it goes away, and what it leaves open then.

use crate::{
    error::{Error, Result},
    ffi::{Endpoint, Event, Region, Wakeup},
    message::Message,
    missing,
    peer::{self, Manners, Peer, PATIENCE},
    rpc,
};
use std::{
    fmt,
    io,
    net::SocketAddr,
    str::FromStr,
    thread,
    time::Duration, //
};
use svcrdma_proto::chunk::{ReadSegment, Segment};

/// Size of the chunks that the server is in the middle of.
const CHUNK: usize = 256 << 10;

/// Size of the Write and Reply chunks, and what is read into them, in bytes.
const READ: u32 = 128 << 10;

/// READs of a peer that takes no replies, unless another number is given, and what each asks for: as
/// many as Linux servers let it have.
pub(crate) const READS: u32 = 32;
const LARGE_READ: u32 = 1 << 20;

/// Calls of a peer that takes no replies: no more than a busy client of a Linux server has at a time.
const UNREAD: u32 = 100;

/// Messages of a peer that takes no answers to them: as many as there may be of the kernel module's
/// before it makes more.
const ERRORS: u32 = 32;

/// Calls of a peer that overruns its credits: twice what Linux servers grant by default, or more.
const CALLS: u32 = 256;

/// Messages of a peer that sends what nobody waits for: more than the kernel module bears.
const UNASKED: u32 = 1100;

/// How far a peer gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stage {
    /// The connection request is sent.
    Request,
    /// The server's answer with its private data is here, and not acknowledged.
    Response,
    /// The connection stands; nothing was sent.
    Established,
    /// The first Call is sent.
    Call,
    /// The first reply is here; an idle connection.
    Reply,
    /// The server reads a Read chunk.
    Read,
    /// The server is about to read a Read chunk with a wrong rkey.
    ReadRkey,
    /// The server writes a Write chunk.
    WriteChunk,
    /// The server writes a Reply chunk.
    ReplyChunk,
    /// The server cannot send its reply, because no Receive is posted; nor does that end by itself,
    /// as the peer asks for RNR retries without end (see [`peer::offer`]).
    NoReceive,
    /// The same with more Calls than a server has room for replies to in its send queue.
    NoReceiveCalls,
    /// The same with READs of 1 MiB, whose results the server can write.
    NoReceiveReads,
    /// The same with messages of a procedure that there is not, each of which is to have an answer.
    NoReceiveErrors,
    /// A Send of several packets is on its way.
    Send,
    /// More Calls are sent than the server grants credits.
    Overrun,
    /// The same, and all of them have arrived, or the server has closed the connection.
    OverrunSeen,
    /// An RDMA Write with immediate data has used up a Receive of the server's; just an idle
    /// connection if the device cannot make one.
    Immediate,
    /// More Calls are sent than were granted, once standard input has a line.
    Greedy,
    /// Many messages are sent that no server waits for.
    Unasked,
    /// A Send has invalidated the registration with this key.
    Invalidation,
}

impl Stage {
    /// All stages on the way of a peer that goes away.
    pub(crate) const ALL: &'static [Self] = &[
        Self::Request,
        Self::Response,
        Self::Established,
        Self::Call,
        Self::Reply,
        Self::Read,
        Self::ReadRkey,
        Self::WriteChunk,
        Self::ReplyChunk,
        Self::NoReceive,
        Self::NoReceiveCalls,
        Self::NoReceiveReads,
        Self::NoReceiveErrors,
        Self::Send,
        Self::Overrun,
        Self::Immediate,
    ];

    /// Of peers that do what no client does.
    const ODD: &'static [Self] = &[
        Self::OverrunSeen,
        Self::Greedy,
        Self::Unasked,
        Self::Invalidation,
    ];

    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Request => "request",
            Self::Response => "response",
            Self::Established => "established",
            Self::Call => "call",
            Self::Reply => "reply",
            Self::Read => "read",
            Self::ReadRkey => "read-rkey",
            Self::WriteChunk => "write-chunk",
            Self::ReplyChunk => "reply-chunk",
            Self::NoReceive => "no-receive",
            Self::NoReceiveCalls => "no-receive-calls",
            Self::NoReceiveReads => "no-receive-reads",
            Self::NoReceiveErrors => "no-receive-errors",
            Self::Send => "send",
            Self::Overrun => "overrun",
            Self::OverrunSeen => "overrun-seen",
            Self::Immediate => "immediate",
            Self::Greedy => "greedy",
            Self::Unasked => "unasked",
            Self::Invalidation => "invalidation",
        }
    }
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Stage {
    type Err = ();

    fn from_str(name: &str) -> std::result::Result<Self, ()> {
        let mut all = Self::ALL.iter().chain(Self::ODD);
        let found = all.find(|stage| stage.name() == name);
        found.copied().ok_or(())
    }
}

/// What a peer of some stage still holds.
pub(crate) enum Remains {
    /// A connection that does not stand.
    Half(Endpoint),
    /// A connection.
    Peer(Box<Peer>, Option<Region>),
}

impl Remains {
    /// Says goodbye.
    pub(crate) fn disconnect(self) -> Result<()> {
        match self {
            // There is nothing to disconnect yet: the CM rejects.
            Self::Half(_) => Ok(()),
            Self::Peer(peer, _memory) => peer.disconnect(),
        }
    }

    /// Falls silent: whatever the server still sends gets no answer.
    pub(crate) fn fall_silent(&mut self) {
        match self {
            Self::Half(endpoint) => endpoint.destroy_qp(),
            Self::Peer(peer, memory) => {
                peer.destroy_qp();
                *memory = None;
            }
        }
    }
}

/// A way to the server.
#[derive(Clone)]
pub(crate) struct Way {
    pub(crate) target: SocketAddr,
    /// A file to read, as a path below the root of NFS version 4.
    pub(crate) file: Option<String>,
    /// The key of a registration of the server's.
    pub(crate) key: Option<u32>,
    /// READs of a peer that takes no replies.
    pub(crate) calls: u32,
}

impl Way {
    /// Takes a peer to `stage`. `turn` varies the moments at which memory goes away.
    pub(crate) fn reach(&self, stage: Stage, turn: usize) -> Result<Remains> {
        match stage {
            Stage::Request => self.request(),
            Stage::Response => self.response(),
            Stage::Established => self.peer().map(alone),
            Stage::Call => self.call(Manners::default()),
            Stage::Reply => self.reply(),
            Stage::Read => self.read(turn),
            Stage::ReadRkey => self.read_rkey(),
            Stage::WriteChunk => self.write_chunk(turn),
            Stage::ReplyChunk => self.reply_chunk(turn),
            Stage::NoReceive => self.call(no_receives()),
            Stage::NoReceiveCalls => self.no_receive_calls(),
            Stage::NoReceiveReads => self.no_receive_reads(),
            Stage::NoReceiveErrors => self.no_receive_errors(),
            Stage::Send => self.long_send(),
            Stage::Overrun => self.overrun(false),
            Stage::OverrunSeen => self.overrun(true),
            Stage::Immediate => self.immediate(),
            Stage::Greedy => self.greedy(),
            Stage::Unasked => self.unasked(),
            Stage::Invalidation => self.invalidation(),
        }
    }

    /// Connects as the Linux client does.
    fn peer(&self) -> Result<Peer> {
        Peer::connect(&self.target, Manners::default())
    }

    fn request(&self) -> Result<Remains> {
        Peer::request(&self.target, Manners::default()).map(alone)
    }

    fn response(&self) -> Result<Remains> {
        peer::with_free_port(|| self.response_once())
    }

    fn response_once(&self) -> Result<Remains> {
        let endpoint = Endpoint::open_half(&self.target, PATIENCE)?;
        endpoint.connect(&peer::offer(&Manners::default()))?;
        match endpoint.wait(PATIENCE)? {
            // With iWARP there is nothing more to do.
            Wakeup::Event(Event::Response(_) | Event::Established(_)) => {
                Ok(Remains::Half(endpoint))
            }
            other => Err(Error::new(format!("cannot connect: {other:?}"))),
        }
    }

    fn call(&self, manners: Manners) -> Result<Remains> {
        let mut peer = Peer::connect(&self.target, manners)?;
        let xid = peer.xid();
        peer.send(&Message::inline(xid, rpc::null(xid)))?;
        peer.wait_sent()?;
        Ok(alone(peer))
    }

    fn reply(&self) -> Result<Remains> {
        let mut peer = self.peer()?;
        peer.null()?;
        Ok(alone(peer))
    }

    fn read(&self, turn: usize) -> Result<Remains> {
        let mut peer = self.peer()?;
        let mut memory = peer.region(CHUNK)?;
        let message = write_call(&mut peer, whole(&memory));
        peer.send(&message)?;
        take_away(&mut memory, turn);
        Ok(Remains::Peer(Box::new(peer), Some(memory)))
    }

    fn read_rkey(&self) -> Result<Remains> {
        let mut peer = self.peer()?;
        let memory = peer.region(CHUNK)?;
        let mut segment = whole(&memory);
        segment.handle ^= 0x5a5a_5a5a;
        let message = write_call(&mut peer, segment);
        peer.send(&message)?;
        peer.wait_sent()?;
        Ok(Remains::Peer(Box::new(peer), Some(memory)))
    }

    fn write_chunk(&self, turn: usize) -> Result<Remains> {
        self.read_file(turn, |message, segment| {
            message.writes = vec![vec![segment]];
        })
    }

    fn reply_chunk(&self, turn: usize) -> Result<Remains> {
        self.read_file(turn, |message, segment| {
            message.reply = Some(vec![segment]);
        })
    }

    /// Has the server read the file into memory that goes away; `offer` says how it gets there.
    fn read_file(&self, turn: usize, offer: fn(&mut Message, Segment)) -> Result<Remains> {
        let file = self.file.as_deref().ok_or_else(|| missing("file"))?;
        let mut peer = self.peer()?;
        let mut memory = peer.region(CHUNK)?;
        let xid = peer.xid();
        let mut message = Message::inline(xid, rpc::read(xid, file, READ));
        offer(&mut message, whole(&memory));
        peer.send(&message)?;
        take_away(&mut memory, turn);
        Ok(Remains::Peer(Box::new(peer), Some(memory)))
    }

    fn no_receive_calls(&self) -> Result<Remains> {
        let manners = Manners {
            sends: UNREAD,
            ..no_receives()
        };
        let mut peer = Peer::connect(&self.target, manners)?;
        unread_calls(&mut peer)?;
        Ok(alone(peer))
    }

    fn no_receive_errors(&self) -> Result<Remains> {
        let mut peer = Peer::connect(&self.target, no_receives())?;
        for _ in 0..ERRORS {
            let xid = peer.xid();
            let mut message = Message::inline(xid, rpc::null(xid));
            message.procedure = 5;
            if !unread(&mut peer, &message)? || !peer.wait_sent()? {
                break;
            }
        }
        Ok(alone(peer))
    }

    fn no_receive_reads(&self) -> Result<Remains> {
        let file = self.file.as_deref().ok_or_else(|| missing("file"))?;
        let manners = Manners {
            sends: READS,
            ..no_receives()
        };
        let mut peer = Peer::connect(&self.target, manners)?;
        let memory = peer.region(LARGE_READ as usize)?;
        for _ in 0..self.calls {
            let xid = peer.xid();
            let mut message = Message::inline(xid, rpc::read(xid, file, LARGE_READ));
            message.writes = vec![vec![whole(&memory)]];
            // More than it has credits: the last may find no Receive.
            if !unread(&mut peer, &message)? {
                break;
            }
        }
        Ok(Remains::Peer(Box::new(peer), Some(memory)))
    }

    fn long_send(&self) -> Result<Remains> {
        let mut peer = self.peer()?;
        let xid = peer.xid();
        let mut body = rpc::null(xid);
        // As long as the threshold allows; NULL ignores what follows.
        body.resize(4096 - 28, 0);
        peer.send(&Message::inline(xid, body))?;
        Ok(alone(peer))
    }

    /// Sends one Call after the other, and waits for their arrival if that is to be `seen`. The data
    /// of each has to be read, so the first are not answered before the last are there.
    fn overrun(&self, seen: bool) -> Result<Remains> {
        let manners = Manners {
            receives: CALLS,
            ..Manners::default()
        };
        let mut peer = Peer::connect(&self.target, manners)?;
        let memory = peer.region(CHUNK)?;
        for _ in 0..CALLS {
            let message = write_call(&mut peer, whole(&memory));
            peer.send(&message)?;
        }
        if seen {
            let mut arrived = 0;
            while arrived < CALLS && peer.wait_sent()? {
                arrived += 1;
            }
        }
        Ok(Remains::Peer(Box::new(peer), Some(memory)))
    }

    fn immediate(&self) -> Result<Remains> {
        let mut peer = self.peer()?;
        peer.null()?;
        peer.send_immediate()?;
        Ok(alone(peer))
    }

    fn greedy(&self) -> Result<Remains> {
        let manners = Manners {
            sends: UNREAD,
            ..Manners::default()
        };
        let mut peer = Peer::connect(&self.target, manners)?;
        peer.null()?;
        println!("ready");
        let mut line = String::new();
        let read = io::stdin().read_line(&mut line);
        read.map_err(|error| Error::os("standard input", error))?;
        unread_calls(&mut peer)?;
        Ok(alone(peer))
    }

    /// RDMA_DONE, which was for replies that clients read.
    fn unasked(&self) -> Result<Remains> {
        let mut peer = self.peer()?;
        peer.null()?;
        for _ in 0..UNASKED {
            let mut message = Message::inline(peer.xid(), Vec::new());
            message.procedure = 3;
            if !unread(&mut peer, &message)? || !peer.wait_sent()? {
                break;
            }
        }
        Ok(alone(peer))
    }

    fn invalidation(&self) -> Result<Remains> {
        let key = self.key.ok_or_else(|| missing("key"))?;
        let mut peer = self.peer()?;
        peer.null()?;
        let xid = peer.xid();
        peer.send_invalidating(&Message::inline(xid, rpc::null(xid)), key)?;
        peer.wait_sent()?;
        Ok(alone(peer))
    }
}

/// A client that posts no Receive, so that no reply arrives.
fn no_receives() -> Manners {
    Manners {
        receives: 0,
        ..Manners::default()
    }
}

/// Sends what finds no Receive for its reply. On iWARP that may have ended the connection: false.
fn unread(peer: &mut Peer, message: &Message) -> Result<bool> {
    match peer.send(message) {
        Ok(()) => Ok(true),
        Err(error) => peer.event().map(|_| false).map_err(|_| error),
    }
}

/// Makes [`UNREAD`] Calls, as [`unread`].
fn unread_calls(peer: &mut Peer) -> Result<()> {
    for _ in 0..UNREAD {
        let xid = peer.xid();
        if !unread(peer, &Message::inline(xid, rpc::null(xid)))? {
            break;
        }
    }
    Ok(())
}

/// A peer without memory for chunks.
fn alone(peer: Peer) -> Remains {
    Remains::Peer(Box::new(peer), None)
}

/// Describes all of `memory`.
pub(crate) fn whole(memory: &Region) -> Segment {
    Segment {
        handle: memory.rkey(),
        length: memory.len() as u32,
        offset: memory.address(),
    }
}

/// A WRITE whose data is `segment`.
pub(crate) fn write_call(peer: &mut Peer, segment: Segment) -> Message {
    let xid = peer.xid();
    let call = rpc::write(xid, segment.length);
    let mut message = Message::inline(xid, call.inline);
    message.reads = vec![ReadSegment {
        position: call.position,
        segment,
    }];
    message
}

/// Ends the registration of `memory` after a while: the server has not begun with it, or is in the
/// middle of it, or has finished.
fn take_away(memory: &mut Region, turn: usize) {
    thread::sleep(Duration::from_millis(turn as u64 % 8));
    memory.revoke();
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_understood() {
        for &stage in Stage::ALL.iter().chain(Stage::ODD) {
            assert_eq!(stage.name().parse(), Ok(stage));
        }
        assert_eq!("nowhere".parse::<Stage>(), Err(()));
    }
}
