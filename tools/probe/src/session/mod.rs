// SPDX-License-Identifier: GPL-2.0

//! A session of NFS version 4.1 or 4.2 (RFC 8881) whose backchannel uses the connection that
//! created it.

mod provoke;

pub(crate) use self::provoke::{
    provoke_callback,
    provoke_callback_of_two,
    provoke_callbacks,
    provoke_long_callback,
    provoke_without_channel, //
};

use crate::{
    callback,
    compound::{components, operation},
    error::{Error, Result},
    message::{Answer, Message, Reply},
    peer::{Incoming, Peer, PATIENCE},
    rpc,
    xdr::{Words, Xdr},
};
use std::time::{SystemTime, UNIX_EPOCH};
use svcrdma_proto::chunk::Segment;

/// Operation numbers of minor versions 1 and 2.
mod minor {
    pub(super) const EXCHANGE_ID: u32 = 42;
    pub(super) const CREATE_SESSION: u32 = 43;
    pub(super) const SEQUENCE: u32 = 53;
    pub(super) const RECLAIM_COMPLETE: u32 = 58;
    pub(super) const READ_PLUS: u32 = 68;
}

/// CREATE_SESSION4_FLAG_CONN_BACK_CHAN.
const BACK_CHANNEL: u32 = 2;

/// NFS4ERR_NOTSUPP, NFS4ERR_GRACE, NFS4ERR_MINOR_VERS_MISMATCH.
const NOT_SUPPORTED: u32 = 10004;
const GRACE: u32 = 10013;
const OTHER_MINOR: u32 = 10021;

/// A session of a new client.
struct Session {
    /// The minor version of NFS version 4.
    minor: u32,
    id: [u32; 4],
    client: u64,
    /// The sequence ID of the next COMPOUND.
    sequence: u32,
    /// Callbacks that were received and not answered yet.
    callbacks: Vec<Reply>,
}

/// Creates a session of NFS version 4.2 on the connection of `peer` and reads the first `count`
/// bytes of the file `path` with READ_PLUS, in a Call with these Write chunks. Returns the reply.
pub(crate) fn read_plus(
    peer: &mut Peer,
    path: &str,
    count: u32,
    writes: Vec<Vec<Segment>>,
) -> Result<Reply> {
    let mut session = Session::new(peer, 2)?;
    let xid = peer.xid();
    let head = session.head(xid, 2 + components(path).count());
    // The stateid that bypasses locks and grace periods.
    let call = at(head, path)
        .word(minor::READ_PLUS)
        .words(&[u32::MAX; 4])
        .hyper(0)
        .word(count);
    let mut message = Message::inline(xid, call.into_bytes());
    message.writes = writes;
    peer.send(&message)?;
    let reply = session.receive(peer, Some(xid))?;
    let reply = reply.ok_or_else(|| Error::new("unexpected callback"))?;
    match rpc::results(xid, &reply.body).and_then(|mut words| words.word()) {
        Some(NOT_SUPPORTED) => Err(Error::unavailable("no READ_PLUS")),
        _ => Ok(reply),
    }
}

impl Session {
    fn new(peer: &mut Peer, minor: u32) -> Result<Self> {
        Self::with_flags(peer, minor, BACK_CHANNEL)
    }

    /// Creates a session with these flags of CREATE_SESSION.
    fn with_flags(peer: &mut Peer, minor: u32, flags: u32) -> Result<Self> {
        let mut session = Self {
            minor,
            id: [0; 4],
            client: 0,
            sequence: 1,
            callbacks: Vec::new(),
        };
        let first = session.exchange_id(peer)?;
        session.create(peer, first, flags)?;
        session.call(peer, "RECLAIM_COMPLETE", 1, |xdr| {
            xdr.words(&[minor::RECLAIM_COMPLETE, 0])
        })?;
        Ok(session)
    }

    /// Obtains a client ID. Returns the sequence ID for its first session.
    fn exchange_id(&mut self, peer: &mut Peer) -> Result<u32> {
        // Unique to this process and moment, so that client IDs of other probes stay valid.
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let name = format!("rpcrdma-probe {} {since:?}", std::process::id());
        let reply = self.alone(peer, minor::EXCHANGE_ID, |xdr| {
            // Verifier and name of the owner; no flags, SP4_NONE, no implementation name.
            xdr.hyper(1).opaque(name.as_bytes()).words(&[0, 0, 0])
        })?;
        let mut words = Words::new(&reply);
        let found = words.hyper().zip(words.word());
        let (client, first) = found.ok_or_else(|| Error::new("EXCHANGE_ID: no client ID"))?;
        self.client = client;
        Ok(first)
    }

