// SPDX-License-Identifier: GPL-2.0

//! Capabilities: the limits of a device, and what follows from them for each connection.
//!
//! The limits of the device bound the size of each queue. The settings bound the Receive queue of a
//! connection: those at the time when it is created.

use super::cqs::SHARED_CQ;
use rdma::{
    device::Limits,
    mem::memory_region::Kind, //
};
use sunrpc::callback::SLOTS;
use svcrdma_proto::{
    receives::needed,
    sq::Signals, //
};

/// The largest number of scatter-gather entries in a work request: 32 pages are 128 KiB.
const MAX_SGE: u32 = 32;

/// The scatter-gather entries of a Send that carries at most two ranges of the results: the header,
/// and 4 KiB in two ranges that touch head, pages and tail. On a device with fewer entries, inline
/// results are copied.
const SEND_SGE: u32 = 8;

// The limit of the device decides if results are copied, not `MAX_SGE`.
const _: () = assert!(SEND_SGE <= MAX_SGE);

/// The work requests that a connection can have posted. The sum of this number, the marker of
/// the drain and the entry that a ring leaves empty is a power of two, because drivers round up
/// to one.
const SEND_DEPTH: u32 = 62;

const _: () = assert!((SEND_DEPTH + 2).is_power_of_two());

/// The work requests that a queue of a queue pair must have room for: the Receives that a
/// connection starts with, the Receives for replies to callbacks, and the marker of the drain.
const MIN_DEPTH: u32 = 32;

// A full send queue contains a signalled work request. Without one, no completion would free its
// slots.
const _: () = assert!(Signals::MAX_UNSIGNALLED < MIN_DEPTH && MIN_DEPTH <= SEND_DEPTH);

const _: () = assert!(SHARED_CQ / (SEND_DEPTH + 1) == 65);

/// The memory that RDMA Reads are posted with.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum ReadsInto {
    /// Registered memory if the device requires it (iWARP), otherwise memory under the local DMA
    /// key.
    Needed,
    /// Registered memory on all devices, for tests.
    Registered,
}

/// The capabilities of a device. They never change.
pub(crate) struct Capabilities {
    /// The limits of the device.
    pub(crate) limits: Limits,
    /// The work requests that a connection can have posted.
    pub(crate) send_depth: u32,
    /// The scatter-gather entries of a work request.
    pub(crate) max_sge: u32,
    /// The scatter-gather entries of an RDMA Read.
    pub(crate) max_read_sge: u32,
    /// The kind of memory registration, or `None` if RDMA Reads need no registered memory.
    pub(crate) registers: Option<Kind>,
    /// True if a Send has too few scatter-gather entries, so that inline results must be copied.
    pub(crate) copies: bool,
    /// The name of a capability that the server needs and the device lacks.
    pub(super) lacking: Option<&'static str>,
}

impl Capabilities {
    /// Returns the capabilities of a device with these `limits`.
    pub(super) fn new(limits: Limits, reads_into: ReadsInto) -> Self {
        let must_register = limits.iwarp || reads_into == ReadsInto::Registered;
        let registers = must_register.then(|| Kind::new(&limits)).flatten();
        let lacking = if must_register && registers.is_none() {
            Some("memory registration by work requests")
        } else if entries(&limits) < MIN_DEPTH {
            Some("queues of 32 entries")
        } else if limits.max_send_sge == 0
            || limits.max_sge_rd == 0
            || limits.max_qp_init_rd_atom == 0
        {
            Some("RDMA Read")
        } else {
            None
        };
        Self {
            send_depth: SEND_DEPTH.min(depth(&limits)),
            max_sge: MAX_SGE.min(limits.max_send_sge),
            max_read_sge: MAX_SGE.min(limits.max_send_sge).min(limits.max_sge_rd),
            registers,
            copies: limits.max_send_sge < SEND_SGE,
            lacking,
            limits,
        }
    }

    /// Returns the most Receive buffers that a connection with up to `credits` credits may have.
    pub(crate) fn max_receives(&self, credits: u32) -> u32 {
        needed(credits, SLOTS).min(depth(&self.limits))
    }
}

/// Returns the most entries of a queue of a queue pair. All of them may complete at once.
fn entries(limits: &Limits) -> u32 {
    limits.max_qp_wr.min(limits.max_cqe)
}

/// Returns the most work requests that a queue of such a device can have posted. One entry is left
/// for the marker of the drain.
fn depth(limits: &Limits) -> u32 {
    entries(limits).saturating_sub(1)
}
