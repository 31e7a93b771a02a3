// SPDX-License-Identifier: GPL-2.0

//! A client of one connection: sends messages, gets answers.

use crate::{
    error::{Error, Result},
    ffi::{Completion, Endpoint, Event, Offer, Region, Wakeup, Window},
    message::{Answer, Message},
    rpc,
};
use std::{
    collections::VecDeque,
    hash::{BuildHasher, Hasher, RandomState},
    net::{IpAddr, SocketAddr},
    sync::{
        atomic::{AtomicU32, AtomicU64, Ordering},
        LazyLock,
    },
    thread,
    time::{Duration, Instant}, //
};
use svcrdma_proto::cm;

/// How long the server may take for anything. Only a server that hangs makes anybody wait so long.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Local ports that are tried at most.
const PORTS: u32 = 8;

/// The longest message that can be sent, in bytes.
pub(crate) const LONGEST: usize = 8192;

/// Milliseconds that a peer waits when it is connected, before it sends anything.
static PAUSE: AtomicU64 = AtomicU64::new(0);

/// The next XID. They begin anywhere and are those of all connections: a server may take the same Call
/// with the same XID for one that is sent again, and repeats its reply.
static NEXT_XID: LazyLock<AtomicU32> =
    LazyLock::new(|| AtomicU32::new(RandomState::new().build_hasher().finish() as u32));

/// Has all peers wait so many milliseconds when they are connected: some drivers do not see what
/// comes at once.
pub(crate) fn set_pause(milliseconds: u64) {
    PAUSE.store(milliseconds, Ordering::Relaxed);
}

/// The number that marks the completion of a Send; Receives carry their slot.
const SEND: u64 = u64::MAX;

/// What a peer says and does when it connects.
#[derive(Clone, Debug)]
pub(crate) struct Manners {
    /// Private data of the connection request.
    pub(crate) private_data: Vec<u8>,
    /// Size of a Receive in bytes.
    pub(crate) receive_size: usize,
    /// Receives posted.
    pub(crate) receives: u32,
    /// Sends that can be under way, at least; as many as Receives if these are more.
    pub(crate) sends: u32,
    /// RDMA Reads of the server's that may be under way at once.
    pub(crate) reads: u8,
    /// The address that it connects from; the one that the route gives if there is none.
    pub(crate) from: Option<IpAddr>,
}

impl Default for Manners {
    /// What the Linux client does.
    fn default() -> Self {
        Self {
            private_data: cm::private_data(4096, 4096, false).to_vec(),
            receive_size: 4096,
            receives: 16,
            sends: 1,
            reads: 16,
            from: None,
        }
    }
}

/// Connects by `f`, again while the CM chooses a local port that is taken: with iWARP ports are
/// TCP's, which keeps some for a while.
pub(crate) fn with_free_port<T>(f: impl Fn() -> Result<T>) -> Result<T> {
    for _ in 1..PORTS {
        match f() {
            Err(error) if error.is_in_use() => (),
            result => return result,
        }
    }
    f()
}

/// What came from the server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Incoming {
    /// A message.
    Answer(Answer),
    /// The connection is at its end.
    Closed,
    /// Nothing, in the time given.
    Silence,
}

/// One connection to the server.
pub(crate) struct Peer {
    inbox: Region,
    outbox: Region,
    endpoint: Endpoint,
    manners: Manners,
    private_data: Vec<u8>,
    next_slot: usize,
    /// Sends that have not completed.
    sending: usize,
    /// What came while a Send was waited for.
    kept: VecDeque<Wakeup>,
}

impl Peer {
    /// Connects.
    pub(crate) fn connect(to: &SocketAddr, manners: Manners) -> Result<Self> {
        let mut peer = Self::request(to, manners)?;
        peer.private_data = match peer.event()? {
            Event::Established(data) => data,
            event => return Err(Error::new(format!("cannot connect: {event:?}"))),
        };
        thread::sleep(Duration::from_millis(PAUSE.load(Ordering::Relaxed)));
        Ok(peer)
    }

    /// Sends a connection request and does not wait for the answer.
    pub(crate) fn request(to: &SocketAddr, manners: Manners) -> Result<Self> {
        with_free_port(|| Self::request_once(to, manners.clone()))
    }