    fn create(&mut self, peer: &mut Peer, first: u32, flags: u32) -> Result<()> {
        // Header padding; largest request, response and cached response in bytes; operations,
        // requests; no RDMA IRD.
        let channel = [0, 4096, 4096, 4096, 8, 4, 0];
        let client = self.client;
        let reply = self.alone(peer, minor::CREATE_SESSION, |xdr| {
            xdr.hyper(client)
                .words(&[first, flags])
                .words(&channel)
                .words(&channel)
                // Callbacks with AUTH_NONE.
                .words(&[callback::PROGRAM, 1, 0])
        })?;
        let id = four(&mut Words::new(&reply));
        self.id = id.ok_or_else(|| Error::new("CREATE_SESSION: no session"))?;
        Ok(())
    }

    /// Makes a Call of one operation outside of a session. Returns its results.
    fn alone(
        &mut self,
        peer: &mut Peer,
        operation: u32,
        arguments: impl FnOnce(Xdr) -> Xdr,
    ) -> Result<Vec<u8>> {
        let xid = peer.xid();
        let message = arguments(rpc::compound_call(xid).words(&[0, self.minor, 1, operation]));
        let body = self.exchange(peer, xid, message)?;
        let mut words = Words::new(&body);
        good(&mut words, operation)
            .map(|()| words.rest().to_vec())
            .ok_or_else(|| Error::new(format!("operation {operation} failed: {body:02x?}")))
    }

    /// Builds the beginning of a Call of `count` operations in the session.
    fn head(&mut self, xid: u32, count: usize) -> Xdr {
        let sequence = self.sequence;
        self.sequence += 1;
        rpc::compound_call(xid)
            .words(&[0, self.minor, count as u32 + 1, minor::SEQUENCE])
            .words(&self.id)
            // Slot 0, which is also the highest slot in use; the server need not cache the reply.
            .words(&[sequence, 0, 0, 0])
    }

    /// Makes a Call of `count` operations in the session. Returns their results.
    fn call(
        &mut self,
        peer: &mut Peer,
        name: &str,
        count: usize,
        operations: impl FnOnce(Xdr) -> Xdr,
    ) -> Result<Vec<u8>> {
        let xid = peer.xid();
        let head = self.head(xid, count);
        let body = self.exchange(peer, xid, operations(head))?;
        let mut words = Words::new(&body);
        good(&mut words, minor::SEQUENCE)
            // Session ID, sequence ID, slot, highest and target highest slot, flags.
            .and_then(|()| words.skip(4 + 5))
            .map(|()| words.rest().to_vec())
            .ok_or_else(|| Error::new(format!("SEQUENCE of {name} failed: {body:02x?}")))
    }

    /// Sends a COMPOUND. Returns the results of its operations.
    fn exchange(&mut self, peer: &mut Peer, xid: u32, message: Xdr) -> Result<Vec<u8>> {
        peer.send(&Message::inline(xid, message.into_bytes()))?;
        loop {
            let Some(reply) = self.receive(peer, Some(xid))? else {
                continue;
            };
            let results = rpc::results(xid, &reply.body).and_then(|mut words| {
                let status = words.word()?;
                words.opaque()?;
                let _count = words.word()?;
                Some((status, words.rest().to_vec()))
            });
            return match results {
                Some((OTHER_MINOR, _)) => Err(Error::unavailable(format!(
                    "no NFS version 4.{}",
                    self.minor
                ))),
                Some((GRACE, _)) => Err(Error::unavailable("the server is in its grace period")),
                Some((_, results)) => Ok(results),
                None => Err(Error::new(format!("no results but {reply:?}"))),
            };
        }
    }

    /// Receives the reply to `xid` or a callback, which may arrive before the reply. Keeps
    /// callbacks and returns `None` for them.
    fn receive(&mut self, peer: &mut Peer, xid: Option<u32>) -> Result<Option<Reply>> {
        match peer.receive(PATIENCE)? {
            Incoming::Answer(Answer::Reply(reply)) if callback::is_call(&reply.body) => {
                self.callbacks.push(reply);
                Ok(None)
            }
            Incoming::Answer(Answer::Reply(reply)) if Some(reply.xid) == xid => Ok(Some(reply)),
            other => Err(Error::new(format!(
                "neither a callback nor the reply but {other:?}"
            ))),
        }
    }
}

/// Adds a PUTROOTFH and a LOOKUP for each component of `path`.
fn at(xdr: Xdr, path: &str) -> Xdr {
    components(path).fold(xdr.word(operation::PUTROOTFH), |xdr, name| {
        xdr.word(operation::LOOKUP).opaque(name.as_bytes())
    })
}

/// Takes the results of the operations that [`at`] adds.
fn skip_at(words: &mut Words<'_>, path: &str) -> Option<()> {
    good(words, operation::PUTROOTFH)?;
    components(path).try_for_each(|_| good(words, operation::LOOKUP))
}

/// Takes the head of the result of operation `number`, which must be successful.
fn good(words: &mut Words<'_>, number: u32) -> Option<()> {
    let head = (words.word()?, words.word()?);
    (head == (number, 0)).then_some(())
}

/// Takes 16 bytes.
fn four(words: &mut Words<'_>) -> Option<[u32; 4]> {
    let mut four = [0; 4];
    for word in &mut four {
        *word = words.word()?;
    }
    Some(four)
}
