// SPDX-License-Identifier: GPL-2.0

//! Callbacks: RPC Calls of the server to a client, over the client's connection (RFC 8167).
//!
//! A class implements [`Back`] to send callbacks. It passes each reply to sunrpc through the
//! [`Channel`] of the connection, which it got with
//! [`Connect::bind`](super::xprt::Connect::bind). [`backchannel`](super::backchannel) has the
//! registration.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h)
//!
//! # Context
//!
//! Process context: `rpciod` and nfsd's workqueues call [`Back`], and the class may use a
//! [`Channel`] in any process context.

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    prelude::*, //
};

/// The largest number of callbacks that sunrpc has outstanding on a connection.
pub const SLOTS: u32 = 16;

/// The operations that send callbacks to the peer of a connection.
///
/// The callback transport of the connection holds a reference to the implementing value.
pub trait Back: Send + Sync + 'static {
    /// Sends `call`. sunrpc sends one callback at a time over a connection.
    ///
    /// # Context
    ///
    /// `rpciod`. Memory reclaim may depend on `rpciod`, so this function must wait neither for
    /// memory nor for the peer.
    ///
    /// # Errors
    ///
    /// - `ENOBUFS`: sunrpc tries again a quarter of a second later.
    /// - `EAGAIN`: sunrpc tries again after [`Channel::resume`].
    /// - Any other errno: the Call fails.
    fn send(&self, call: &Call<'_>) -> Result;

    /// Returns true if the class is still going to call [`Channel::resume`] for a [`Self::send`]
    /// that returned `EAGAIN`.
    ///
    /// The function is a full memory barrier. The class also executes a full memory barrier before
    /// it calls [`Channel::resume`]: otherwise both sides could miss each other, and the Call would
    /// wait for ever. Does not sleep.
    fn waits(&self) -> bool;

    /// Returns true if the connection is closing, so that no reply can arrive. Does not sleep.
    ///
    /// Must return true after [`Connect::detach`](super::xprt::Connect::detach).
    fn is_closing(&self) -> bool;
}

/// An encoded callback that is being sent. sunrpc owns it.
///
/// # Invariants
///
/// The pointer is to a request that sunrpc is sending. The request is live and does not change as
/// long as this value exists.
pub struct Call<'a>(NonNull<bindings::rpc_rqst>, PhantomData<&'a ()>);

impl Call<'_> {
    /// Wraps a request.
    ///
    /// # Safety
    ///
    /// - `rqst` is a request that is being sent.
    /// - The result is not used after it was sent.
    pub(super) unsafe fn from_raw(rqst: *mut bindings::rpc_rqst) -> Self {
        // INVARIANT: By the safety requirements of this function.
        // SAFETY: A pointer to a request is not null.
        Self(unsafe { NonNull::new_unchecked(rqst) }, PhantomData)
    }

    /// Returns the XID of the Call.
    pub fn xid(&self) -> u32 {
        // SAFETY: By the type invariant.
        u32::from_be(unsafe { (*self.0.as_ptr()).rq_xid })
    }

    /// Returns the length of the Call in bytes.
    pub fn len(&self) -> usize {
        // SAFETY: By the type invariant.
        unsafe { (*self.0.as_ptr()).rq_snd_buf.len as usize }
    }

    /// Returns true if the Call has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies the first bytes of the Call to `out`, as many as `out` has room for.
    ///
    /// # Errors
    ///
    /// Fails if `out` is longer than the Call.
    pub fn copy(&self, out: &mut [u8]) -> Result {
        let len = u32::try_from(out.len()).map_err(|_| EMSGSIZE)?;
        // SAFETY: By the type invariant.
        let buf = unsafe { &raw const (*self.0.as_ptr()).rq_snd_buf };
        // SAFETY: `out` is valid for writes of `len` bytes; the function checks that `buf` has
        // `len` bytes.
        to_result(unsafe {
            bindings::read_bytes_from_xdr_buf(buf, 0, out.as_mut_ptr().cast(), len)
        })
    }
}

/// A reference to the callback transport of a connection, a `struct rpc_xprt`.
///
/// The callback transport holds a reference to the [`Back`] value. If that value stores the
/// channel, the class must drop the channel when the connection ends, or neither is ever freed.
///
/// # Invariants
///
/// The pointer is to a `struct rpc_xprt` that [`Backchannel`](super::backchannel::Backchannel) has
/// created, and this value owns a reference to it.
pub struct Channel(NonNull<bindings::rpc_xprt>);

