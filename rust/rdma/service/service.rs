// SPDX-License-Identifier: GPL-2.0

//! Traits that a ULP implements: the service, and the session of one peer.

use crate::service::{
    job::Completed,
    peer::Peer, //
};
use kernel::{
    error::Error,
    prelude::*, //
};
use support::addr::Addr;
use svcrdma_proto::source::Origin;

/// The result of a function of a [`Session`]. An error is the reason for which the connection is closed.
/// Jobs that the function has asked for are dropped then, and not posted.
pub type Outcome<T = ()> = Result<T, &'static str>;

/// The most that the peers can make a [`Server`](crate::service::server::Server) allocate.
#[derive(Clone, Copy)]
pub struct Capacity {
    /// Connections at a time, of all devices together. A device takes at most 65.
    pub connections: usize,
    /// Messages that a peer may send at a time: its posted Receives, a page each. A few more are
    /// allocated, as they are posted in batches. The connections of a device have at most 4096 together,
    /// and a device may limit those of one connection.
    pub messages: u16,
    /// Jobs of a connection at a time.
    pub jobs: u16,
}

/// A ULP: accepts peers.
///
/// # Context
///
/// Process context; all functions may sleep.
pub trait Service: Send + Sync + 'static {
    /// The state of a connection.
    type Session: Session;

    /// Returns the limits. They apply to peers that connect from now on.
    fn capacity(&self) -> Capacity;

    /// Returns true if a peer from `origin` may connect. The default admits all.
    ///
    /// Called with the lock of the listener held: other connect requests wait meanwhile. So may
    /// [`Self::capacity`] and [`Self::rejected`] be.
    fn admits(&self, _origin: &Origin) -> bool {
        true
    }

    /// Makes the session of a peer, before it is accepted. It asks for no jobs yet.
    ///
    /// # Errors
    ///
    /// Any error rejects the peer.
    fn accept(&self, peer: &Peer<<Self::Session as Session>::Tag>) -> Result<Self::Session>;

    /// Notes that a peer was accepted. Messages may have come already.
    fn accepted(&self, _peer: &Addr) {}

    /// Notes that a peer was rejected: `EACCES` if [`Self::admits`] has returned false, `EBUSY` if there
    /// are as many connections as there may be, `ENOSPC` if the device has no room for another one,
    /// `ENODEV` if the device is being removed or the peer has given up, or the error of
    /// [`Self::accept`], of an allocation or of the RDMA core.
    fn rejected(&self, _peer: &Addr, _error: Error) {}

    /// Notes that a connection is closed for `reason`: one that a function of its session has returned, a
    /// job that cannot be posted or takes too long, or a broken completion queue. It is not called if the
    /// peer ends the connection, or the device does, which refuses wrong accesses and messages that are not
    /// Sends.
    fn closed(&self, _peer: &Addr, _reason: &'static str) {}
}

/// The state of a connection, beside its hardware: gets what the peer sends, and asks for jobs.
///
/// # Context
///
/// The work item of the connection, with its mutex held: one function runs at a time. All functions may
/// sleep. Jobs that they [ask for](Peer) are posted when they have returned, behind the buffer of the
/// message, which is given back for the next one.
///
/// The session is dropped when the connection has ended, whoever has ended it, and no peer and no device
/// uses its memory any more. Messages that came shortly before may not be handled.
pub trait Session: Send + 'static {
    /// Data that the session keeps with a job on a page region, such as the request that the job answers.
    type Tag: Send + Unpin + 'static;

    /// Handles a message.
    ///
    /// # Errors
    ///
    /// Closes the connection.
    fn received(&mut self, message: &[u8], peer: &mut Peer<Self::Tag>) -> Outcome;

    /// Handles a job that the device has done, and takes its memory back. Jobs complete in the order in
    /// which they were asked for.
    ///
    /// # Errors
    ///
    /// Closes the connection.
    fn completed(&mut self, job: Completed<Self::Tag>, peer: &mut Peer<Self::Tag>) -> Outcome;

    /// Handles the message of a Send With Invalidate that names `key`, the key of an
    /// [`Exposure`](crate::mem::exposure::Exposure) or of something else. The session revokes the exposure
    /// as any other. The default closes the connection.
    ///
    /// # Errors
    ///
    /// Closes the connection.
    fn invalidated(&mut self, _message: &[u8], _key: u32, _peer: &mut Peer<Self::Tag>) -> Outcome {
        Err("unexpected Send With Invalidate")
    }

    /// Called when all that had come was handled, and the buffers of its messages are given back. A
    /// session that grants credits sends them here. The first call follows the accept.
    ///
    /// # Errors
    ///
    /// Closes the connection.
    fn settled(&mut self, _peer: &mut Peer<Self::Tag>) -> Outcome {
        Ok(())
    }

    /// Called about each second, for timeouts. A job that takes longer than 60 seconds ends the connection.
    /// Nothing else notices a peer that has gone without a word: a protocol needs a message that it must
    /// answer.
    ///
    /// # Errors
    ///
    /// Closes the connection.
    fn tick(&mut self, _peer: &mut Peer<Self::Tag>) -> Outcome {
        Ok(())
    }
}
