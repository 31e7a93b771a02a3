// SPDX-License-Identifier: GPL-2.0

//! Callback transports: the `struct rpc_xprt` of a connection, and its table of operations.
//!
//! The operations translate to [`Back`], whose documentation names their contexts.
//! [`backchannel`](super::backchannel) describes the life of a callback transport.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h)

use crate::callback::{
    Back,
    Call,
    SLOTS, //
};
use core::{
    mem::ManuallyDrop,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    pr_warn_once,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};
use support::compat;

/// A `struct rpc_xprt` with a reference to the [`Back`] value that sends its Calls.
///
/// sunrpc counts its references and frees it with [`Self::destroy`].
///
/// # Invariants
///
/// `xprt` comes from `xprt_alloc` with the size of this type, and `back` is initialised.
#[repr(C)]
pub(super) struct CallbackXprt<B> {
    xprt: Opaque<bindings::rpc_xprt>,
    back: ManuallyDrop<Arc<B>>,
}

impl<B: Back> CallbackXprt<B> {
    const OPS: &'static bindings::rpc_xprt_ops = &bindings::rpc_xprt_ops {
        reserve_xprt: Some(bindings::xprt_reserve_xprt_cong),
        release_xprt: Some(bindings::xprt_release_xprt_cong),
        alloc_slot: Some(bindings::xprt_alloc_slot),
        free_slot: Some(bindings::xprt_free_slot),
        connect: Some(connect),
        buf_alloc: Some(bindings::task_buf_alloc),
        buf_free: Some(bindings::task_buf_free),
        send_request: Some(Self::send_request),
        wait_for_reply_request: Some(bindings::xprt_wait_for_reply_request_def),
        release_request: Some(bindings::xprt_release_rqst_cong),
        close: Some(Self::close),
        destroy: Some(Self::destroy),
        print_stats: Some(bindings::xprt_print_stats),
        inject_disconnect: Some(inject_disconnect),
        ..pin_init::zeroed()
    };

    /// Creates the callback transport of the connection `svc`, which sends with `back`.
    ///
    /// The caller owns one reference to the result, and `xpt_bc_xprt` of `svc` another one.
    ///
    /// # Errors
    ///
    /// - `ENOMEM`, and `EINVAL` if the address in `args` is too long.
    /// - `EBUSY` if `svc` has a callback transport already.
    ///
    /// # Safety
    ///
    /// - `args` are the arguments of `setup`.
    /// - `svc` is the live connection in `args`.
    /// - `class` is registered, and lives as long as the module has references.
    pub(super) unsafe fn create(
        args: *mut bindings::xprt_create,
        class: *const bindings::xprt_class,
        svc: NonNull<bindings::svc_xprt>,
        back: Arc<B>,
    ) -> Result<NonNull<bindings::rpc_xprt>> {
        // SAFETY: By the safety requirements of this function.
        let net = unsafe { (*args).net };
        // Allocates `SLOTS` requests as well, so that no callback waits for memory for a request.
        // SAFETY: `net` is live.
        let xprt = unsafe { bindings::xprt_alloc(net, size_of::<Self>(), SLOTS, SLOTS) };
        let xprt = NonNull::new(xprt).ok_or(ENOMEM)?;
        let raw = xprt.as_ptr();
        // SAFETY: `args` is valid by the safety requirements of this function, and `raw` by
        // `xprt_alloc`.
        if let Err(e) = to_result(unsafe { bindings::xprt_set_peer(raw, args) }) {
            // SAFETY: `raw` comes from `xprt_alloc`, and is not published.
            unsafe { bindings::xprt_free(raw) };
            return Err(e);
        }
        // CAST: `xprt` is the first field and `Self` is `repr(C)`.
        // SAFETY: The memory has the size of `Self`.
        unsafe { (&raw mut (*raw.cast::<Self>()).back).write(ManuallyDrop::new(back)) };
        // SAFETY: `raw` is valid and not published. `bc_xprt` stays valid: nfsd holds a reference
        // to `svc` until its RPC client is gone.
        unsafe {
            (*raw).ops = Self::OPS;
            (*raw).xprt_class = class;
            (*raw).bc_xprt = svc.as_ptr();
        }
        // The reference of `xpt_bc_xprt`, which `svc_xprt_free` puts.
        // SAFETY: `raw` is live.
        unsafe { bindings::xprt_get(raw) };
        // SAFETY: The caller of `setup` holds the module. `discard` puts this reference.
        unsafe { bindings::hold_module() };
        // SAFETY: `raw` and `svc` are live.
        if !unsafe { bindings::xprt_publish(raw, svc.as_ptr()) } {
            // SAFETY: `raw` is complete and was not published, so nothing else uses it.
            unsafe { Self::discard(raw) };
            return Err(EBUSY);
        }
        Ok(xprt)
    }

    /// Frees `xprt` and puts its reference to the module.
    ///
    /// # Safety
    ///
    /// - `xprt` was made by [`Self::create`].
    /// - Nothing uses `xprt` any more.
    unsafe fn discard(xprt: *mut bindings::rpc_xprt) {
        // CAST: `xprt` is the first field and `Self` is `repr(C)`.
        // SAFETY: By the safety requirements of this function.
        unsafe { ManuallyDrop::drop(&mut (*xprt.cast::<Self>()).back) };
        // SAFETY: By the safety requirements of this function; `back` was dropped above.
        unsafe { bindings::xprt_discard(xprt) };
        // The module may be unloaded from here on, while this function is still returning to the
        // workqueue: dropping the `Class` waits for that.
        // SAFETY: `create` has taken the reference.
        unsafe { bindings::put_module() };
    }

    /// Returns the value that sends the Calls of `xprt`.
    ///
    /// # Safety
    ///
    /// - `xprt` was made by [`Self::create`], and is live for `'a`.
    unsafe fn back<'a>(xprt: *mut bindings::rpc_xprt) -> &'a B {
        // CAST: `xprt` is the first field and `Self` is `repr(C)`.
        // SAFETY: By the safety requirements of this function.
        unsafe { &(*xprt.cast::<Self>()).back }
    }

    /// Sends the Call in `rqst`, for `xprt_transmit`.
    ///
    /// # Safety
    ///
    /// - `rqst` is a request of a transport that [`Self::create`] has made.
    /// - The transport is locked for sending `rqst` (`XPRT_LOCKED`).
    unsafe extern "C" fn send_request(rqst: *mut bindings::rpc_rqst) -> c_int {
        // SAFETY: By the safety requirements of this function.
        let xprt = unsafe { (*rqst).rq_xprt };
        // SAFETY: The transport of a request is live; `create` has made it.
        let back = unsafe { Self::back(xprt) };
        if back.is_closing() {
            // As long as the transport looks connected, the RPC task would retry at once, until
            // nfsd has closed the connection.
            // SAFETY: The transport of a request is live.
            unsafe { bindings::xprt_disconnect_done(xprt) };
            return compat::enotconn().to_errno();
        }
        // SAFETY: The transport is live and locked for sending `rqst`.
        if !unsafe { bindings::xprt_request_get_cong(xprt, rqst) } {
            return compat::ebadslt().to_errno();
        }
        // SAFETY: `rqst` is being sent until this function returns.
        let call = unsafe { Call::from_raw(rqst) };
        // SAFETY: The function has no preconditions.
        let now = unsafe { bindings::ktime_get() };
        // SAFETY: By the safety requirements of this function.
        unsafe { (*rqst).rq_xtime = now };
        match back.send(&call) {
            Ok(()) => {
                // SAFETY: By the safety requirements of this function.
                unsafe { (*rqst).rq_xmit_bytes_sent = call.len() };
                0
            }
            Err(e) => {
                if e == EAGAIN {
                    // SAFETY: By the safety requirements of this function.
                    unsafe { Self::wait_for_space(xprt, back) };
                }
                e.to_errno()
            }
        }
    }

    /// Makes Calls wait until [`Channel::resume`](super::callback::Channel::resume).
    ///
    /// # Safety
    ///
    /// - `xprt` was made by [`Self::create`].
    /// - `xprt` is locked for sending (`XPRT_LOCKED`).
    unsafe fn wait_for_space(xprt: *mut bindings::rpc_xprt, back: &B) {
        // SAFETY: By the safety requirements of this function.
        unsafe { bindings::xprt_wait_for_buffer_space(xprt) };
        // `waits` is a full barrier between setting `XPRT_WRITE_SPACE` above and the check. If it
        // returns true, the class calls `resume` after its own barrier, and so sees the flag. A
        // connection that closes calls it no more: its close clears the flag if it comes later.
        if !back.waits() || back.is_closing() {
            // SAFETY: By the safety requirements of this function.
            unsafe { bindings::xprt_write_space(xprt) };
        }
    }

    /// Fails the Calls that wait, for sunrpc.
    ///
    /// sunrpc also closes a transport when a Call was not answered in time. So the transport stays
    /// connected for later Calls unless the connection is closing.
    ///
    /// # Safety
    ///
    /// - `xprt` was made by [`Self::create`], and is live.
    unsafe extern "C" fn close(xprt: *mut bindings::rpc_xprt) {
        // SAFETY: By the safety requirements of this function.
        unsafe { bindings::xprt_disconnect_done(xprt) };
        // SAFETY: By the safety requirements of this function.
        if !unsafe { Self::back(xprt) }.is_closing() {
            // SAFETY: By the safety requirements of this function.
            unsafe { bindings::xprt_set_connected(xprt) };
        }
    }

    /// Frees `xprt` after its last reference was put, for sunrpc.
    ///
    /// # Safety
    ///
    /// - `xprt` was made by [`Self::create`].
    /// - sunrpc does not use `xprt` any more, if its reference count is 0.
    unsafe extern "C" fn destroy(xprt: *mut bindings::rpc_xprt) {
        // SAFETY: By the safety requirements of this function.
        if !unsafe { bindings::xprt_is_unused(xprt) } {
            // `xprt_create_transport` destroys a transport when there is no memory for its server
            // name, regardless of other references. The leaked transport keeps its reference to the
            // module.
            pr_warn_once!(
                "callback transport: lost for want of memory, svcrdma cannot be unloaded
"
            );
            return;
        }
        // SAFETY: By the safety requirements of this function; the reference count is 0.
        unsafe { Self::discard(xprt) };
    }
}

/// Fails the Calls that wait for a connection.
///
/// sunrpc does not call this: nfsd's callbacks never ask for a connection (`RPC_TASK_NOCONNECT`).
///
/// # Safety
///
/// - `xprt` is live.
unsafe extern "C" fn connect(xprt: *mut bindings::rpc_xprt, _task: *mut bindings::rpc_task) {
    // SAFETY: By the safety requirements of this function.
    unsafe { bindings::xprt_refuse_connect(xprt) };
}

/// Ignores a disconnect that is injected through debugfs, for tests of the kernel.
///
/// # Safety
///
/// None.
unsafe extern "C" fn inject_disconnect(_xprt: *mut bindings::rpc_xprt) {}
