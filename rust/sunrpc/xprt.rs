// SPDX-License-Identifier: GPL-2.0

//! Transports: listeners and connections of a transport class.
//!
//! A [`Transport`] is a `struct svc_xprt` with the data of the class behind it. sunrpc counts its
//! references and calls `xpo_free` when the last one is dropped. The data is complete before
//! `svc_xprt_init` runs, which cannot fail, so no error path meets a partly initialised transport.
//!
//! [`Listen`] and [`Connect`] are the operations that a class implements. The crate documentation
//! has a table of their callers.
//!
//! C header: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h)
//!
//! # Context
//!
//! All operations but [`Connect::has_space`] run in process context and may sleep.

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

/// The operations of a listener.
///
/// The implementing type is the data of a listener. sunrpc owns it as part of a [`Transport`], and
/// drops it when no thread uses the listener any more.
pub trait Listen: Sized + Send + Sync + 'static {
    /// The value that the class was registered with.
    type Context: Send + Sync;
    /// A connect request that waits to be accepted.
    type Item: Send;
    /// The operations of an accepted connection.
    type Connection: Connect;

    /// Starts to listen on `addr` in the network namespace `net`.
    ///
    /// Returns the listener, its inbox, and the local address with the port that was chosen if
    /// `addr` has port 0. Connect requests may be pushed to the inbox at once.
    ///
    /// Called under `nfsd_mutex`; may sleep.
    ///
    /// # Errors
    ///
    /// Any errno, which the task that adds the listener gets.
    #[expect(
        clippy::type_complexity,
        reason = "three things that belong to three owners"
    )]
    fn create(
        context: &Arc<Self::Context>,
        net: Net<'_>,
        addr: &Addr,
    ) -> Result<(Self, Arc<Inbox<Self::Item>>, Addr)>;

    /// Accepts the connect request `item`. Returns `None` if the connection has failed.
    ///
    /// `listener` is the transport of `self`; [`Vacant::connection`] needs it. Called in an nfsd
    /// thread, by one thread at a time for each listener; may sleep.
    fn accept(
        &self,
        listener: &Transport<Self, Self::Item>,
        item: Self::Item,
    ) -> Option<New<Self::Connection>>;

    /// Rejects a connect request that was still in the inbox when the listener was detached. May
    /// sleep.
    fn discard(&self, item: Self::Item);

    /// Stops listening.
    ///
    /// The inbox is closed already. [`Self::discard`] is called afterwards for each connect request
    /// that is left in the inbox. May sleep.
    fn detach(&self);
}

