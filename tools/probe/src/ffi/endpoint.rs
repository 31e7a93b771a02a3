// SPDX-License-Identifier: GPL-2.0

//! The verbs objects of one connection: identifier, queue pair and completion queue.

use super::{
    bindings, check, check_ptr,
    cm::{Addresses, Event, Id, Offer},
    completion::{Completion, Cq},
    memory::Region,
    pd::Pd,
    wait::wait_readable_or,
    window::Window,
};
use crate::error::{Error, Result};
use std::{
    ffi::c_int,
    mem,
    os::fd::BorrowedFd,
    ptr::{self, NonNull},
    rc::Rc,
    time::{Duration, Instant}, //
};

/// The owner of a queue pair.
#[derive(Clone, Copy)]
enum Owner {
    /// librdmacm, which changes the states of the queue pair.
    Cm,
    /// This program; the queue pair never leaves its initial state.
    Nobody,
}

/// A queue pair.
///
/// # Invariants
///
/// `qp` is valid until Drop. It uses `cq`, and the identifier and the protection domain of that.
struct Qp {
    qp: NonNull<bindings::ibv_qp>,
    owner: Owner,
    cq: Rc<Cq>,
}

impl Drop for Qp {
    fn drop(&mut self) {
        match self.owner {
            // SAFETY: the identifier lives as long as `cq` and owns this queue pair.
            Owner::Cm => unsafe { bindings::rdma_destroy_qp(self.cq.pd().id().as_ptr()) },
            Owner::Nobody => {
                // SAFETY: valid by the invariant, not used again.
                unsafe { bindings::ibv_destroy_qp(self.qp.as_ptr()) };
            }
        }
    }
}

/// The sizes of the queues of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Room {
    /// Entries of the send queue, and of the receive queue. siw reports a completion before it frees
    /// the entry, so a user who has seen the last of `depth` completions may need one more.
    requests: u32,
    /// Entries of the completion queue.
    completions: c_int,
}

impl Room {
    /// Returns the sizes for `depth` Sends and as many Receives.
    fn new(depth: u32) -> Result<Self> {
        let room = depth.checked_add(1).and_then(|requests| {
            let completions = c_int::try_from(requests.checked_mul(2)?).ok()?;
            Some(Self {
                requests,
                completions,
            })
        });
        room.ok_or_else(|| Error::unavailable(format!("no queue has room for {depth} messages")))
    }
}

/// The result of a wait.
#[derive(Clone, Debug)]
pub(crate) enum Wakeup {
    /// A work request completed.
    Completion(Completion),
    /// The connection had an event.
    Event(Event),
    /// The wait timed out.
    Timeout,
}

/// The kind of an RDMA operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Rdma {
    /// Reads the server's memory.
    Read,
    /// Writes the server's memory.
    Write,
}

/// Memory of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Remote {
    pub(crate) key: u32,
    pub(crate) addr: u64,
}

/// The verbs objects of one connection whose address is resolved.
///
/// The connection ends when the endpoint and all memory of it are dropped.
pub(crate) struct Endpoint {
    qp: Option<Qp>,
    cq: Rc<Cq>,
}

impl Endpoint {
    /// Resolves `addresses` and creates all objects with room for `depth` Sends and as many Receives.
    pub(crate) fn open(
        addresses: Addresses,
        ack_timeout: Option<u8>,
        depth: u32,
        timeout: Duration,
    ) -> Result<Self> {
        let room = Room::new(depth)?;
        let id = Id::new()?;
        if let Some(ack_timeout) = ack_timeout {
            id.set_ack_timeout(ack_timeout)?;
        }
        let mut endpoint = Self::resolve(id, addresses, room, timeout)?;
        let mut attr = endpoint.attributes(room);
        let id = endpoint.id().as_ptr();
        // SAFETY: identifier and protection domain are valid; `attr` lives through the call.
        let result = unsafe { bindings::rdma_create_qp(id, endpoint.pd().as_ptr(), &mut attr) };
        check("rdma_create_qp", result)?;
        // SAFETY: the identifier is valid, and has a queue pair now.
        let qp = check_ptr("rdma_create_qp", unsafe { (*id).qp })?;
        endpoint.set_qp(qp, Owner::Cm);
        Ok(endpoint)
    }

