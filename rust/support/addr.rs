// SPDX-License-Identifier: GPL-2.0

//! Socket addresses and network namespaces.
//!
//! C headers: [`include/linux/sunrpc/addr.h`](srctree/include/linux/sunrpc/addr.h),
//! [`include/net/net_namespace.h`](srctree/include/net/net_namespace.h)

use core::{
    marker::PhantomData,
    net::{
        IpAddr,
        Ipv4Addr,
        Ipv6Addr,
        SocketAddrV4, //
    },
    ptr::NonNull, //
};
use kernel::{
    fmt,
    prelude::*, //
};

/// The size of a `struct sockaddr_storage`.
const STORAGE: usize = size_of::<bindings::__kernel_sockaddr_storage>();

/// A copy of an IPv4 or IPv6 socket address, in the size of a `struct sockaddr_storage`.
///
/// # Invariants
///
/// The value starts with a `struct sockaddr_in` or `struct sockaddr_in6`, or is all zeros; the other
/// bytes are 0.
#[derive(Clone, Copy)]
#[repr(C, align(8))]
pub struct Addr([u8; STORAGE]);

impl Addr {
    /// Copies the address that `addr` points to; of a family other than IPv4 and IPv6, the address
    /// is all zeros.
    ///
    /// # Safety
    ///
    /// `addr` is valid for reads of the size of its family, and nothing writes to it meanwhile.
    pub unsafe fn from_raw(addr: *const bindings::sockaddr) -> Self {
        // SAFETY: By the safety requirements of this function.
        let len = unsafe { bindings::addr_len(addr) };
        // INVARIANT: The address is copied below.
        let mut this = Self([0; STORAGE]);
        let len = len.min(STORAGE);
        // SAFETY: `addr` is valid for reads of `len` bytes by the safety requirements of this
        // function, and `this` has room for `STORAGE` bytes, which is at least `len`.
        unsafe { core::ptr::copy_nonoverlapping(addr.cast::<u8>(), this.0.as_mut_ptr(), len) };
        this
    }

    /// Copies an address of the CM ID `id`. A link-local IPv6 address gets the interface of `id` as
    /// its scope, which the connection manager does not fill in.
    ///
    /// # Safety
    ///
    /// - As for [`Self::from_raw`].
    /// - `id` is live, and its address is not changing.
    pub unsafe fn of_id(addr: *const bindings::sockaddr, id: *const bindings::rdma_cm_id) -> Self {
        // SAFETY: By the safety requirements of this function.
        let mut this = unsafe { Self::from_raw(addr) };
        // SAFETY: `this` is a socket address by the type invariant, and `id` is live by the safety
        // requirements of this function.
        unsafe { bindings::addr_set_scope(this.0.as_mut_ptr().cast(), id) };
        this
    }

    /// Returns the address without port and scope, or `::` if the value is all zeros.
    pub fn ip(&self) -> IpAddr {
        // `struct sockaddr_in` has the address at byte 4, `struct sockaddr_in6` at byte 8.
        let [f0, f1, _, _, a, b, c, d, rest @ ..] = &self.0;
        match u32::from(u16::from_ne_bytes([*f0, *f1])) {
            bindings::AF_INET => IpAddr::V4(Ipv4Addr::new(*a, *b, *c, *d)),
            bindings::AF_INET6 => {
                let octets: [u8; 16] = rest.first_chunk().copied().unwrap_or_default();
                IpAddr::V6(Ipv6Addr::from(octets))
            }
            _ => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        }
    }

    /// Returns the host that the address belongs to, for shares among hosts: the address itself for
    /// IPv4, and the first 64 bits of an IPv6 address, of which a host usually has as many as it
    /// wants. In any context.
    pub fn host(&self) -> u64 {
        match self.ip().to_canonical() {
            IpAddr::V4(ip) => ip.to_bits().into(),
            // CAST: The upper half.
            IpAddr::V6(ip) => (ip.to_bits() >> 64) as u64,
        }
    }

    /// Returns a pointer to the address. C may only read the address through it.
    pub fn as_ptr(&self) -> *mut bindings::sockaddr {
        self.0.as_ptr().cast_mut().cast()
    }
}

impl fmt::Display for Addr {
    /// Writes the address with its port.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = [0u8; 64];
        // SAFETY: `text` is valid for writes of its length, and the address is valid.
        let len =
            unsafe { bindings::addr_format(text.as_mut_ptr().cast(), text.len(), self.as_ptr()) };
        let text = text.get(..usize::try_from(len).unwrap_or(0)).unwrap_or(&[]);
        f.write_str(core::str::from_utf8(text).unwrap_or("?"))
    }
}

impl From<SocketAddrV4> for Addr {
    /// Converts an IPv4 address and port.
    fn from(addr: SocketAddrV4) -> Self {
        // CAST: A small number.
        let [f0, f1] = (bindings::AF_INET as u16).to_ne_bytes();
        let [p0, p1] = addr.port().to_be_bytes();
        let [a, b, c, d] = addr.ip().octets();
        // INVARIANT: The value is a `struct sockaddr_in`.
        let mut this = Self([0; STORAGE]);
        if let Some(start) = this.0.first_chunk_mut() {
            *start = [f0, f1, p0, p1, a, b, c, d];
        }
        this
    }
}

/// A borrowed network namespace.
///
/// # Invariants
///
/// The namespace is live for `'a`.
#[derive(Clone, Copy)]
pub struct Net<'a>(NonNull<bindings::net>, PhantomData<&'a ()>);

impl Net<'_> {
    /// Returns the initial network namespace.
    pub fn initial() -> Net<'static> {
        // SAFETY: The function has no preconditions. It returns the address of a static variable.
        let net = unsafe { NonNull::new_unchecked(bindings::net_initial()) };
        // INVARIANT: The initial namespace is never freed.
        Net(net, PhantomData)
    }

    /// Borrows a network namespace.
    ///
    /// # Safety
    ///
    /// - `net` is live for `'a`.
    pub unsafe fn from_raw(net: NonNull<bindings::net>) -> Self {
        // INVARIANT: By the safety requirements of this function.
        Self(net, PhantomData)
    }

    /// Returns the C structure.
    pub fn as_ptr(self) -> *mut bindings::net {
        self.0.as_ptr()
    }

    /// Takes a reference to the namespace.
    pub fn keep(self) -> OwnedNet {
        // SAFETY: By the type invariant the namespace is live.
        unsafe { bindings::net_get(self.as_ptr()) };
        // INVARIANT: The reference was taken above.
        OwnedNet(self.0)
    }
}

/// A reference to a network namespace.
///
/// # Invariants
///
/// This value owns one reference.
pub struct OwnedNet(NonNull<bindings::net>);

// SAFETY: The reference count is atomic.
unsafe impl Send for OwnedNet {}
// SAFETY: A shared `OwnedNet` only gives the pointer, and the reference count is atomic.
unsafe impl Sync for OwnedNet {}

impl OwnedNet {
    /// Borrows the namespace.
    pub fn get(&self) -> Net<'_> {
        // INVARIANT: By the type invariant the namespace is live as long as `self` is borrowed.
        Net(self.0, PhantomData)
    }
}

impl Drop for OwnedNet {
    fn drop(&mut self) {
        // SAFETY: By the type invariant this value owns a reference.
        unsafe { bindings::net_put(self.0.as_ptr()) };
    }
}