// SAFETY: The reference count is atomic, and the other operations take the transport's locks.
unsafe impl Send for Channel {}
// SAFETY: The operations of a shared `Channel` take the transport's locks.
unsafe impl Sync for Channel {}

impl Channel {
    /// Takes a reference to `xprt`.
    ///
    /// # Safety
    ///
    /// - [`Backchannel`](super::backchannel::Backchannel) has created `xprt`, which is live.
    pub(super) unsafe fn new(xprt: NonNull<bindings::rpc_xprt>) -> Self {
        // SAFETY: By the safety requirements of this function.
        unsafe { bindings::xprt_get(xprt.as_ptr()) };
        // INVARIANT: The reference was taken above.
        Self(xprt)
    }

    /// Completes the Call with the XID `xid` with `reply`, an RPC message.
    ///
    /// If `outstanding` is given, sunrpc has at most that many Calls outstanding from now on, but
    /// at least 1 and at most [`SLOTS`]. Returns true if a Call with this XID waited for its reply
    /// and had room for `reply`; otherwise no Call is completed.
    ///
    /// # Context
    ///
    /// Process context. Does not sleep.
    ///
    /// # Locking
    ///
    /// Takes `queue_lock` of the transport, and `transport_lock` inside it.
    pub fn complete(&self, xid: u32, reply: &[u8], outstanding: Option<u32>) -> bool {
        let xprt = self.0.as_ptr();
        // SAFETY: The transport is live by the type invariant.
        unsafe { bindings::xprt_queue_lock(xprt) };
        // The limit takes effect before the Call is completed: its end lets the next one be sent.
        if let Some(calls) = outstanding {
            self.limit(calls.clamp(1, SLOTS));
        }
        // SAFETY: The transport is live, and its `queue_lock` is held.
        let rqst = unsafe { bindings::xprt_lookup_rqst(xprt, xid.to_be()) };
        // SAFETY: The request is live while it is in the queue, and the lock keeps it there.
        let done = !rqst.is_null() && unsafe { Self::fill(rqst, reply) };
        // SAFETY: `queue_lock` was taken above.
        unsafe { bindings::xprt_queue_unlock(xprt) };
        done
    }

    /// Copies `reply` to the reply buffer of `rqst` and completes `rqst`. Returns false if the
    /// buffer is too small.
    ///
    /// # Safety
    ///
    /// - `rqst` waits for its reply.
    /// - The caller holds `queue_lock` of its transport.
    unsafe fn fill(rqst: *mut bindings::rpc_rqst, reply: &[u8]) -> bool {
        let Ok(len) = c_int::try_from(reply.len()) else {
            return false;
        };
        // SAFETY: By the safety requirements of this function.
        let head = unsafe { &raw const (*rqst).rq_private_buf.head };
        // SAFETY: `head` points into `rqst`, which is live.
        let head = unsafe { head.cast::<bindings::kvec>().read() };
        if reply.len() > head.iov_len {
            return false;
        }
        // SAFETY: `head` is valid for writes of `iov_len` bytes, which is at least the length of
        // `reply`. The memory belongs to sunrpc, so it does not overlap with `reply`.
        unsafe {
            core::ptr::copy_nonoverlapping(reply.as_ptr(), head.iov_base.cast(), reply.len())
        };
        // SAFETY: By the safety requirements of this function.
        unsafe { bindings::xprt_complete_rqst((*rqst).rq_task, len) };
        true
    }

    /// Makes sunrpc send the Calls for which [`Back::send`] has returned `EAGAIN`.
    ///
    /// # Context
    ///
    /// Process context. Does not sleep.
    ///
    /// # Locking
    ///
    /// Takes `transport_lock` of the transport.
    pub fn resume(&self) {
        // SAFETY: The transport is live by the type invariant.
        unsafe { bindings::xprt_write_space(self.0.as_ptr()) };
    }

    /// Sets the number of Calls that may be outstanding. Takes `transport_lock` of the transport.
    fn limit(&self, calls: u32) {
        // SAFETY: The transport is live by the type invariant.
        unsafe { bindings::xprt_set_cwnd(self.0.as_ptr(), calls) };
    }
}

impl Clone for Channel {
    fn clone(&self) -> Self {
        // SAFETY: The transport is live by the type invariant.
        unsafe { bindings::xprt_get(self.0.as_ptr()) };
        // INVARIANT: The reference was taken above.
        Self(self.0)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this value owns a reference.
        unsafe { bindings::xprt_put(self.0.as_ptr()) };
    }
}
