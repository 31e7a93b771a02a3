// SPDX-License-Identifier: GPL-2.0

//! Provokes callbacks.
//!
//! A server calls back only when it has a reason, so the probe gives it one: an owner waits for a
//! lock that another owner of the same client holds and then releases.

use super::{four, Session};
use crate::{
    compound::Compound,
    error::{Error, Result},
    message::Reply,
    peer::Peer, //
};

/// Operation numbers (RFC 7531).
mod operation {
    pub(super) const LOCK: u32 = 12;
    pub(super) const LOCKU: u32 = 14;
    pub(super) const OPEN: u32 = 18;
}

/// OPEN4_SHARE_ACCESS_BOTH, and OPEN4_SHARE_ACCESS_WANT_NO_DELEG.
const READ_AND_WRITE: u32 = 3 | 0x400;

/// WRITE_LT.
const WRITE_LOCK: u32 = 2;

/// WRITEW_LT: a write lock for which the owner waits.
const WRITE_LOCK_WAIT: u32 = 4;

/// NFS4ERR_DENIED.
const DENIED: u32 = 10010;

/// OPEN4_RESULT_MAY_NOTIFY_LOCK.
const MAY_NOTIFY: u32 = 0x20;

/// The identifier of an open file or of a lock.
type StateId = [u32; 4];

/// Creates a session on the connection of `peer` and provokes a callback about a lock of the file
/// `path`. Returns the callback, which has not been answered.
pub(crate) fn provoke_callback(peer: &mut Peer, path: &str) -> Result<Reply> {
    let session = Session::new(peer, 1)?;
    session.provoke(peer, path, &["waiter"])?.callback(peer)
}

/// Provokes a callback like [`provoke_callback`], while another client has a newer session on the
/// same connection.
pub(crate) fn provoke_callback_of_two(peer: &mut Peer, path: &str) -> Result<Reply> {
    let session = Session::new(peer, 1)?;
    Session::new(peer, 1)?;
    session.provoke(peer, path, &["waiter"])?.callback(peer)
}

/// Provokes a callback in a session whose connection has no backchannel. Returns the callback if it
/// has arrived anyway.
pub(crate) fn provoke_without_channel(peer: &mut Peer, path: &str) -> Result<Option<Reply>> {
    let session = Session::with_flags(peer, 1, 0)?;
    let session = session.provoke(peer, path, &["waiter"])?;
    Ok(session.callbacks.into_iter().next())
}

/// Provokes a callback for an owner with a name of 1000 bytes, which the callback repeats. Does not
/// wait for the callback; returns it if it has already arrived.
pub(crate) fn provoke_long_callback(peer: &mut Peer, path: &str) -> Result<Option<Reply>> {
    let session = Session::new(peer, 1)?;
    let waiter = "w".repeat(1000);
    let session = session.provoke(peer, path, &[&waiter])?;
    Ok(session.callbacks.into_iter().next())
}

/// Provokes a callback for each of `count` owners. Returns those that have already arrived.
pub(crate) fn provoke_callbacks(peer: &mut Peer, path: &str, count: u32) -> Result<Vec<Reply>> {
    let session = Session::new(peer, 1)?;
    let waiters: Vec<String> = (0..count).map(|nth| format!("waiter {nth}")).collect();
    let waiters: Vec<&str> = waiters.iter().map(String::as_str).collect();
    Ok(session.provoke(peer, path, &waiters)?.callbacks)
}

impl Session {
    /// Takes a lock of the file `path`, makes `waiters` wait for it, and releases it.
    fn provoke(mut self, peer: &mut Peer, path: &str, waiters: &[&str]) -> Result<Self> {
        let open = self.open(peer, path)?;
        let held = self.lock(peer, path, open, "holder", WRITE_LOCK)?;
        let held = held.ok_or_else(|| Error::new("LOCK is denied"))?;
        for waiter in waiters {
            let got = self.lock(peer, path, open, waiter, WRITE_LOCK_WAIT)?;
            if got.is_some() {
                return Err(Error::new("two owners hold the same lock"));
            }
        }
        self.unlock(peer, path, held)?;
        Ok(self)
    }

    /// Waits for the first callback.
    fn callback(mut self, peer: &mut Peer) -> Result<Reply> {
        while self.callbacks.is_empty() {
            self.receive(peer, None)?;
        }
        Ok(self.callbacks.remove(0))
    }

    fn open(&mut self, peer: &mut Peer, path: &str) -> Result<StateId> {
        let (folder, name) = path.rsplit_once('/').unwrap_or(("", path));
        let client = self.client;
        let open = |call: Compound| {
            let call = call.root().lookup(folder);
            call.operation(operation::OPEN, |xdr| {
                xdr.words(&[0, READ_AND_WRITE, 0])
                    .hyper(client)
                    .opaque(b"owner")
                    // OPEN4_NOCREATE, CLAIM_NULL.
                    .words(&[0, 0])
                    .opaque(name.as_bytes())
            })
        };
        let (state, flags) = self.call(peer, "OPEN", open, |results| {
            results.at(folder)?;
            results.good(operation::OPEN)?;
            let state = four(results.words())?;
            // Change information of the directory: atomic, before, after.
            results.words().skip(1 + 2 + 2)?;
            Some((state, results.words().word()?))
        })?;
        match flags & MAY_NOTIFY {
            0 => Err(Error::unavailable(
                "the server makes no callbacks about locks",
            )),
            _ => Ok(state),
        }
    }

    /// Locks the file for `owner`; returns `None` if another owner holds the lock.
    fn lock(
        &mut self,
        peer: &mut Peer,
        path: &str,
        open: StateId,
        owner: &str,
        kind: u32,
    ) -> Result<Option<StateId>> {
        let client = self.client;
        let lock = |call: Compound| {
            let call = call.root().lookup(path);
            call.operation(operation::LOCK, |xdr| {
                xdr.words(&[kind, 0])
                    .hyper(0)
                    .hyper(1)
                    // A new lock owner for this open file.
                    .words(&[1, 0])
                    .words(&open)
                    .word(0)
                    .hyper(client)
                    .opaque(owner.as_bytes())
            })
        };
        self.call(peer, "LOCK", lock, |results| {
            results.at(path)?;
            match results.status(operation::LOCK)? {
                0 => four(results.words()).map(Some),
                DENIED => Some(None),
                _ => None,
            }
        })
    }

    fn unlock(&mut self, peer: &mut Peer, path: &str, held: StateId) -> Result<()> {
        let unlock = |call: Compound| {
            let call = call.root().lookup(path);
            call.operation(operation::LOCKU, |xdr| {
                xdr.words(&[WRITE_LOCK, 0]).words(&held).hyper(0).hyper(1)
            })
        };
        self.call(peer, "LOCKU", unlock, |results| {
            results.at(path)?;
            results.good(operation::LOCKU)
        })
    }
}