/// The operations of a connection.
///
/// The implementing type is the data of a connection. sunrpc owns it as part of a [`Transport`],
/// and drops it when no thread uses the connection any more.
pub trait Connect: Sized + Send + Sync + 'static {
    /// A received Call.
    type Call: Context + Send;
    /// The sender of callbacks to the peer.
    type Back: Back;

    /// Passes `call`, which was the first in the inbox, to nfsd with [`Rqst::deliver`].
    ///
    /// Drops the Call and returns `None` if the Call cannot be served. Called in an nfsd thread;
    /// several threads may receive Calls of one connection at the same time. May sleep.
    fn recvfrom<'a>(&self, call: Self::Call, rqst: Rqst<'a>) -> Option<Delivered<'a, Self::Call>>;

    /// Marks `len` bytes at byte `offset` of the encoded results as a payload that may be sent
    /// apart from the rest, for example by RDMA Write.
    ///
    /// `state` belongs to the Call that is being processed. Not called for results that GSS
    /// integrity or privacy protects. Called in the nfsd thread that encodes the results; may
    /// sleep.
    fn result_payload(state: &mut <Self::Call as Context>::State, offset: u32, len: u32);

    /// Sends the results of `call`.
    ///
    /// Called in an nfsd thread; several threads may send Replies of one connection at the same
    /// time, also after [`Self::detach`]. May sleep, but must not wait for the peer.
    fn sendto(&self, call: Self::Call, results: Results<'_>);

    /// Returns true if an nfsd thread may take another Call from the inbox.
    ///
    /// `running` returns the number of Calls of this connection that threads are processing. After
    /// this function has returned false, sunrpc asks again at the end of each running Call. If
    /// anything else makes the function return true again, the class calls [`Inbox::wake`].
    ///
    /// # Context
    ///
    /// Any context. Callers hold spin locks, such as that of the inbox: the function takes no lock
    /// and does not sleep.
    fn has_space(&self, running: impl Fn() -> i32) -> bool;

    /// Takes back a Call that gets no Reply: nfsd has dropped the Call, or the Call was still in
    /// the inbox when the connection was detached.
    fn release(&self, call: Self::Call);

    /// Returns the sender of callbacks to the peer.
    ///
    /// Called when nfsd sets up callbacks over this connection, which may fail afterwards. May
    /// sleep.
    fn back(&self) -> Arc<Self::Back>;

    /// Stores the callback transport of this connection, which takes the replies to callbacks.
    ///
    /// Called at most once, when nfsd has set up callbacks. The class drops `channel` when the
    /// connection ends. May sleep.
    fn bind(&self, channel: Channel);

    /// Stops the connection: disconnects from the peer, or queues work that does.
    ///
    /// Called once. The inbox is closed already. Other operations may be running and may follow.
    /// [`Self::release`] is called afterwards for each Call that is left in the inbox. May sleep.
    fn detach(&self);
}

/// A `struct svc_xprt` with the data of a listener or a connection behind it.
///
/// sunrpc owns a transport once it is published: it counts the references and frees the transport
/// with the last one. A class sees a transport only as the `listener` of [`Listen::accept`].
///
/// # Invariants
///
/// - `xprt` was initialised by `svc_xprt_init`, with a class whose operations are for this type.
/// - `xprt` is the transport of `inbox` from initialisation to detach.
#[repr(C)]
pub struct Transport<T, I> {
    xprt: Opaque<bindings::svc_xprt>,
    pub(super) inbox: Arc<Inbox<I>>,
    pub(super) data: T,
}

impl<T, I> Transport<T, I> {
    /// Returns the transport that `xprt` is embedded in.
    ///
    /// # Safety
    ///
    /// - `xprt` is embedded in a `Transport<T, I>` that is live for `'a`.
    pub(super) unsafe fn from_raw<'a>(xprt: *mut bindings::svc_xprt) -> &'a Self {
        // CAST: `xprt` is the first field and `Self` is `repr(C)`.
        // SAFETY: By the safety requirements of this function.
        unsafe { &*xprt.cast::<Self>() }
    }

    /// Returns the number of pages that an nfsd thread of this service has for one Call, including
    /// those for the head and the tail (`svc_serv_maxpages`).
    pub fn max_pages(&self) -> u32 {
        // SAFETY: The transport is live, and its service is live while an operation runs.
        unsafe { bindings::serv_maxpages(self.xprt.get()) }
    }
}

/// Memory for a transport.
///
/// [`Listen::accept`] allocates it before it accepts the connection, so that nothing can fail after
/// the peer was told that it is accepted. Dropping it frees the memory.
pub struct Vacant<T, I>(KBox<MaybeUninit<Transport<T, I>>>);

