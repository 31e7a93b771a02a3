// SPDX-License-Identifier: GPL-2.0

//! What `sunrpc` calls: the tables of operations, and the functions in them.
//!
//! They only translate: who calls, and in which context, is said at [`Listen`] and [`Connect`].
//!
//! C header: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h)

use crate::{
    class,
    results::Results,
    rqst::Rqst,
    xprt::{
        Connect,
        Listen,
        New,
        Transport,
        Vacant, //
    },
};
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    ffi::c_void,
    prelude::*, //
};
use support::{
    addr::{
        Addr,
        Net, //
    },
    context::Context, //
};

/// The operations of listeners.
pub(super) struct ListenerOps<L>(PhantomData<L>);

impl<L: Listen> ListenerOps<L> {
    pub(super) const OPS: bindings::svc_xprt_ops = bindings::svc_xprt_ops {
        xpo_create: Some(Self::create),
        xpo_accept: Some(Self::accept),
        xpo_has_wspace: Some(always),
        xpo_recvfrom: Some(Self::recvfrom),
        xpo_sendto: Some(no_rqst),
        xpo_result_payload: Some(no_payload),
        xpo_release_ctxt: Some(no_ctxt),
        xpo_detach: Some(Self::detach),
        xpo_free: Some(free::<L, L::Item>),
        xpo_kill_temp_xprt: Some(no_xprt),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// The class is registered, `serv` and `net` are live, and `addr` is a socket address of
    /// `_len` bytes: the caller is `_svc_xprt_create`.
    unsafe extern "C" fn create(
        serv: *mut bindings::svc_serv,
        net: *mut bindings::net,
        addr: *mut bindings::sockaddr,
        _len: c_int,
        _flags: c_int,
    ) -> *mut bindings::svc_xprt {
        // SAFETY: By the safety requirements of this function.
        match unsafe { Self::try_create(serv, net, addr) } {
            Ok(xprt) => xprt.as_ptr(),
            Err(e) => e.to_ptr(),
        }
    }

    /// # Safety
    ///
    /// As for [`Self::create`].
    unsafe fn try_create(
        serv: *mut bindings::svc_serv,
        net: *mut bindings::net,
        addr: *mut bindings::sockaddr,
    ) -> Result<NonNull<bindings::svc_xprt>> {
        // SAFETY: By the safety requirements of this function.
        let context = unsafe { class::context::<L>() };
        // SAFETY: By the safety requirements of this function.
        let addr = unsafe { Addr::from_raw(addr) };
        // SAFETY: By the safety requirements of this function.
        let namespace = unsafe { Net::from_raw(NonNull::new(net).ok_or(EINVAL)?) };
        let vacant = Vacant::new()?;
        let (data, inbox, local) = L::create(context, namespace, &addr)?;
        let class = class::registered::<L>().ok_or(ENODEV)?;
        // SAFETY: The class has operations for listeners of type `L`, and lives while one of its
        // transports does; the rest by the safety requirements of this function.
        let xprt = unsafe { vacant.init(data, inbox, class, net, serv) };
        // SAFETY: `xprt` is live and not published; the address is valid.
        unsafe { bindings::xprt_set_addrs(xprt.as_ptr(), local.as_ptr(), core::ptr::null_mut()) };
        // SAFETY: As above.
        unsafe { bindings::xprt_set_flag(xprt.as_ptr(), bindings::XPT_LISTENER) };
        Ok(xprt)
    }

    /// # Safety
    ///
    /// `xprt` is a listener of type `L`: the caller is `svc_handle_xprt`.
    unsafe extern "C" fn accept(xprt: *mut bindings::svc_xprt) -> *mut bindings::svc_xprt {
        // SAFETY: By the safety requirements of this function.
        let listener = unsafe { Transport::<L, L::Item>::from_raw(xprt) };
        let new = listener
            .inbox
            .pop()
            .and_then(|item| listener.data.accept(listener, item));
        new.map_or(core::ptr::null_mut(), New::into_raw)
    }

    /// Never reached: `svc_handle_xprt` asks a listener to accept.
    ///
    /// # Safety
    ///
    /// `rqstp` is the request of the calling thread.
    unsafe extern "C" fn recvfrom(rqstp: *mut bindings::svc_rqst) -> c_int {
        // SAFETY: By the safety requirements of this function.
        let xprt = unsafe { (*rqstp).rq_xprt };
        // SAFETY: The transport that a request is dispatched for is live and busy.
        unsafe { bindings::svc_xprt_received(xprt) };
        0
    }

    /// # Safety
    ///
    /// `xprt` is a listener of type `L`.
    unsafe extern "C" fn detach(xprt: *mut bindings::svc_xprt) {
        // SAFETY: By the safety requirements of this function.
        let listener = unsafe { Transport::<L, L::Item>::from_raw(xprt) };
        listener.inbox.detach();
        listener.data.detach();
        while let Some(item) = listener.inbox.pop() {
            listener.data.discard(item);
        }
    }
}

/// The operations of connections.
pub(super) struct ConnectionOps<C>(PhantomData<C>);

impl<C: Connect> ConnectionOps<C> {
    pub(super) const OPS: bindings::svc_xprt_ops = bindings::svc_xprt_ops {
        xpo_create: Some(no_create),
        xpo_accept: Some(no_accept),
        xpo_has_wspace: Some(Self::has_wspace),
        xpo_recvfrom: Some(Self::recvfrom),
        xpo_sendto: Some(Self::sendto),
        xpo_result_payload: Some(Self::result_payload),
        xpo_release_ctxt: Some(Self::release_ctxt),
        xpo_detach: Some(Self::detach),
        xpo_free: Some(free::<C, C::Call>),
        xpo_kill_temp_xprt: Some(no_xprt),
        ..pin_init::zeroed()
    };

