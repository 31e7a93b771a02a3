// SPDX-License-Identifier: GPL-2.0

//! The `struct rpc_xprt` of a connection's callbacks, and the operations that sunrpc calls for it.
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

/// A `struct rpc_xprt` and what carries its Calls.
///
/// # Invariants
///
/// `xprt` comes from `xprt_alloc` with the size of this type, and `back` is initialised.
#[repr(C)]
pub(super) struct Carrier<B> {
    xprt: Opaque<bindings::rpc_xprt>,
    back: ManuallyDrop<Arc<B>>,
}

impl<B: Back> Carrier<B> {
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

    /// Makes the transport of callbacks of `svc`.
    ///
    /// # Safety
    ///
    /// `args` are those of `setup`, `svc` is the connection in them, and `class` is registered; it
    /// lives as long as somebody holds the module.
    pub(super) unsafe fn create(
        args: *mut bindings::xprt_create,
        class: *const bindings::xprt_class,
        svc: NonNull<bindings::svc_xprt>,
        back: Arc<B>,
    ) -> Result<NonNull<bindings::rpc_xprt>> {
        // SAFETY: By the safety requirements of this function.
        let net = unsafe { (*args).net };
        // SAFETY: `net` is live. The memory is zeroed, and `SLOTS` requests are made beforehand.
        let xprt = unsafe { bindings::xprt_alloc(net, size_of::<Self>(), SLOTS, SLOTS) };
        let xprt = NonNull::new(xprt).ok_or(ENOMEM)?;
        let raw = xprt.as_ptr();
        // SAFETY: `args` by the safety requirements of this function, `raw` was just made.
        if let Err(e) = to_result(unsafe { bindings::xprt_set_peer(raw, args) }) {
            // SAFETY: As above; nobody else knows it.
            unsafe { bindings::xprt_free(raw) };
            return Err(e);
        }
        // CAST: `xprt` is the first field and `Self` is `repr(C)`.
        // SAFETY: The memory has the size of `Self`.
        unsafe { (&raw mut (*raw.cast::<Self>()).back).write(ManuallyDrop::new(back)) };
        // SAFETY: As above. nfsd holds `svc` until its RPC client is gone.
        unsafe {
            (*raw).ops = Self::OPS;
            (*raw).xprt_class = class;
            (*raw).bc_xprt = svc.as_ptr();
        }
        // The reference of `svc`, which `svc_xprt_free` puts.
        // SAFETY: As above.
        unsafe { bindings::xprt_get(raw) };
        // SAFETY: The class holds the module while `setup` runs; `destroy` puts this reference.
        unsafe { bindings::hold_module() };
        // SAFETY: As above.
        if !unsafe { bindings::xprt_publish(raw, svc.as_ptr()) } {
            // SAFETY: Nobody else knows it.
            unsafe { Self::discard(raw) };
            return Err(EBUSY);
        }
        Ok(xprt)
    }

    /// Frees it, and puts its reference to the module.
    ///
    /// # Safety
    ///
    /// `xprt` was made by [`Self::create`], and nobody uses it any more.
    unsafe fn discard(xprt: *mut bindings::rpc_xprt) {
        // CAST: `xprt` is the first field and `Self` is `repr(C)`.
        // SAFETY: By the safety requirements of this function.
        unsafe { ManuallyDrop::drop(&mut (*xprt.cast::<Self>()).back) };
        // SAFETY: As above; nothing of ours is left in it.
        unsafe { bindings::xprt_discard(xprt) };
        // The module may go from here on, but not before this has returned to the workqueue:
        // unregistering the class waits for that.
        // SAFETY: `create` has taken the reference.
        unsafe { bindings::put_module() };
    }

    /// # Safety
    ///
    /// `xprt` was made by [`Self::create`], and lives for `'a`.
    unsafe fn back<'a>(xprt: *mut bindings::rpc_xprt) -> &'a B {
        // CAST: `xprt` is the first field and `Self` is `repr(C)`.
        // SAFETY: By the safety requirements of this function.
        unsafe { &(*xprt.cast::<Self>()).back }
    }

    /// # Safety
    ///
    /// `rqst` is a request of a transport that [`Self::create`] has made, locked for sending.
    unsafe extern "C" fn send_request(rqst: *mut bindings::rpc_rqst) -> c_int {
        // SAFETY: By the safety requirements of this function.
        let xprt = unsafe { (*rqst).rq_xprt };
        // SAFETY: As above.
        let back = unsafe { Self::back(xprt) };
        if back.is_closing() {
            // Or the task would come again and again until nfsd has closed the connection.
            // SAFETY: As above.
            unsafe { bindings::xprt_disconnect_done(xprt) };
            return compat::enotconn().to_errno();
        }
        // SAFETY: As above.
        if !unsafe { bindings::xprt_request_get_cong(xprt, rqst) } {
            return compat::ebadslt().to_errno();
        }
        // SAFETY: As above. It stays as it is while it is sent.
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

    /// Has Calls wait until [`Channel::resume`](super::backchannel::Channel::resume).
    ///
    /// # Safety
    ///
    /// `xprt` was made by [`Self::create`], and is locked for sending.
    unsafe fn wait_for_space(xprt: *mut bindings::rpc_xprt, back: &B) {
        // SAFETY: By the safety requirements of this function.
        unsafe { bindings::xprt_wait_for_buffer_space(xprt) };
        // The flag is there before this looks, and whoever resumes looks at it afterwards.
        if !back.waits() {
            // SAFETY: As above.
            unsafe { bindings::xprt_write_space(xprt) };
        }
    }

    /// The Calls that wait come to nothing. As long as the connection is there, later ones go on:
    /// sunrpc closes a transport also because a Call was not answered in time.
    ///
    /// # Safety
    ///
    /// `xprt` was made by [`Self::create`].
    unsafe extern "C" fn close(xprt: *mut bindings::rpc_xprt) {
        // SAFETY: By the safety requirements of this function.
        unsafe { bindings::xprt_disconnect_done(xprt) };
        // SAFETY: As above.
        if !unsafe { Self::back(xprt) }.is_closing() {
            // SAFETY: As above.
            unsafe { bindings::xprt_set_connected(xprt) };
        }
    }

    /// # Safety
    ///
    /// `xprt` was made by [`Self::create`]; sunrpc does not use it any more.
    unsafe extern "C" fn destroy(xprt: *mut bindings::rpc_xprt) {
        // SAFETY: By the safety requirements of this function.
        if !unsafe { bindings::xprt_is_unused(xprt) } {
            // `xprt_create_transport` destroys what it has no memory for a name for, whoever has
            // it.
            pr_warn_once!(
                "callback transport: lost for want of memory, svcrdma cannot be unloaded\n"
            );
            return;
        }
        // SAFETY: As above, and there are no references.
        unsafe { Self::discard(xprt) };
    }
}

/// Never reached, as callbacks are not to connect: ends what waits.
///
/// # Safety
///
/// `xprt` is live.
unsafe extern "C" fn connect(xprt: *mut bindings::rpc_xprt, _task: *mut bindings::rpc_task) {
    // SAFETY: By the safety requirements of this function.
    unsafe { bindings::xprt_refuse_connect(xprt) };
}

/// # Safety
///
/// None.
unsafe extern "C" fn inject_disconnect(_xprt: *mut bindings::rpc_xprt) {}
