// SPDX-License-Identifier: GPL-2.0

//! Completions of posted work, and their status.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::send::chain_buffers::Slot;
use core::cell::Cell;
use kernel::{
    prelude::*,
    str::CStr, //
};

/// The status of a completion (`enum ib_wc_status`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Status(bindings::ib_wc_status);

impl Status {
    pub(super) fn new(status: bindings::ib_wc_status) -> Self {
        Self(status)
    }

    /// Returns true if the device has executed the work.
    #[inline]
    pub fn is_success(self) -> bool {
        self.0 == bindings::ib_wc_status_IB_WC_SUCCESS
    }

    /// Returns true if the work was flushed: the queue pair was in the error state.
    #[inline]
    pub fn is_flush(self) -> bool {
        self.0 == bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR
    }

    /// Returns the number of the status.
    #[inline]
    pub fn code(self) -> i32 {
        i32::try_from(self.0).unwrap_or(i32::MAX)
    }

    /// Returns the RDMA core's description of the status `code` (`ib_wc_status_msg`).
    #[inline]
    pub fn name(code: i32) -> &'static CStr {
        // SAFETY: The function takes any number and returns a static string.
        unsafe { CStr::from_char_ptr(bindings::ib_wc_status_msg(code as bindings::ib_wc_status)) }
    }
}

/// The completion of posted work, as [`Handler::sent`](crate::handler::Handler::sent) gets it.
///
/// A completion stands for its work request and all that were posted before.
/// [`SendGuard::complete`](crate::send::queue::SendGuard::complete) turns it into work that is done.
///
/// The completions of a queue pair are handled in order and one at a time, because only the worker
/// of the send queue's completion queue handles them.
pub struct Completion {
    /// The slot of the work request. Not dereferenced.
    slot: *const Slot,
    status: Status,
    /// True once all work that the completion stands for was given back.
    spent: Cell<bool>,
}

impl Completion {
    /// Creates the completion of the work request in `slot`.
    #[inline]
    pub(super) fn new(slot: *const Slot, status: Status) -> Self {
        Self {
            slot,
            status,
            spent: Cell::new(false),
        }
    }

    /// Returns the status of the work request.
    #[inline]
    pub fn status(&self) -> Status {
        self.status
    }

    /// Returns true once all work that the completion stands for was given back.
    #[inline]
    pub fn is_spent(&self) -> bool {
        self.spent.get()
    }

    /// Notes that all work that the completion stands for was given back.
    #[inline]
    pub(super) fn spend(&self) {
        self.spent.set(true);
    }

    /// Returns the slot of the work request.
    #[inline]
    pub(super) fn slot(&self) -> *const Slot {
        self.slot
    }
}
