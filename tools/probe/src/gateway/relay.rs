// SPDX-License-Identifier: GPL-2.0

//! The relay of one TCP client: its TCP connection and its RDMA connection.
//!
//! One thread waits for both. It reads Calls from the client while there is room for them, so that
//! TCP slows a client that makes more Calls than the server grants.

use super::{
    quiet::Quiet,
    record::{self, Bad, Direction, Reader, Record},
    slots::{Sizes, Slots},
    tell,
};
use crate::{
    callback,
    error::{Error, Result},
    grant::Window,
    message::{Answer, Message, Reply},
    peer::{Incoming, Params, Peer},
    target::Target,
    xdr::Xdr,
};
use std::{
    collections::{HashSet, VecDeque},
    io::{Read, Write},
    net::{SocketAddr, TcpStream},
    os::fd::AsFd,
    time::{Duration, Instant}, //
};
use svcrdma_proto::cm;

/// The credits for Calls of the server (RFC 8167, section 4.1).
const REVERSE: u32 = 16;

/// The bytes of Calls that wait for credits, beyond which no more are read. The replies to the
/// server's Calls are behind them, and the server may wait for these.
const BACKLOG: usize = 16 << 20;

/// The bytes to read at a time.
const PIECE: usize = 64 << 10;

/// The time after which a client that takes no data is disconnected.
const PATIENCE: Duration = Duration::from_secs(60);

/// The longest wait, after which the relay waits again.
const TURN: Duration = Duration::from_secs(60);

/// SYSTEM_ERR, an `accept_stat` (RFC 5531, section 9).
const SYSTEM_ERR: u32 = 5;

/// The limits of a relay.
#[derive(Clone, Copy, Debug)]
pub(super) struct Limits {
    /// Calls in flight.
    pub(super) depth: u32,
    /// Bytes of the largest RPC message.
    pub(super) largest: u32,
    /// The longest time for which a client may be idle.
    pub(super) idle: Duration,
}

/// A TCP client and its RDMA connection.
pub(super) struct Relay {
    tcp: TcpStream,
    client: SocketAddr,
    reader: Reader,
    piece: Vec<u8>,
    /// True if the client sends no more.
    is_ended: bool,
    quiet: Quiet,
    /// Calls that wait for credits, and the bytes of them.
    waiting: VecDeque<Record>,
    backlog: usize,
    slots: Slots,
    window: Window,
    /// Calls of the server that the client has not answered.
    reverse: HashSet<u32>,
    limits: Limits,
    sizes: Sizes,
    peer: Peer,
}

impl Relay {
    /// Connects to the server for a client.
    pub(super) fn new(
        tcp: TcpStream,
        client: SocketAddr,
        target: &Target,
        limits: Limits,
    ) -> Result<Self> {
        let failed = |error| Error::os("TCP connection", error);
        tcp.set_nodelay(true).map_err(failed)?;
        tcp.set_write_timeout(Some(PATIENCE)).map_err(failed)?;
        let messages = limits.depth + REVERSE;
        let params = Params {
            receives: messages,
            sends: messages,
            ..Params::default()
        };
        let peer = Peer::connect(target, params)?;
        let threshold = cm::Peer::parse(peer.private_data()).receive.min(4096);
        Ok(Self {
            tcp,
            client,
            reader: Reader::new(limits.largest as usize),
            piece: vec![0; PIECE],
            is_ended: false,
            quiet: Quiet::new(limits.idle, Instant::now()),
            waiting: VecDeque::new(),
            backlog: 0,
            slots: Slots::default(),
            // A client has one credit until the server grants more.
            window: Window::new(1, limits.depth, 1),
            reverse: HashSet::new(),
            limits,
            sizes: Sizes {
                threshold: threshold as usize,
                largest: limits.largest as usize,
            },
            peer,
        })
    }

    /// Relays messages until the client has ended its connection and all Calls are answered, the
    /// client is idle for too long, or something is wrong. Ends the RDMA connection.
    pub(super) fn run(&mut self) -> Result {
        let relayed = self.relay();
        // An error means that the connection has ended already.
        let _ = self.peer.disconnect();
        relayed
    }

    fn relay(&mut self) -> Result {
        loop {
            self.send_waiting()?;
            if self.is_ended && !self.has_calls() {
                return Ok(());
            }
            let turn = self.turn()?;
            let tcp = self.wants_more().then(|| self.tcp.as_fd());
            match self.peer.receive_or(turn, tcp)? {
                None => self.read()?,
                Some(Incoming::Answer(answer)) => self.answer(answer)?,
                Some(Incoming::Closed) => {
                    return Err(Error::new("the RDMA connection has ended"));
                }
                Some(Incoming::Silence) => (),
            }
        }
    }

    /// Returns true if a Call of the client has no Reply yet.
    fn has_calls(&self) -> bool {
        !self.waiting.is_empty() || self.slots.in_flight() > 0
    }

    /// Returns how long to wait for a message of either side, or an error if the client has been idle
    /// for too long. A client that waits for a Reply is not idle.
    fn turn(&self) -> Result<Duration> {
        let left = self.quiet.left(Instant::now());
        match (self.has_calls(), left) {
            (true, _) => Ok(TURN),
            (false, Duration::ZERO) => {
                let limit = self.quiet.limit().as_secs();
                Err(Error::new(format!("idle for {limit} s")))
            }
            (false, left) => Ok(left.min(TURN)),
        }
    }

    /// Returns true if more of the client's data can be kept.
    fn wants_more(&self) -> bool {
        !self.is_ended && self.backlog < BACKLOG
    }

