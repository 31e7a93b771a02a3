// SPDX-License-Identifier: GPL-2.0

//! Handlers: the ULP's side of the completions of a queue pair.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    completion::{
        Completion,
        Status, //
    },
    recv::{
        buffer::State,
        receive::Receive, //
    },
};
use kernel::{
    ffi::c_int,
    sync::ArcBorrow, //
};

/// A use of a Receive that is not a plain Send.
#[derive(Clone, Copy)]
pub enum Unfit {
    /// An RDMA Write with immediate data.
    Immediate,
    /// A Send With Invalidate: it has invalidated a memory region of this host, which may belong to
    /// any connection of the device.
    Invalidation,
}

impl Unfit {
    /// Returns the use of a successful Receive, or `None` for a plain Send.
    pub(super) fn of(opcode: bindings::ib_wc_opcode, flags: c_int) -> Option<Self> {
        if opcode == bindings::ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM {
            return Some(Self::Immediate);
        }
        // CAST: The value is a set of flags.
        let is_invalidation = flags as u32 & bindings::ib_wc_flags_IB_WC_WITH_INVALIDATE != 0;
        is_invalidation.then_some(Self::Invalidation)
    }
}

/// The context of a queue pair: handles its completions.
///
/// A [`Qp`](crate::qp::Qp) holds a reference to its handler until all of its completions are
/// handled.
///
/// # Context
///
/// All functions but [`failed`](Self::failed) run on the RDMA core's workqueue, on the worker of a
/// completion queue. They must not sleep: the same worker serves all queue pairs of the completion
/// queue. Receives and sends have separate completion queues, so `received` and `sent` may run
/// at the same time.
///
/// # Examples
///
/// A handler passes each message on, and gives completed work back.
///
#[doc = "```ignore"]
#[doc = include_str!("examples/uses/handler.rs")]
#[doc = "```"]
pub trait Handler: Send + Sync + Sized + 'static {
    /// The data that a Receive buffer keeps beside its message.
    type Call: State;

    /// Handles a message that has arrived.
    fn received(this: ArcBorrow<'_, Self>, receive: Receive<Self::Call>);

    /// Handles a successful Receive that was not completed by a plain Send, unless
    /// [`Self::invalidated`] does. Its buffer is posted again.
    fn unfit(this: ArcBorrow<'_, Self>, what: Unfit);

    /// Handles the message of a Send With Invalidate that names `key`. The default drops the message
    /// and calls [`Self::unfit`].
    ///
    /// The device has invalidated the memory region with this key, so the peer gives the
    /// [`Exposure`](crate::mem::exposure::Exposure) back that [has the key](crate::mem::exposure::Exposure::has_key).
    /// The ULP revokes it as any other: the peer may have named the key of something else.
    fn invalidated(this: ArcBorrow<'_, Self>, receive: Receive<Self::Call>, _key: u32) {
        drop(receive);
        Self::unfit(this, Unfit::Invalidation);
    }

    /// Handles a Receive that has failed or was flushed. No Receive is posted to this queue pair
    /// any more; the ULP tears the connection down.
    fn receive_failed(this: ArcBorrow<'_, Self>, status: Status);

    /// Handles a completion of posted work. If the status is a success, the implementation calls
    /// [`SendGuard::complete`](crate::send::queue::SendGuard::complete) until it is spent.
    /// Otherwise the queue pair has failed, and the ULP tears the connection down.
    fn sent(this: ArcBorrow<'_, Self>, completion: &Completion);

    /// Handles a fatal event of the queue pair that the device reports.
    ///
    /// # Context
    ///
    /// Any, also with hard interrupts disabled. Must take no locks.
    fn failed(this: ArcBorrow<'_, Self>);
}
