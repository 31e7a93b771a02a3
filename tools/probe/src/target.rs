// SPDX-License-Identifier: GPL-2.0

//! The server that a command connects to: its options, its address, and the refusal of remote hosts.

use crate::{
    error::{Error, Result},
    ffi::Addresses,
    host,
    output::Format,
    xids::Xids, //
};
use std::{
    net::{IpAddr, SocketAddr, ToSocketAddrs},
    time::Duration, //
};

/// The port of NFS over RPC-over-RDMA (RFC 8267, section 9).
const PORT: u16 = 20049;

/// The heading of the options that all commands share.
const HEADING: &str = "Options of all commands";

/// The options that all commands share.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Server {
    /// Server: a name, an IPv4 or an IPv6 address, with the port if it is not 20049
    #[arg(value_name = "HOST[:PORT]")]
    host: String,
    /// Local address to connect from; the route determines it otherwise
    #[arg(long, value_name = "ADDRESS", help_heading = HEADING)]
    from: Option<IpAddr>,
    /// Use an IPv4 address of the server
    #[arg(short = '4', long, conflicts_with = "ipv6", help_heading = HEADING)]
    ipv4: bool,
    /// Use an IPv6 address of the server
    #[arg(short = '6', long, help_heading = HEADING)]
    ipv6: bool,
    /// Connect to a server that is not on a network of this host
    #[arg(long, help_heading = HEADING)]
    allow_remote: bool,
    /// Format of the results on standard output
    #[arg(long, value_enum, default_value_t, help_heading = HEADING)]
    format: Format,
}

/// A server, and what all connections to it share.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    pub(crate) addresses: Addresses,
    /// The pause after a connection is established: some drivers miss a message that arrives
    /// immediately.
    pub(crate) pause: Duration,
    /// The NFS version of NULL Calls.
    pub(crate) null_version: u32,
    pub(crate) xids: Xids,
}

impl Target {
    /// Returns the server at `to`.
    pub(crate) fn new(to: SocketAddr, from: Option<IpAddr>) -> Self {
        Self {
            addresses: Addresses { to, from },
            pause: Duration::ZERO,
            null_version: 3,
            xids: Xids::new(),
        }
    }
}

impl Server {
    /// Returns the format of the results.
    pub(crate) fn format(&self) -> Format {
        self.format
    }

    /// Returns the host exactly as the user wrote it.
    pub(crate) fn host(&self) -> &str {
        &self.host
    }

    /// Resolves the host.
    ///
    /// # Errors
    ///
    /// Returns an error for a host that is not on a network of this host, unless the user allows it.
    pub(crate) fn target(&self) -> Result<Target> {
        let addr = lookup(&self.host, self.is_ipv6())?;
        if !self.allow_remote && !host::is_attached(addr.ip())? {
            return Err(Error::unavailable(format!(
                "{} is not on a network of this host: use --allow-remote to reach it",
                self.host
            )));
        }
        Ok(Target::new(addr, self.from))
    }

    /// Returns whether only IPv6 or only IPv4 addresses fit; `None` if both do.
    fn is_ipv6(&self) -> Option<bool> {
        match (self.ipv4, self.ipv6) {
            (true, _) => Some(false),
            (_, true) => Some(true),
            _ => self.from.map(|from| from.is_ipv6()),
        }
    }

    /// Returns the arguments for another process that connects in the same way.
    pub(crate) fn arguments(&self) -> Vec<String> {
        let flags = [
            (self.ipv4, "--ipv4"),
            (self.ipv6, "--ipv6"),
            (self.allow_remote, "--allow-remote"),
        ];
        let flags = flags.into_iter().filter(|(is_set, _)| *is_set);
        let mut arguments = vec![self.host.clone()];
        arguments.extend(flags.map(|(_, flag)| flag.to_owned()));
        arguments.extend(self.from.map(|from| format!("--from={from}")));
        arguments
    }
}

/// Resolves `host`, `host:port` or `[host]:port` to an address of the wanted family.
fn lookup(host: &str, is_ipv6: Option<bool>) -> Result<SocketAddr> {
    let bare = (host, PORT).to_socket_addrs();
    let mut found = match bare {
        Ok(found) => found,
        Err(_) => host
            .to_socket_addrs()
            .map_err(|error| Error::unavailable(format!("{host}: {error}")))?,
    };
    let family = match is_ipv6 {
        None => "",
        Some(false) => "IPv4 ",
        Some(true) => "IPv6 ",
    };
    found
        .find(|addr| is_ipv6.is_none_or(|is_ipv6| addr.is_ipv6() == is_ipv6))
        .ok_or_else(|| Error::unavailable(format!("{host} has no {family}address")))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::error::Outcome;

    fn server(host: &str) -> Server {
        Server {
            host: host.to_owned(),
            from: None,
            ipv4: false,
            ipv6: false,
            allow_remote: false,
            format: Format::Text,
        }
    }

    #[test]
    fn ports_are_optional() {
        for (text, port) in [
            ("127.0.0.1", 20049),
            ("127.0.0.1:7", 7),
            ("::1", 20049),
            ("[::1]:7", 7),
        ] {
            assert_eq!(lookup(text, None).unwrap().port(), port, "{text}");
        }
    }

    #[test]
    fn the_family_can_be_chosen() {
        assert!(lookup("::1", Some(true)).unwrap().is_ipv6());
        let error = lookup("::1", Some(false)).unwrap_err();
        assert_eq!(error.to_string(), "::1 has no IPv4 address");
        // The source address implies a family.
        let from = Some(IpAddr::from([127, 0, 0, 1]));
        let from_ipv4 = Server {
            from,
            ..server("::1")
        };
        assert!(from_ipv4.target().is_err());
        let target = Server {
            from,
            ..server("127.0.0.1")
        };
        assert_eq!(target.target().unwrap().addresses.from, from);
    }

    #[test]
    fn strangers_are_refused() {
        // TEST-NET-3 (RFC 5737) is not attached to any host.
        let mut stranger = server("203.0.113.1");
        let error = stranger.target().unwrap_err();
        assert_eq!(error.outcome(), Outcome::Untested);
        stranger.allow_remote = true;
        assert!(stranger.target().is_ok());
        assert!(server("127.0.0.1").target().is_ok());
    }

    #[test]
    fn another_process_gets_the_same_server() {
        let server = Server {
            from: Some(IpAddr::from([127, 0, 0, 1])),
            ipv4: true,
            allow_remote: true,
            ..server("here:7")
        };
        assert_eq!(
            server.arguments(),
            ["here:7", "--ipv4", "--allow-remote", "--from=127.0.0.1"]
        );
    }
}
