// SPDX-License-Identifier: GPL-2.0

//! Prefix lists: they have the addresses that a comparison of bits says, and texts are read as they
//! are written.

mod common;

use common::*;
use proptest::prelude::*;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use svcrdma_proto::prefixes::{Invalid, Prefix, Prefixes, MAX_TEXT};

fn address() -> impl Strategy<Value = IpAddr> {
    let v4 = |bits| IpAddr::V4(Ipv4Addr::from_bits(bits));
    let v6 = |bits| IpAddr::V6(Ipv6Addr::from_bits(bits));
    pick![
        any::<u32>().prop_map(v4),
        any::<u128>().prop_map(v6),
        // Few bits, so that prefixes have some of the addresses.
        (0..4u32).prop_map(move |bits| v4(bits << 30)),
        (0..4u128).prop_map(move |bits| v6(bits << 126)),
        (0..4u128).prop_map(move |bits| v6(0xffff_0000_0000 | (bits << 30))),
    ]
}

/// Returns the family of an address and its bits; those of an IPv4 address if it is IPv4-mapped.
fn bits(address: IpAddr) -> Vec<bool> {
    let bits = |octets: &[u8]| -> Vec<bool> {
        let bits = octets
            .iter()
            .flat_map(|o| (0..8).map(move |n| (o << n) & 0x80 != 0));
        bits.collect()
    };
    match address {
        IpAddr::V4(address) => bits(&address.octets()),
        IpAddr::V6(address) => match address.octets() {
            [0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, rest @ ..] => bits(&rest),
            octets => bits(&octets),
        },
    }
}

/// Returns true if the prefix of `len` bits of `prefix` has the address, by comparing bit for bit.
fn model(prefix: IpAddr, len: usize, address: IpAddr) -> bool {
    let is_mapped = |address| matches!(address, IpAddr::V6(_)) && bits(address).len() == 32;
    let ours = match prefix {
        // A prefix that reaches beyond the IPv4-mapped addresses is one of IPv6.
        IpAddr::V6(v6) if is_mapped(prefix) && len < 96 => [
            vec![false; 80],
            vec![true; 16],
            bits(IpAddr::V4(v6.to_ipv4_mapped().unwrap())),
        ]
        .concat(),
        _ => bits(prefix),
    };
    let len = if is_mapped(prefix) && len >= 96 {
        len - 96
    } else {
        len
    };
    let theirs = bits(address);
    ours.len() == theirs.len() && ours[..len] == theirs[..len]
}

fn parse(text: &str) -> Result<Prefixes<Vec<Prefix>>, Invalid> {
    Prefixes::parse(text, Vec::new(), |list, prefix| {
        list.push(prefix);
        Ok(())
    })
}

fn prefix() -> impl Strategy<Value = (IpAddr, usize)> {
    let most = |address: &IpAddr| if address.is_ipv4() { 32 } else { 128 };
    let len = pick![0..3usize, 94..100usize, 0..129usize];
    (address(), len).prop_map(move |(address, len)| (address, len.min(most(&address))))
}

proptest! {
    #![proptest_config(cases(2048))]

    #[test]
    fn lists_have_the_addresses_of_their_prefixes(
        prefixes in prop::collection::vec(prefix(), 1..5),
        separator in pick![Just(" "), Just(","), Just("\n"), Just(", \t")],
        addresses in prop::collection::vec(address(), 16),
    ) {
        let words: Vec<String> = prefixes.iter().map(|(address, len)| format!("{address}/{len}")).collect();
        let list = parse(&words.join(separator)).unwrap();
        for address in addresses.into_iter().chain(prefixes.iter().map(|(address, _)| *address)) {
            let expected = prefixes.iter().any(|(prefix, len)| model(*prefix, *len, address));
            prop_assert_eq!(list.contains(address), expected, "{} in {}", address, list);
        }
        // The text of a list is parsed as the same list.
        prop_assert_eq!(parse(&list.to_string()), Ok(list));
    }

    #[test]
    fn texts_are_read_or_refused(text in pick![
        "[0-9a-f:./, \n]{0,80}",
        "\\PC{0,80}",
        "(10\\.[0-9]{1,3}\\.0\\.0(/[0-9]{1,2})?[ ,]){0,80}",
    ]) {
        if let Ok(list) = parse(&text) {
            let shown = list.to_string();
            prop_assert!(shown.len() < MAX_TEXT);
            prop_assert_eq!(parse(&shown), Ok(list));
        }
    }
}