    fn request_once(to: &SocketAddr, manners: Manners) -> Result<Self> {
        let depth = manners.receives.max(manners.sends);
        let endpoint = Endpoint::open(to, manners.from, depth, PATIENCE)?;
        let size = manners.receive_size * depth as usize;
        let peer = Self {
            inbox: endpoint.region(size)?,
            outbox: endpoint.region(depth as usize * LONGEST)?,
            endpoint,
            manners,
            private_data: Vec::new(),
            next_slot: 0,
            sending: 0,
            kept: VecDeque::new(),
        };
        for slot in 0..peer.manners.receives {
            peer.post_receive(u64::from(slot))?;
        }
        peer.endpoint.connect(&offer(&peer.manners))?;
        Ok(peer)
    }

    /// Waits for the next event of the connection; completions are passed over.
    pub(crate) fn event(&mut self) -> Result<Event> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.wait(deadline)? {
                Wakeup::Event(event) => return Ok(event),
                Wakeup::Timeout => return Err(Error::new("no event of the connection in time")),
                Wakeup::Completion(_) => (),
            }
        }
    }

    /// Waits until `deadline`.
    fn wait(&mut self, deadline: Instant) -> Result<Wakeup> {
        match self.kept.pop_front() {
            Some(kept) => Ok(kept),
            None => self.wait_for_more(deadline),
        }
    }

    /// Waits until `deadline` for what has not come yet.
    fn wait_for_more(&mut self, deadline: Instant) -> Result<Wakeup> {
        let left = deadline.saturating_duration_since(Instant::now());
        let wakeup = self.endpoint.wait(left)?;
        if matches!(wakeup, Wakeup::Completion(Completion { id: SEND, .. })) {
            // With siw there was one more than had been posted.
            self.sending = self.sending.saturating_sub(1);
        }
        Ok(wakeup)
    }

    /// Returns what the server said about itself.
    pub(crate) fn private_data(&self) -> &[u8] {
        &self.private_data
    }

    /// Returns a new XID.
    pub(crate) fn xid(&self) -> u32 {
        NEXT_XID.fetch_add(1, Ordering::Relaxed)
    }

    /// Allocates memory that the server may read and write.
    pub(crate) fn region(&self, len: usize) -> Result<Region> {
        let region = self.endpoint.region(len);
        // That says nothing about the server.
        region.map_err(|error| Error::lack(error.to_string()))
    }

    /// Allocates memory with a handle that the server may invalidate, if the device can. To be
    /// dropped first: while it is bound to the queue pair, rxe waits for it in vain.
    pub(crate) fn window(&mut self, len: usize) -> Result<Option<Window>> {
        let Some(window) = self.endpoint.window(SEND, len)? else {
            return Ok(None);
        };
        self.sending += 1;
        match self.wait_sent()? {
            true => Ok(Some(window)),
            false => Err(Error::new("a memory window cannot be bound")),
        }
    }

    /// Posts the Receive of `slot`.
    fn post_receive(&self, slot: u64) -> Result<()> {
        let size = self.manners.receive_size;
        self.endpoint
            .post_receive(slot, &self.inbox, slot as usize * size, size)
    }

    /// Waits for room in the send queue: an answer may overtake the completion of its Send.
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

    /// Sends bytes as they are, when there is room in the send queue.
    pub(crate) fn send_bytes(&mut self, bytes: &[u8]) -> Result<()> {
        self.post_bytes(bytes, None)
    }

    fn post_bytes(&mut self, bytes: &[u8], key: Option<u32>) -> Result<()> {
        let slots = self.outbox.len() / LONGEST;
        if bytes.len() > LONGEST {
            return Err(Error::new(format!("messages have at most {LONGEST} bytes")));
        }
        self.wait_for_slot(slots)?;
        let offset = self.next_slot % slots * LONGEST;
        self.next_slot += 1;
        self.outbox.write(offset, bytes)?;
        self.endpoint
            .post_send(SEND, &self.outbox, offset, bytes.len(), key)?;
        self.sending += 1;
        Ok(())
    }

    /// Sends a message which invalidates the registration of the server's with this key.
    pub(crate) fn send_invalidating(&mut self, message: &Message, key: u32) -> Result<()> {
        self.post_bytes(&message.encode(), Some(key))
    }

    /// Makes an RDMA Write of no bytes with immediate data, if the device can, and waits for its
    /// completion.
    pub(crate) fn send_immediate(&mut self) -> Result<()> {
        self.wait_for_slot(1)?;
        if self.endpoint.post_immediate(SEND).is_ok() {
            self.sending += 1;
            self.wait_sent()?;
        }
        Ok(())
    }

    /// Sends a message, as [`Self::send_bytes`].
    pub(crate) fn send(&mut self, message: &Message) -> Result<()> {
        self.send_bytes(&message.encode())
    }

    /// Waits until a Send has arrived at the server; returns whether the connection stands then.
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

    /// Waits for the next message or the end of the connection.
    pub(crate) fn receive(&mut self, timeout: Duration) -> Result<Incoming> {
        let deadline = Instant::now() + timeout;
        loop {
            match self.wait(deadline)? {
                Wakeup::Completion(done) if done.status != 0 => return Ok(Incoming::Closed),
                Wakeup::Completion(Completion { id: SEND, .. }) => (),
                Wakeup::Completion(done) => return self.take(done),
                Wakeup::Event(_) => return Ok(Incoming::Closed),
                Wakeup::Timeout => return Ok(Incoming::Silence),
            }
        }
    }

    /// Takes the message of a finished Receive and posts the Receive again.
    fn take(&mut self, done: Completion) -> Result<Incoming> {
        let offset = done.id as usize * self.manners.receive_size;
        let bytes = self.inbox.read(offset, done.len)?;
        self.post_receive(done.id)?;
        Ok(Incoming::Answer(Answer::decode(&bytes)))
    }

    /// Sends `message` and returns the answer to it.
    pub(crate) fn exchange(&mut self, message: &Message) -> Result<Incoming> {
        self.send(message)?;
        self.answer_to(message.xid)
    }

    /// Returns the answer to the message `xid` that was sent; the next message must be it.
    pub(crate) fn answer_to(&mut self, xid: u32) -> Result<Incoming> {
        let incoming = self.receive(PATIENCE)?;
        match &incoming {
            Incoming::Answer(answer) if answer.xid() != Some(xid) => {
                Err(Error::new(format!("no answer to {xid:#x} but {answer:?}")))
            }
            _ => Ok(incoming),
        }
    }

    /// Makes a NULL Call, which must succeed; returns the credits granted.
    pub(crate) fn null(&mut self) -> Result<u32> {
        self.call("NULL", rpc::null, None)
    }

    /// Makes a GETATTR of the root, which must succeed: nfsd keeps the connection from then on.
    pub(crate) fn getattr(&mut self) -> Result<u32> {
        self.call("GETATTR", rpc::getattr, Some(0))
    }

    /// Makes the Call `name`, whose results must begin with `first`; returns the credits granted.
    fn call(&mut self, name: &str, body: fn(u32) -> Vec<u8>, first: Option<u32>) -> Result<u32> {
        let xid = self.xid();
        match self.exchange(&Message::inline(xid, body(xid)))? {
            Incoming::Answer(Answer::Reply(reply))
                if rpc::outcome(xid, &reply.body) == rpc::Outcome::Success(first) =>
            {
                Ok(reply.credits)
            }
            other => Err(Error::new(format!("{name} was not answered: {other:?}"))),
        }
    }

    /// Ends the connection in an orderly way.
    pub(crate) fn disconnect(&self) -> Result<()> {
        self.endpoint.disconnect()
    }

    /// Destroys the queue pair: what the server sends from now on gets no answer.
    pub(crate) fn destroy_qp(&mut self) {
        self.endpoint.destroy_qp();
    }
}

/// What every peer offers.
pub(crate) fn offer(manners: &Manners) -> Offer<'_> {
    Offer {
        private_data: &manners.private_data,
        reads: manners.reads,
        // For ever: a server cannot rely on its device to give up a peer that posts no Receives.
        rnr_retry: 7,
    }
}
