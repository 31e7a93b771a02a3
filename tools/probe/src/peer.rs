// SPDX-License-Identifier: GPL-2.0

//! A client with one connection, which sends messages and receives answers.

use crate::{
    compound,
    error::{Error, Result},
    ffi::{Completion, Endpoint, Event, Rdma, Region, Remote, Wakeup, Window},
    message::{Answer, Message},
    params::offer,
    rpc,
    target::Target,
    xids::OwnXids, //
};
use std::{
    collections::VecDeque,
    io::ErrorKind,
    os::fd::BorrowedFd,
    thread,
    time::{Duration, Instant}, //
};

pub(crate) use crate::params::Params;

/// The timeout of every wait for the server. Only a hung server makes the probe wait this long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// The maximum of local ports to try.
const PORTS: u32 = 8;

/// The length of the longest message that a peer can send, in bytes.
pub(crate) const LONGEST: usize = 8192;

/// The work request ID of Sends. The ID of a Receive is its slot.
const SEND: u64 = u64::MAX;

/// The work request ID of RDMA operations.
const RDMA: u64 = SEND - 1;

/// Calls `f`, which connects, until the CM has chosen a free local port. On iWARP the ports are
/// TCP's, which keeps used ports for a while.
pub(crate) fn with_free_port<T>(f: impl Fn() -> Result<T>) -> Result<T> {
    for _ in 1..PORTS {
        match f() {
            Err(error) if error.is_in_use() => (),
            result => return result,
        }
    }
    f()
}

/// The result of a wait for the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// A message.
    Answer(Answer),
    /// The connection has ended.
    Closed,
    /// Nothing has arrived in time.
    Silence,
}

/// A client's connection to the server.
pub(crate) struct Peer {
    inbox: Region,
    outbox: Region,
    endpoint: Endpoint,
    params: Params,
    private_data: Vec<u8>,
    xids: OwnXids,
    /// The NFS version of NULL Calls.
    null_version: u32,
    next_slot: usize,
    /// The number of Sends in flight.
    sending: usize,
    /// Completions and events that arrived during a wait for a Send.
    kept: VecDeque<Wakeup>,
    /// True if the connection manager has reported the end of the connection.
    is_disconnected: bool,
}

impl Peer {
    /// Connects to the server.
    pub(crate) fn connect(to: &Target, params: Params) -> Result<Self> {
        let mut peer = Self::request(to, params)?;
        peer.private_data = match peer.event()? {
            Event::Established(data) => data,
            event => return Err(Error::new(format!("cannot connect: {event:?}"))),
        };
        thread::sleep(to.pause);
        Ok(peer)
    }

    /// Sends a connection request without waiting for the answer.
    pub(crate) fn request(to: &Target, params: Params) -> Result<Self> {
        with_free_port(|| Self::request_once(to, params.clone()))
    }

    fn request_once(to: &Target, params: Params) -> Result<Self> {
        let depth = params.receives.max(params.sends);
        let endpoint = Endpoint::open(to.addresses, params.ack_timeout, depth, PATIENCE)?;
        let size = params.receive_size * depth as usize;
        let peer = Self {
            inbox: endpoint.region(size)?,
            outbox: endpoint.region(depth as usize * LONGEST)?,
            endpoint,
            params,
            private_data: Vec::new(),
            xids: to.xids.own(),
            null_version: to.null_version,
            next_slot: 0,
            sending: 0,
            kept: VecDeque::new(),
            is_disconnected: false,
        };
        for slot in 0..peer.params.receives {
            peer.post_receive(u64::from(slot))?;
        }
        peer.endpoint.connect(&offer(&peer.params))?;
        Ok(peer)
    }

