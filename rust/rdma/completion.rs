// SPDX-License-Identifier: GPL-2.0

//! Completions: that posted work has ended, and how.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use core::cell::Cell;
use kernel::{
    prelude::*,
    str::CStr, //
};

/// How work ended (`enum ib_wc_status`).
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Status(bindings::ib_wc_status);

impl Status {
    pub(super) fn new(status: bindings::ib_wc_status) -> Self {
        Self(status)
    }

    /// Whether it was done.
    pub fn is_success(self) -> bool {
        self.0 == bindings::ib_wc_status_IB_WC_SUCCESS
    }

    /// Whether it was not tried, because the queue pair is in error.
    pub fn is_flush(self) -> bool {
        self.0 == bindings::ib_wc_status_IB_WC_WR_FLUSH_ERR
    }

    /// The number.
    pub fn code(self) -> i32 {
        i32::try_from(self.0).unwrap_or(i32::MAX)
    }

    /// What the RDMA core calls it.
    pub fn name(code: i32) -> &'static CStr {
        // SAFETY: The function takes any number and returns a static string.
        unsafe { CStr::from_char_ptr(bindings::ib_wc_status_msg(code as bindings::ib_wc_status)) }
    }
}

/// The end of posted work. A handler sees it before any later one of its queue pair, as only the
/// worker of the send queue's completion queue handles these.
pub struct Completion {
    qp: *mut bindings::ib_qp,
    slot: usize,
    status: Status,
    /// Whether all that it stands for was given back.
    spent: Cell<bool>,
}

impl Completion {
    pub(super) fn new(qp: *mut bindings::ib_qp, slot: usize, status: Status) -> Self {
        Self {
            qp,
            slot,
            status,
            spent: Cell::new(false),
        }
    }

    /// How the work ended.
    pub fn status(&self) -> Status {
        self.status
    }

    pub(super) fn is_spent(&self) -> bool {
        self.spent.get()
    }

    pub(super) fn spend(&self) {
        self.spent.set(true);
    }

    /// The slot of the work, if it is work of `qp`.
    pub(super) fn slot_of(&self, qp: *mut bindings::ib_qp) -> Option<usize> {
        (self.qp == qp).then_some(self.slot)
    }
}
