// SPDX-License-Identifier: GPL-2.0

//! What there is one of for each network namespace, with its folder in `/proc/sys`.
//!
//! Both are made and dropped on the threads that make and destroy namespaces, or that load and
//! unload us, which may sleep.
//!
//! C headers: [`include/net/net_namespace.h`](srctree/include/net/net_namespace.h),
//! [`include/net/netns/generic.h`](srctree/include/net/netns/generic.h)

use crate::{
    addr::Net,
    sysctl::{
        Files,
        Sysctl, //
    },
};
use core::{
    marker::PhantomData,
    pin::Pin, //
};
use kernel::{
    error::{
        from_result,
        to_result, //
    },
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            AtomicFlag,
            Full,
            Relaxed,
            Release, //
        },
        Arc, //
    },
    types::Opaque, //
};

/// What there is to say of a namespace. It cannot be had itself here: one that is being made, or that
/// ends as we are loaded, has no references that could be added to.
#[derive(Clone, Copy)]
pub struct Namespace {
    /// Whether it is the host's, the one that there was first.
    pub is_initial: bool,
    /// Its number, which `lsns` and the links in `/proc/PID/ns` show.
    pub number: u32,
}

/// What a namespace has one of.
pub trait Namespaced: Files + Sized {
    /// Makes that of `namespace`. May sleep.
    ///
    /// # Errors
    ///
    /// Any: there will be no such namespace then, or no [`PerNet`] where there is one already.
    fn new(namespace: Namespace) -> Result<Arc<Self>>;
}

/// The number under which namespaces have it, as the functions below are told nothing but the
/// namespace.
static ID: Atomic<u32> = Atomic::new(0);

/// Whether there is a [`PerNet`].
static TAKEN: AtomicFlag = AtomicFlag::new(false);

/// A `T` for each network namespace; dropping it takes them off all namespaces.
///
/// # Invariants
///
/// `operations` are registered: each namespace that can be used has, in its slot [`ID`], a pointer
/// that is a `KBox<Sysctl<T>>`.
#[pin_data(PinnedDrop)]
pub struct PerNet<T: Namespaced> {
    #[pin]
    operations: Opaque<bindings::pernet_operations>,
    _values: PhantomData<T>,
}

// SAFETY: Folders may be dropped on any thread.
unsafe impl<T: Namespaced> Send for PerNet<T> {}
// SAFETY: A shared `PerNet` offers nothing but `Arc`s of `T`, which are `Send` and `Sync`.
unsafe impl<T: Namespaced> Sync for PerNet<T> {}

impl<T: Namespaced> PerNet<T> {
    /// Makes those of the namespaces that there are, and later of each that comes. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` for a second one, `ENOMEM`, and those of [`Namespaced::new`].
    pub fn register() -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            _values: PhantomData,
            operations <- Opaque::try_ffi_init(|slot: *mut bindings::pernet_operations| {
                TAKEN.cmpxchg(false, true, Full).map_err(|_| EBUSY)?;
                // SAFETY: `slot` is valid for writes.
                unsafe {
                    slot.write(bindings::pernet_operations {
                        init: Some(Self::init),
                        exit: Some(Self::exit),
                        id: ID.as_ptr(),
                        size: size_of::<*mut Sysctl<T>>(),
                        ..pin_init::zeroed()
                    })
                };
                // SAFETY: `slot` is filled in and stays where it is until `drop`.
                to_result(unsafe { bindings::register_pernet_subsys(slot) })
                    .inspect_err(|_| TAKEN.store(false, Release))
            }),
        }? Error)
    }

    /// That of `net`.
    pub fn get(&self, net: Net<'_>) -> Arc<T> {
        // SAFETY: By the type invariant `operations` are registered, and `net` is live.
        let folder = unsafe { *Self::slot(net.as_ptr()) };
        // SAFETY: `init` has run for each namespace that can be used, and `exit` does not run while
        // `net` is live and `self` there.
        let folder: &Sysctl<T> = unsafe { &*folder };
        folder.files().clone()
    }

    /// Where `net` has its pointer.
    ///
    /// # Safety
    ///
    /// The operations are registered, and `net` is one that they were told of.
    unsafe fn slot(net: *const bindings::net) -> *mut *mut Sysctl<T> {
        // CAST: `register` has asked for room for a pointer.
        // SAFETY: By the safety requirements of this function.
        unsafe { bindings::net_generic(net, ID.load(Relaxed)) }.cast()
    }

    /// # Safety
    ///
    /// The core of networking calls this, once for each namespace, before that can be used or under
    /// `register`.
    unsafe extern "C" fn init(net: *mut bindings::net) -> c_int {
        from_result(|| {
            let namespace = Namespace {
                // SAFETY: By the safety requirements of this function.
                is_initial: unsafe { bindings::net_is_initial(net) },
                // SAFETY: As above.
                number: unsafe { bindings::net_number(net) },
            };
            let files = T::new(namespace)?;
            // SAFETY: By the safety requirements of this function. It is dropped below on an error,
            // else by `exit`: subsystems exit in the reverse order of their memory region, and that
            // of `/proc/sys` was registered when the kernel booted.
            let folder = unsafe { Sysctl::register(net, files) }?;
            let folder = KBox::new(folder, GFP_KERNEL)?;
            // SAFETY: By the safety requirements of this function; nobody else knows the slot yet.
            unsafe { Self::slot(net).write(KBox::into_raw(folder)) };
            Ok(0)
        })
    }

    /// # Safety
    ///
    /// The core of networking calls this, once for each namespace that [`Self::init`] has accepted,
    /// when nobody can use that any more, or in `drop`.
    unsafe extern "C" fn exit(net: *mut bindings::net) {
        // SAFETY: By the safety requirements of this function.
        let folder = unsafe { *Self::slot(net) };
        // SAFETY: As above; `init` has made it of a box, and nobody can `get` it any more.
        drop(unsafe { KBox::from_raw(folder) });
    }
}

#[pinned_drop]
impl<T: Namespaced> PinnedDrop for PerNet<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant. It calls `exit` for all namespaces, and no operation runs
        // after it has returned.
        unsafe { bindings::unregister_pernet_subsys(self.operations.get()) };
        TAKEN.store(false, Release);
    }
}