    /// Waits for the next event of the connection and discards completions.
    pub(crate) fn event(&mut self) -> Result<Event> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.wait(deadline)? {
                Wakeup::Event(event) => return Ok(event),
                Wakeup::Timeout => return Err(Error::new("the connection had no event in time")),
                Wakeup::Completion(_) => (),
            }
        }
    }

    /// Waits until the connection manager reports the end of the connection, and discards
    /// completions and messages. Returns an error after `timeout`.
    pub(crate) fn wait_disconnected(&mut self, timeout: Duration) -> Result<()> {
        let deadline = Instant::now() + timeout;
        while !self.is_disconnected {
            if matches!(self.wait(deadline)?, Wakeup::Timeout) {
                return Err(Error::new("the server does not disconnect"));
            }
        }
        Ok(())
    }

    /// Waits until `deadline` for the next completion or event.
    fn wait(&mut self, deadline: Instant) -> Result<Wakeup> {
        match self.kept.pop_front() {
            Some(kept) => Ok(kept),
            None => self.wait_for_more(deadline),
        }
    }

    /// Waits until `deadline` for a new completion or event.
    fn wait_for_more(&mut self, deadline: Instant) -> Result<Wakeup> {
        let wakeup = self.wait_for_more_or(deadline, None)?;
        Ok(wakeup.unwrap_or(Wakeup::Timeout))
    }

    /// Waits like [`Self::wait_for_more`], or until `other` is readable. Returns `None` if only that
    /// is.
    fn wait_for_more_or(
        &mut self,
        deadline: Instant,
        other: Option<BorrowedFd<'_>>,
    ) -> Result<Option<Wakeup>> {
        let left = deadline.saturating_duration_since(Instant::now());
        let wakeup = self.endpoint.wait_or(left, other)?;
        if matches!(
            wakeup,
            Some(Wakeup::Completion(Completion { id: SEND, .. }))
        ) {
            // siw has been seen to report one more completion than there were Sends.
            self.sending = self.sending.saturating_sub(1);
        }
        self.is_disconnected |= matches!(wakeup, Some(Wakeup::Event(Event::Disconnected)));
        Ok(wakeup)
    }

    /// Returns the private data of the server.
    pub(crate) fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    /// Returns a new XID.
    pub(crate) fn xid(&self) -> u32 {
        self.xids.take()
    }

    /// Allocates memory that the server may read and write.
    pub(crate) fn region(&self, len: usize) -> Result<Region> {
        self.endpoint.region(len)
    }

    /// Allocates memory with a handle that the server may invalidate, if the device supports memory
    /// windows. Drop the window before the peer: rxe waits forever for a window that is still bound
    /// to the queue pair.
    pub(crate) fn window(&mut self, len: usize) -> Result<Option<Window>> {
        let Some(window) = self.endpoint.window(SEND, len)? else {
            return Ok(None);
        };
        self.sending += 1;
        if self.wait_sent()? {
            Ok(Some(window))
        } else {
            Err(Error::unavailable("a memory window cannot be bound"))
        }
    }

    /// Posts the Receive of `slot`.
    fn post_receive(&self, slot: u64) -> Result<()> {
        let size = self.params.receive_size;
        self.endpoint
            .post_receive(slot, &self.inbox, slot as usize * size, size)
    }

    /// Waits for room in the send queue. An answer may arrive before the completion of its Send.
    fn wait_for_slot(&mut self, slots: usize) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.sending >= slots {
            match self.wait_for_more(deadline)? {
                Wakeup::Timeout => return Err(Error::new("a Send never completed")),
                wakeup => self.kept.push_back(wakeup),
            }
        }
        Ok(())
    }

    /// Sends bytes unchanged, once the send queue has room.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.post_bytes(bytes, None)
    }

    fn post_bytes(&mut self, bytes: &[u8], key: Option<u32>) -> Result<()> {
        let slots = self.outbox.len() / LONGEST;
        if bytes.len() > LONGEST {
            return Err(Error::unavailable(format!(
                "messages have at most {LONGEST} bytes"
            )));
        }
        self.wait_for_slot(slots)?;
        let offset = self.next_slot % slots * LONGEST;
        self.next_slot += 1;
        self.outbox.write(offset, bytes)?;
        let posted = self
            .endpoint
            .post_send(SEND, &self.outbox, offset, bytes.len(), key);
        posted.map_err(|error| self.send_error(error))?;
        self.sending += 1;
        Ok(())
    }

    /// Returns the error of a Send that cannot be posted. Drivers have different errors for a connection
    /// that has ended, which is no error of this side.
    fn send_error(&mut self, error: Error) -> Error {
        loop {
            match self.wait_for_more(Instant::now()) {
                Ok(Wakeup::Timeout) | Err(_) => break,
                Ok(wakeup) => self.kept.push_back(wakeup),
            }
        }
        let has_ended = self.kept.iter().any(|wakeup| match wakeup {
            Wakeup::Completion(done) => done.status != 0,
            Wakeup::Event(_) => true,
            Wakeup::Timeout => false,
        });
        if has_ended {
            Error::os("ibv_post_send", ErrorKind::NotConnected.into())
        } else {
            error
        }
    }

    /// Sends bytes unchanged, and invalidates the server's memory registration with this key.
    pub(crate) fn send_bytes_invalidating(&mut self, bytes: &[u8], key: u32) -> Result<()> {
        self.post_bytes(bytes, Some(key))
    }

    /// Sends a message that invalidates the server's memory registration with this key.
    pub(crate) fn send_invalidating(&mut self, message: &Message, key: u32) -> Result<()> {
        self.post_bytes(&message.encode(), Some(key))
    }

    /// Posts an RDMA operation between `remote` and the `len` bytes at `offset` of `region`, and waits
    /// for its completion. Returns false if it has failed or the connection has ended.
    pub(crate) fn rdma(
        &mut self,
        rdma: Rdma,
        region: &Region,
        offset: usize,
        len: usize,
        remote: Remote,
    ) -> Result<bool> {
        let posted = self
            .endpoint
            .post_rdma(RDMA, rdma, region, offset, len, remote);
        posted.map_err(|error| self.send_error(error))?;
        let deadline = Instant::now() + PATIENCE;
        let mut others = VecDeque::new();
        let is_done = loop {
            match self.wait(deadline)? {
                Wakeup::Completion(done) if done.id == RDMA => break done.status == 0,
                Wakeup::Event(_) => break false,
                Wakeup::Timeout => return Err(Error::new("an RDMA operation never completed")),
                other => others.push_back(other),
            }
        };
        others.append(&mut self.kept);
        self.kept = others;
        Ok(is_done)
    }

    /// Posts an RDMA Write of no bytes with immediate data and waits for its completion. Does
    /// nothing if the device does not support it.
    pub(crate) fn send_immediate(&mut self) -> Result<()> {
        self.wait_for_slot(1)?;
        if self.endpoint.post_immediate(SEND).is_ok() {
            self.sending += 1;
            self.wait_sent()?;
        }
        Ok(())
    }

    /// Sends a message, once the send queue has room.
    pub(crate) fn send(&mut self, message: &Message) -> Result<()> {
        self.send_bytes(&message.encode())
    }

    /// Waits for the completion of a Send, which means that it has arrived at the server. Returns
    /// false if the connection has ended instead.
    pub(crate) fn wait_sent(&mut self) -> Result<bool> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.wait(deadline)? {
                Wakeup::Completion(done) if done.id == SEND => return Ok(done.status == 0),
                Wakeup::Event(_) => return Ok(false),
                Wakeup::Completion(_) => (),
                Wakeup::Timeout => return Err(Error::new("a Send never completed")),
            }
        }
    }

    /// Waits for the next message or for the end of the connection.
    pub(crate) fn receive(&mut self, timeout: Duration) -> Result<Incoming> {
        let incoming = self.receive_or(timeout, None)?;
        Ok(incoming.unwrap_or(Incoming::Silence))
    }

    /// Waits like [`Self::receive`], or until `other` is readable. Returns `None` if only that is.
    pub(crate) fn receive_or(
        &mut self,
        timeout: Duration,
        other: Option<BorrowedFd<'_>>,
    ) -> Result<Option<Incoming>> {
        let deadline = Instant::now() + timeout;
        loop {
            let wakeup = match self.kept.pop_front() {
                Some(kept) => Some(kept),
                None => self.wait_for_more_or(deadline, other)?,
            };
            let incoming = match wakeup {
                None => return Ok(None),
                Some(Wakeup::Completion(done)) if done.status != 0 => Incoming::Closed,
                Some(Wakeup::Completion(Completion { id: SEND, .. })) => continue,
                Some(Wakeup::Completion(done)) => self.take(done)?,
                Some(Wakeup::Event(_)) => Incoming::Closed,
                Some(Wakeup::Timeout) => Incoming::Silence,
            };
            return Ok(Some(incoming));
        }
    }

    /// Takes the message of a completed Receive and posts the Receive again, unless the parameters say
    /// otherwise.
    fn take(&mut self, done: Completion) -> Result<Incoming> {
        let offset = done.id as usize * self.params.receive_size;
        let bytes = self.inbox.read(offset, done.len)?;
        let posted = if self.params.reposts {
            self.post_receive(done.id)
        } else {
            Ok(())
        };
        match posted {
            // siw refuses Receives once the server has closed; the next wait finds the end.
            Err(error) if error.is_not_connected() => (),
            posted => posted?,
        }
        Ok(Incoming::Answer(Answer::decode(&bytes)))
    }

    /// Sends `message` and returns its answer.
    pub(crate) fn exchange(&mut self, message: &Message) -> Result<Incoming> {
        self.send(message)?;
        self.answer_to(message.xid)
    }

    /// Waits for the answer to the message `xid`. Returns an error if the next message is another
    /// one.
    pub(crate) fn answer_to(&mut self, xid: u32) -> Result<Incoming> {
        let incoming = self.receive(PATIENCE)?;
        match &incoming {
            Incoming::Answer(answer) if answer.xid() != Some(xid) => {
                Err(Error::new(format!("no answer to {xid:#x} but {answer:?}")))
            }
            _ => Ok(incoming),
        }
    }

    /// Makes a NULL Call, which must succeed. Returns the granted credits.
    pub(crate) fn null(&mut self) -> Result<u32> {
        let xid = self.xid();
        self.call("NULL", xid, self.null_rpc(xid), None)
    }

    /// Makes a GETATTR of the root, which must succeed. It validates the peer, so nfsd keeps the
    /// connection. Returns the granted credits.
    pub(crate) fn getattr(&mut self) -> Result<u32> {
        let xid = self.xid();
        self.call("GETATTR", xid, compound::getattr(xid), Some(0))
    }

    /// Builds a NULL Call, of a version that the server supports.
    pub(crate) fn null_rpc(&self, xid: u32) -> Vec<u8> {
        rpc::null(self.null_version, xid)
    }

    /// Makes the Call `name`, whose results must begin with `first`. Returns the granted credits.
    fn call(&mut self, name: &str, xid: u32, body: Vec<u8>, first: Option<u32>) -> Result<u32> {
        match self.exchange(&Message::inline(xid, body))? {
            Incoming::Answer(Answer::Reply(reply))
                if rpc::outcome(xid, &reply.body) == rpc::Outcome::Success(first) =>
            {
                Ok(reply.credits)
            }
            other => Err(Error::new(format!("{name} was not answered: {other:?}"))),
        }
    }

    /// Starts an orderly disconnect.
    pub(crate) fn disconnect(&self) -> Result<()> {
        self.endpoint.disconnect()
    }

    /// Destroys the queue pair, after which nothing that the server sends is answered.
    pub(crate) fn destroy_qp(&mut self) {
        self.endpoint.destroy_qp();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{error::Outcome, ffi::Fake};

    /// Returns the outcome of a Send that the driver refuses, on a connection that has ended or not.
    fn refused(has_ended: bool) -> Outcome {
        let fake = Fake::new();
        let target = Target::new(Fake::addresses().to, None);
        let mut peer = Peer::connect(&target, Params::default()).unwrap();
        if has_ended {
            fake.disconnect();
        }
        fake.fail("post_send");
        let sent = peer.send_bytes(&[0; 4]);
        Outcome::of(&sent)
    }

    #[test]
    fn the_end_of_a_connection_is_waited_for() {
        let fake = Fake::new();
        let target = Target::new(Fake::addresses().to, None);
        let mut peer = Peer::connect(&target, Params::default()).unwrap();
        let early = peer.wait_disconnected(Duration::ZERO);
        assert!(early.is_err());
        fake.disconnect();
        assert!(matches!(peer.receive(PATIENCE), Ok(Incoming::Closed)));
        // The event has been taken before.
        assert!(peer.wait_disconnected(PATIENCE).is_ok());
    }

    #[test]
    fn a_send_fails_because_of_the_server_if_the_connection_has_ended() {
        assert_eq!(refused(true), Outcome::Finding);
        assert_eq!(refused(false), Outcome::Untested);
    }
}
