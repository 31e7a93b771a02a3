// SPDX-License-Identifier: GPL-2.0

//! The tables of operations that sunrpc calls, and the functions in them.
//!
//! The functions translate C arguments to Rust types and call [`Listen`] or [`Connect`], whose
//! documentation names callers and contexts. A listener's table also has stubs for the operations
//! of connections, and the other way round.
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

/// The operations of listeners of type `L`.
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

    /// Creates a listener, for `_svc_xprt_create`.
    ///
    /// # Safety
    ///
    /// - A [`Class`](class::Class) of `L` is registered, and the caller holds its module.
    /// - `serv` and `net` are live.
    /// - `addr` is an IPv4 or IPv6 socket address of `_len` bytes.
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

    /// Creates a listener.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, and the errors of [`Listen::create`].
    ///
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
        // SAFETY: The operations of `class` are those of this table. `class` outlives the
        // transport, which holds its module. `net` and `serv` are live by the safety requirements.
        let xprt = unsafe { vacant.init(data, inbox, class, net, serv) };
        // SAFETY: `xprt` is live and not published; the address is valid.
        unsafe { bindings::xprt_set_addrs(xprt.as_ptr(), local.as_ptr(), core::ptr::null_mut()) };
        // SAFETY: `xprt` is live.
        unsafe { bindings::xprt_set_flag(xprt.as_ptr(), bindings::XPT_LISTENER) };
        Ok(xprt)
    }

    /// Accepts the first connect request in the inbox, for `svc_handle_xprt`.
    ///
    /// # Safety
    ///
    /// - `xprt` is a live listener of type `L`.
    unsafe extern "C" fn accept(xprt: *mut bindings::svc_xprt) -> *mut bindings::svc_xprt {
        // SAFETY: By the safety requirements of this function.
        let listener = unsafe { Transport::<L, L::Item>::from_raw(xprt) };
        let new = listener
            .inbox
            .pop()
            .and_then(|item| listener.data.accept(listener, item));
        new.map_or(core::ptr::null_mut(), New::into_raw)
    }

    /// Ends the turn of a listener. Not reached, as `svc_handle_xprt` makes a listener accept.
    ///
    /// # Safety
    ///
    /// - `rqstp` is the request of the calling thread.
    unsafe extern "C" fn recvfrom(rqstp: *mut bindings::svc_rqst) -> c_int {
        // SAFETY: By the safety requirements of this function.
        let xprt = unsafe { (*rqstp).rq_xprt };
        // SAFETY: The transport that a request is dispatched for is live and busy.
        unsafe { bindings::svc_xprt_received(xprt) };
        0
    }

    /// Detaches a listener, for `svc_delete_xprt`.
    ///
    /// # Safety
    ///
    /// - `xprt` is a live listener of type `L`.
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

