// SPDX-License-Identifier: GPL-2.0

//! A connection that carries plain messages, and RDMA operations of this side.

use crate::{
    error::{Error, Result},
    ffi::{Endpoint, Event, Offer, Rdma, Region, Remote, Wakeup},
    peer::{with_free_port, PATIENCE},
    target::Target,
};
use smbdirect::descriptor::Descriptor;
use std::{
    collections::VecDeque,
    thread,
    time::{Duration, Instant},
};

/// Bytes of a message.
pub(super) const SIZE: usize = 4096;
/// Receives that are posted, one more than the credits that are granted.
pub(super) const RECEIVES: u16 = 32;
/// Sends that can be in flight.
const SENDS: usize = 32;
/// RDMA operations that can be in flight.
pub(crate) const OPERATIONS: usize = 64;
/// RDMA Reads that can be in flight, in each direction.
const READS: u8 = 16;
/// The work request ID of Sends, and of RDMA operations. The ID of a Receive is its slot.
const SEND: u64 = u64::MAX;
const RDMA: u64 = u64::MAX - 1;

/// A connection.
pub(crate) struct Link {
    inbox: Region,
    outbox: Region,
    endpoint: Endpoint,
    next_slot: usize,
    sending: usize,
    /// RDMA operations that have ended, and that nobody has waited for.
    moved: usize,
    /// Messages that have arrived during a wait for something else.
    kept: VecDeque<Vec<u8>>,
    has_ended: bool,
}

impl Link {
    /// Connects to the server.
    pub(super) fn connect(to: &Target) -> Result<Self> {
        let mut link = with_free_port(|| Self::request(to))?;
        loop {
            match link.endpoint.wait(PATIENCE)? {
                Wakeup::Event(Event::Established(_)) => {
                    thread::sleep(to.pause);
                    return Ok(link);
                }
                Wakeup::Event(event) => {
                    return Err(Error::new(format!("cannot connect: {event:?}")))
                }
                Wakeup::Timeout => return Err(Error::new("the server does not answer")),
                Wakeup::Completion(done) => link.completed(done.id, done.status, done.len)?,
            }
        }
    }

    fn request(to: &Target) -> Result<Self> {
        let endpoint = Endpoint::open(to.addresses, None, (SENDS + OPERATIONS) as u32, PATIENCE)?;
        let link = Self {
            inbox: endpoint.region(usize::from(RECEIVES) * SIZE)?,
            outbox: endpoint.region(SENDS * SIZE)?,
            endpoint,
            next_slot: 0,
            sending: 0,
            moved: 0,
            kept: VecDeque::new(),
            has_ended: false,
        };
        for slot in 0..u64::from(RECEIVES) {
            link.post_receive(slot)?;
        }
        link.endpoint.connect(&Offer {
            private_data: &[],
            reads: READS,
            own_reads: READS,
            rnr_retry: 7,
        })?;
        Ok(link)
    }

    fn post_receive(&self, slot: u64) -> Result<()> {
        let at = slot as usize * SIZE;
        self.endpoint.post_receive(slot, &self.inbox, at, SIZE)
    }

    /// Allocates memory that the server may read and write.
    pub(super) fn region(&self, len: usize) -> Result<Region> {
        self.endpoint.region(len)
    }

    /// Handles a completion.
    fn completed(&mut self, id: u64, status: u32, len: usize) -> Result<()> {
        if status != 0 {
            self.has_ended = true;
        } else if id == RDMA {
            self.moved += 1;
        } else if id != SEND {
            self.kept
                .push_back(self.inbox.read(id as usize * SIZE, len)?);
            match self.post_receive(id) {
                Err(error) if error.is_not_connected() => (),
                posted => posted?,
            }
        }
        if id == SEND {
            self.sending = self.sending.saturating_sub(1);
        }
        Ok(())
    }

    /// Waits until `deadline` for a completion or an event. Returns false if there was none.
    fn step(&mut self, deadline: Instant) -> Result<bool> {
        match self
            .endpoint
            .wait(deadline.saturating_duration_since(Instant::now()))?
        {
            Wakeup::Completion(done) => self.completed(done.id, done.status, done.len)?,
            Wakeup::Event(_) => self.has_ended = true,
            Wakeup::Timeout => return Ok(false),
        }
        Ok(true)
    }

    /// Sends a message. A connection that has ended takes it, and the next wait finds the end.
    pub(super) fn send(&mut self, message: &[u8]) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while self.sending >= SENDS && !self.has_ended {
            if !self.step(deadline)? {
                return Err(Error::new("a Send never completed"));
            }
        }
        let at = self.next_slot % SENDS * SIZE;
        self.next_slot += 1;
        self.outbox.write(at, message)?;
        let posted = self
            .endpoint
            .post_send(SEND, &self.outbox, at, message.len(), None);
        match posted {
            Ok(()) => self.sending += 1,
            // The drivers have different errors for a connection that has ended.
            Err(error) if !self.ends(Duration::from_secs(5))? => return Err(error),
            Err(_) => (),
        }
        Ok(())
    }

    /// Returns the next message, `None` if the connection has ended or, within `timeout`, nothing has
    /// arrived.
    pub(super) fn receive(&mut self, timeout: Duration) -> Result<Option<Vec<u8>>> {
        let deadline = Instant::now() + timeout;
        while self.kept.is_empty() && !self.has_ended {
            if !self.step(deadline)? {
                break;
            }
        }
        Ok(self.kept.pop_front())
    }

    /// Returns true if the connection ends within `timeout`. Messages are dropped.
    pub(super) fn ends(&mut self, timeout: Duration) -> Result<bool> {
        let deadline = Instant::now() + timeout;
        while !self.has_ended && self.step(deadline)? {
            self.kept.clear();
        }
        Ok(self.has_ended)
    }

    /// Moves bytes between a region and the server's memory. Returns false if the connection has ended
    /// instead.
    pub(super) fn rdma(
        &mut self,
        rdma: Rdma,
        region: &Region,
        at: usize,
        remote: &Descriptor,
    ) -> Result<bool> {
        self.post_rdma(rdma, region, at, remote)?;
        self.moved()
    }

    /// Begins to move bytes between a region and the server's memory.
    pub(crate) fn post_rdma(
        &mut self,
        rdma: Rdma,
        region: &Region,
        at: usize,
        remote: &Descriptor,
    ) -> Result<()> {
        let len = remote.length as usize;
        let (key, addr) = (remote.token, remote.offset);
        self.endpoint
            .post_rdma(RDMA, rdma, region, at, len, Remote { key, addr })
    }

    /// Waits for the end of the oldest RDMA operation. Returns false if the connection has ended instead.
    pub(crate) fn moved(&mut self) -> Result<bool> {
        let deadline = Instant::now() + PATIENCE;
        while self.moved == 0 && !self.has_ended {
            if !self.step(deadline)? {
                return Err(Error::new("an RDMA operation never completed"));
            }
        }
        let is_done = self.moved > 0;
        self.moved = self.moved.saturating_sub(1);
        Ok(is_done)
    }

    /// Starts an orderly disconnect.
    pub(crate) fn disconnect(&self) -> Result<()> {
        self.endpoint.disconnect()
    }
}
