// SPDX-License-Identifier: GPL-2.0

//! Calls in the reverse direction: what nfsd's callbacks to a client go through (RFC 8167).
//!
//! For a session of NFSv4.1 or later nfsd makes an RPC client upon the connection that the session
//! is bound to (fs/nfsd/nfs4callback.c, `setup_callback_client`). It asks sunrpc for the transport
//! with the ident of the connection's class and `XPRT_TRANSPORT_BC`, which [`Backchannel`]
//! registers, and gets a `struct rpc_xprt` of ours. A connection has one, which lives as long as
//! the `svc_xprt`.
//!
//! References to it: one of each RPC client, one of the `svc_xprt` (`xpt_bc_xprt`), and the
//! connection's own, a [`Channel`]. It holds the module until its memory is given back.
//!
//! Contexts: `rpciod` and nfsd's workqueues, all in process context.
//!
//! C header: [`include/linux/sunrpc/xprt.h`](srctree/include/linux/sunrpc/xprt.h)

use crate::{
    callback::Channel,
    carrier::Carrier,
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

/// The registered class, as `setup` is not told which it is.
static CLASS: Atomic<usize> = Atomic::new(0);

/// A `struct xprt_class`, and its list of netids: an empty one, so that no mount can ask for it.
#[repr(C)]
struct NamedClass {
    class: bindings::xprt_class,
    netid: *const c_char,
}

/// The registered transport of callbacks; dropping it takes it off.
///
/// # Invariants
///
/// `class` is registered, and [`CLASS`] is its address.
#[pin_data(PinnedDrop)]
pub struct Backchannel<L: Listen> {
    #[pin]
    class: Opaque<NamedClass>,
    _listen: PhantomData<fn(L)>,
}

// SAFETY: Nothing can be done with a `Backchannel` but drop it, which may happen on any thread.
unsafe impl<L: Listen> Send for Backchannel<L> {}
// SAFETY: As above.
unsafe impl<L: Listen> Sync for Backchannel<L> {}

impl<L: Listen> Backchannel<L> {
    /// Registers it for connections of the class with this `ident`. May sleep.
    ///
    /// # Errors
    ///
    /// `EEXIST` when the ident is taken, `EBUSY` for a second one of ours.
    pub fn register(module: &'static ThisModule, ident: c_int) -> impl PinInit<Self, Error> {
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
                    // CAST: ASCII.
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

    /// # Safety
    ///
    /// The caller is `xprt_create_transport`.
    unsafe extern "C" fn setup(args: *mut bindings::xprt_create) -> *mut bindings::rpc_xprt {
        // SAFETY: By the safety requirements of this function.
        match unsafe { Self::try_setup(args) } {
            Ok(xprt) => xprt.as_ptr(),
            Err(e) => e.to_ptr(),
        }
    }

    /// # Safety
    ///
    /// As for [`Self::setup`].
    unsafe fn try_setup(args: *mut bindings::xprt_create) -> Result<NonNull<bindings::rpc_xprt>> {
        // Only nfsd says where the connection ends here, and only it holds a reference to it:
        // `rpc_sysfs_xprt_switch_add_xprt_store` names that of another transport.
        // SAFETY: By the safety requirements of this function.
        if unsafe { (*args).srcaddr }.is_null() {
            return Err(EINVAL);
        }
        // SAFETY: By the safety requirements of this function.
        let svc = NonNull::new(unsafe { (*args).bc_xprt }).ok_or(EINVAL)?;
        // SAFETY: nfsd holds a reference to the connection.
        let class = unsafe { (*svc.as_ptr()).xpt_class };
        // SAFETY: As above.
        if !unsafe { class::is_connection::<L>(class) } {
            return Err(EINVAL);
        }
        // SAFETY: As above; its class says that it is one of ours, and of this type.
        let connection = unsafe {
            Transport::<L::Connection, <L::Connection as Connect>::Call>::from_raw(svc.as_ptr())
        };
        // CAST: `register` has stored the address; who asks for a transport holds the module.
        let class = CLASS.load(Acquire) as *const bindings::xprt_class;
        // SAFETY: By the safety requirements of this function; `connection` is that of `svc`.
        let xprt = unsafe { Carrier::create(args, class, svc, connection.data.back())? };
        // SAFETY: The transport was just made.
        let channel = unsafe { Channel::new(xprt) };
        connection.data.bind(channel);
        Ok(xprt)
    }
}

#[pinned_drop]
impl<L: Listen> PinnedDrop for Backchannel<L> {
    fn drop(self: Pin<&mut Self>) {
        // An error would mean that it is not registered.
        // SAFETY: By the type invariant. Transports that it has made hold the module.
        let _ = unsafe { bindings::xprt_unregister_transport(self.class.get().cast()) };
        CLASS.store(0, Release);
    }
}
