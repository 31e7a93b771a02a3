// SPDX-License-Identifier: GPL-2.0

//! Takes peers to a [`Stage`], where they stop or disappear.

use crate::{
    compound,
    error::{Error, Result},
    ffi::{Endpoint, Event, Region, Wakeup},
    grant,
    message::Message,
    params,
    peer::{self, Params, Peer, PATIENCE},
    rpc,
    stage::Stage,
    target::Target, //
};
use std::{
    thread,
    time::Duration, //
};
use svcrdma_proto::chunk::{ReadSegment, Segment};

/// The size of the chunks that the server is processing when the peer stops, in bytes.
const CHUNK: usize = 256 << 10;

/// The number of bytes that the server reads into a Write chunk or Reply chunk.
const READ: u32 = 128 << 10;

/// The default number of READs of a peer that posts no Receives, which is what servers grant at least,
/// and the size of each in bytes.
pub(crate) const READS: u32 = 8;
const LARGE_READ: u32 = 1 << 20;

/// The number of Calls of a peer that posts no Receives, if it has as many credits. A busy client of a
/// Linux server has no more in flight.
const UNREAD: u32 = 100;

/// The number of Calls that a peer makes to get many credits, before it stops to post Receives.
const FIRST: u32 = 256;

/// The number of messages of a peer that posts no Receives for the error answers: what servers grant at
/// least.
const ERRORS: u32 = 8;

/// The number of Calls of a peer that exceeds its credits: at least twice what Linux servers grant
/// by default.
const CALLS: u32 = 256;

/// The number of messages of a peer that sends what the server does not expect: more than the
/// kernel module tolerates.
const UNASKED: u32 = 1100;

/// The resources of a peer when it has reached its stage.
pub(crate) enum Remains {
    /// A connection that is not established.
    Half(Endpoint),
    /// A connection, and the memory that its chunks are in.
    Peer(Box<Peer>, Option<Region>),
}

impl Remains {
    /// Disconnects.
    pub(crate) fn disconnect(self) -> Result<()> {
        match self {
            // The connection is not established; on drop the CM rejects it.
            Self::Half(_) => Ok(()),
            Self::Peer(peer, _memory) => peer.disconnect(),
        }
    }

    /// Stops answering: destroys the queue pair and releases the memory without a disconnect.
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

/// The parameters of the peers that go to a stage.
#[derive(Clone)]
pub(crate) struct Scenario {
    pub(crate) target: Target,
    /// The path of a file to read, below the root of NFS version 4.
    pub(crate) file: Option<String>,
    /// The key of a memory registration of the server.
    pub(crate) key: Option<u32>,
    /// The number of READs of a peer that posts no Receives.
    pub(crate) calls: u32,
}

impl Scenario {
    /// Takes a peer to `stage`. `turn` varies the time after which memory is revoked.
    pub(crate) fn reach(&self, stage: Stage, turn: usize) -> Result<Remains> {
        match stage {
            Stage::Request => self.request(),
            Stage::Response => self.response(),
            Stage::Established => self.peer().map(alone),
            Stage::Call => self.call(Params::default()),
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
            Stage::Unasked => self.unasked(),
            Stage::Invalidation => self.invalidation(),
        }
    }

    /// Connects with the parameters of the Linux client.
    fn peer(&self) -> Result<Peer> {
        Peer::connect(&self.target, Params::default())
    }

    fn request(&self) -> Result<Remains> {
        Peer::request(&self.target, Params::default()).map(alone)
    }

    fn response(&self) -> Result<Remains> {
        peer::with_free_port(|| self.response_once())
    }

    fn response_once(&self) -> Result<Remains> {
        let endpoint = Endpoint::open_half(self.target.addresses, PATIENCE)?;
        endpoint.connect(&params::offer(&Params::default()))?;
        match endpoint.wait(PATIENCE)? {
            // On iWARP the connection is established without an acknowledgement.
            Wakeup::Event(Event::Response(_) | Event::Established(_)) => {
                Ok(Remains::Half(endpoint))
            }
            other => Err(Error::new(format!("cannot connect: {other:?}"))),
        }
    }