    /// Reads what has arrived from the client. It does not block, as the connection is readable.
    fn read(&mut self) -> Result {
        let read = self.tcp.read(&mut self.piece);
        let len = read.map_err(|error| Error::os("TCP connection", error))?;
        self.quiet.end(Instant::now());
        if len == 0 {
            self.is_ended = true;
            return self.reader.end().map_err(bad);
        }
        let piece = std::mem::take(&mut self.piece);
        let taken = self.take(&piece[..len]);
        self.piece = piece;
        taken
    }

    /// Takes the records of `bytes`.
    fn take(&mut self, mut bytes: &[u8]) -> Result {
        while let Some(record) = self.reader.take(&mut bytes).map_err(bad)? {
            match record.direction {
                Direction::Call => {
                    self.backlog += record.message.len();
                    self.waiting.push_back(record);
                }
                Direction::Reply => self.send_reply(record)?,
            }
        }
        Ok(())
    }

    /// Sends the Calls for which there are credits.
    fn send_waiting(&mut self) -> Result {
        while let Some(call) = self.waiting.pop_front() {
            // The reply to a Call in flight answers its retransmission, too.
            let is_repeated = self.slots.has(call.xid);
            if !is_repeated && !self.window.take() {
                self.waiting.push_front(call);
                break;
            }
            self.backlog -= call.message.len();
            if is_repeated {
                continue;
            }
            let mut message = self
                .slots
                .message(&self.peer, call.xid, call.message, self.sizes)?;
            message.credits = self.limits.depth;
            self.peer.send(&message)?;
        }
        Ok(())
    }

    /// Sends the client's reply to a Call of the server.
    fn send_reply(&mut self, reply: Record) -> Result {
        if !self.reverse.remove(&reply.xid) {
            let xid = reply.xid;
            return Err(Error::new(format!(
                "bad record: a Reply to {xid:#x}, which is no Call"
            )));
        }
        let mut message = Message::inline(reply.xid, reply.message);
        message.credits = REVERSE;
        let len = message.encode().len();
        if len > self.sizes.threshold {
            return Err(Error::new(format!(
                "bad record: a Reply to the server takes {len} bytes, but no more than {} are possible",
                self.sizes.threshold
            )));
        }
        self.peer.send(&message)
    }

    /// Relays a message of the server.
    fn answer(&mut self, answer: Answer) -> Result {
        match answer {
            Answer::Reply(call) if callback::is_call(&call.body) => {
                self.reverse.insert(call.xid);
                self.write(&call.body)
            }
            Answer::Reply(reply) => self.relay_reply(reply),
            Answer::ErrChunk { xid, credits } => {
                self.window.answered(Some(credits));
                self.slots.give_up(xid)?;
                self.quiet.end(Instant::now());
                tell(
                    self.client,
                    format_args!("Call {xid:#x} is too long, or its Reply is"),
                );
                self.write(&system_error(xid))
            }
            other => Err(Error::new(format!("the server has sent {other:?}"))),
        }
    }

    /// Relays the reply to a Call of the client.
    fn relay_reply(&mut self, reply: Reply) -> Result {
        self.window.answered(Some(reply.credits));
        let message = self.slots.take_reply(reply)?;
        self.quiet.end(Instant::now());
        self.write(&message)
    }

    /// Writes a message to the client.
    fn write(&mut self, message: &[u8]) -> Result {
        let record = record::encode(message);
        let record = record.ok_or_else(|| Error::new("the server has sent a message of 2 GiB"))?;
        let written = self.tcp.write_all(&record);
        written.map_err(|error| Error::os("TCP connection", error))
    }
}

/// Returns the error for a bad record.
fn bad(reason: Bad) -> Error {
    Error::new(reason.to_string())
}

/// Builds the reply to a Call that the transport cannot carry (RFC 5531, section 9).
fn system_error(xid: u32) -> Vec<u8> {
    // REPLY, MSG_ACCEPTED, no verifier.
    let reply = Xdr::new().words(&[xid, 1, 0, 0, 0, SYSTEM_ERR]);
    reply.into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ffi::Fake, rpc};
    use std::net::TcpListener;

    /// Relays for a client that may be idle for so long, and that sends `sent` and stays or goes.
    fn relayed(idle: Duration, sent: &[u8], stays: bool) -> Result {
        let _fake = Fake::new();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        client.write_all(sent).unwrap();
        let _client = stays.then_some(client);
        let (stream, address) = listener.accept().unwrap();
        let limits = Limits {
            depth: 1,
            largest: 4096,
            idle,
        };
        let target = Target::new(Fake::addresses().to, None);
        Relay::new(stream, address, &target, limits)?.run()
    }

    #[test]
    fn idle_clients_are_disconnected() {
        let text = |result: Result| result.map_err(|error| error.to_string());
        let idle = Err("idle for 0 s".to_owned());
        assert_eq!(text(relayed(Duration::ZERO, &[], true)), idle);
        assert_eq!(text(relayed(PATIENCE, &[], false)), Ok(()));
        let cut = Err("bad record: the stream has ended within it".to_owned());
        assert_eq!(text(relayed(PATIENCE, &[0x80], false)), cut);
    }

    #[test]
    fn a_call_that_cannot_be_carried_has_a_reply() {
        let reply = system_error(7);
        let status = rpc::accepted(7, &reply).map(|(status, _)| status);
        assert_eq!(status, Some(SYSTEM_ERR));
    }
}
