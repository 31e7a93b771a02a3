// SPDX-License-Identifier: GPL-2.0

//! Registered transport classes, and the context that their listeners are made with.
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

/// The largest payload of a Call or a reply, in bytes.
pub const MAX_PAYLOAD: usize = bindings::RPCSVC_MAXPAYLOAD as usize;

/// The context of the class that is registered, as `xpo_create` is told nothing but addresses.
pub(super) static CONTEXT: Atomic<usize> = Atomic::new(0);

/// The context that listeners of the registered class are made with.
///
/// # Safety
///
/// - A [`Class`] of `L` is registered, and stays so for `'a`.
pub(super) unsafe fn context<'a, L: Listen>() -> &'a Arc<L::Context> {
    // CAST: Only `Class::register` stores here, the address of its `context`.
    // SAFETY: By the safety requirements of this function; there is one class at a time, so the
    // type is the one that was stored.
    unsafe { &*(CONTEXT.load(Acquire) as *const Arc<L::Context>) }
}

/// The registered class itself, if there is one; a pointer that may be compared.
pub(super) fn registered<L: Listen>() -> Option<*mut bindings::svc_xprt_class> {
    let context = CONTEXT.load(Acquire) as *mut u8;
    // CAST: `registered` is the first field of the `repr(C)` struct that `context` is in.
    (!context.is_null()).then(|| {
        context
            .wrapping_sub(core::mem::offset_of!(Class<L>, context))
            .cast()
    })
}

/// A registered class; dropping it takes the class off, and waits until no task runs in what used it.
/// Dropping it sleeps.
///
/// # Invariants
///
/// `registered` is on `sunrpc`'s list, and [`CONTEXT`] is the address of `context`. Where the fields lie
/// does not depend on `L`, which `kind` names.
#[repr(C)]
#[pin_data(PinnedDrop)]
pub struct Class<L: Listen> {
    #[pin]
    pub(super) registered: Opaque<bindings::svc_xprt_class>,
    /// Of connections; only [`connections_of`](super::classes::connections_of) finds it, behind `registered`.
    #[pin]
    pub(super) connections: Opaque<bindings::svc_xprt_class>,
    pub(super) kind: TypeId,
    #[pin]
    pub(super) context: Opaque<Arc<L::Context>>,
}

// SAFETY: Nothing can be done with a `Class` but drop it, which may happen on any thread.
unsafe impl<L: Listen> Send for Class<L> {}
// SAFETY: As above.
unsafe impl<L: Listen> Sync for Class<L> {}

/// Returns true if `class` is the class of connections that belongs to the registered [`Class`], and if
/// that was registered for `L`: others have connections of other types.
///
/// # Safety
///
/// `class` is the class of a live transport.
pub(super) unsafe fn is_connection<L: Listen>(class: *const bindings::svc_xprt_class) -> bool {
    let registered = registered::<L>();
    let ours = registered.filter(|ours| ours.wrapping_add(1).cast_const() == class);
    // CAST: `registered` is the first field of a `Class`, for whatever `L` that is.
    // SAFETY: The registered class has a live transport by the safety requirements of this function, so
    // it is live; `kind` lies where it does for this `L`, by the type invariant.
    ours.is_some_and(|ours| unsafe { (*ours.cast::<Class<L>>()).kind } == TypeId::of::<L>())
}

#[pinned_drop]
impl<L: Listen> PinnedDrop for Class<L> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant `registered` is registered.
        unsafe { bindings::svc_unreg_xprt_class(self.registered.get()) };
        CONTEXT.store(0, Release);
        // Nothing holds the module any more, so no id listens. The RDMA core may still be destroying the
        // id of a connect request that was rejected, which names this module (see `NAME` in rdma/cm.rs),
        // and the task that put the last reference to the module may still return through its code.
        wait_for_tasks();
        // SAFETY: `register` has written `context`, and nobody uses it after this: a transport
        // holds a reference to the module, and the module ends only without references.
        unsafe { core::ptr::drop_in_place(self.context.get()) };
    }
}