    /// # Safety
    ///
    /// `rqstp` is the request of the calling thread, dispatched for a connection of type `C`.
    unsafe extern "C" fn recvfrom(rqstp: *mut bindings::svc_rqst) -> c_int {
        // SAFETY: By the safety requirements of this function.
        let mut rqst = unsafe { Rqst::from_raw(rqstp) };
        let xprt = rqst.xprt();
        // SAFETY: `xprt` is live: the thread has a reference to it.
        let transport = unsafe { Transport::<C, C::Call>::from_raw(xprt) };
        let call = transport.inbox.pop();
        // SAFETY: `xprt` is busy on behalf of this thread. Another one may take the next Call.
        unsafe { bindings::svc_xprt_received(xprt) };
        rqst.begin();
        let Some(delivered) = call.and_then(|call| transport.data.recvfrom(call, rqst)) else {
            return 0;
        };
        // SAFETY: By the safety requirements of this function.
        unsafe { Rqst::from_raw(rqstp) }.hand_over(delivered)
    }

    /// # Safety
    ///
    /// As for [`Self::recvfrom`], and the results are encoded.
    unsafe extern "C" fn sendto(rqstp: *mut bindings::svc_rqst) -> c_int {
        // SAFETY: By the safety requirements of this function.
        let mut rqst = unsafe { Rqst::from_raw(rqstp) };
        // SAFETY: The transport is live: the thread has a reference to it.
        let transport = unsafe { Transport::<C, C::Call>::from_raw(rqst.xprt()) };
        // SAFETY: Only `recvfrom` gives a request a context, which is a `C::Call`.
        if let Some(call) = unsafe { rqst.take_call::<C::Call>() } {
            // SAFETY: By the safety requirements of this function.
            let results = unsafe { Results::new(rqst) };
            transport.data.sendto(call, results);
        }
        0
    }

