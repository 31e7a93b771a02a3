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
    compound::{Compound, Results},
    error::{Error, Result},
    message::{Answer, Message, Reply},
    peer::{Incoming, Peer, PATIENCE},
    xdr::Words,
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
    let call = session.head(xid).root().lookup(path);
    // The stateid that bypasses locks and grace periods.
    let call = call.operation(minor::READ_PLUS, |xdr| {
        xdr.words(&[u32::MAX; 4]).hyper(0).word(count)
    });
    let mut message = Message::inline(xid, call.finish().inline);
    message.writes = writes;
    peer.send(&message)?;
    let reply = session.receive(peer, Some(xid))?;
    let reply = reply.ok_or_else(|| Error::new("unexpected callback"))?;
    match Results::new(xid, &reply.body).map(|results| results.last_status()) {
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
        let complete = |call: Compound| call.operation(minor::RECLAIM_COMPLETE, |xdr| xdr.word(0));
        session.call(peer, "RECLAIM_COMPLETE", complete, |_| Some(()))?;
        Ok(session)
    }

    /// Obtains a client ID. Returns the sequence ID for its first session.
    fn exchange_id(&mut self, peer: &mut Peer) -> Result<u32> {
        // Unique to this process and moment, so that client IDs of other probes stay valid.
        let since = SystemTime::now().duration_since(UNIX_EPOCH);
        let name = format!("rpcrdma-probe {} {since:?}", std::process::id());
        let xid = peer.xid();
        let call = Compound::new(xid, self.minor).operation(minor::EXCHANGE_ID, |xdr| {
            // Verifier and name of the owner; no flags, SP4_NONE, no implementation name.
            xdr.hyper(1).opaque(name.as_bytes()).words(&[0, 0, 0])
        });
        let (client, first) = self.exchange(peer, xid, "EXCHANGE_ID", call, |results| {
            results.good(minor::EXCHANGE_ID)?;
            results.words().hyper().zip(results.words().word())
        })?;
        self.client = client;
        Ok(first)
    }

    fn create(&mut self, peer: &mut Peer, first: u32, flags: u32) -> Result<()> {
        // Header padding; largest request, response and cached response in bytes; operations,
        // requests; no RDMA IRD.
        let channel = [0, 4096, 4096, 4096, 8, 4, 0];
        let xid = peer.xid();
        let call = Compound::new(xid, self.minor).operation(minor::CREATE_SESSION, |xdr| {
            xdr.hyper(self.client)
                .words(&[first, flags])
                .words(&channel)
                .words(&channel)
                // Callbacks with AUTH_NONE.
                .words(&[callback::PROGRAM, 1, 0])
        });
        self.id = self.exchange(peer, xid, "CREATE_SESSION", call, |results| {
            results.good(minor::CREATE_SESSION)?;
            four(results.words())
        })?;
        Ok(())
    }

    /// Starts a Call in the session.
    fn head(&mut self, xid: u32) -> Compound {
        let sequence = self.sequence;
        self.sequence += 1;
        Compound::new(xid, self.minor).operation(minor::SEQUENCE, |xdr| {
            // Slot 0, which is also the highest slot in use; the server need not cache the reply.
            xdr.words(&self.id).words(&[sequence, 0, 0, 0])
        })
    }

    /// Makes the Call `name` of these operations in the session. Returns what `read` takes from their
    /// results.
    fn call<T>(
        &mut self,
        peer: &mut Peer,
        name: &str,
        operations: impl FnOnce(Compound) -> Compound,
        read: impl FnOnce(&mut Results<'_>) -> Option<T>,
    ) -> Result<T> {
        let xid = peer.xid();
        let call = operations(self.head(xid));
        self.exchange(peer, xid, name, call, |results| {
            results.good(minor::SEQUENCE)?;
            // Session ID, sequence ID, slot, highest and target highest slot, flags.
            results.words().skip(4 + 5)?;
            read(results)
        })
    }

    /// Makes the Call `name`. Returns what `read` takes from its results, and an error if they are not
    /// the expected ones.
    fn exchange<T>(
        &mut self,
        peer: &mut Peer,
        xid: u32,
        name: &str,
        call: Compound,
        read: impl FnOnce(&mut Results<'_>) -> Option<T>,
    ) -> Result<T> {
        peer.send(&Message::inline(xid, call.finish().inline))?;
        let reply = loop {
            if let Some(reply) = self.receive(peer, Some(xid))? {
                break reply;
            }
        };
        let mut results = Results::new(xid, &reply.body);
        match results.as_ref().map(Results::last_status) {
            Some(OTHER_MINOR) => Err(Error::unavailable(format!(
                "no NFS version 4.{}",
                self.minor
            ))),
            Some(GRACE) => Err(Error::unavailable("the server is in its grace period")),
            _ => results
                .as_mut()
                .and_then(read)
                .ok_or_else(|| Error::new(format!("{name} failed: {reply:?}"))),
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

/// Takes 16 bytes.
fn four(words: &mut Words<'_>) -> Option<[u32; 4]> {
    let mut four = [0; 4];
    for word in &mut four {
        *word = words.word()?;
    }
    Some(four)
}
