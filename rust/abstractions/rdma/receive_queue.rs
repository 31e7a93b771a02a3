// SPDX-License-Identifier: GPL-2.0

//! Queues that Receive buffers are posted to: that of a device, or that of a queue pair.

use super::{
    device::Pd,
    qp::Handler,
    srq::Srq, //
};
use crate::abstractions::{
    bindings,
    page::PAGE_SIZE, //
};
use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::Arc, //
};

/// The bytes of a Receive buffer: a message that is longer breaks its connection.
pub(crate) const RECEIVE_SIZE: usize = PAGE_SIZE;

/// Where buffers are posted.
pub(super) enum Queue<H: Handler> {
    /// To the queue of a device.
    Shared(Arc<Srq<H>>),
    /// To that of a queue pair, which closes the pool before it goes.
    Own(NonNull<bindings::ib_qp>),
}

impl<H: Handler> Queue<H> {
    /// Posts [`RECEIVE_SIZE`] bytes at the device's address `addr`. In any context.
    ///
    /// # Errors
    ///
    /// The driver's: nothing is posted.
    ///
    /// # Safety
    ///
    /// - A queue pair is live.
    /// - The bytes are mapped for the device of `pd`, and they and `cqe` stay as they are until the
    ///   completion or until the queue is gone.
    pub(super) unsafe fn post(&self, pd: &Pd, cqe: *mut bindings::ib_cqe, addr: u64) -> Result {
        let mut sge = bindings::ib_sge {
            addr,
            length: RECEIVE_SIZE as u32,
            lkey: pd.local_key(),
        };
        let mut wr: bindings::ib_recv_wr = super::zeroed();
        wr.__bindgen_anon_1.wr_cqe = ManuallyDrop::new(cqe);
        wr.sg_list = &mut sge;
        wr.num_sge = 1;
        to_result(match self {
            // SAFETY: The queue is live by the invariant of `Srq`; `wr` and `sge` are only read
            // during the call; the rest by the safety requirements of this function.
            Self::Shared(srq) => unsafe { bindings::ib_post_srq_recv(srq.as_ptr(), &wr) },
            // SAFETY: As above, for the queue pair too.
            Self::Own(qp) => unsafe { bindings::ib_post_recv(qp.as_ptr(), &wr) },
        })
    }
}
