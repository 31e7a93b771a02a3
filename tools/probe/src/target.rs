// SPDX-License-Identifier: GPL-2.0

//! Resolves the server's address and refuses remote hosts.

use crate::{
    error::{Error, Result},
    ffi,
};
use std::net::{SocketAddr, ToSocketAddrs};

/// The port of NFS over RPC-over-RDMA (RFC 8267, section 9).
const PORT: u16 = 20049;

/// Resolves `host`, which may be followed by a port. Returns an error for a host that is not on a
/// network of this host, unless `allow_remote` is set.
pub(crate) fn resolve(host: &str, allow_remote: bool) -> Result<SocketAddr> {
    let addr = lookup(host)?;
    if allow_remote || ffi::is_attached(addr.ip())? {
        return Ok(addr);
    }
    Err(Error::new(format!(
        "{host} is not on a network of this host: use --allow-remote to reach it"
    )))
}

/// Resolves `host`, `host:port` or `[host]:port`.
fn lookup(host: &str) -> Result<SocketAddr> {
    let bare = (host, PORT).to_socket_addrs();
    let mut found = match bare {
        Ok(found) => found,
        Err(_) => host
            .to_socket_addrs()
            .map_err(|error| Error::os(host, error))?,
    };
    found
        .next()
        .ok_or_else(|| Error::new(format!("{host} has no address")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_are_optional() {
        for (text, port) in [
            ("127.0.0.1", 20049),
            ("127.0.0.1:7", 7),
            ("::1", 20049),
            ("[::1]:7", 7),
        ] {
            assert_eq!(lookup(text).unwrap().port(), port, "{text}");
        }
    }

    #[test]
    fn strangers_are_refused() {
        // TEST-NET-3 (RFC 5737) is not attached to any host.
        assert!(resolve("203.0.113.1", false).is_err());
        assert!(resolve("203.0.113.1", true).is_ok());
        assert!(resolve("127.0.0.1", false).is_ok());
    }
}
