// SPDX-License-Identifier: GPL-2.0

//! Socket addresses and network namespaces.
//!
//! C header: [`include/linux/sunrpc/addr.h`](srctree/include/linux/sunrpc/addr.h)

use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    fmt,
    prelude::*, //
};

/// The size of a `struct sockaddr_storage`.
const STORAGE: usize = size_of::<bindings::__kernel_sockaddr_storage>();

/// A copy of an IPv4 or IPv6 socket address; what is beyond the address is 0.
///
/// # Invariants
///
/// The bytes are those of a socket address.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct Addr([u8; STORAGE]);

impl Addr {
    /// Copies the address.
    ///
    /// # Safety
    ///
    /// `addr` is valid for reads of as many bytes as its family has, which is IPv4 or IPv6 (for
    /// another one `svc_addr_len` is a BUG), and nobody writes there.
    pub unsafe fn from_raw(addr: *const bindings::sockaddr) -> Self {
        // SAFETY: By the safety requirements of this function.
        let len = unsafe { bindings::addr_len(addr) };
        // INVARIANT: As copied below.
        let mut this = Self([0; STORAGE]);
        let len = len.min(STORAGE);
        // SAFETY: `addr` is valid for `len` bytes by the safety requirements of this function, and
        // `len` is no more than what there is room for.
        unsafe { core::ptr::copy_nonoverlapping(addr.cast::<u8>(), this.0.as_mut_ptr(), len) };
        this
    }

    /// The same, of `id`: a link-local address gets its interface.
    ///
    /// # Safety
    ///
    /// As for [`Self::from_raw`]; `id` is live, and bound to a device if it has one.
    pub unsafe fn of_id(addr: *const bindings::sockaddr, id: *const bindings::rdma_cm_id) -> Self {
        // SAFETY: By the safety requirements of this function.
        let mut this = unsafe { Self::from_raw(addr) };
        // SAFETY: There is room for any socket address; `id` by the safety requirements of this
        // function.
        unsafe { bindings::addr_set_scope(this.0.as_mut_ptr().cast(), id) };
        this
    }

    /// Returns true if both are addresses of the same host, whatever the ports are.
    pub fn is_same_host(&self, other: &Self) -> bool {
        // SAFETY: Both addresses are valid by the type invariant, and only read.
        unsafe { bindings::addr_same_host(self.as_ptr(), other.as_ptr()) }
    }

    /// The address for C, which only reads it.
    pub fn as_ptr(&self) -> *mut bindings::sockaddr {
        self.0.as_ptr().cast_mut().cast()
    }
}

impl fmt::Display for Addr {
    /// Prints the address with its port.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0u8; 64];
        // SAFETY: `text` is valid for writes of its length, and the address is valid.
        let len =
            unsafe { bindings::addr_format(text.as_mut_ptr().cast(), text.len(), self.as_ptr()) };
        let text = text.get(..usize::try_from(len).unwrap_or(0)).unwrap_or(&[]);
        f.write_str(core::str::from_utf8(text).unwrap_or("?"))
    }
}

/// A network namespace that lives for `'a`.
#[derive(Clone, Copy)]
pub struct Net<'a>(NonNull<bindings::net>, PhantomData<&'a ()>);

impl Net<'_> {
    /// # Safety
    ///
    /// `net` is live for `'a`.
    pub unsafe fn from_raw(net: NonNull<bindings::net>) -> Self {
        Self(net, PhantomData)
    }

    /// The namespace for C.
    pub fn as_ptr(self) -> *mut bindings::net {
        self.0.as_ptr()
    }

    /// Takes a reference.
    pub fn keep(self) -> OwnedNet {
        // SAFETY: By the type's lifetime the namespace is live.
        unsafe { bindings::net_get(self.as_ptr()) };
        // INVARIANT: As just taken.
        OwnedNet(self.0)
    }
}

/// A reference to a network namespace.
///
/// # Invariants
///
/// This value owns one reference.
pub struct OwnedNet(NonNull<bindings::net>);

// SAFETY: The reference count is atomic, and nothing else is done with it here.
unsafe impl Send for OwnedNet {}
// SAFETY: As above.
unsafe impl Sync for OwnedNet {}

impl OwnedNet {
    /// The namespace.
    pub fn get(&self) -> Net<'_> {
        Net(self.0, PhantomData)
    }
}

impl Drop for OwnedNet {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::net_put(self.0.as_ptr()) };
    }
}
