// SPDX-License-Identifier: GPL-2.0

//! Transports: a `struct svc_xprt` with our data behind it.
//!
//! `sunrpc` counts the references of a transport and calls `xpo_free` with the last one. A
//! transport is made completely before `svc_xprt_init`, which cannot fail, so no error path ever
//! meets a half-made one. Contexts: all operations but `xpo_has_wspace` run in process context and
//! may sleep.
//!
//! C header: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h)

use crate::{
    callback::{
        Back,
        Channel, //
    },
    classes,
    inbox::Inbox,
    results::Results,
    rqst::{
        Delivered,
        Rqst, //
    },
};
use core::{
    marker::PhantomData,
    mem::MaybeUninit,
    ptr::NonNull, //
};
use kernel::{
    prelude::*,
    sync::Arc,
    types::Opaque, //
};
use support::{
    addr::{
        Addr,
        Net, //
    },
    context::Context, //
};

/// What a listener does.
pub trait Listen: Sized + Send + Sync + 'static {
    /// What the class was registered with.
    type Context: Send + Sync;
    /// A connection that waits to be accepted.
    type Item: Send;
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
pub trait Connect: Sized + Send + Sync + 'static {
    /// A Call.
    type Call: Context + Send;
    /// What carries Calls in the reverse direction.
    type Back: Back;

    /// Hands `call` to nfsd with [`Rqst::deliver`], unless the Call came to nothing. In an nfsd
    /// thread; may sleep.
    fn recvfrom<'a>(&self, call: Self::Call, rqst: Rqst<'a>) -> Option<Delivered<'a, Self::Call>>;

    /// Notes that `len` bytes at byte `offset` of the results may go by RDMA Write. nfsd has the
    /// Call itself.
    fn result_payload(state: &mut <Self::Call as Context>::State, offset: u32, len: u32);

    /// Sends the results of `call`. In an nfsd thread; must not wait for the peer.
    fn sendto(&self, call: Self::Call, results: Results<'_>);

    /// Returns true if a thread may take another Call. `running` returns how many Calls of this
    /// connection threads have at hand. After `false` the inbox has to be woken when one may
    /// ([`Inbox::wake`]), but for the end of a running Call: then sunrpc asks again by itself. In
    /// any context; takes no lock, as `sunrpc` holds some.
    fn has_space(&self, running: impl Fn() -> i32) -> bool;

    /// Takes back a Call that gets no reply.
    fn release(&self, call: Self::Call);

    /// What nfsd's callbacks go through. May sleep.
    fn back(&self) -> Arc<Self::Back>;

    /// nfsd has set up callbacks: their replies are for `channel`, until the connection ends.
    fn bind(&self, channel: Channel);

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
pub struct Transport<T, I> {
    xprt: Opaque<bindings::svc_xprt>,
    pub(super) inbox: Arc<Inbox<I>>,
    pub(super) data: T,
}

impl<T, I> Transport<T, I> {
    /// # Safety
    ///
    /// `xprt` is embedded in a `Transport<T, I>` that lives for `'a`.
    pub(super) unsafe fn from_raw<'a>(xprt: *mut bindings::svc_xprt) -> &'a Self {
        // CAST: `xprt` is the first field and `Self` is `repr(C)`.
        // SAFETY: By the safety requirements of this function.
        unsafe { &*xprt.cast::<Self>() }
    }

    /// The number of pages that `nfsd` has for a Call of this service, its head and tail included
    /// (`svc_serv_maxpages`).
    pub fn max_pages(&self) -> u32 {
        // SAFETY: The transport is live, and its service is while an operation runs.
        unsafe { bindings::serv_maxpages(self.xprt.get()) }
    }
}

/// Memory for a transport, so that nothing can fail once the peer has been told that it is
/// accepted.
pub struct Vacant<T, I>(KBox<MaybeUninit<Transport<T, I>>>);

impl<T, I: Send> Vacant<T, I> {
    /// Allocates. May sleep.
    pub fn new() -> Result<Self> {
        Ok(Self(KBox::new_uninit(GFP_KERNEL)?))
    }

    /// Makes the transport: addresses, flags, inbox.
    ///
    /// # Safety
    ///
    /// - `class` has operations for `Transport<T, I>` and outlives it.
    /// - `net` and `serv` are live.
    pub(super) unsafe fn init(
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

impl<C: Connect> Transport<C, C::Call> {
    /// Lets go of the hardware, and of the Calls that nfsd has not taken. May sleep.
    pub(super) fn end(&self) {
        self.inbox.detach();
        self.data.detach();
        while let Some(call) = self.inbox.pop() {
            self.data.release(call);
        }
    }
}

impl<C: Connect> Vacant<C, C::Call> {
    /// Makes the connection that a listener has accepted.
    pub fn connection<L: Listen<Connection = C>>(
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
        let class = unsafe { classes::connections_of(class) };
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
pub struct New<C: Connect>(NonNull<bindings::svc_xprt>, PhantomData<C>);

impl<C: Connect> New<C> {
    pub(super) fn into_raw(self) -> *mut bindings::svc_xprt {
        core::mem::ManuallyDrop::new(self).0.as_ptr()
    }
}

impl<C: Connect> Drop for New<C> {
    fn drop(&mut self) {
        // SAFETY: The transport is live, and this is its only reference.
        let transport = unsafe { Transport::<C, C::Call>::from_raw(self.0.as_ptr()) };
        transport.end();
        // SAFETY: This is the birth reference, which is ours as the transport was not returned.
        unsafe { bindings::xprt_abandon(self.0.as_ptr()) };
    }
}
