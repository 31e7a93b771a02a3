// SPDX-License-Identifier: GPL-2.0

//! Sources of connect requests, and the choice of the request that gives way when all places of a
//! listener are taken.
//!
//! Waiting requests are counted by their *source*: an IPv4 address, an IPv6 network of 64 bits, or on
//! InfiniBand the GID of a port. A host gets more IPv6 addresses of its network, and more IPoIB
//! addresses, for nothing; more sources cost an attacker something.
//!
//! On InfiniBand and RoCE the peer states its address in the private data of its connect request,
//! and the RDMA core compares that with nothing but its routes (`cma_save_net_info` and
//! `validate_net_dev` in drivers/infiniband/core/cma.c). The server sends its reply and all later
//! packets to the GID of the request. So the GID counts, not the stated address. A GID of RoCE
//! contains an IP address (`rdma_ip2gid`).

use core::net::{
    IpAddr,
    Ipv6Addr, //
};

/// The kind of network that a connect request has arrived over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fabric {
    /// iWARP. TCP has confirmed the address of the peer.
    Iwarp,
    /// RoCE, with the GID of the peer's port.
    Roce([u8; 16]),
    /// InfiniBand, with the GID of the peer's port.
    InfiniBand([u8; 16]),
}

/// The sender of a connect request, as the request states it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The address of the peer: that of its TCP connection (iWARP), or the one that it states.
    pub address: IpAddr,
    /// The network.
    pub fabric: Fabric,
}

impl Origin {
    /// Returns the address and, on RoCE, the one of the GID. Both are the same unless the peer
    /// states an address that it does not have.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        let packets = match self.fabric {
            Fabric::Roce(gid) => Some(address_of(gid)),
            Fabric::Iwarp | Fabric::InfiniBand(_) => None,
        };
        [Some(self.address.to_canonical()), packets]
            .into_iter()
            .flatten()
    }

    /// Returns the source.
    pub fn source(&self) -> Source {
        match self.fabric {
            Fabric::Iwarp => Source::of(self.address),
            Fabric::Roce(gid) => Source::of(address_of(gid)),
            Fabric::InfiniBand(gid) => Source::Gid(gid),
        }
    }
}

/// The path of the packets of a connection, as the connect request has it. Both sides send that way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Path {
    /// The most bytes of a packet's payload; 0 for a code that the InfiniBand specification does not
    /// have.
    pub mtu: u16,
    /// The traffic class: with RoCE, the DSCP and two bits of ECN.
    pub traffic_class: u8,
    /// The form of the packets.
    pub encapsulation: Encapsulation,
}

/// The form of the packets of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encapsulation {
    /// InfiniBand.
    InfiniBand,
    /// RoCE version 1: Ethernet frames without IP.
    RoceV1,
    /// RoCE version 2: UDP.
    RoceV2,
}

impl Encapsulation {
    /// Returns the name, for debugfs.
    pub fn name(self) -> &'static str {
        match self {
            Self::InfiniBand => "ib",
            Self::RoceV1 => "roce1",
            Self::RoceV2 => "roce2",
        }
    }
}

impl Path {
    /// Creates the path of a request with the MTU `code` of the InfiniBand specification.
    pub fn new(code: u8, traffic_class: u8, encapsulation: Encapsulation) -> Self {
        let mtu = match code {
            1 => 256,
            2 => 512,
            3 => 1024,
            4 => 2048,
            5 => 4096,
            _ => 0,
        };
        Self {
            mtu,
            traffic_class,
            encapsulation,
        }
    }
}

/// Returns the address that a GID of RoCE contains.
fn address_of(gid: [u8; 16]) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from(gid)).to_canonical()
}

/// A source of connect requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Source {
    /// An IPv4 address.
    Host(u32),
    /// The first 64 bits of an IPv6 address.
    Network(u64),
    /// The GID of an InfiniBand port.
    Gid([u8; 16]),
}