impl<T, I: Send> Vacant<T, I> {
    /// Allocates memory for a transport. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new() -> Result<Self> {
        Ok(Self(KBox::new_uninit(GFP_KERNEL)?))
    }

    /// Initialises a transport of `class` with `data` and `inbox`.
    ///
    /// The result has one reference, which belongs to the caller, and `XPT_BUSY` set.
    ///
    /// # Safety
    ///
    /// - The operations of `class` are for `Transport<T, I>`, and `class` outlives the transport.
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
        // SAFETY: `raw` comes from a box above.
        let xprt = unsafe { &raw const (*raw).xprt };
        let xprt = Opaque::cast_into(xprt);
        // SAFETY: `xprt` is valid for writes. The other arguments are live by the safety
        // requirements of this function.
        unsafe { bindings::svc_xprt_init(net, class, xprt, serv) };
        // nfsd refuses NFSv4 over a transport without this flag.
        // SAFETY: `svc_xprt_init` has initialised `xprt`.
        unsafe { bindings::xprt_set_flag(xprt, bindings::XPT_CONG_CTRL) };
        // SAFETY: `xprt` is part of a box, so it is not null.
        let xprt = unsafe { NonNull::new_unchecked(xprt) };
        // SAFETY: `xprt` is initialised, busy and not published. `xpo_detach` or `New::drop`
        // detaches it from the inbox before its memory is freed.
        unsafe { inbox.attach(xprt) };
        xprt
    }
}

impl<C: Connect> Transport<C, C::Call> {
    /// Detaches the inbox, then the connection, then releases the Calls that nfsd has not received.
    /// May sleep.
    pub(super) fn end(&self) {
        self.inbox.detach();
        self.data.detach();
        while let Some(call) = self.inbox.pop() {
            self.data.release(call);
        }
    }
}

impl<C: Connect> Vacant<C, C::Call> {
    /// Makes the connection that `listener` has accepted, with the addresses of both ends.
    ///
    /// `inbox` may hold Calls already, and may be closed already. sunrpc sees neither before
    /// [`Listen::accept`] returns the connection.
    pub fn connection<L: Listen<Connection = C>>(
        self,
        listener: &Transport<L, L::Item>,
        data: C,
        inbox: Arc<Inbox<C::Call>>,
        local: &Addr,
        remote: &Addr,
    ) -> New<C> {
        let parent = listener.xprt.get();
        // SAFETY: `listener` is live, and initialised by the invariant of `Transport`.
        let (class, net, serv) =
            unsafe { ((*parent).xpt_class, (*parent).xpt_net, (*parent).xpt_server) };
        // SAFETY: `class` is the class of a listener.
        let class = unsafe { classes::connections_of(class) };
        // SAFETY: `connections_of` returns the class of connections, whose operations are
        // `ConnectionOps<C>`. `net` and `serv` are live, as the listener is.
        let xprt = unsafe { self.init(data, inbox, class, net, serv) };
        // SAFETY: `xprt` is live and not published; the addresses are valid.
        unsafe { bindings::xprt_set_addrs(xprt.as_ptr(), local.as_ptr(), remote.as_ptr()) };
        // The peer's address never changes, so sunrpc may cache the credentials that belong to it.
        // SAFETY: `xprt` is live and not published.
        unsafe { bindings::xprt_set_flag(xprt.as_ptr(), bindings::XPT_CACHE_AUTH) };
        // INVARIANT: `init` has returned the transport with one reference.
        New(xprt, PhantomData)
    }
}

/// An accepted connection that sunrpc does not know yet.
///
/// [`Listen::accept`] returns it. Dropping it instead detaches and frees the connection.
///
/// # Invariants
///
/// The pointer is to a `Transport<C, C::Call>` with one reference, which this value owns.
pub struct New<C: Connect>(NonNull<bindings::svc_xprt>, PhantomData<C>);

impl<C: Connect> New<C> {
    /// Returns the transport together with its reference.
    pub(super) fn into_raw(self) -> *mut bindings::svc_xprt {
        core::mem::ManuallyDrop::new(self).0.as_ptr()
    }
}

impl<C: Connect> Drop for New<C> {
    fn drop(&mut self) {
        // SAFETY: The transport is live by the type invariant.
        let transport = unsafe { Transport::<C, C::Call>::from_raw(self.0.as_ptr()) };
        transport.end();
        // SAFETY: By the type invariant this is the only reference, so the transport was not
        // published.
        unsafe { bindings::xprt_abandon(self.0.as_ptr()) };
    }
}
