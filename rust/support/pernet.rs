// SPDX-License-Identifier: GPL-2.0

//! One value for each network namespace, with a directory of the namespace in `/proc/sys`.
//!
//! C headers: [`include/net/net_namespace.h`](srctree/include/net/net_namespace.h),
//! [`include/net/netns/generic.h`](srctree/include/net/netns/generic.h)
//!
//! # Context
//!
//! Process context; may sleep. A value and its directory are created and dropped by the tasks that
//! create and destroy the namespace, or that load and unload the module.

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

/// The properties of a network namespace for which a value is created.
///
/// This is not the namespace itself: a namespace that is being created or destroyed has no
/// references that more could be added to.
#[derive(Clone, Copy)]
pub struct Namespace {
    /// True for the initial namespace, that of the host.
    pub is_initial: bool,
    /// The inode number, which `lsns` and the links in `/proc/PID/ns` show.
    pub number: u32,
}

/// A type with one value for each network namespace.
pub trait Namespaced: Files + Sized {
    /// Creates the value of `namespace`. May sleep.
    ///
    /// # Errors
    ///
    /// Any errno. Then the namespace is not created, or [`PerNet::register`] fails if the namespace
    /// exists already.
    fn new(namespace: Namespace) -> Result<Arc<Self>>;
}

/// The ID of the slot in each `struct net`, which `register_pernet_subsys` assigns.
///
/// It is static because `init` and `exit` are not told for which [`PerNet`] they are called.
static ID: Atomic<u32> = Atomic::new(0);

/// True while a [`PerNet`] is registered.
static TAKEN: AtomicFlag = AtomicFlag::new(false);

/// The values of type `T` of all network namespaces. Dropping it removes the values and their
/// directories from all namespaces.
///
/// # Invariants
///
/// `operations` are registered. Each namespace that is in use has in its slot [`ID`] a pointer that
/// `KBox::<Sysctl<T>>::into_raw` has returned.
#[pin_data(PinnedDrop)]
pub struct PerNet<T: Namespaced> {
    #[pin]
    operations: Opaque<bindings::pernet_operations>,
    _values: PhantomData<T>,
}

// SAFETY: A `Sysctl<T>` may be dropped on any thread.
unsafe impl<T: Namespaced> Send for PerNet<T> {}
// SAFETY: A shared `PerNet` only gives `Arc<T>`, and `T` is `Send` and `Sync`.
unsafe impl<T: Namespaced> Sync for PerNet<T> {}

impl<T: Namespaced> PerNet<T> {
    /// Creates a value for each existing namespace now, and for each new namespace later. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// - `EBUSY` if a [`PerNet`] is registered already.
    /// - `ENOMEM`, and the errors of [`Namespaced::new`].
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

    /// Returns the value of `net`.
    pub fn get(&self, net: Net<'_>) -> Arc<T> {
        // SAFETY: By the type invariant `operations` are registered, and `net` is live.
        let folder = unsafe { *Self::slot(net.as_ptr()) };
        // SAFETY: `init` has run for `net`, as it runs for each namespace before its first use.
        // `exit` does not run while `net` is live and `self` exists.
        let folder: &Sysctl<T> = unsafe { &*folder };
        folder.files().clone()
    }

    /// Returns the slot of `net`, which holds the pointer to its value.
    ///
    /// # Safety
    ///
    /// - The operations are registered.
    /// - `init` was called for `net`, and `exit` has not returned.
    unsafe fn slot(net: *const bindings::net) -> *mut *mut Sysctl<T> {
        // CAST: `register` has set the size of the slot to that of a pointer.
        // SAFETY: By the safety requirements of this function.
        unsafe { bindings::net_generic(net, ID.load(Relaxed)) }.cast()
    }

    /// Creates the value of a namespace, for the network core.
    ///
    /// # Safety
    ///
    /// - `net` is a namespace that is being created, or that exists while `register` runs.
    /// - The function is called once for `net`.
    unsafe extern "C" fn init(net: *mut bindings::net) -> c_int {
        from_result(|| {
            let namespace = Namespace {
                // SAFETY: By the safety requirements of this function.
                is_initial: unsafe { bindings::net_is_initial(net) },
                // SAFETY: By the safety requirements of this function.
                number: unsafe { bindings::net_number(net) },
            };
            let files = T::new(namespace)?;
            // SAFETY: `/proc/sys` of `net` exists until the directory is dropped, below on an error
            // or else by `exit`: pernet subsystems exit in the reverse order of their registration,
            // and that of `/proc/sys` was registered when the kernel booted.
            let folder = unsafe { Sysctl::register(net, files) }?;
            let folder = KBox::new(folder, GFP_KERNEL)?;
            // SAFETY: By the safety requirements of this function. Nothing else uses the slot yet.
            unsafe { Self::slot(net).write(KBox::into_raw(folder)) };
            Ok(0)
        })
    }

    /// Drops the value of a namespace, for the network core.
    ///
    /// # Safety
    ///
    /// - [`Self::init`] has returned 0 for `net`.
    /// - The function is called once for `net`, when `net` has no users any more or in `drop`.
    unsafe extern "C" fn exit(net: *mut bindings::net) {
        // SAFETY: By the safety requirements of this function.
        let folder = unsafe { *Self::slot(net) };
        // SAFETY: `init` has stored the pointer, which comes from a box. `get` is not called any
        // more: `net` has no users, or the `PerNet` is being dropped.
        drop(unsafe { KBox::from_raw(folder) });
    }
}

#[pinned_drop]
impl<T: Namespaced> PinnedDrop for PerNet<T> {
    fn drop(self: Pin<&mut Self>) {
        // Calls `exit` for each namespace.
        // SAFETY: By the type invariant `operations` are registered. No operation runs after the
        // function has returned.
        unsafe { bindings::unregister_pernet_subsys(self.operations.get()) };
        TAKEN.store(false, Release);
    }
}
