// SPDX-License-Identifier: GPL-2.0

//! The backchannel: the callback transports of a class (RFC 8167).
//!
//! For a session of NFSv4.1 or later nfsd creates an RPC client on the connection that the session
//! is bound to (`setup_callback_client` in fs/nfsd/nfs4callback.c). The client needs a
//! `struct rpc_xprt`, the callback transport of the connection. sunrpc gets it from the registered
//! `xprt_class` whose ident is that of the connection's class with `XPRT_TRANSPORT_BC` set.
//! [`Backchannel`] registers this `xprt_class`.
//!
//! A connection has one callback transport. It is created with the first RPC client, used by all
//! later ones, and lives as long as the `svc_xprt`. There are references to it in each RPC client,
//! in `xpt_bc_xprt` of the `svc_xprt`, and in the [`Channel`] that the connection has. The callback
//! transport holds a reference to the module until its memory is freed.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h)
//!
//! # Context
//!
//! Process context: `rpciod` and nfsd's workqueues.

use crate::{
    callback::Channel,
    callback_xprt::CallbackXprt,
    class,
    xprt::{
        Connect,
        Listen,
        Transport, //
    },
};
use core::{
    marker::PhantomData,
    pin::Pin,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        Full,
        Release, //
    },
    types::Opaque, //
};

/// The address of the registered `xprt_class`, or 0. `setup` is not told which class it is called
/// for.
static CLASS: Atomic<usize> = Atomic::new(0);

/// A `struct xprt_class` and its list of netids, which is empty: no mount can ask for this
/// transport.
#[repr(C)]
struct NamedClass {
    class: bindings::xprt_class,
    netid: *const c_char,
}

/// The registered backchannel of the class with listeners of type `L`.
///
/// A module registers it before its [`Class`](super::class::Class), so that callbacks work from the
/// first connection on. Dropping it unregisters it.
///
/// # Invariants
///
/// `class` is registered, and `CLASS` is its address.
#[pin_data(PinnedDrop)]
pub struct Backchannel<L: Listen> {
    #[pin]
    class: Opaque<NamedClass>,
    _listen: PhantomData<fn(L)>,
}

// SAFETY: A `Backchannel` can only be dropped, which may happen on any thread.
unsafe impl<L: Listen> Send for Backchannel<L> {}
// SAFETY: A shared `Backchannel` has no operations.
unsafe impl<L: Listen> Sync for Backchannel<L> {}

impl<L: Listen> Backchannel<L> {
    /// Registers the callback transports of connections whose class has this `ident`. May sleep.
    ///
    /// # Errors
    ///
    /// - `EEXIST` if another transport has the ident.
    /// - `EBUSY` if a [`Backchannel`] is registered already.
    ///
    /// # Safety
    ///
    /// The result is dropped only when `module` is unloaded: what it has registered is used as long as
    /// the module has references.
    pub unsafe fn register(module: &'static ThisModule, ident: c_int) -> impl PinInit<Self, Error> {
        try_pin_init!(Self {
            class <- Opaque::try_ffi_init(move |slot: *mut NamedClass| {
                let mut class = bindings::xprt_class {
                    list: pin_init::zeroed(),
                    ident: ident | bindings::XPRT_TRANSPORT_BC as c_int,
                    setup: Some(Self::setup),
                    owner: module.as_ptr(),
                    name: [0; 32],
                    netid: bindings::__IncompleteArrayField::new(),
                };
                for (to, from) in class.name.iter_mut().zip(b"svcrdma backchannel") {
                    // CAST: The letters are ASCII.
                    *to = *from as c_char;
                }
                let netid = c"".as_char_ptr();
                // SAFETY: `slot` is valid for writes.
                unsafe { slot.write(NamedClass { class, netid }) };
                CLASS.cmpxchg(0, slot as usize, Full).map_err(|_| EBUSY)?;
                // SAFETY: `slot` is filled in and stays where it is until `drop`.
                to_result(unsafe { bindings::xprt_register_transport(slot.cast()) })
                    .inspect_err(|_| CLASS.store(0, Release))
            }),
            _listen: PhantomData,
        }? Error)
    }

    /// Creates the callback transport of a connection, for sunrpc.
    ///
    /// # Safety
    ///
    /// - The caller is `xprt_create_transport`, with the arguments of an RPC client.
    unsafe extern "C" fn setup(args: *mut bindings::xprt_create) -> *mut bindings::rpc_xprt {
        // SAFETY: By the safety requirements of this function.
        match unsafe { Self::try_setup(args) } {
            Ok(xprt) => xprt.as_ptr(),
            Err(e) => e.to_ptr(),
        }
    }

    /// Creates the callback transport of a connection.
    ///
    /// # Errors
    ///
    /// - `EINVAL` if `args` are not those of nfsd for a connection of `L`.
    /// - `EBUSY` if the connection has a callback transport already.
    /// - `ENOMEM`, and the errors of `xprt_set_peer`.
    ///
    /// # Safety
    ///
    /// As for [`Self::setup`].
    unsafe fn try_setup(args: *mut bindings::xprt_create) -> Result<NonNull<bindings::rpc_xprt>> {
        // Only nfsd gives a source address, and only nfsd holds a reference to `bc_xprt`.
        // `rpc_sysfs_xprt_switch_add_xprt_store` copies `bc_xprt` from another transport without
        // one.
        // SAFETY: By the safety requirements of this function.
        if unsafe { (*args).srcaddr }.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: By the safety requirements of this function.
        let svc = NonNull::new(unsafe { (*args).bc_xprt }).ok_or(EINVAL)?;
        // SAFETY: nfsd holds a reference to `svc`, so it is live.
        let class = unsafe { (*svc.as_ptr()).xpt_class };
        // SAFETY: `class` is the class of `svc`, which is live.
        if !unsafe { class::is_connection::<L>(class) } {
            return Err(EINVAL);
        }
        // SAFETY: `svc` is live. `is_connection` has checked that it is a connection of this type.
        let connection = unsafe {
            Transport::<L::Connection, <L::Connection as Connect>::Call>::from_raw(svc.as_ptr())
        };
        // CAST: `register` has stored the address of a class.
        let class = CLASS.load(Acquire) as *const bindings::xprt_class;
        // SAFETY: `args` are those of `setup`, with the live connection `svc` in them. The class is
        // registered: `xprt_create_transport` has found it and holds the module.
        let xprt = unsafe { CallbackXprt::create(args, class, svc, connection.data.back())? };
        // SAFETY: `create` has returned a live transport.
        let channel = unsafe { Channel::new(xprt) };
        connection.data.bind(channel);
        Ok(xprt)
    }
}

#[pinned_drop]
impl<L: Listen> PinnedDrop for Backchannel<L> {
    fn drop(self: Pin<&mut Self>) {
        // The only error means that the class is not registered.
        // SAFETY: By the type invariant the class is registered. No callback transport is left, as
        // each holds the module.
        let _ = unsafe { bindings::xprt_unregister_transport(self.class.get().cast()) };
        CLASS.store(0, Release);
    }
}
