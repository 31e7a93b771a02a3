// SPDX-License-Identifier: GPL-2.0

//! Peers: addresses as the module writes them, and the filter of an address or a prefix.

use ipnet::IpNet;
use std::{
    net::IpAddr,
    str::FromStr, //
};

/// Returns the address of `ADDRESS:PORT` or `[ADDRESS]:PORT`, without an interface (`%eth0`).
pub(crate) fn address(text: &str) -> Option<IpAddr> {
    let host = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        None => match text.rsplit_once(':') {
            // An address of IPv6 without brackets has no port.
            Some((host, _)) if !host.contains(':') => host,
            _ => text,
        },
    };
    let host = host.split_once('%').map_or(host, |(host, _)| host);
    host.parse().ok().map(plain)
}

/// Returns the IPv4 address that an IPv6 address contains, or the address itself.
fn plain(address: IpAddr) -> IpAddr {
    address.to_canonical()
}

/// Selects peers by address or prefix: `10.0.0.7`, `10.0.0.0/8`, `fe80::/10`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Filter(IpNet);

impl Filter {
    /// Returns true if the filter selects the peer `text`.
    pub(crate) fn matches(self, text: &str) -> bool {
        address(text).is_some_and(|address| self.0.contains(&address))
    }
}

impl FromStr for Filter {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let net = text.parse::<IpNet>().ok();
        net.or_else(|| address(text).map(IpNet::from))
            .map(Self)
            .ok_or_else(|| "not an address, and not a prefix such as 10.0.0.0/8".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn matches(filter: &str, peer: &str) -> bool {
        filter
            .parse::<Filter>()
            .is_ok_and(|filter| filter.matches(peer))
    }

    #[test]
    fn filters_select_addresses_and_prefixes() {
        assert!(matches("10.77.0.2", "10.77.0.2:40001"));
        assert!(!matches("10.77.0.2", "10.77.0.20:40001"));
        assert!(matches("10.77.0.0/24", "10.77.0.20:1"));
        assert!(!matches("10.77.0.0/24", "10.77.1.20:1"));
        assert!(matches("fd77::/16", "[fd77::2]:40001"));
        assert!(matches("fd77::2", "[fd77::2]:40001"));
        assert!(matches("fe80::/10", "[fe80::2%eth0]:40001"));
        assert!(!matches("0.0.0.0/0", "[fd77::2]:40001"));
        assert!(matches("10.0.0.0/8", "[::ffff:10.1.2.3]:7"));
    }

    #[test]
    fn other_texts_are_refused() {
        assert!("client7".parse::<Filter>().is_err());
        assert!("10.0.0.0/33".parse::<Filter>().is_err());
        assert!("".parse::<Filter>().is_err());
    }
}
