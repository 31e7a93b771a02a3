// SPDX-License-Identifier: GPL-2.0

//! Transports: a `struct svc_xprt` with our data behind it.
//!
//! `sunrpc` counts the references of a transport and calls `xpo_free` with the last one. A
//! transport is made completely before `svc_xprt_init`, which cannot fail, so no error path ever
//! meets a half-made one. Contexts: all operations but `xpo_has_wspace` run in process context and
//! may sleep.
//!
//! C header: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h)

use super::{
    class,
    inbox::{
        Inbox,
        Item, //
    },
    rqst::Rqst,
};
use crate::abstractions::{
    addr::{
        Addr,
        Net, //
    },
    bindings,
    context::Context, //
};
use core::{
    marker::PhantomData,
    mem::MaybeUninit,
    ptr::NonNull, //
};
use kernel::{
    ffi::c_void,
    prelude::*,
    sync::Arc,
    types::Opaque, //
};

/// What a listener does.
pub(crate) trait Listen: Sized + Send + Sync + 'static {
    /// What the class was registered with.
    type Context: Send + Sync;
    /// A connection that waits to be accepted.
    type Item: Item;
    /// What an accepted connection does.
    type Connection: Connect;

    /// Starts to listen on `addr`; returns the listener, its inbox, and the address with the port
    /// that was chosen when `addr` names none. Under `nfsd_mutex`; may sleep.
    #[expect(
        clippy::type_complexity,
        reason = "three things that belong to three owners"
    )]
    fn create(
        context: &Arc<Self::Context>,
        net: Net<'_>,
        addr: &Addr,
    ) -> Result<(Self, Arc<Inbox<Self::Item>>, Addr)>;

    /// Accepts `item`. One call at a time for a listener; may sleep.
    fn accept(
        &self,
        listener: &Transport<Self, Self::Item>,
        item: Self::Item,
    ) -> Option<New<Self::Connection>>;

    /// Turns away a connection that will not be accepted any more. May sleep.
    fn discard(&self, item: Self::Item);

    /// Listens no more. May sleep.
    fn detach(&self);
}