    /// # Safety
    ///
    /// As for [`Self::recvfrom`].
    unsafe extern "C" fn result_payload(
        rqstp: *mut bindings::svc_rqst,
        offset: c_uint,
        len: c_uint,
    ) -> c_int {
        // SAFETY: By the safety requirements of this function.
        let mut rqst = unsafe { Rqst::from_raw(rqstp) };
        // SAFETY: nfsd encodes results, so the request has its credentials.
        let is_plain = unsafe { bindings::rqst_is_plain(rqst.raw()) };
        // GSS integrity and privacy cover the results as they are encoded: nothing is taken out.
        if !is_plain {
            return 0;
        }
        // SAFETY: Only `recvfrom` gives a request a context, which is a `C::Call`.
        if let Some(mut call) = unsafe { rqst.take_call::<C::Call>() } {
            C::result_payload(call.state_mut(), offset, len);
            rqst.put_call(call);
        }
        0
    }

    /// # Safety
    ///
    /// `xprt` is a connection of type `C`.
    unsafe extern "C" fn has_wspace(xprt: *mut bindings::svc_xprt) -> c_int {
        // SAFETY: By the safety requirements of this function.
        let transport = unsafe { Transport::<C, C::Call>::from_raw(xprt) };
        // SAFETY: As above.
        let running = || unsafe { bindings::xprt_running(xprt) };
        c_int::from(transport.data.has_space(running))
    }

    /// # Safety
    ///
    /// `xprt` is a connection of type `C`, and `ctxt` is null or one of its Calls.
    unsafe extern "C" fn release_ctxt(xprt: *mut bindings::svc_xprt, ctxt: *mut c_void) {
        if ctxt.is_null() {
            return;
        }
        // SAFETY: By the safety requirements of this function.
        let transport = unsafe { Transport::<C, C::Call>::from_raw(xprt) };
        // SAFETY: By the safety requirements of this function; C gives it back once.
        transport.data.release(unsafe { C::Call::from_raw(ctxt) });
    }

    /// # Safety
    ///
    /// `xprt` is a connection of type `C`.
    unsafe extern "C" fn detach(xprt: *mut bindings::svc_xprt) {
        // SAFETY: By the safety requirements of this function.
        let transport = unsafe { Transport::<C, C::Call>::from_raw(xprt) };
        transport.end();
    }
}

/// A listener sends nothing.
///
/// # Safety
///
/// None.
unsafe extern "C" fn always(_xprt: *mut bindings::svc_xprt) -> c_int {
    1
}

/// # Safety
///
/// `xprt` is a `Transport<T, I>` without references.
unsafe extern "C" fn free<T, I>(xprt: *mut bindings::svc_xprt) {
    // CAST: `xprt` is the first field and `Transport` is `repr(C)`.
    // SAFETY: By the safety requirements of this function; it was made from a box.
    drop(unsafe { KBox::<Transport<T, I>>::from_raw(xprt.cast()) });
}

/// # Safety
///
/// None.
unsafe extern "C" fn no_create(
    _serv: *mut bindings::svc_serv,
    _net: *mut bindings::net,
    _addr: *mut bindings::sockaddr,
    _len: c_int,
    _flags: c_int,
) -> *mut bindings::svc_xprt {
    EINVAL.to_ptr()
}

/// # Safety
///
/// None.
unsafe extern "C" fn no_accept(_xprt: *mut bindings::svc_xprt) -> *mut bindings::svc_xprt {
    core::ptr::null_mut()
}

/// # Safety
///
/// None.
unsafe extern "C" fn no_rqst(_rqstp: *mut bindings::svc_rqst) -> c_int {
    EINVAL.to_errno()
}

/// # Safety
///
/// None.
unsafe extern "C" fn no_payload(
    _rqstp: *mut bindings::svc_rqst,
    _offset: c_uint,
    _len: c_uint,
) -> c_int {
    EINVAL.to_errno()
}

/// A listener has no Calls.
///
/// # Safety
///
/// None.
unsafe extern "C" fn no_ctxt(_xprt: *mut bindings::svc_xprt, _ctxt: *mut c_void) {}

/// # Safety
///
/// None.
unsafe extern "C" fn no_xprt(_xprt: *mut bindings::svc_xprt) {}
