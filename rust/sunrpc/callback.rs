// SPDX-License-Identifier: GPL-2.0

//! Callbacks: RPC Calls of the server to a client, over the client's own connection (RFC 8167).
//!
//! A transport implements [`Back`] to send them, and hands the replies to sunrpc through a
//! [`Channel`].
//!
//! Contexts: `rpciod` and nfsd's workqueues, all process context.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h)

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    prelude::*, //
};

/// Calls that the peer of a connection can have at a time, if it takes as many.
pub const SLOTS: u32 = 16;

/// What carries Calls to the peer of a connection.
pub trait Back: Send + Sync + 'static {
    /// Sends `call`. On `rpciod`, which frees memory: must wait neither for memory nor for the
    /// peer.
    ///
    /// # Errors
    ///
    /// `ENOBUFS` to be asked again a quarter of a second later, `EAGAIN` after [`Channel::resume`];
    /// after any other the Call has failed.
    fn send(&self, call: &Call<'_>) -> Result;

    /// Whether [`Channel::resume`] is still going to be called, after `EAGAIN`. A full memory
    /// barrier, as is what precedes that call.
    fn waits(&self) -> bool;

    /// Whether the connection is ending, so that there is no reply to wait for.
    fn is_closing(&self) -> bool;
}

/// An encoded Call.
///
/// # Invariants
///
/// The pointer is to a request that sunrpc sends, and that does not change meanwhile.
pub struct Call<'a>(NonNull<bindings::rpc_rqst>, PhantomData<&'a ()>);

impl Call<'_> {
    /// # Safety
    ///
    /// `rqst` is a request that is being sent, and the result is not used any longer than that.
    pub(super) unsafe fn from_raw(rqst: *mut bindings::rpc_rqst) -> Self {
        // INVARIANT: By the safety requirements of this function.
        // SAFETY: A request is not null.
        Self(unsafe { NonNull::new_unchecked(rqst) }, PhantomData)
    }

    /// Its XID.
    pub fn xid(&self) -> u32 {
        // SAFETY: By the type invariant.
        u32::from_be(unsafe { (*self.0.as_ptr()).rq_xid })
    }

    /// Its length in bytes.
    pub fn len(&self) -> usize {
        // SAFETY: By the type invariant.
        unsafe { (*self.0.as_ptr()).rq_snd_buf.len as usize }
    }

    /// Returns true if it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Copies it to `out`, which has its length.
    pub fn copy(&self, out: &mut [u8]) -> Result {
        let len = u32::try_from(out.len()).map_err(|_| EMSGSIZE)?;
        // SAFETY: By the type invariant.
        let buf = unsafe { &raw const (*self.0.as_ptr()).rq_snd_buf };
        // SAFETY: `out` has `len` bytes; the function checks that `buf` has as many.
        to_result(unsafe {
            bindings::read_bytes_from_xdr_buf(buf, 0, out.as_mut_ptr().cast(), len)
        })
    }
}

/// A reference to the transport of a connection's callbacks.
///
/// # Invariants
///
/// The pointer is to a `struct rpc_xprt` that [`Backchannel`](super::backchannel::Backchannel) has
/// made, and this value owns a reference to it.
pub struct Channel(NonNull<bindings::rpc_xprt>);

// SAFETY: The reference count is atomic, and all else is done under the transport's locks.
unsafe impl Send for Channel {}
// SAFETY: As above.
unsafe impl Sync for Channel {}

impl Channel {
    /// Takes a reference to `xprt`.
    ///
    /// # Safety
    ///
    /// `xprt` is live, and [`Backchannel`](super::backchannel::Backchannel) has made it.
    pub(super) unsafe fn new(xprt: NonNull<bindings::rpc_xprt>) -> Self {
        // SAFETY: By the safety requirements of this function.
        unsafe { bindings::xprt_get(xprt.as_ptr()) };
        // INVARIANT: As just taken.
        Self(xprt)
    }

    /// Hands `reply`, an RPC message, to the Call with this XID, if it still waits; no more than
    /// `outstanding` Calls are under way from now on. Whether there was one, with room for its
    /// reply. In process context; does not sleep.
    pub fn complete(&self, xid: u32, reply: &[u8], outstanding: Option<u32>) -> bool {
        let xprt = self.0.as_ptr();
        // SAFETY: The transport is live by the type invariant.
        unsafe { bindings::xprt_queue_lock(xprt) };
        // Before the Call is over, and another one may go.
        if let Some(calls) = outstanding {
            self.limit(calls.clamp(1, SLOTS));
        }
        // SAFETY: As above, and the lock is held.
        let rqst = unsafe { bindings::xprt_lookup_rqst(xprt, xid.to_be()) };
        // SAFETY: A request is there as long as it is in the queue, which the lock protects.
        let done = !rqst.is_null() && unsafe { Self::fill(rqst, reply) };
        // SAFETY: As locked above.
        unsafe { bindings::xprt_queue_unlock(xprt) };
        done
    }

    /// # Safety
    ///
    /// `rqst` waits for its reply, and the queue's lock is held.
    unsafe fn fill(rqst: *mut bindings::rpc_rqst, reply: &[u8]) -> bool {
        let Ok(len) = c_int::try_from(reply.len()) else {
            return false;
        };
        // SAFETY: By the safety requirements of this function.
        let head = unsafe { &raw const (*rqst).rq_private_buf.head };
        // SAFETY: As above.
        let head = unsafe { head.cast::<bindings::kvec>().read() };
        if reply.len() > head.iov_len {
            return false;
        }
        // SAFETY: `head` is valid for `iov_len` bytes, which are sunrpc's own.
        unsafe {
            core::ptr::copy_nonoverlapping(reply.as_ptr(), head.iov_base.cast(), reply.len())
        };
        // SAFETY: By the safety requirements of this function.
        unsafe { bindings::xprt_complete_rqst((*rqst).rq_task, len) };
        true
    }

    /// Has Calls sent that could not be before, see [`Back::send`]. In process context; does not
    /// sleep.
    pub fn resume(&self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::xprt_write_space(self.0.as_ptr()) };
    }

    /// Lets `calls` Calls be outstanding.
    fn limit(&self, calls: u32) {
        // SAFETY: By the type invariant.
        unsafe { bindings::xprt_set_cwnd(self.0.as_ptr(), calls) };
    }
}

impl Clone for Channel {
    fn clone(&self) -> Self {
        // SAFETY: By the type invariant.
        unsafe { bindings::xprt_get(self.0.as_ptr()) };
        // INVARIANT: As just taken.
        Self(self.0)
    }
}

impl Drop for Channel {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::xprt_put(self.0.as_ptr()) };
    }
}