impl Source {
    /// Returns the source of an address.
    fn of(address: IpAddr) -> Self {
        match address.to_canonical() {
            IpAddr::V4(address) => Self::Host(address.to_bits()),
            // CAST: The upper half fits.
            IpAddr::V6(address) => Self::Network((address.to_bits() >> 64) as u64),
        }
    }
}

/// The places of a listener for requests that wait to be accepted.
#[derive(Clone, Copy, Debug)]
pub struct Places {
    /// The number of places.
    pub all: usize,
    /// The most places that one source may take.
    pub each: usize,
}

/// The decision on a new request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Admission {
    /// A place is free.
    Free,
    /// The waiting request with this index gives its place to the new one.
    Instead(usize),
    /// The source has as many places as it may take.
    Flood,
    /// All places are taken, and no source has more of them than the new request's would have.
    Full,
}

impl Places {
    /// Decides on a request from `new`. `waiting` has the sources of all requests that wait, the
    /// oldest first.
    ///
    /// When all places are taken, the newest request of the source with the most places gives way.
    /// If several sources have the most, it is the newest of their requests.
    pub fn admit<'a, I>(&self, waiting: I, new: &Source) -> Admission
    where
        I: Iterator<Item = &'a Source> + Clone,
    {
        let of_new = count(waiting.clone().filter(|one| *one == new));
        if of_new >= self.each {
            return Admission::Flood;
        }
        if count(waiting.clone()) < self.all {
            return Admission::Free;
        }
        let (index, most) = most_frequent(waiting);
        if most > of_new.saturating_add(1) {
            Admission::Instead(index)
        } else {
            Admission::Full
        }
    }
}

/// Returns the index of the newest request of the source with the most requests, and their number.
fn most_frequent<'a, I>(waiting: I) -> (usize, usize)
where
    I: Iterator<Item = &'a Source> + Clone,
{
    let (mut index, mut most) = (0, 0);
    for (source, at) in waiting.clone().zip(0..usize::MAX) {
        let before = waiting.clone().take(at).filter(|one| *one == source);
        // The newest request of a source has all its others before it.
        let rank = count(before).saturating_add(1);
        if rank >= most {
            (index, most) = (at, rank);
        }
    }
    (index, most)
}

