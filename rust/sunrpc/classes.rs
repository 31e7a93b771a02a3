// SPDX-License-Identifier: GPL-2.0

//! The two `svc_xprt_class` structures of a transport, which lie side by side in a
//! [`Class`](super::class::Class).
//!
//! sunrpc knows the one that is registered, which makes listeners. The other one differs only in its
//! operations and is what connections have. So each table of operations knows its Rust type, and nothing is
//! inferred from the state of a C object.
//!
//! C header: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h)

/// The class of connections that belongs to the class of a listener.
///
/// # Safety
///
/// `class` is the class of a listener: the first field of a live `Class`.
pub(super) unsafe fn connections_of(
    class: *mut bindings::svc_xprt_class,
) -> *mut bindings::svc_xprt_class {
    // CAST: `Class` is `repr(C)`, and `Opaque` is transparent.
    // SAFETY: By the safety requirements of this function the next field is the class of connections.
    unsafe { class.add(1) }
}
