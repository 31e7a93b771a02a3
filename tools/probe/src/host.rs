// SPDX-License-Identifier: GPL-2.0

//! This host: its limit of open files and the networks it is attached to.

use crate::error::{Error, Result};
use nix::{
    errno::Errno,
    ifaddrs::{self, InterfaceAddress},
    sys::{
        resource::{getrlimit, setrlimit, Resource},
        socket::SockaddrStorage,
    },
};
use std::net::IpAddr;

/// Raises the limit of open files to the maximum for this user, as each connection takes two.
pub(crate) fn raise_file_limit() -> Result {
    let files = Resource::RLIMIT_NOFILE;
    let (_, most) = getrlimit(files).map_err(|errno| failed("getrlimit", errno))?;
    setrlimit(files, most, most).map_err(|errno| failed("setrlimit", errno))
}

/// Returns true if `ip` is an address of this host or of a network that this host is attached to.
pub(crate) fn is_attached(ip: IpAddr) -> Result<bool> {
    let mut interfaces = ifaddrs::getifaddrs().map_err(|errno| failed("getifaddrs", errno))?;
    let is_near = |interface: InterfaceAddress| {
        let own = interface.address.as_ref().and_then(ip_of);
        let mask = interface.netmask.as_ref().and_then(ip_of);
        own.zip(mask)
            .is_some_and(|(own, mask)| same_network(ip, own, mask))
    };
    Ok(ip.is_loopback() || interfaces.any(is_near))
}

/// Returns the IP address of `address`, if it is one.
fn ip_of(address: &SockaddrStorage) -> Option<IpAddr> {
    let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
    v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
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

/// Returns the error for a failed call of `what`.
fn failed(what: &str, errno: Errno) -> Error {
    Error::os(what, errno.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_has_one_family_and_one_prefix() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let same = |a, b, mask| same_network(ip(a), ip(b), ip(mask));
        assert!(same("10.1.2.3", "10.1.9.9", "255.255.0.0"));
        assert!(!same("10.2.2.3", "10.1.9.9", "255.255.0.0"));
        assert!(same("fd00::1", "fd00::2", "ffff::"));
        assert!(!same("fd00::1", "10.1.9.9", "255.0.0.0"));
    }

    #[test]
    fn own_addresses_are_attached() {
        assert!(is_attached(IpAddr::from([127, 0, 0, 1])).unwrap());
        // TEST-NET-3 (RFC 5737).
        assert!(!is_attached(IpAddr::from([203, 0, 113, 1])).unwrap());
        raise_file_limit().unwrap();
    }
}
