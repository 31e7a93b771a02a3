// SPDX-License-Identifier: GPL-2.0

//! Masks of addresses and names: each address becomes `peer1`, `peer2` and so on, the same in all
//! texts, and each name of a host becomes `host1` and so on.

use crate::{
    host_names::HostNames,
    root::Root, //
};
use std::{
    collections::{
        HashMap,
        HashSet, //
    },
    net::IpAddr, //
};

/// The addresses and names that were found so far.
#[derive(Debug, Default)]
pub(crate) struct Mask {
    names: HostNames,
    numbers: HashMap<IpAddr, usize>,
    /// Texts that look like addresses.
    kept: HashSet<IpAddr>,
}

impl Mask {
    /// Creates the mask of a host, which knows the names that its files have.
    pub(crate) fn new(root: &Root) -> Self {
        let mut mask = Self::default();
        mask.names.learn_files(root);
        mask
    }

    /// Learns names from a kernel log.
    pub(crate) fn learn(&mut self, log: &str) {
        self.names.learn_log(log);
    }

    /// Leaves `text` as it is wherever it occurs, although it may look like an address.
    pub(crate) fn keep(&mut self, text: &str) {
        self.kept.extend(text.parse::<IpAddr>());
    }

    /// Returns `text` with all names and addresses replaced. Ports stay, and so do addresses that
    /// name no host, such as `0.0.0.0`.
    pub(crate) fn apply(&mut self, text: &str) -> String {
        let text = self.names.apply(text);
        self.addresses(&text)
    }

    /// Returns `text` with all addresses replaced.
    fn addresses(&mut self, text: &str) -> String {
        let mut masked = String::with_capacity(text.len());
        let mut rest = text;
        let mut before = None;
        while let Some(start) = rest.find(is_part) {
            masked += &rest[..start];
            before = rest[..start].chars().next_back().or(before);
            rest = &rest[start..];
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            let after = rest[end..].chars().next();
            // Part of a word, such as the end of "core::".
            let is_word = [before, after]
                .iter()
                .flatten()
                .any(|c| c.is_alphanumeric() || *c == '_');
            if is_word {
                masked += &rest[..end]
            } else {
                masked += &self.token(&rest[..end])
            }
            before = rest[..end].chars().next_back();
            rest = &rest[end..];
        }
        masked + rest
    }

    /// Returns a run of characters of addresses with the address in it replaced.
    fn token(&mut self, token: &str) -> String {
        // A prefix such as "fd77::" of "fd77::/64".
        if let Some(masked) = self.number(token) {
            return masked;
        }
        let stem = token.trim_end_matches([':', '.']);
        // "::" names no host, so nothing is lost if its colons were cut.
        let port = stem
            .rsplit_once(':')
            .filter(|(host, _)| !host.contains(':'));
        let (host, rest) = match port {
            Some((host, _)) => (host, &token[host.len()..]),
            None => (stem, &token[stem.len()..]),
        };
        match self.number(host) {
            Some(masked) => masked + rest,
            None => token.to_owned(),
        }
    }

    /// Returns the replacement of an address that is hidden.
    fn number(&mut self, text: &str) -> Option<String> {
        let address = text.parse::<IpAddr>().ok();
        let address = address.filter(|address| self.hides(address))?;
        let next = self.numbers.len() + 1;
        let number = *self.numbers.entry(address.to_canonical()).or_insert(next);
        Some(format!("peer{number}"))
    }

    /// Returns true for addresses that name a host.
    fn hides(&self, address: &IpAddr) -> bool {
        !address.is_unspecified() && !address.is_loopback() && !self.kept.contains(address)
    }
}

/// Returns true for characters that addresses consist of.
fn is_part(c: char) -> bool {
    c.is_ascii_hexdigit() || c == '.' || c == ':'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_get_the_same_number_everywhere() {
        let mut mask = Mask::default();
        assert_eq!(mask.apply("7 10.77.0.2:40001 x"), "7 peer1:40001 x");
        assert_eq!(mask.apply("[fd77::2]:20049 lost"), "[peer2]:20049 lost");
        assert_eq!(
            mask.apply("connection 7 of 10.77.0.2:40002: closed: x"),
            "connection 7 of peer1:40002: closed: x"
        );
        assert_eq!(mask.apply("at 10.77.0.3."), "at peer3.");
        assert_eq!(
            mask.apply("[::ffff:10.77.0.2]:1 \"fe80::1%eth0\""),
            "[peer1]:1 \"peer4%eth0\""
        );
        assert_eq!(
            mask.apply("10.77.0.2/32 10.0.0.0/8 fd77:0:0:1::/64 ::/0"),
            "peer1/32 peer5/8 peer6/64 ::/0"
        );
    }

    #[test]
    fn other_texts_stay() {
        let mut mask = Mask::default();
        for text in [
            "0.0.0.0:20049 [::]:20049 127.0.0.1",
            "[   12.345678] svcrdma: 7.3.4+deb13 at 12:34:56",
            "core::fmt feed_beef 52:54:00:12:34:56 0000:3b:00.0",
            "16.35.4506 0c42:a103:0012:3456",
            "",
        ] {
            assert_eq!(mask.apply(text), text);
        }
    }

    #[test]
    fn versions_stay() {
        let mut mask = Mask::default();
        mask.keep("229.1.123.0");
        mask.keep("16.35.4506");
        let text = "229.1.123.0 16.35.4506 229.1.123.1";
        assert_eq!(mask.apply(text), "229.1.123.0 16.35.4506 peer1");
    }
}
