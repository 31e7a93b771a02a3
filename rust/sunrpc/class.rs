// SPDX-License-Identifier: GPL-2.0

//! Registered transport classes.
//!
//! A [`Class`] makes a transport known to sunrpc under a name. sunrpc then calls [`Listen::create`]
//! for each listener that an administrator adds to a service. One class can be registered at a
//! time, because `xpo_create` is not told which class it is called for.
//!
//! `register` has the constructor.
//!
//! C header: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h)

use crate::xprt::Listen;
use core::{
    any::TypeId,
    pin::Pin, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Release, //
        },
        Arc, //
    },
    types::Opaque, //
};
use support::wait_for_tasks;

/// The largest payload of a Call or a Reply in bytes: 4 MiB.
pub const MAX_PAYLOAD: usize = bindings::RPCSVC_MAXPAYLOAD as usize;

/// The address of the registered class' `context`, or 0 without a registered class.
pub(super) static CONTEXT: Atomic<usize> = Atomic::new(0);

/// Returns the context that listeners of the registered class are created with.
///
/// # Safety
///
/// - A [`Class`] of `L` is registered, and stays registered for `'a`.
pub(super) unsafe fn context<'a, L: Listen>() -> &'a Arc<L::Context> {
    // CAST: Only `Class::register` stores an address here, that of its `context`.
    // SAFETY: By the safety requirements of this function the address is that of a live `context`.
    // Only one class is registered at a time, so the `context` is that of a `Class<L>`.
    unsafe { &*(CONTEXT.load(Acquire) as *const Arc<L::Context>) }
}

/// Returns the C structure of the registered class, or `None` without a registered class.
///
/// The pointer may be dangling by the time the caller uses it, unless something else keeps the
/// class registered. Comparing the pointer is always allowed.
pub(super) fn registered<L: Listen>() -> Option<*mut bindings::svc_xprt_class> {
    let context = CONTEXT.load(Acquire) as *mut u8;
    // CAST: `registered` is the first field of the `repr(C)` struct that `context` is in.
    (!context.is_null()).then(|| {
        context
            .wrapping_sub(core::mem::offset_of!(Class<L>, context))
            .cast()
    })
}

/// A registered transport class, with listeners of type `L`.
///
/// A module owns its class and keeps it in its `module!` type: transports hold a reference to the
/// module, so they are gone when the class is dropped. Dropping the class unregisters it, and waits
/// until no task runs code of the module on behalf of the RDMA core or of the last transport.
/// Dropping it sleeps for about a quarter of a second.
///
/// # Invariants
///
/// - `registered` is on sunrpc's list of classes, and `CONTEXT` is the address of `context`.
/// - `kind` is the type ID of `L`. The offsets of the fields do not depend on `L`.
#[repr(C)]
#[pin_data(PinnedDrop)]
pub struct Class<L: Listen> {
    #[pin]
    pub(super) registered: Opaque<bindings::svc_xprt_class>,
    /// The class of connections. [`connections_of`](super::classes::connections_of) relies on its
    /// place behind `registered`.
    #[pin]
    pub(super) connections: Opaque<bindings::svc_xprt_class>,
    pub(super) kind: TypeId,
    #[pin]
    pub(super) context: Opaque<Arc<L::Context>>,
}

// SAFETY: A `Class` can only be dropped, which may happen on any thread.
unsafe impl<L: Listen> Send for Class<L> {}
// SAFETY: A shared `Class` has no operations.
unsafe impl<L: Listen> Sync for Class<L> {}

/// Returns true if `class` is the class of connections of the registered [`Class`], and if that
/// [`Class`] was registered for `L`. Only then are its transports connections of `L::Connection`.
///
/// # Safety
///
/// - `class` is the class of a live transport.
pub(super) unsafe fn is_connection<L: Listen>(class: *const bindings::svc_xprt_class) -> bool {
    let registered = registered::<L>();
    let ours = registered.filter(|ours| ours.wrapping_add(1).cast_const() == class);
    // CAST: `registered` is the first field of a `Class`, for any `L`.
    // SAFETY: `class` lies in the registered `Class`, which is live: it has a live transport by the
    // safety requirements of this function. The offset of `kind` does not depend on `L`, by the
    // type invariant.
    ours.is_some_and(|ours| unsafe { (*ours.cast::<Class<L>>()).kind } == TypeId::of::<L>())
}

#[pinned_drop]
impl<L: Listen> PinnedDrop for Class<L> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant `registered` is registered.
        unsafe { bindings::svc_unreg_xprt_class(self.registered.get()) };
        CONTEXT.store(0, Release);
        // No transport holds the module any more, so no CM ID listens. Two tasks may still use the
        // module: the RDMA core may be destroying the ID of a rejected connect request, which
        // points to a string in this module (see `NAME` in rdma/cm.rs), and the task that put the
        // last reference to the module may still be returning through its code.
        wait_for_tasks();
        // SAFETY: `register` has written `context`. Nothing reads `context` after this: only
        // `xpo_create` does, which holds a reference to the module, and the module is being
        // unloaded.
        unsafe { core::ptr::drop_in_place(self.context.get()) };
    }
}
