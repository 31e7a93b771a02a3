// SPDX-License-Identifier: GPL-2.0

//! A completion queue with its event channel.

use super::{bindings, check, check_ptr};
use crate::error::{Error, Result};
use std::{
    mem,
    os::fd::RawFd,
    ptr::{self, NonNull}, //
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

/// A completion queue.
///
/// # Invariants
///
/// Both pointers are valid until Drop; `cq` reports its events to `channel`.
pub(super) struct Cq {
    cq: NonNull<bindings::ibv_cq>,
    channel: NonNull<bindings::ibv_comp_channel>,
}

impl Cq {
    /// Creates a completion queue with `entries` entries.
    ///
    /// # Safety
    ///
    /// `verbs` is an open device context, and stays open as long as the result lives.
    pub(super) unsafe fn new(verbs: *mut bindings::ibv_context, entries: u32) -> Result<Self> {
        // SAFETY: `verbs` is open by the contract of this function.
        let channel = unsafe { bindings::ibv_create_comp_channel(verbs) };
        let channel = check_ptr("ibv_create_comp_channel", channel)?;
        let entries =
            i32::try_from(entries).map_err(|_| Error::unavailable("too many completions"))?;
        // SAFETY: `verbs` is open, `channel` fresh.
        let cq = unsafe {
            bindings::ibv_create_cq(verbs, entries, ptr::null_mut(), channel.as_ptr(), 0)
        };
        match check_ptr("ibv_create_cq", cq) {
            // INVARIANT: both are fresh, and `cq` was created with `channel`.
            Ok(cq) => Ok(Self { cq, channel }),
            Err(error) => {
                // SAFETY: `channel` is ours and no queue uses it.
                unsafe { bindings::ibv_destroy_comp_channel(channel.as_ptr()) };
                Err(error)
            }
        }
    }

    /// Returns the raw pointer, which is valid as long as `self`.
    pub(super) fn as_ptr(&self) -> *mut bindings::ibv_cq {
        self.cq.as_ptr()
    }

    /// Returns the file descriptor that becomes readable when an armed queue gets a completion.
    pub(super) fn fd(&self) -> RawFd {
        // SAFETY: valid by the invariant.
        unsafe { self.channel.as_ref() }.fd
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
            unsafe { bindings::ibv_get_cq_event(self.channel.as_ptr(), &mut cq, &mut context) };
        check("ibv_get_cq_event", result)?;
        // SAFETY: `cq` is ours, the only one on this channel; one event was taken.
        unsafe { bindings::ibv_ack_cq_events(cq, 1) };
        Ok(())
    }
}

impl Drop for Cq {
    fn drop(&mut self) {
        // SAFETY: valid by the invariant; the queue pair is destroyed before (endpoint.rs), and all
        // events taken were acknowledged.
        unsafe { bindings::ibv_destroy_cq(self.cq.as_ptr()) };
        // SAFETY: valid by the invariant, and its only queue is gone.
        unsafe { bindings::ibv_destroy_comp_channel(self.channel.as_ptr()) };
    }
}