    fn call(&self, params: Params) -> Result<Remains> {
        let mut peer = Peer::connect(&self.target, params)?;
        let xid = peer.xid();
        peer.send(&Message::inline(xid, peer.null_rpc(xid)))?;
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
        take_away(&mut memory, turn)?;
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

    /// Makes a READ of the file into memory that is revoked meanwhile. `offer` adds the memory to
    /// the message as a chunk.
    fn read_file(&self, turn: usize, offer: fn(&mut Message, Segment)) -> Result<Remains> {
        let file = self.file.as_deref().ok_or_else(|| Error::missing("file"))?;
        let mut peer = self.peer()?;
        let mut memory = peer.region(CHUNK)?;
        let xid = peer.xid();
        let mut message = Message::inline(xid, compound::read(xid, file, READ));
        offer(&mut message, whole(&memory));
        peer.send(&message)?;
        take_away(&mut memory, turn)?;
        Ok(Remains::Peer(Box::new(peer), Some(memory)))
    }

    fn no_receive_calls(&self) -> Result<Remains> {
        let (mut peer, granted) = self.no_more_receives(FIRST)?;
        unread_calls(&mut peer, granted.min(UNREAD))?;
        Ok(alone(peer))
    }

    /// Connects, and makes `calls` Calls, each of which uses up a Receive. Returns a peer that nfsd
    /// has validated and that has no Receive left, and the credits that it was granted.
    fn no_more_receives(&self, calls: u32) -> Result<(Peer, u32)> {
        let params = Params {
            receives: calls,
            reposts: false,
            ..Params::default()
        };
        let mut peer = Peer::connect(&self.target, params)?;
        peer.getattr()?;
        let granted = grant::raise(&mut peer, calls - 2)?;
        Ok((peer, granted))
    }

    fn no_receive_errors(&self) -> Result<Remains> {
        let mut peer = Peer::connect(&self.target, no_receives())?;
        for _ in 0..ERRORS {
            let xid = peer.xid();
            let mut message = Message::inline(xid, peer.null_rpc(xid));
            message.procedure = 5;
            if !unread(&mut peer, &message)? || !peer.wait_sent()? {
                break;
            }
        }
        Ok(alone(peer))
    }

    fn no_receive_reads(&self) -> Result<Remains> {
        let file = self.file.as_deref().ok_or_else(|| Error::missing("file"))?;
        let params = Params {
            sends: READS,
            ..no_receives()
        };
        let mut peer = Peer::connect(&self.target, params)?;
        let memory = peer.region(LARGE_READ as usize)?;
        for _ in 0..self.calls {
            let xid = peer.xid();
            let mut message = Message::inline(xid, compound::read(xid, file, LARGE_READ));
            message.writes = vec![vec![whole(&memory)]];
            // The server closes the connection if these are more Calls than credits.
            if !unread(&mut peer, &message)? {
                break;
            }
        }
        Ok(Remains::Peer(Box::new(peer), Some(memory)))
    }

    fn long_send(&self) -> Result<Remains> {
        let mut peer = self.peer()?;
        let xid = peer.xid();
        let mut body = peer.null_rpc(xid);
        // As long as the inline threshold allows; NULL ignores what follows.
        body.resize(4096 - 28, 0);
        peer.send(&Message::inline(xid, body))?;
        Ok(alone(peer))
    }

    /// Sends more Calls than the server grants; with `seen`, waits until they have arrived. The
    /// data of each must be read, so none is answered before the last has arrived. On iWARP a message
    /// without a Receive ends the connection, which may come before all Calls are posted.
    fn overrun(&self, seen: bool) -> Result<Remains> {
        let params = Params {
            receives: CALLS,
            ..Params::default()
        };
        let mut peer = Peer::connect(&self.target, params)?;
        let memory = peer.region(CHUNK)?;
        for _ in 0..CALLS {
            let message = write_call(&mut peer, whole(&memory));
            match peer.send(&message) {
                Err(error) if error.is_not_connected() => break,
                sent => sent?,
            }
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

    /// Sends RDMA_DONE messages, which servers ignore (RFC 8166, section 4.6.2).
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
        let key = self.key.ok_or_else(|| Error::missing("key"))?;
        let mut peer = self.peer()?;
        peer.null()?;
        let xid = peer.xid();
        peer.send_invalidating(&Message::inline(xid, peer.null_rpc(xid)), key)?;
        peer.wait_sent()?;
        Ok(alone(peer))
    }
}

/// Returns the parameters of a client that posts no Receive, so that no reply arrives.
fn no_receives() -> Params {
    Params {
        receives: 0,
        ..Params::default()
    }
}

/// Sends a message for whose reply no Receive is posted. Returns false if the connection has ended,
/// which such a reply may cause on iWARP.
fn unread(peer: &mut Peer, message: &Message) -> Result<bool> {
    match peer.send(message) {
        Ok(()) => Ok(true),
        Err(error) => peer.event().map(|_| false).map_err(|_| error),
    }
}

/// Makes `calls` NULL Calls for whose replies no Receive is posted.
fn unread_calls(peer: &mut Peer, calls: u32) -> Result<()> {
    for _ in 0..calls {
        let xid = peer.xid();
        if !unread(peer, &Message::inline(xid, peer.null_rpc(xid)))? {
            break;
        }
    }
    Ok(())
}

/// Returns a peer that holds no memory for chunks.
fn alone(peer: Peer) -> Remains {
    Remains::Peer(Box::new(peer), None)
}

/// Returns a segment that covers all of `memory`.
pub(crate) fn whole(memory: &Region) -> Segment {
    Segment {
        handle: memory.rkey(),
        length: memory.len() as u32,
        offset: memory.address(),
    }
}

/// Builds a WRITE whose data is `segment`.
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

/// Revokes `memory` after `turn` milliseconds, modulo 8: before, during or after the server's
/// access.
fn take_away(memory: &mut Region, turn: usize) -> Result<()> {
    thread::sleep(Duration::from_millis(turn as u64 % 8));
    memory.revoke()
}