    /// Opens an endpoint whose queue pair the CM does not manage. On InfiniBand the connection
    /// stops at the server's answer, which is not acknowledged.
    pub(crate) fn open_half(addresses: Addresses, timeout: Duration) -> Result<Self> {
        let room = Room::new(1)?;
        let mut endpoint = Self::resolve(Id::new()?, addresses, room, timeout)?;
        let mut attr = endpoint.attributes(room);
        // SAFETY: the protection domain is valid; `attr` lives through the call.
        let qp = unsafe { bindings::ibv_create_qp(endpoint.pd().as_ptr(), &mut attr) };
        endpoint.set_qp(check_ptr("ibv_create_qp", qp)?, Owner::Nobody);
        Ok(endpoint)
    }

    /// Creates everything except the queue pair.
    fn resolve(id: Id, addresses: Addresses, room: Room, timeout: Duration) -> Result<Self> {
        id.resolve(addresses, timeout)?;
        let pd = Rc::new(Pd::new(id)?);
        let cq = Rc::new(Cq::new(pd, room.completions)?);
        Ok(Self { qp: None, cq })
    }

    /// Takes a new queue pair, which was created with [`Self::attributes`].
    fn set_qp(&mut self, qp: NonNull<bindings::ibv_qp>, owner: Owner) {
        let cq = Rc::clone(&self.cq);
        // INVARIANT: fresh, and the attributes name `cq`.
        self.qp = Some(Qp { qp, owner, cq });
    }

    /// Returns the attributes of the queue pair.
    fn attributes(&self, room: Room) -> bindings::ibv_qp_init_attr {
        // SAFETY: all-zero is valid: numbers and pointers that may be NULL.
        let mut attr: bindings::ibv_qp_init_attr = unsafe { mem::zeroed() };
        attr.send_cq = self.cq.as_ptr();
        attr.recv_cq = self.cq.as_ptr();
        attr.qp_type = bindings::IBV_QPT_RC;
        attr.cap.max_send_wr = room.requests;
        attr.cap.max_recv_wr = room.requests;
        attr.cap.max_send_sge = 1;
        attr.cap.max_recv_sge = 1;
        attr
    }

    /// Returns the identifier.
    fn id(&self) -> &Id {
        self.pd().id()
    }

    /// Returns the protection domain.
    fn pd(&self) -> &Rc<Pd> {
        self.cq.pd()
    }

    /// Allocates and registers `len` bytes.
    pub(crate) fn region(&self, len: usize) -> Result<Region> {
        Region::new(self.pd(), len)
    }

    /// Creates a memory window of `len` bytes, if the device supports them, and posts its bind.
    pub(crate) fn window(&self, id: u64, len: usize) -> Result<Option<Window>> {
        let window = Window::new(self.pd(), len)?;
        if let Some(window) = &window {
            // SAFETY: valid by the invariant of `Qp`, and made of this protection domain.
            unsafe { window.post_bind(id, self.qp()?)? };
        }
        Ok(window)
    }

    /// Sends the connection request.
    pub(crate) fn connect(&self, offer: &Offer<'_>) -> Result<()> {
        // SAFETY: valid by the invariant of `Qp`.
        let qp_num = unsafe { self.qp()?.as_ref() }.qp_num;
        self.id().connect(offer, qp_num)
    }

    /// Starts an orderly disconnect.
    pub(crate) fn disconnect(&self) -> Result<()> {
        self.id().disconnect()
    }

    /// Destroys the queue pair, after which nothing that the server sends is answered.
    pub(crate) fn destroy_qp(&mut self) {
        self.qp = None;
    }

    /// Returns the queue pair.
    fn qp(&self) -> Result<NonNull<bindings::ibv_qp>> {
        let qp = self.qp.as_ref().map(|qp| qp.qp);
        qp.ok_or_else(|| Error::unavailable("the queue pair is gone"))
    }

