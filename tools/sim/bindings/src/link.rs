// SPDX-License-Identifier: GPL-2.0

//! The other end of a connection: a peer's device and memory.

use crate::{deliver_event, ib_qp, rdma_cm_event_type_RDMA_CM_EVENT_DISCONNECTED, rdma_cm_id, Ptr};
use kernel::sim;
use std::collections::{HashMap, VecDeque};

/// Memory that the peer has registered.
pub struct Region {
    pub addr: u64,
    pub bytes: Vec<u8>,
    /// True if the server may write, else it may read.
    pub is_sink: bool,
}

/// A use of a Receive that is no Send of a message.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Use {
    /// An RDMA Write with immediate data.
    Immediate,
    /// A Send that has invalidated memory of the server.
    Invalidation,
}

pub struct Link {
    pub id: Ptr<rdma_cm_id>,
    pub qp: Option<Ptr<ib_qp>>,
    /// The connection is established.
    pub is_accepted: bool,
    /// One side has closed it.
    pub is_closed: bool,
    /// The peer does not answer any more.
    pub is_lost: bool,
    pub serves_reads: bool,
    pub is_slow: bool,
    /// The milliseconds that the peer needs to take a message or to serve a Read.
    pub delay: u64,
    /// The Receives that the peer has posted.
    pub receives: usize,
    /// The bytes of the longest message that the peer takes.
    pub longest: usize,
    pub private: Vec<u8>,
    messages: VecDeque<Vec<u8>>,
    regions: HashMap<u32, Region>,
    /// The memory that a Send of the server has made invalid.
    invalidated: HashMap<u32, Region>,
    next_key: u32,
}

impl Link {
    pub fn new(id: Ptr<rdma_cm_id>) -> Self {
        Self {
            id,
            qp: None,
            is_accepted: false,
            is_closed: false,
            is_lost: false,
            serves_reads: true,
            longest: 1024,
            is_slow: false,
            delay: 0,
            receives: 0,
            private: Vec::new(),
            messages: VecDeque::new(),
            regions: HashMap::new(),
            invalidated: HashMap::new(),
            next_key: 0x1000,
        }
    }

    pub fn is_open(&self) -> bool {
        self.is_accepted
    }

    pub fn is_gone(&self) -> bool {
        self.is_closed || self.is_lost
    }

    /// Registers memory, and returns its key.
    pub fn register(&mut self, region: Region) -> u32 {
        self.next_key += 1;
        // No change of a bit makes a key that of other memory.
        let key = self.next_key.wrapping_mul(0x9e37_79b1);
        self.regions.insert(key, region);
        key
    }

    /// Returns the memory of a key, which is not valid any more.
    pub fn invalidate(&mut self, key: u32) -> Region {
        let region = self.regions.remove(&key);
        let region = region.or_else(|| self.invalidated.remove(&key));
        region.expect("the key was registered")
    }

    fn range(&mut self, key: u32, addr: u64, len: usize, is_sink: bool) -> Option<&mut [u8]> {
        if self.is_gone() {
            return None;
        }
        let region = self
            .regions
            .get_mut(&key)
            .filter(|region| region.is_sink == is_sink)?;
        let at = usize::try_from(addr.checked_sub(region.addr)?).ok()?;
        region.bytes.get_mut(at..at.checked_add(len)?)
    }

    pub(crate) fn read(&mut self, key: u32, addr: u64, len: usize) -> Option<Vec<u8>> {
        self.range(key, addr, len, false)
            .map(|bytes| bytes.to_vec())
    }

    pub(crate) fn write(&mut self, key: u32, addr: u64, bytes: &[u8]) -> bool {
        let range = self.range(key, addr, bytes.len(), true);
        range.map(|range| range.copy_from_slice(bytes)).is_some()
    }

    /// Takes a message into a Receive. Returns false if it invalidates a key that is not valid.
    pub(crate) fn take(&mut self, bytes: Vec<u8>, invalidated: Option<u32>) -> bool {
        if let Some(key) = invalidated {
            let Some(region) = self.regions.remove(&key) else {
                return false;
            };
            self.invalidated.insert(key, region);
        }
        self.receives -= 1;
        self.messages.push_back(bytes);
        true
    }
}

impl Ptr<Link> {
    /// Sends a message, and waits if no Receive is posted; not for longer than the device repeats it.
    /// Returns true if it had to wait, and None if the connection has ended.
    pub fn send(self, bytes: &[u8]) -> Option<bool> {
        let (qp, has_waited) = self.wait_for_receive()?;
        qp.deliver(bytes, None);
        sim::point();
        Some(has_waited)
    }

    /// Uses a Receive in a way that a peer has no reason for.
    pub fn use_receive(self, what: Use) {
        if let Some((qp, _)) = self.wait_for_receive() {
            qp.deliver(&[], Some(what));
        }
    }

    /// Waits until a Receive is posted. Returns the server's queue pair, with true if it had to wait, or
    /// None if the connection has ended.
    fn wait_for_receive(self) -> Option<(Ptr<ib_qp>, bool)> {
        let has_receive = || self.get().qp.is_some_and(|qp| qp.has_receive());
        let has_waited = !has_receive();
        if !sim::wait_for(self.0, 60_000, || self.has_ended() || has_receive()) {
            self.close();
        }
        let qp = self.get().qp.filter(|_| !self.has_ended())?;
        Some((qp, has_waited))
    }

    /// Returns the Receives that the server has posted.
    pub fn posted(self) -> usize {
        let qp = self.get().qp;
        qp.map_or(0, |qp| qp.get().receives.len())
    }

    /// Waits for a message. Returns None if the connection has ended, or after a time.
    pub fn receive(self, millis: u64) -> Option<Vec<u8>> {
        let mut message = None;
        sim::wait_for(self.0, millis, || {
            message = self.get().messages.pop_front();
            message.is_some() || self.has_ended()
        });
        message
    }

    /// Returns true if the connection has ended.
    pub fn has_ended(self) -> bool {
        let link = self.get();
        link.is_gone() || link.qp.is_none_or(|qp| qp.get().is_broken)
    }

    /// Returns true if the server has not been told of a message that has arrived.
    pub fn is_unheard(self) -> bool {
        self.get().qp.is_some_and(|qp| qp.get().recv_cq.is_silent())
    }

    /// Returns true if a side has closed the connection, or the server has destroyed its queue pair.
    pub fn is_over(self) -> bool {
        self.get().is_closed || self.get().qp.is_none()
    }

    /// Closes the connection. A peer that was lost says nothing.
    pub fn close(self) {
        let link = self.get();
        if link.is_lost {
            return;
        }
        link.is_closed = true;
        sim::wake(self.0);
        deliver_event(link.id, rdma_cm_event_type_RDMA_CM_EVENT_DISCONNECTED);
    }

    /// Vanishes, without a word.
    pub fn lose(self) {
        self.get().is_lost = true;
        sim::wake(self.0);
    }
}
