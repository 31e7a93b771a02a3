// SPDX-License-Identifier: GPL-2.0

//! A completion queue with its event channel.

use super::{bindings, check, check_ptr, pd::Pd};
use crate::error::{Error, Result};
use std::{
    ffi::c_int,
    mem,
    os::fd::BorrowedFd,
    ptr::{self, NonNull},
    rc::Rc, //
};

/// The completion of a work request.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Completion {
    /// The ID given when the work request was posted.
    pub(crate) id: u64,
    /// The `ibv_wc_status`; 0 means success.
    pub(crate) status: u32,
    /// The number of bytes received.
    pub(crate) len: usize,
}

/// The channel of a completion queue's events.
///
/// # Invariants
///
/// The pointer comes from `ibv_create_comp_channel` and is destroyed only by Drop.
struct Channel(NonNull<bindings::ibv_comp_channel>);

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: valid by the invariant, and no queue uses it.
        unsafe { bindings::ibv_destroy_comp_channel(self.0.as_ptr()) };
    }
}

/// A completion queue.
///
/// # Invariants
///
/// `cq` is valid until Drop and reports its events to `channel`.
pub(super) struct Cq {
    cq: NonNull<bindings::ibv_cq>,
    channel: Channel,
    pd: Rc<Pd>,
}

impl Cq {
    /// Creates a completion queue with `entries` entries on the device of `pd`.
    pub(super) fn new(pd: Rc<Pd>, entries: c_int) -> Result<Self> {
        let verbs = pd.id().verbs();
        // SAFETY: the protection domain keeps its device open.
        let channel = unsafe { bindings::ibv_create_comp_channel(verbs) };
        // INVARIANT: fresh.
        let channel = Channel(check_ptr("ibv_create_comp_channel", channel)?);
        // SAFETY: the device is open, `channel` fresh.
        let cq = unsafe {
            bindings::ibv_create_cq(verbs, entries, ptr::null_mut(), channel.0.as_ptr(), 0)
        };
        // INVARIANT: fresh, and created with `channel`.
        let cq = check_ptr("ibv_create_cq", cq)?;
        Ok(Self { cq, channel, pd })
    }

    /// Returns the protection domain.
    pub(super) fn pd(&self) -> &Rc<Pd> {
        &self.pd
    }

    /// Returns the raw pointer, which is valid as long as `self`.
    pub(super) fn as_ptr(&self) -> *mut bindings::ibv_cq {
        self.cq.as_ptr()
    }

    /// Returns the file descriptor that becomes readable when an armed queue gets a completion.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: valid by the invariant.
        let fd = unsafe { self.channel.0.as_ref() }.fd;
        // SAFETY: the channel, which lives as long as `self`, closes the descriptor.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }

    /// Takes the next completion, if any.
    pub(super) fn poll(&self) -> Result<Option<Completion>> {
        // SAFETY: all-zero is a valid `ibv_wc`: it holds only numbers.
        let mut wc: bindings::ibv_wc = unsafe { mem::zeroed() };
        // SAFETY: valid by the invariant; a queue's context is valid as long as the queue.
        let poll = unsafe { (*self.cq.as_ref().context).ops.poll_cq };
        let poll = poll.ok_or_else(|| Error::unavailable("the device has no poll_cq"))?;
        // SAFETY: `wc` has room for one completion; the provider's own function is used.
        match unsafe { poll(self.cq.as_ptr(), 1, &mut wc) } {
            0 => Ok(None),
            1 => Ok(Some(Completion {
                id: wc.wr_id,
                status: wc.status,
                len: wc.byte_len as usize,
            })),
            _ => Err(Error::unavailable("ibv_poll_cq failed")),
        }
    }

    /// Arms the queue, so that the next completion raises an event.
    pub(super) fn arm(&self) -> Result<()> {
        // SAFETY: valid by the invariant; a queue's context is valid as long as the queue.
        let arm = unsafe { (*self.cq.as_ref().context).ops.req_notify_cq };
        let arm = arm.ok_or_else(|| Error::unavailable("the device has no req_notify_cq"))?;
        // SAFETY: valid by the invariant.
        check("ibv_req_notify_cq", unsafe { arm(self.cq.as_ptr(), 0) })
    }

    /// Takes and acknowledges the event that made the file descriptor readable.
    pub(super) fn take_event(&self) -> Result<()> {
        let mut cq = ptr::null_mut();
        let mut context = ptr::null_mut();
        // SAFETY: valid by the invariant; both places live through the call.
        let result =
            unsafe { bindings::ibv_get_cq_event(self.channel.0.as_ptr(), &mut cq, &mut context) };
        check("ibv_get_cq_event", result)?;
        // SAFETY: `cq` is ours, the only one on this channel; one event was taken.
        unsafe { bindings::ibv_ack_cq_events(cq, 1) };
        Ok(())
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: valid by the invariant; queue pairs hold an Rc and are gone, and all events taken
        // were acknowledged.
        unsafe { bindings::ibv_destroy_cq(self.cq.as_ptr()) };
    }
}