    /// Posts a Receive of `len` bytes at `offset` of `region`.
    pub(crate) fn post_receive(
        &self,
        id: u64,
        region: &Region,
        offset: usize,
        len: usize,
    ) -> Result<()> {
        let qp = self.qp()?;
        let mut sge = sge(region, offset, len)?;
        // SAFETY: all-zero is valid: numbers and pointers that may be NULL.
        let mut wr: bindings::ibv_recv_wr = unsafe { mem::zeroed() };
        wr.wr_id = id;
        wr.sg_list = &mut sge;
        wr.num_sge = 1;
        let mut bad = ptr::null_mut();
        // SAFETY: valid by the invariant of `Qp`, and so is its context.
        let post = unsafe { (*qp.as_ref().context).ops.post_recv };
        let post = post.ok_or_else(|| Error::unavailable("the device has no post_recv"))?;
        // SAFETY: the request lives through the call, which copies it. The memory belongs to a
        // region, which deregisters it before it frees it, and then the device no longer accesses
        // it.
        check("ibv_post_recv", unsafe {
            post(qp.as_ptr(), &mut wr, &mut bad)
        })
    }

    /// Posts a Send of `len` bytes at `offset` of `region`. With `key` it also invalidates the
    /// peer's memory registration with that key.
    pub(crate) fn post_send(
        &self,
        id: u64,
        region: &Region,
        offset: usize,
        len: usize,
        key: Option<u32>,
    ) -> Result<()> {
        let opcode = match key {
            Some(_) => bindings::IBV_WR_SEND_WITH_INV,
            None => bindings::IBV_WR_SEND,
        };
        self.post(id, opcode, Some(sge(region, offset, len)?), key, None)
    }

    /// Posts an RDMA operation between `remote` and the `len` bytes at `offset` of `region`.
    pub(crate) fn post_rdma(
        &self,
        id: u64,
        rdma: Rdma,
        region: &Region,
        offset: usize,
        len: usize,
        remote: Remote,
    ) -> Result<()> {
        let opcode = match rdma {
            Rdma::Read => bindings::IBV_WR_RDMA_READ,
            Rdma::Write => bindings::IBV_WR_RDMA_WRITE,
        };
        let sge = sge(region, offset, len)?;
        self.post(id, opcode, Some(sge), None, Some(remote))
    }

    /// Posts an RDMA Write of no bytes with immediate data.
    pub(crate) fn post_immediate(&self, id: u64) -> Result<()> {
        self.post(id, bindings::IBV_WR_RDMA_WRITE_WITH_IMM, None, None, None)
    }

    /// Posts a work request to the send queue. `sge` must describe memory of a [`Region`].
    fn post(
        &self,
        id: u64,
        opcode: bindings::ibv_wr_opcode,
        mut sge: Option<bindings::ibv_sge>,
        key: Option<u32>,
        remote: Option<Remote>,
    ) -> Result<()> {
        let qp = self.qp()?;
        // SAFETY: all-zero is valid: numbers and pointers that may be NULL.
        let mut wr: bindings::ibv_send_wr = unsafe { mem::zeroed() };
        wr.wr_id = id;
        wr.sg_list = sge.as_mut().map_or(ptr::null_mut(), |sge| sge);
        wr.num_sge = i32::from(sge.is_some());
        wr.opcode = opcode;
        wr.__bindgen_anon_1.invalidate_rkey = key.unwrap_or(0);
        if let Some(Remote { key, addr }) = remote {
            wr.wr.rdma.remote_addr = addr;
            wr.wr.rdma.rkey = key;
        }
        wr.send_flags = bindings::IBV_SEND_SIGNALED;
        let mut bad = ptr::null_mut();
        // SAFETY: valid by the invariant of `Qp`, and so is its context.
        let post = unsafe { (*qp.as_ref().context).ops.post_send };
        let post = post.ok_or_else(|| Error::unavailable("the device has no post_send"))?;
        // SAFETY: as in `post_receive`.
        check("ibv_post_send", unsafe {
            post(qp.as_ptr(), &mut wr, &mut bad)
        })
    }

