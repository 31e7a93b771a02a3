// SPDX-License-Identifier: GPL-2.0

//! The pair of `svc_xprt_class` structures in a [`Class`](super::class::Class).
//!
//! The first structure is registered with sunrpc and creates listeners. The second one is never
//! registered; it differs only in its table of operations, and each connection points to it. So
//! each table of operations is called for one Rust type only, and no function infers the type from
//! the state of a C object.
//!
//! C header: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h)

/// Returns the class of connections that belongs to `class`, the class of a listener.
///
/// # Safety
///
/// - `class` is the class of a listener: the first field of a live `Class`.
pub(super) unsafe fn connections_of(
    class: *mut bindings::svc_xprt_class,
) -> *mut bindings::svc_xprt_class {
    // SAFETY: By the safety requirements of this function `class` is the first field of a `Class`.
    // `Class` is `repr(C)` and its second field is the class of connections.
    unsafe { class.add(1) }
}