/// What a connection does.
pub(crate) trait Connect: Sized + Send + Sync + 'static {
    /// A Call.
    type Call: Context + Item;

    /// Hands `call` to nfsd with [`Rqst::deliver`]; returns what that returns, or 0 when the Call
    /// came to nothing. In an nfsd thread; may sleep.
    fn recvfrom(&self, call: Self::Call, rqst: &mut Rqst<'_>) -> c_int;

    /// Notes that `len` bytes at byte `offset` of the results may go by RDMA Write.
    fn result_payload(&self, call: &mut Self::Call, rqst: &Rqst<'_>, offset: u32, len: u32);

    /// Sends the results of `call`. In an nfsd thread; must not wait for the peer.
    fn sendto(&self, call: Self::Call, rqst: &mut Rqst<'_>);

    /// Takes back a Call that gets no reply.
    fn release(&self, call: Self::Call);

    /// Stops the hardware side, or has that done. Other operations may be running. May sleep.
    fn detach(&self);
}

/// A `struct svc_xprt` with the data of a listener or a connection behind it.
///
/// # Invariants
///
/// `xprt` was initialised by `svc_xprt_init` with operations for this very type; `inbox` names it
/// from then on until detach.
#[repr(C)]
pub(crate) struct Transport<T, I> {
    xprt: Opaque<bindings::svc_xprt>,
    inbox: Arc<Inbox<I>>,
    data: T,
}

impl<T, I> Transport<T, I> {
    /// # Safety
    ///
    /// `xprt` is embedded in a `Transport<T, I>` that lives for `'a`.
    unsafe fn from_raw<'a>(xprt: *mut bindings::svc_xprt) -> &'a Self {
        // CAST: `xprt` is the first field and `Self` is `repr(C)`.
        // SAFETY: By the safety requirements of this function.
        unsafe { &*xprt.cast::<Self>() }
    }

    /// The number of pages that `nfsd` has for a Call of this service, its head and tail included
    /// (`svc_serv_maxpages`).
    pub(crate) fn max_pages(&self) -> u32 {
        // SAFETY: The transport is live, and its service is while an operation runs.
        unsafe { bindings::serv_maxpages(self.xprt.get()) }
    }
}

/// Memory for a transport, so that nothing can fail once the peer has been told that it is
/// accepted.
pub(crate) struct Vacant<T, I>(KBox<MaybeUninit<Transport<T, I>>>);

impl<T, I: Item> Vacant<T, I> {
    /// Allocates. May sleep.
    pub(crate) fn new() -> Result<Self> {
        Ok(Self(KBox::new_uninit(GFP_KERNEL)?))
    }

    /// Makes the transport: addresses, flags, inbox.
    ///
    /// # Safety
    ///
    /// - `class` has operations for `Transport<T, I>` and outlives it.
    /// - `net` and `serv` are live.
    unsafe fn init(
        self,
        data: T,
        inbox: Arc<Inbox<I>>,
        class: *mut bindings::svc_xprt_class,
        net: *mut bindings::net,
        serv: *mut bindings::svc_serv,
    ) -> NonNull<bindings::svc_xprt> {
        let transport = Transport {
            xprt: Opaque::uninit(),
            inbox: inbox.clone(),
            data,
        };
        let raw = KBox::into_raw(KBox::write(self.0, transport));
        // SAFETY: `raw` was just made from a box.
        let xprt = unsafe { &raw const (*raw).xprt };
        let xprt = Opaque::cast_into(xprt);
        // SAFETY: `xprt` is valid for writes, the rest is live by the safety requirements of this
        // function.
        unsafe { bindings::svc_xprt_init(net, class, xprt, serv) };
        // SAFETY: `svc_xprt_init` has made `xprt`. Without this flag nfsd refuses NFSv4.
        unsafe { bindings::xprt_set_flag(xprt, bindings::XPT_CONG_CTRL) };
        // SAFETY: `raw` came from a box, so it is not null.
        let xprt = unsafe { NonNull::new_unchecked(xprt) };
        // SAFETY: `xprt` is initialised, busy and not published; both `xpo_detach` and `New`
        // detach it before its memory goes.
        unsafe { inbox.attach(xprt) };
        xprt
    }
}

impl<C: Connect> Vacant<C, C::Call> {
    /// Makes the connection that a listener has accepted.
    pub(crate) fn connection<L: Listen<Connection = C>>(
        self,
        listener: &Transport<L, L::Item>,
        data: C,
        inbox: Arc<Inbox<C::Call>>,
        local: &Addr,
        remote: &Addr,
    ) -> New<C> {
        let parent = listener.xprt.get();
        // SAFETY: A listener is live and initialised while it accepts, by `Transport`'s invariant.
        let (class, net, serv) =
            unsafe { ((*parent).xpt_class, (*parent).xpt_net, (*parent).xpt_server) };
        // SAFETY: `class` is that of a listener.
        let class = unsafe { class::connections_of(class) };
        // SAFETY: The class of connections has `ConnectionOps<C>`; the rest is the listener's.
        let xprt = unsafe { self.init(data, inbox, class, net, serv) };
        // SAFETY: `xprt` is live and not published; the addresses are valid.
        unsafe { bindings::xprt_set_addrs(xprt.as_ptr(), local.as_ptr(), remote.as_ptr()) };
        // SAFETY: As above. The peer's address never changes, so its credentials may be cached.
        unsafe { bindings::xprt_set_flag(xprt.as_ptr(), bindings::XPT_CACHE_AUTH) };
        New(xprt, PhantomData)
    }
}

/// A connection that nobody knows yet; dropping it frees it.
pub(crate) struct New<C: Connect>(NonNull<bindings::svc_xprt>, PhantomData<C>);

impl<C: Connect> New<C> {
    fn into_raw(self) -> *mut bindings::svc_xprt {
        core::mem::ManuallyDrop::new(self).0.as_ptr()
    }
}

impl<C: Connect> Drop for New<C> {
    fn drop(&mut self) {
        // SAFETY: The transport is live, and this is its only reference.
        let transport = unsafe { Transport::<C, C::Call>::from_raw(self.0.as_ptr()) };
        transport.inbox.detach();
        transport.data.detach();
        // SAFETY: This is the birth reference, which is ours as the transport was not returned.
        unsafe { bindings::xprt_abandon(self.0.as_ptr()) };
    }
}

/// The operations of listeners.
pub(super) struct ListenerOps<L>(PhantomData<L>);

impl<L: Listen> ListenerOps<L> {
    pub(super) const OPS: bindings::svc_xprt_ops = bindings::svc_xprt_ops {
        xpo_create: Some(Self::create),
        xpo_accept: Some(Self::accept),
        xpo_has_wspace: Some(has_wspace),
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
        // SAFETY: The class is registered and has operations for listeners of type `L`.
        let class = unsafe { class::registered::<L>() };
        // SAFETY: As just said, and by the safety requirements of this function.
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
        xpo_has_wspace: Some(has_wspace),
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
        call.map_or(0, |call| transport.data.recvfrom(call, &mut rqst))
    }

    /// # Safety
    ///
    /// As for [`Self::recvfrom`], and the results are encoded.
    unsafe extern "C" fn sendto(rqstp: *mut bindings::svc_rqst) -> c_int {
        // SAFETY: By the safety requirements of this function.
        let mut rqst = unsafe { Rqst::from_raw(rqstp) };
        // SAFETY: The transport is live: the thread has a reference to it.
        let transport = unsafe { Transport::<C, C::Call>::from_raw(rqst.xprt()) };
        // SAFETY: The context of a request for a connection of type `C` is a `C::Call`.
        if let Some(call) = unsafe { rqst.take_call::<C::Call>() } {
            transport.data.sendto(call, &mut rqst);
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
        // SAFETY: The transport is live: the thread has a reference to it.
        let transport = unsafe { Transport::<C, C::Call>::from_raw(rqst.xprt()) };
        // SAFETY: The context of a request for a connection of type `C` is a `C::Call`.
        if let Some(mut call) = unsafe { rqst.take_call::<C::Call>() } {
            transport.data.result_payload(&mut call, &rqst, offset, len);
            rqst.put_call(call);
        }
        0
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
        transport.inbox.detach();
        transport.data.detach();
        while let Some(call) = transport.inbox.pop() {
            transport.data.release(call);
        }
    }
}

/// A reply can always be taken: what does not fit waits in a queue of its connection.
///
/// # Safety
///
/// None.
unsafe extern "C" fn has_wspace(_xprt: *mut bindings::svc_xprt) -> c_int {
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