/// Returns the number of items.
fn count<T>(items: impl Iterator<Item = T>) -> usize {
    // `Iterator::count()` panics on an overflow.
    items.fold(0, |count: usize, _| count.saturating_add(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLACES: Places = Places { all: 8, each: 4 };

    fn origin(address: &str, fabric: Fabric) -> Origin {
        let address = address.parse().expect("an address");
        Origin { address, fabric }
    }

    fn gid(address: &str) -> [u8; 16] {
        match address.parse().expect("an address") {
            IpAddr::V4(address) => address.to_ipv6_mapped().octets(),
            IpAddr::V6(address) => address.octets(),
        }
    }

    fn source(address: &str) -> Source {
        origin(address, Fabric::Iwarp).source()
    }

    #[test]
    fn path_has_one_of_five_sizes() {
        let path = |code| Path::new(code, 106, Encapsulation::RoceV2);
        let sizes = [0, 1, 2, 3, 4, 5, 6, 15].map(|code| path(code).mtu);
        assert_eq!(sizes, [0, 256, 512, 1024, 2048, 4096, 0, 0]);
        assert_eq!(path(5).traffic_class, 106);
        let forms = [
            Encapsulation::InfiniBand,
            Encapsulation::RoceV1,
            Encapsulation::RoceV2,
        ];
        assert_eq!(forms.map(Encapsulation::name), ["ib", "roce1", "roce2"]);
    }

    #[test]
    fn addresses_of_one_network_are_one_source() {
        assert_eq!(source("fd77::1"), source("fd77::ffff:ffff:ffff:ffff"));
        assert_ne!(source("fd77::1"), source("fd77:0:0:1::1"));
        assert_ne!(source("10.0.0.1"), source("10.0.0.2"));
    }

    #[test]
    fn mapped_addresses_are_ipv4_addresses() {
        assert_eq!(source("::ffff:10.0.0.1"), source("10.0.0.1"));
        assert_ne!(source("::ffff:10.0.0.1"), source("::ffff:10.0.0.2"));
        let mapped = origin("::ffff:10.0.0.1", Fabric::Iwarp);
        assert!(mapped
            .addresses()
            .eq(["10.0.0.1".parse::<IpAddr>().expect("an address")]));
    }

    #[test]
    fn a_peer_of_roce_is_counted_by_its_gid() {
        let forged = origin("10.0.0.9", Fabric::Roce(gid("10.0.0.1")));
        assert_eq!(forged.source(), source("10.0.0.1"));
        let both = ["10.0.0.9", "10.0.0.1"].map(|one| one.parse().expect("an address"));
        assert!(forged.addresses().eq(both as [IpAddr; 2]));
        let of = |address| origin(address, Fabric::Roce(gid(address))).source();
        assert_eq!(of("fd77::1"), of("fd77::2"));
        assert_ne!(of("fd77::1"), of("fd78::1"));
    }

    #[test]
    fn a_peer_of_infiniband_is_counted_by_its_gid() {
        let of = |address, last| {
            let mut gid = gid("fe80::");
            gid[15] = last;
            origin(address, Fabric::InfiniBand(gid))
        };
        assert_eq!(of("10.0.0.1", 1).source(), of("10.0.0.2", 1).source());
        // All GIDs of a subnet have the same first 64 bits.
        assert_ne!(of("10.0.0.1", 1).source(), of("10.0.0.1", 2).source());
        // A GID of InfiniBand contains no address.
        assert_eq!(of("10.0.0.1", 1).addresses().count(), 1);
        assert_ne!(of("fe80::1", 1).source(), source("fe80::1"));
    }

    fn admit(waiting: &[u32], new: u32) -> Admission {
        let waiting: Vec<Source> = waiting.iter().map(|&host| Source::Host(host)).collect();
        PLACES.admit(waiting.iter(), &Source::Host(new))
    }

    #[test]
    fn a_source_gets_no_more_than_its_places() {
        assert_eq!(admit(&[], 1), Admission::Free);
        assert_eq!(admit(&[1, 1, 1], 1), Admission::Free);
        assert_eq!(admit(&[1, 1, 1, 1], 1), Admission::Flood);
        assert_eq!(admit(&[1, 1, 1, 1], 2), Admission::Free);
        assert_eq!(admit(&[2, 2, 1, 1, 1, 1, 2, 2], 1), Admission::Flood);
    }

    #[test]
    fn the_newest_request_of_the_most_frequent_source_gives_way() {
        assert_eq!(admit(&[1, 1, 2, 1, 3, 4, 5, 6], 7), Admission::Instead(3));
        assert_eq!(admit(&[1, 2, 2, 1, 1, 2, 3, 4], 5), Admission::Instead(5));
        assert_eq!(admit(&[1, 1, 1, 2, 2, 2, 1, 2], 3), Admission::Instead(7));
        // A source with one request gets a second one from a source with three.
        assert_eq!(admit(&[1, 1, 1, 2, 3, 4, 5, 6], 2), Admission::Instead(2));
    }

    #[test]
    fn no_request_gives_way_to_one_of_a_source_that_is_as_frequent() {
        assert_eq!(admit(&[1, 2, 3, 4, 5, 6, 7, 8], 9), Admission::Full);
        assert_eq!(admit(&[1, 1, 2, 2, 3, 3, 4, 4], 1), Admission::Full);
        assert_eq!(admit(&[1, 1, 1, 2, 3, 4, 5, 6], 1), Admission::Full);
        let none = Places { all: 0, each: 4 };
        assert_eq!(none.admit([].iter(), &Source::Host(1)), Admission::Full);
    }
}
