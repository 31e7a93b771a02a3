// SPDX-License-Identifier: GPL-2.0

//! Wrappers of libc: poll, the limit of open files, interface addresses, signals.

use super::{bindings, check};
use crate::error::Result;
use std::{
    ffi::c_int,
    io,
    net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr},
    os::fd::RawFd,
    ptr,
    time::Duration, //
};

/// Waits until one of `fds` is readable. Returns for each if it is.
pub(super) fn wait_readable<const N: usize>(
    fds: [RawFd; N],
    timeout: Duration,
) -> Result<[bool; N]> {
    let mut polled = fds.map(|fd| bindings::pollfd {
        fd,
        events: bindings::POLLIN as i16,
        revents: 0,
    });
    // Rounded up, as a remainder below 1 ms would become a busy loop.
    let ms = c_int::try_from(timeout.as_millis().saturating_add(1)).unwrap_or(c_int::MAX);
    // SAFETY: `polled` is an array of N entries that lives through the call.
    let result = unsafe { bindings::poll(polled.as_mut_ptr(), N as u64, ms) };
    if result < 0 {
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            check("poll", -1)?;
        }
        return Ok([false; N]);
    }
    Ok(polled.map(|entry| entry.revents != 0))
}

/// Restores the default action of SIGPIPE, so that the process ends when the reader of its output
/// has gone. Rust ignores the signal at start, and then a print would panic.
pub(crate) fn end_with_reader() {
    // SAFETY: no other thread runs yet, and the default action runs no code of this program.
    unsafe { bindings::signal(bindings::SIGPIPE as c_int, None) };
}

/// Raises the limit of open files to the maximum for this user, as each connection takes two.
pub(crate) fn raise_file_limit() -> Result<()> {
    let mut limit = bindings::rlimit {
        rlim_cur: 0,
        rlim_max: 0,
    };
    let files = bindings::RLIMIT_NOFILE as c_int;
    // SAFETY: `limit` lives through the call.
    let result = unsafe { bindings::getrlimit(files, &mut limit) };
    check("getrlimit", result)?;
    limit.rlim_cur = limit.rlim_max;
    // SAFETY: as above.
    let result = unsafe { bindings::setrlimit(files, &limit) };
    check("setrlimit", result)
}

/// A socket address in C's layout.
#[repr(C)]
pub(super) union SockAddr {
    v4: bindings::sockaddr_in,
    v6: bindings::sockaddr_in6,
}

impl SockAddr {
    /// Converts `addr`.
    pub(super) fn new(addr: &SocketAddr) -> Self {
        match addr {
            SocketAddr::V4(v4) => Self {
                v4: bindings::sockaddr_in {
                    sin_family: bindings::AF_INET as u16,
                    sin_port: v4.port().to_be(),
                    sin_addr: bindings::in_addr {
                        s_addr: u32::from_ne_bytes(v4.ip().octets()),
                    },
                    sin_zero: [0; 8],
                },
            },
            SocketAddr::V6(v6) => Self {
                v6: bindings::sockaddr_in6 {
                    sin6_family: bindings::AF_INET6 as u16,
                    sin6_port: v6.port().to_be(),
                    sin6_flowinfo: v6.flowinfo(),
                    sin6_addr: bindings::in6_addr {
                        __in6_u: bindings::in6_addr__bindgen_ty_1 {
                            __u6_addr8: v6.ip().octets(),
                        },
                    },
                    sin6_scope_id: v6.scope_id(),
                },
            },
        }
    }

    /// Returns the pointer to pass to C functions.
    pub(super) fn as_mut_ptr(&mut self) -> *mut bindings::sockaddr {
        ptr::from_mut(self).cast()
    }
}

/// Returns the address at `sa`, if it is an IP address.
///
/// # Safety
///
/// `sa` is NULL or points to a socket address of the size its family says, valid during the call.
unsafe fn ip_of(sa: *const bindings::sockaddr) -> Option<IpAddr> {
    if sa.is_null() {
        return None;
    }
    // SAFETY: not NULL, and every socket address begins with its family.
    let family = u32::from(unsafe { (*sa).sa_family });
    match family {
        bindings::AF_INET => {
            // SAFETY: the family says that it is a `sockaddr_in`.
            let raw = unsafe { (*sa.cast::<bindings::sockaddr_in>()).sin_addr.s_addr };
            Some(IpAddr::V4(Ipv4Addr::from(raw.to_ne_bytes())))
        }
        bindings::AF_INET6 => {
            // SAFETY: the family says that it is a `sockaddr_in6`.
            let addr = unsafe { (*sa.cast::<bindings::sockaddr_in6>()).sin6_addr };
            // SAFETY: all members of this union are 16 plain bytes.
            let raw = unsafe { addr.__in6_u.__u6_addr8 };
            Some(IpAddr::V6(Ipv6Addr::from(raw)))
        }
        _ => None,
    }
}

/// Returns true if `ip` is an address of this host or of a network that this host is attached to.
pub(crate) fn is_attached(ip: IpAddr) -> Result<bool> {
    let mut list = ptr::null_mut();
    // SAFETY: `list` lives through the call, which stores one pointer there.
    check("getifaddrs", unsafe { bindings::getifaddrs(&mut list) })?;
    let mut found = ip.is_loopback();
    let mut entry = list;
    while !entry.is_null() && !found {
        // SAFETY: `entry` is an element of the list, which is freed only below.
        let current = unsafe { *entry };
        // SAFETY: getifaddrs gives NULL or a whole socket address, valid as long as the list.
        let own = unsafe { ip_of(current.ifa_addr) };
        // SAFETY: as above.
        let mask = unsafe { ip_of(current.ifa_netmask) };
        if let (Some(own), Some(mask)) = (own, mask) {
            found = same_network(ip, own, mask);
        }
        entry = current.ifa_next;
    }
    // SAFETY: `list` came from getifaddrs and is not used again.
    unsafe { bindings::freeifaddrs(list) };
    Ok(found)
}

/// Returns true if `a` and `b` are equal under `mask`. Addresses of different families are never
/// equal.
fn same_network(a: IpAddr, b: IpAddr, mask: IpAddr) -> bool {
    match (a, b, mask) {
        (IpAddr::V4(a), IpAddr::V4(b), IpAddr::V4(mask)) => a & mask == b & mask,
        (IpAddr::V6(a), IpAddr::V6(b), IpAddr::V6(mask)) => a & mask == b & mask,
        _ => false,
    }
}
