// SPDX-License-Identifier: GPL-2.0

//! The constructor of [`Class`], which registers a transport class.
//!
//! The constructor is apart from the type so that `ops` can use the type without an import circle.
//!
//! C header: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h)

use crate::{
    class::{
        Class,
        CONTEXT,
        MAX_PAYLOAD, //
    },
    ops::{
        ConnectionOps,
        ListenerOps, //
    },
    xprt::Listen, //
};
use core::any::TypeId;
use kernel::{
    error::to_result,
    prelude::*,
    str::CStr,
    sync::{
        atomic::{
            Full,
            Release, //
        },
        Arc, //
    },
    types::Opaque, //
};

impl<L: Listen> Class<L> {
    /// Registers the class `name` of `module`, with payloads of up to 4 MiB (`RPCSVC_MAXPAYLOAD`).
    ///
    /// Listeners are created with `context`, from the moment of registration on. `ident` is the
    /// number by which nfsd finds the callback transport of a connection; register the
    /// [`Backchannel`](super::backchannel::Backchannel) of the same `ident` before the class. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// - `EEXIST` if another module has registered a class with this name.
    /// - `EBUSY` if a [`Class`] is registered already.
    ///
    /// # Safety
    ///
    /// The result is dropped only when `module` is unloaded: what it has registered is used as long as
    /// the module has references.
    pub unsafe fn register(
        module: &'static ThisModule,
        name: &'static CStr,
        ident: c_int,
        context: Arc<L::Context>,
    ) -> impl PinInit<Self, Error> {
        let class = move |ops| bindings::svc_xprt_class {
            xcl_name: name.as_char_ptr(),
            xcl_owner: module.as_ptr(),
            xcl_ops: ops,
            // CAST: 4 MiB.
            xcl_max_payload: MAX_PAYLOAD as u32,
            xcl_ident: ident,
            ..pin_init::zeroed()
        };
        try_pin_init!(&this in Self {
            kind: TypeId::of::<L>(),
            connections <- Opaque::ffi_init(move |slot: *mut bindings::svc_xprt_class| {
                // SAFETY: `slot` is valid for writes.
                unsafe { slot.write(class(&ConnectionOps::<L::Connection>::OPS)) };
            }),
            context <- Opaque::ffi_init(move |slot: *mut Arc<L::Context>| {
                // SAFETY: `slot` is valid for writes.
                unsafe { slot.write(context) };
            }),
            registered <- Opaque::try_ffi_init(move |slot: *mut bindings::svc_xprt_class| {
                // SAFETY: `slot` is valid for writes.
                unsafe { slot.write(class(&ListenerOps::<L>::OPS)) };
                // SAFETY: `this` points to the memory of the class; no reference is made.
                let context = unsafe { &raw const (*this.as_ptr()).context };
                let registered = Self::publish(context as usize, slot);
                if registered.is_err() {
                    // SAFETY: `context` was written above, and nothing else drops it: it is opaque
                    // to pin-init, and `Class::drop` does not run after a failed initialisation.
                    unsafe { core::ptr::drop_in_place(context.cast::<Arc<L::Context>>().cast_mut()) };
                }
                registered
            }),
        })
    }

    /// Stores the address of the context in [`CONTEXT`], then registers `class`.
    ///
    /// In this order, because `xpo_create` may run as soon as the class is registered.
    fn publish(context: usize, class: *mut bindings::svc_xprt_class) -> Result {
        CONTEXT.cmpxchg(0, context, Full).map_err(|_| EBUSY)?;
        // SAFETY: `class` is filled in and stays where it is until `drop`.
        to_result(unsafe { bindings::svc_reg_xprt_class(class) }).inspect_err(|e| {
            if *e == EEXIST {
                pr_err!("transport class rdma: already registered, unload rpcrdma and load svcrdma first\n");
            }
            CONTEXT.store(0, Release);
        })
    }
}