    /// Waits for a completion or an event of the connection. Completions take precedence.
    pub(crate) fn wait(&self, timeout: Duration) -> Result<Wakeup> {
        let wakeup = self.wait_or(timeout, None)?;
        Ok(wakeup.unwrap_or(Wakeup::Timeout))
    }

    /// Waits like [`Self::wait`], or until `other` is readable. Returns `None` if only that is.
    pub(crate) fn wait_or(
        &self,
        timeout: Duration,
        other: Option<BorrowedFd<'_>>,
    ) -> Result<Option<Wakeup>> {
        let deadline = Instant::now() + timeout;
        loop {
            if let Some(completion) = self.cq.poll()? {
                return Ok(Some(Wakeup::Completion(completion)));
            }
            self.cq.arm()?;
            // A completion that arrived before the queue was armed raises no event.
            if let Some(completion) = self.cq.poll()? {
                return Ok(Some(Wakeup::Completion(completion)));
            }
            let left = deadline.saturating_duration_since(Instant::now());
            let own = [self.cq.fd(), self.id().fd()];
            let [completed, happened, readable] = wait_readable_or(own, other, left)?;
            if completed {
                self.cq.take_event()?;
            } else if happened {
                if let Some(event) = self.id().next(Duration::ZERO)? {
                    return Ok(Some(Wakeup::Event(event)));
                }
            } else if readable {
                return Ok(None);
            } else if left.is_zero() {
                return Ok(Some(Wakeup::Timeout));
            }
        }
    }
}

/// Returns the scatter-gather entry of a piece of `region`.
fn sge(region: &Region, offset: usize, len: usize) -> Result<bindings::ibv_sge> {
    region.check_range(offset, len)?;
    Ok(bindings::ibv_sge {
        addr: region.address() + offset as u64,
        length: u32::try_from(len).map_err(|_| Error::unavailable("message too long"))?,
        lkey: region.lkey(),
    })
}

#[cfg(test)]
mod tests {
    use super::super::fake::Fake;
    use super::*;

    #[test]
    fn room_has_a_bound() {
        let room = Room::new(8).unwrap();
        assert_eq!((room.requests, room.completions), (9, 18));
        let most = c_int::MAX as u32 / 2 - 1;
        assert!(Room::new(most).is_ok());
        for depth in [most + 1, u32::MAX / 2, u32::MAX] {
            assert!(Room::new(depth).is_err(), "{depth}");
        }
    }

    #[test]
    fn objects_go_in_the_reverse_order() {
        let fake = Fake::new();
        drop(fake.endpoint());
        assert_eq!(
            fake.last(6),
            [
                "rdma_destroy_qp",
                "ibv_destroy_cq",
                "ibv_destroy_comp_channel",
                "ibv_dealloc_pd",
                "rdma_destroy_id",
                "rdma_destroy_event_channel"
            ]
        );
    }

    #[test]
    fn memory_keeps_the_identifier_and_thereby_the_device() {
        let fake = Fake::new();
        let endpoint = fake.endpoint();
        let region = endpoint.region(64).unwrap();
        drop(endpoint);
        assert_eq!(fake.count("rdma_destroy_qp"), 1);
        assert_eq!(fake.count("rdma_destroy_id"), 0);
        drop(region);
        assert_eq!(
            fake.last(4),
            [
                "ibv_dereg_mr",
                "ibv_dealloc_pd",
                "rdma_destroy_id",
                "rdma_destroy_event_channel"
            ]
        );
    }

    #[test]
    fn nothing_is_left_of_an_endpoint_that_cannot_be_opened() {
        for call in [
            "rdma_create_id",
            "ibv_alloc_pd",
            "ibv_create_comp_channel",
            "ibv_create_cq",
            "rdma_create_qp",
        ] {
            let fake = Fake::new();
            fake.fail(call);
            assert!(fake.open(8).is_err(), "{call}");
            assert_eq!(fake.objects(), 0, "{call}");
        }
        let fake = Fake::new();
        assert!(fake.open(u32::MAX).is_err());
        assert_eq!(fake.objects(), 0);
    }
}
