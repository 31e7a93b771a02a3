// SPDX-License-Identifier: GPL-2.0

//! nfsd's listeners of all transports, by way of its family of generic netlink.

use crate::{
    error::{
        Error,
        Result, //
    },
    netlink::{
        self,
        Attributes,
        Family, //
    },
    system::System, //
};
use rustix::io::Errno;
use std::net::{
    Ipv4Addr,
    Ipv6Addr,
    SocketAddr, //
};

/// The command, of `include/uapi/linux/nfsd_netlink.h`.
const GET: u8 = 7;
/// The attribute of a listener, and the attributes in it: a `struct sockaddr_storage`, and the name
/// of the transport.
const LISTENER: u16 = 1;
const ADDRESS: u16 = 1;
const TRANSPORT: u16 = 2;

/// A listener.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Socket {
    pub(crate) transport: String,
    /// The `struct sockaddr_storage`, as the kernel has given it.
    raw: Vec<u8>,
}

impl Socket {
    /// Returns address and port, or nothing if the family is neither IPv4 nor IPv6.
    pub(crate) fn address(&self) -> Option<SocketAddr> {
        let port = self
            .raw
            .get(2..)?
            .first_chunk()
            .map(|port| u16::from_be_bytes(*port))?;
        // AF_INET and AF_INET6.
        match netlink::number(&self.raw, 0)? {
            2 => {
                let address: [u8; 4] = *self.raw.get(4..)?.first_chunk()?;
                Some((Ipv4Addr::from(address), port).into())
            }
            10 => {
                let address: [u8; 16] = *self.raw.get(8..)?.first_chunk()?;
                Some((Ipv6Addr::from(address), port).into())
            }
            _ => None,
        }
    }

    /// Returns true if the listener has this transport and port.
    pub(crate) fn is(&self, transport: &str, port: u16) -> bool {
        self.transport == transport && self.address().is_some_and(|address| address.port() == port)
    }
}

/// Decodes the answer to a request for the listeners.
fn decode(answer: &[u8]) -> Vec<Socket> {
    let lists = netlink::attributes(answer).filter(|(kind, _)| *kind == LISTENER);
    let sockets = lists.filter_map(|(_, list)| {
        let find = |wanted| netlink::attributes(list).find(|(kind, _)| *kind == wanted);
        let (_, name) = find(TRANSPORT)?;
        let (_, raw) = find(ADDRESS)?;
        let name = name.split(|byte| *byte == 0).next()?;
        Some(Socket {
            transport: String::from_utf8_lossy(name).into_owned(),
            raw: raw.to_vec(),
        })
    });
    sockets.collect()
}

/// Encodes an answer with these listeners.
#[cfg(any(test, feature = "test-root"))]
fn encode(sockets: &[Socket]) -> Attributes {
    let mut request = Attributes::default();
    for socket in sockets {
        let mut listener = Attributes::default();
        listener.push(ADDRESS, &socket.raw);
        listener.push_text(TRANSPORT, &socket.transport);
        request.push_nested(LISTENER, &listener);
    }
    request
}

/// Returns the listeners of this network namespace.
pub(crate) fn listeners(system: &System) -> Result<Vec<Socket>> {
    read(get(system))
}

/// Returns the listeners of this network namespace, or none if nfsd is not loaded.
pub(crate) fn listeners_if_loaded(system: &System) -> Result<Vec<Socket>> {
    match get(system) {
        Err(Errno::NOENT) => Ok(Vec::new()),
        answer => read(answer),
    }
}

/// Reads an answer to a request for the listeners.
fn read(answer: Result<Vec<u8>, Errno>) -> Result<Vec<Socket>> {
    answer
        .map(|answer| decode(&answer))
        .map_err(|error| explain(error, "nfsd's listeners cannot be read"))
}

/// Returns the answer to a request for the listeners.
fn get(_system: &System) -> Result<Vec<u8>, Errno> {
    #[cfg(feature = "test-root")]
    if stand_in::is_used(_system) {
        return stand_in::get(_system);
    }
    Family::find("nfsd")?.get(GET, &Attributes::default())
}

/// Returns the error for an answer of nfsd, or of the kernel that looks for nfsd.
fn explain(error: Errno, what: &str) -> Error {
    match error {
        Errno::NOENT => Error::unknown("no-nfsd", "nfsd is not loaded")
            .with_action("systemctl start nfs-server"),
        Errno::PERM | Errno::ACCESS => {
            Error::unknown("no-rights", what).with_action("run this as root")
        }
        error => Error::failed("refused", format!("{what}: {error}")),
    }
}

/// A stand-in for nfsd's netlink family in tests: its portlist, which has IPv4 before IPv6.
#[cfg(feature = "test-root")]
mod stand_in {
    use super::{
        encode,
        Socket,
        System, //
    };
    use rustix::io::Errno;
    use std::path::Path;

    /// Returns true in the tree of a test.
    pub(super) fn is_used(system: &System) -> bool {
        system.root.path("/") != Path::new("/")
    }

    /// Returns the answer to a request for the listeners.
    pub(super) fn get(system: &System) -> Result<Vec<u8>, Errno> {
        let list = system.portlist().map_err(|_| Errno::NOENT)?;
        let mut sockets: Vec<Socket> = Vec::new();
        for (transport, port) in list {
            let port = u16::try_from(port).map_err(|_| Errno::INVAL)?;
            let family = if sockets.iter().any(|socket| socket.is(&transport, port)) {
                10
            } else {
                2u16
            };
            let mut raw = [family.to_ne_bytes(), port.to_be_bytes()].concat();
            raw.resize(128, 0);
            sockets.push(Socket { transport, raw });
        }
        Ok(encode(&sockets).into_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn socket(transport: &str, start: &[u8]) -> Socket {
        let mut raw = start.to_vec();
        raw.resize(128, 0);
        Socket {
            transport: transport.to_owned(),
            raw,
        }
    }

    #[test]
    fn listeners_are_encoded_as_they_were_decoded() {
        let [f0, f1] = 2u16.to_ne_bytes();
        let four = socket("rdma", &[f0, f1, 0x4e, 0x51, 10, 77, 0, 1]);
        let [f0, f1] = 10u16.to_ne_bytes();
        let six = socket("tcp", &[f0, f1, 0x08, 0x01, 0, 0, 0, 0, 0xfd, 0x77]);
        let other = socket("tcp", &[1, 0]);
        let all = vec![four, six, other];
        assert_eq!(decode(&encode(&all).into_bytes()), all);
        let addresses: Vec<_> = all.iter().map(Socket::address).collect();
        assert_eq!(
            addresses[0],
            Some("10.77.0.1:20049".parse().expect("an address"))
        );
        assert_eq!(
            addresses[1],
            Some("[fd77::]:2049".parse().expect("an address"))
        );
        assert_eq!(addresses[2], None);
        assert!(all[0].is("rdma", 20049) && !all[0].is("tcp", 20049) && !all[0].is("rdma", 1));
    }

    #[test]
    fn answers_that_are_cut_lack_listeners() {
        let all = vec![socket("rdma", &[2, 0, 1, 2]), socket("tcp", &[2, 0, 1, 2])];
        let bytes = encode(&all).into_bytes();
        for length in 0..bytes.len() {
            assert!(decode(&bytes[..length]).len() < 2, "{length}");
        }
    }

    #[test]
    fn refusals_say_what_to_do() {
        let text = |error| explain(error, "it fails").to_string();
        assert_eq!(text(Errno::PERM), "it fails: run this as root");
        assert!(text(Errno::NOENT).starts_with("nfsd is not loaded"));
    }
}
