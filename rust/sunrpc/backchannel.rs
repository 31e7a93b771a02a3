// SPDX-License-Identifier: GPL-2.0

//! Calls in the reverse direction: what nfsd's callbacks to a client go through (RFC 8167).
//!
//! For a session of NFSv4.1 or later nfsd makes an RPC client upon the connection that the session
//! is bound to (fs/nfsd/nfs4callback.c, `setup_callback_client`). It asks sunrpc for the transport
//! with the ident of the connection's class and `XPRT_TRANSPORT_BC`, which [`Backchannel`]
//! registers, and gets a `struct rpc_xprt` of ours. A connection has one, which lives as long as
//! the `svc_xprt`.
//!
//! References to it: one of each RPC client, one of the `svc_xprt` (`xpt_bc_xprt`), and the
//! connection's own, a [`Channel`]. It holds the module until its memory is given back.
//!
//! Contexts: `rpciod` and nfsd's workqueues, all in process context.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h)

use crate::{
    carrier::Carrier,
    class,
    xprt::{
        Connect,
        Listen,
        Transport, //
    },
};
use core::{
    marker::PhantomData,
    pin::Pin,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        Full,
        Release, //
    },
    types::Opaque, //
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

    /// Whether [`Channel::resume`] is still going to be called, after `EAGAIN`. A full memory barrier,
    /// as is what precedes that call.
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
/// The pointer is to a `struct rpc_xprt` that [`Backchannel`] has made, and this value owns a
/// reference to it.
pub struct Channel(NonNull<bindings::rpc_xprt>);

// SAFETY: The reference count is atomic, and all else is done under the transport's locks.
unsafe impl Send for Channel {}
// SAFETY: As above.
unsafe impl Sync for Channel {}

impl Channel {
    /// Hands `reply`, an RPC message, to the Call with this XID, if it still waits; no more than
    /// `outstanding` Calls are under way from now on. Whether there was one, with room for its reply.
    /// In process context; does not sleep.
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

    /// Has Calls sent that could not be before, see [`Back::send`]. In process context; does not sleep.
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

/// The registered class, as `setup` is not told which it is.
static CLASS: Atomic<usize> = Atomic::new(0);

/// A `struct xprt_class`, and its list of netids: an empty one, so that no mount can ask for it.
#[repr(C)]
struct NamedClass {
    class: bindings::xprt_class,
    netid: *const c_char,
}

/// The registered transport of callbacks; dropping it takes it off.
///
/// # Invariants
///
/// `class` is registered, and [`CLASS`] is its address.
#[pin_data(PinnedDrop)]
pub struct Backchannel<L: Listen> {
    #[pin]
    class: Opaque<NamedClass>,
    _listen: PhantomData<fn(L)>,
}

// SAFETY: Nothing can be done with a `Backchannel` but drop it, which may happen on any thread.
unsafe impl<L: Listen> Send for Backchannel<L> {}
// SAFETY: As above.
unsafe impl<L: Listen> Sync for Backchannel<L> {}

impl<L: Listen> Backchannel<L> {
    /// Registers it for connections of the class with this `ident`. May sleep.
    ///
    /// # Errors
    ///
    /// `EEXIST` when the ident is taken, `EBUSY` for a second one of ours.
    pub fn register(module: &'static ThisModule, ident: c_int) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            class <- Opaque::try_ffi_init(move |slot: *mut NamedClass| {
                let mut class = bindings::xprt_class {
                    list: pin_init::zeroed(),
                    ident: ident | bindings::XPRT_TRANSPORT_BC as c_int,
                    setup: Some(Self::setup),
                    owner: module.as_ptr(),
                    name: [0; 32],
                    netid: bindings::__IncompleteArrayField::new(),
                };
                for (to, from) in class.name.iter_mut().zip(b"svcrdma backchannel") {
                    // CAST: ASCII.
                    *to = *from as c_char;
                }
                let netid = c"".as_char_ptr();
                // SAFETY: `slot` is valid for writes.
                unsafe { slot.write(NamedClass { class, netid }) };
                CLASS.cmpxchg(0, slot as usize, Full).map_err(|_| EBUSY)?;
                // SAFETY: `slot` is filled in and stays where it is until `drop`.
                to_result(unsafe { bindings::xprt_register_transport(slot.cast()) })
                    .inspect_err(|_| CLASS.store(0, Release))
            }),
            _listen: PhantomData,
        }? Error)
    }

    /// # Safety
    ///
    /// The caller is `xprt_create_transport`.
    unsafe extern "C" fn setup(args: *mut bindings::xprt_create) -> *mut bindings::rpc_xprt {
        // SAFETY: By the safety requirements of this function.
        match unsafe { Self::try_setup(args) } {
            Ok(xprt) => xprt.as_ptr(),
            Err(e) => e.to_ptr(),
        }
    }

    /// # Safety
    ///
    /// As for [`Self::setup`].
    unsafe fn try_setup(args: *mut bindings::xprt_create) -> Result<NonNull<bindings::rpc_xprt>> {
        // Only nfsd says where the connection ends here, and only it holds a reference to it:
        // `rpc_sysfs_xprt_switch_add_xprt_store` names that of another transport.
        // SAFETY: By the safety requirements of this function.
        if unsafe { (*args).srcaddr }.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: By the safety requirements of this function.
        let svc = NonNull::new(unsafe { (*args).bc_xprt }).ok_or(EINVAL)?;
        // SAFETY: nfsd holds a reference to the connection.
        let class = unsafe { (*svc.as_ptr()).xpt_class };
        // SAFETY: As above.
        if !unsafe { class::is_connection::<L>(class) } {
            return Err(EINVAL);
        }
        // SAFETY: As above; its class says that it is one of ours, and of this type.
        let connection = unsafe {
            Transport::<L::Connection, <L::Connection as Connect>::Call>::from_raw(svc.as_ptr())
        };
        // CAST: `register` has stored the address; who asks for a transport holds the module.
        let class = CLASS.load(Acquire) as *const bindings::xprt_class;
        // SAFETY: By the safety requirements of this function; `connection` is that of `svc`.
        let xprt = unsafe { Carrier::create(args, class, svc, connection.data.back())? };
        // SAFETY: The transport was just made.
        unsafe { bindings::xprt_get(xprt.as_ptr()) };
        // INVARIANT: As just taken.
        connection.data.bind(Channel(xprt));
        Ok(xprt)
    }
}

#[pinned_drop]
impl<L: Listen> PinnedDrop for Backchannel<L> {
    fn drop(self: Pin<&mut Self>) {
        // An error would mean that it is not registered.
        // SAFETY: By the type invariant. Transports that it has made hold the module.
        let _ = unsafe { bindings::xprt_unregister_transport(self.class.get().cast()) };
        CLASS.store(0, Release);
    }
}
