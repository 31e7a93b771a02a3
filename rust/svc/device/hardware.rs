// SPDX-License-Identifier: GPL-2.0

//! Hardware: the verbs objects of a device that its connections share.
//!
//! The limits of the device bound the size of each queue. The settings bound the Receive queue of a
//! connection: those at the time when it is created.
//!
//! # Context
//!
//! Process context, and may sleep, but for the functions that only read constant fields.

use crate::svc::lane::{
    Lane,
    SHARED_CQ, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::{
    cq::CqReservation,
    device::{
        IbDevice,
        Limits,
        Pd, //
    },
    mem::memory_region::Kind, //
};
use sunrpc::callback::SLOTS;
use support::{
    compat,
    RateLimit, //
};
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

/// The verbs objects that the connections of a device share.
///
/// A [`Device`](super::Device) creates it for its first connection and drops it when the device is
/// removed.
pub(crate) struct Hardware {
    /// The protection domain.
    pub(crate) pd: Arc<Pd>,
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
}

impl Hardware {
    /// Creates the shared objects of the device `ib`. May sleep.
    ///
    /// # Errors
    ///
    /// - `EOPNOTSUPP`: the device lacks a capability that the server needs.
    /// - Those of creating the objects.
    // Out of line: its frame is large, and so is that of its caller.
    #[inline(never)]
    pub(crate) fn new(ib: &IbDevice, reads_into: ReadsInto) -> Result<Arc<Self>> {
        let limits = ib.limits();
        let registers = Self::check(ib, &limits, reads_into)?;
        let hardware = Self {
            pd: Pd::new(ib)?,
            send_depth: SEND_DEPTH.min(limits.max_qp_wr.saturating_sub(1)),
            max_sge: MAX_SGE.min(limits.max_send_sge),
            max_read_sge: MAX_SGE.min(limits.max_send_sge).min(limits.max_sge_rd),
            registers,
            copies: limits.max_send_sge < SEND_SGE,
            limits,
        };
        Ok(Arc::new(hardware, GFP_KERNEL)?)
    }

    /// Checks that the device has the capabilities that the server needs. Returns the kind of
    /// memory registration, or `None` if RDMA Reads need no registered memory.
    ///
    /// # Errors
    ///
    /// `EOPNOTSUPP` if a capability is missing; the log names it.
    fn check(ib: &IbDevice, limits: &Limits, reads_into: ReadsInto) -> Result<Option<Kind>> {
        let registers = if limits.iwarp || reads_into == ReadsInto::Registered {
            Some(Kind::new(limits))
        } else {
            None
        };
        let lacking = if let Some(None) = registers {
            "memory registration by work requests"
        } else if limits.max_qp_wr.min(limits.max_cqe) < MIN_DEPTH {
            "queues of 32 entries"
        } else if limits.max_send_sge == 0 || limits.max_sge_rd == 0 {
            "RDMA Read"
        } else {
            return Ok(registers.flatten());
        };
        if RateLimit::Others.allows() {
            pr_err!(
                "{}: cannot serve clients: the device lacks {}\n",
                ib.name(),
                lacking
            );
        }
        Err(compat::eopnotsupp())
    }

    /// Returns the most Receive buffers that a connection with up to `credits` credits may have.
    /// Any context.
    pub(crate) fn max_receives(&self, credits: u32) -> u32 {
        // One entry is left for the marker of the drain.
        let most = self.limits.max_qp_wr.min(self.limits.max_cqe);
        needed(credits, SLOTS).min(most.saturating_sub(1))
    }

    /// Reserves completion queue entries of `lane` for a connection with up to `max` Receive
    /// buffers: for these, for the work that it can have posted, and for the markers of
    /// its drains. May sleep.
    ///
    /// # Errors
    ///
    /// Those of [`Lane::share`].
    pub(crate) fn reserve_cqs(
        &self,
        lane: &Lane,
        max: usize,
    ) -> Result<(CqReservation, CqReservation)> {
        let receives = u32::try_from(max).unwrap_or(u32::MAX).saturating_add(1);
        let sends = self.send_depth.saturating_add(1);
        lane.reserve(receives, sends, self.limits.max_cqe)
    }
}