/// The operations of connections of type `C`.
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

    /// Receives the first Call in the inbox, for `svc_handle_xprt`. Returns its length in bytes, or
    /// 0 if there is no Call.
    ///
    /// # Safety
    ///
    /// - `rqstp` is the request of the calling thread.
    /// - `rq_xprt` is a connection of type `C`, to which the thread has a reference.
    unsafe extern "C" fn recvfrom(rqstp: *mut bindings::svc_rqst) -> c_int {
        // SAFETY: By the safety requirements of this function.
        let mut rqst = unsafe { Rqst::from_raw(rqstp) };
        let xprt = rqst.xprt();
        // SAFETY: `xprt` is live, as the thread has a reference to it.
        let transport = unsafe { Transport::<C, C::Call>::from_raw(xprt) };
        let call = transport.inbox.pop();
        // Called as early as possible, so that another thread can receive the next Call.
        // SAFETY: `xprt` is live, and this thread has set `XPT_BUSY`.
        unsafe { bindings::svc_xprt_received(xprt) };
        rqst.begin();
        let Some(delivered) = call.and_then(|call| transport.data.recvfrom(call, rqst)) else {
            return 0;
        };
        // SAFETY: By the safety requirements of this function.
        unsafe { Rqst::from_raw(rqstp) }.hand_over(delivered)
    }

    /// Sends the Reply to a Call, for `svc_send`.
    ///
    /// # Safety
    ///
    /// - As for [`Self::recvfrom`].
    /// - `svc_process` has encoded the results in `rq_res`.
    unsafe extern "C" fn sendto(rqstp: *mut bindings::svc_rqst) -> c_int {
        // SAFETY: By the safety requirements of this function.
        let mut rqst = unsafe { Rqst::from_raw(rqstp) };
        // SAFETY: The transport is live, as the thread has a reference to it.
        let transport = unsafe { Transport::<C, C::Call>::from_raw(rqst.xprt()) };
        // SAFETY: `recvfrom` gives the requests of this transport contexts of type `C::Call`.
        if let Some(call) = unsafe { rqst.take_call::<C::Call>() } {
            // SAFETY: By the safety requirements of this function.
            let results = unsafe { Results::new(rqst) };
            transport.data.sendto(call, results);
        }
        0
    }

    /// Marks a payload in the results, for `svc_encode_result_payload`.
    ///
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
        // SAFETY: Results are being encoded, so the request was authenticated.
        let is_plain = unsafe { bindings::rqst_is_plain(rqst.raw()) };
        // GSS integrity and privacy protect the results as a whole: no part may be sent apart.
        if !is_plain {
            return 0;
        }
        // SAFETY: `recvfrom` gives the requests of this transport contexts of type `C::Call`.
        if let Some(mut call) = unsafe { rqst.take_call::<C::Call>() } {
            C::result_payload(call.state_mut(), offset, len);
            rqst.put_call(call);
        }
        0
    }

    /// Returns 1 if another Call may be received, for `svc_xprt_enqueue`.
    ///
    /// # Safety
    ///
    /// - `xprt` is a live connection of type `C`.
    unsafe extern "C" fn has_wspace(xprt: *mut bindings::svc_xprt) -> c_int {
        // SAFETY: By the safety requirements of this function.
        let transport = unsafe { Transport::<C, C::Call>::from_raw(xprt) };
        // SAFETY: By the safety requirements of this function.
        let running = || unsafe { bindings::xprt_running(xprt) };
        c_int::from(transport.data.has_space(running))
    }

    /// Releases a Call that gets no Reply, for `svc_xprt_release` and for deferred Calls.
    ///
    /// # Safety
    ///
    /// - `xprt` is a live connection of type `C`.
    /// - `ctxt` is null, or a context of this connection that the caller gives up.
    unsafe extern "C" fn release_ctxt(xprt: *mut bindings::svc_xprt, ctxt: *mut c_void) {
        if ctxt.is_null() {
            return;
        }
        // SAFETY: By the safety requirements of this function.
        let transport = unsafe { Transport::<C, C::Call>::from_raw(xprt) };
        // SAFETY: By the safety requirements of this function `ctxt` comes from `into_raw`, and is
        // not used any more.
        transport.data.release(unsafe { C::Call::from_raw(ctxt) });
    }

    /// Detaches a connection, for `svc_delete_xprt`.
    ///
    /// # Safety
    ///
    /// - `xprt` is a live connection of type `C`.
    unsafe extern "C" fn detach(xprt: *mut bindings::svc_xprt) {
        // SAFETY: By the safety requirements of this function.
        let transport = unsafe { Transport::<C, C::Call>::from_raw(xprt) };
        transport.end();
    }
}

/// Returns 1: a listener sends no Replies, so it always has room for one.
///
/// # Safety
///
/// None.
unsafe extern "C" fn always(_xprt: *mut bindings::svc_xprt) -> c_int {
    1
}

/// Drops a transport, for `svc_xprt_put`.
///
/// # Safety
///
/// - `xprt` is part of a `Transport<T, I>` from `Vacant::init`.
/// - `xprt` has no references any more.
unsafe extern "C" fn free<T, I>(xprt: *mut bindings::svc_xprt) {
    // CAST: `xprt` is the first field and `Transport` is `repr(C)`.
    // SAFETY: By the safety requirements of this function; `Vacant::init` has made it from a box.
    drop(unsafe { KBox::<Transport<T, I>>::from_raw(xprt.cast()) });
}

/// Refuses to create a listener: the class of connections is not registered.
///
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

/// Accepts nothing: a connection has no `XPT_CONN`.
///
/// # Safety
///
/// None.
unsafe extern "C" fn no_accept(_xprt: *mut bindings::svc_xprt) -> *mut bindings::svc_xprt {
    core::ptr::null_mut()
}

/// Refuses to send: a listener has no Calls.
///
/// # Safety
///
/// None.
unsafe extern "C" fn no_rqst(_rqstp: *mut bindings::svc_rqst) -> c_int {
    EINVAL.to_errno()
}

/// Refuses a payload: a listener has no Calls.
///
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

/// Releases nothing: a listener has no Calls.
///
/// # Safety
///
/// None.
unsafe extern "C" fn no_ctxt(_xprt: *mut bindings::svc_xprt, _ctxt: *mut c_void) {}

/// Does nothing: sunrpc closes the transports of a removed local address, which is enough.
///
/// # Safety
///
/// None.
unsafe extern "C" fn no_xprt(_xprt: *mut bindings::svc_xprt) {}
