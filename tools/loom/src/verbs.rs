// SPDX-License-Identifier: GPL-2.0

//! Model of the verbs: a receive queue.

#![allow(non_camel_case_types, reason = "the names of C")]

use crate::{
    recv::buffer::Buffer,
    tests::Content, //
};
use core::ptr::NonNull;
use kernel::sync::SpinLock;

pub struct ib_cqe;

/// `union` in C.
pub struct Cookie {
    pub wr_cqe: *mut ib_cqe,
}

pub struct ib_recv_wr {
    pub next: *mut Self,
    pub __bindgen_anon_1: Cookie,
}

/// A queue pair, with the buffers that are posted.
pub struct ib_qp {
    pub(crate) posted: SpinLock<Vec<NonNull<Buffer<Content>>>>,
}

/// Posts work requests one by one, so that each may complete before the next one is posted.
///
/// # Safety
///
/// `qp` is live, and the work requests from `first` on are those of a `Buffer<Content>`.
pub unsafe fn ib_post_recv(
    qp: *mut ib_qp,
    first: *mut ib_recv_wr,
    _bad: &mut *const ib_recv_wr,
) -> i32 {
    let mut wr = first;
    while !wr.is_null() {
        // SAFETY: The caller's.
        let (buffer, next) = unsafe { ((*wr).__bindgen_anon_1.wr_cqe.cast(), (*wr).next) };
        let buffer: NonNull<Buffer<Content>> = NonNull::new(buffer).unwrap();
        // SAFETY: The caller's. The device may write to the buffer.
        unsafe {
            (*buffer.as_ptr()).state.set(0);
            (*qp).posted.lock().push(buffer);
        }
        wr = next;
    }
    0
}
