// SPDX-License-Identifier: GPL-2.0

//! Lists of address prefixes: the setting `accept_from`.
//!
//! The text of a list is [`ANY`], or prefixes that spaces, line ends or commas separate. A prefix
//! is an address with or without a number of bits (`10.0.0.0/8`, `fd00::1`). Bits of the address
//! behind the prefix are ignored. IPv4-mapped IPv6 prefixes are IPv4 prefixes.

use core::{
    fmt::{
        self,
        Write, //
    },
    net::{
        IpAddr,
        Ipv4Addr,
        Ipv6Addr, //
    },
    ops::Deref, //
};

/// The text of the list that has all addresses.
pub const ANY: &str = "any";

/// The most bytes of the text of a list, with a newline at its end. The standard C library writes
/// files of `/proc` in pieces of 1024 bytes, and the first piece of a longer text would be another
/// list.
pub const MAX_TEXT: usize = 1023;

/// The bits before the IPv4 address in an IPv4-mapped IPv6 address.
const MAPPED: u32 = Ipv6Addr::BITS - Ipv4Addr::BITS;

/// The error of a text that is no list of prefixes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Invalid;

/// An address prefix.
///
/// # Invariants
///
/// - `address` is no IPv4-mapped address if `bits` is at least `MAPPED`.
/// - `bits` is at most the number of bits of the address; the bits behind are 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    address: IpAddr,
    bits: u32,
}

impl Prefix {
    /// Parses an address, or an address and a number of bits.
    ///
    /// # Errors
    ///
    /// The text is something else, or the number exceeds that of the address.
    // Inlined, because core's searches in texts have checks of overflows, which this crate has none of:
    // scripts/allow-panics names them for the module.
    #[inline]
    pub fn parse(text: &str) -> Result<Self, Invalid> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(number(bits)?)),
            None => (text, None),
        };
        match address.parse().map_err(|_| Invalid)? {
            IpAddr::V4(address) => Self::v4(address, bits.unwrap_or(Ipv4Addr::BITS)),
            IpAddr::V6(address) => Self::v6(address, bits.unwrap_or(Ipv6Addr::BITS)),
        }
    }

    /// Returns the prefix of an IPv4 address.
    fn v4(address: Ipv4Addr, bits: u32) -> Result<Self, Invalid> {
        let behind = Ipv4Addr::BITS.checked_sub(bits).ok_or(Invalid)?;
        let mask = u32::MAX.checked_shl(behind).unwrap_or(0);
        // INVARIANT: `bits` was checked, and the mask clears the bits behind.
        Ok(Self {
            address: IpAddr::V4(Ipv4Addr::from_bits(address.to_bits() & mask)),
            bits,
        })
    }

    /// Returns the prefix of an IPv6 address.
    fn v6(address: Ipv6Addr, bits: u32) -> Result<Self, Invalid> {
        let behind = Ipv6Addr::BITS.checked_sub(bits).ok_or(Invalid)?;
        if let (Some(address), Some(bits)) = (address.to_ipv4_mapped(), bits.checked_sub(MAPPED)) {
            return Self::v4(address, bits);
        }
        let mask = u128::MAX.checked_shl(behind).unwrap_or(0);
        // INVARIANT: `bits` was checked, and the mask clears the bits behind.
        Ok(Self {
            address: IpAddr::V6(Ipv6Addr::from_bits(address.to_bits() & mask)),
            bits,
        })
    }

    /// Returns true if the address begins with this prefix. An IPv6 prefix has no IPv4 addresses,
    /// not even as IPv4-mapped ones.
    pub fn contains(&self, address: IpAddr) -> bool {
        let with_its_bits = match address.to_canonical() {
            IpAddr::V4(address) => Self::v4(address, self.bits),
            IpAddr::V6(address) => Self::v6(address, self.bits),
        };
        with_its_bits == Ok(*self)
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.address, self.bits) {
            (IpAddr::V4(host), Ipv4Addr::BITS) => write!(f, "{host}"),
            (IpAddr::V6(host), Ipv6Addr::BITS) => write!(f, "{host}"),
            (address, bits) => write!(f, "{address}/{bits}"),
        }
    }
}

/// Parses decimal digits.
#[inline]
fn number(text: &str) -> Result<u32, Invalid> {
    // `parse()` takes a sign, too.
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        text.parse().map_err(|_| Invalid)
    } else {
        Err(Invalid)
    }
}

/// A list of prefixes in `S`, such as a vector. A list without prefixes has all addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Prefixes<S>(S);

impl<S: Deref<Target = [Prefix]>> Prefixes<S> {
    /// Parses a list. `push` appends a prefix to `list`, which is empty.
    ///
    /// # Errors
    ///
    /// [`Invalid`] if `text` is no list, or longer than [`MAX_TEXT`] as it is or as it would be
    /// shown; or the error of `push`.
    pub fn parse<E: From<Invalid>>(
        text: &str,
        mut list: S,
        mut push: impl FnMut(&mut S, Prefix) -> Result<(), E>,
    ) -> Result<Self, E> {
        if text.len() > MAX_TEXT {
            return Err(Invalid.into());
        }
        let mut words = text
            .split(|c: char| c.is_ascii_whitespace() || c == ',')
            .filter(|word| !word.is_empty());
        if words.clone().eq([ANY]) {
            return Ok(Self(list));
        }
        words.try_for_each(|word| push(&mut list, Prefix::parse(word)?))?;
        let list = Self(list);
        if list.0.is_empty() || list.len() >= MAX_TEXT {
            Err(Invalid.into())
        } else {
            Ok(list)
        }
    }

    /// Returns the length of the text that [`Self::fmt`] writes.
    fn len(&self) -> usize {
        let mut len = Length(0);
        // `Length` returns no error.
        let _ = write!(len, "{self}");
        len.0
    }

    /// Returns true if the list has the address.
    pub fn contains(&self, address: IpAddr) -> bool {
        self.0.is_empty() || self.0.iter().any(|prefix| prefix.contains(address))
    }
}

impl<S: Deref<Target = [Prefix]>> fmt::Display for Prefixes<S> {
    /// Writes a text that [`Self::parse`] takes.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some((first, others)) = self.0.split_first() else {
            return f.write_str(ANY);
        };
        write!(f, "{first}")?;
        others.iter().try_for_each(|prefix| write!(f, " {prefix}"))
    }
}

/// Counts the bytes that are written to it.
struct Length(usize);

impl fmt::Write for Length {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.saturating_add(text.len());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(text: &str) -> Result<Prefixes<Vec<Prefix>>, Invalid> {
        Prefixes::parse(text, Vec::new(), |list, prefix| {
            list.push(prefix);
            Ok(())
        })
    }

    fn shown(text: &str) -> Option<String> {
        list(text).ok().map(|list| list.to_string())
    }

    fn has(text: &str, address: &str) -> bool {
        let list = list(text).expect("a list");
        list.contains(address.parse().expect("an address"))
    }

    #[test]
    fn lists_are_shown_as_they_are_understood() {
        for (text, expected) in [
            ("any\n", "any"),
            ("  any ", "any"),
            ("10.0.0.0/8 fd00::/8\n", "10.0.0.0/8 fd00::/8"),
            ("10.0.0.0/8,fd00::/8", "10.0.0.0/8 fd00::/8"),
            (",10.0.0.7,\t, FD00::7\n\n", "10.0.0.7 fd00::7"),
            ("10.1.2.3/8 fd77::1/16", "10.0.0.0/8 fd77::/16"),
            ("0.0.0.0/0 ::/0", "0.0.0.0/0 ::/0"),
            ("::ffff:10.1.2.3/104", "10.0.0.0/8"),
            ("::ffff:10.1.2.3", "10.1.2.3"),
            ("::ffff:0:0/96", "0.0.0.0/0"),
            ("::ffff:0:0/95", "::fffe:0:0/95"),
        ] {
            assert_eq!(shown(text).as_deref(), Some(expected), "{text}");
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "\n",
            " , ",
            "none",
            "any any",
            "any 10.0.0.0/8",
            "10.0.0.0/8 any",
            "ANY",
            "10.0.0.0/33",
            "fd00::/129",
            "10.0.0.0/-1",
            "10.0.0.0/+8",
            "10.0.0.0/",
            "10.0.0.0/8/8",
            "10.0.0/8",
            "10.0.0.256",
            "010.0.0.1",
            "/8",
            "fe80::1%eth0",
            "[fd00::1]",
            "client7",
            "10.0.0.0/4294967304",
            "10.0.0.0/8;fd00::/8",
            "10.0.0.0/8 \0",
        ] {
            assert_eq!(list(text), Err(Invalid), "{text:?}");
        }
    }

    #[test]
    fn texts_are_short_enough_for_one_write() {
        let padded = |text: &str, len: usize| format!("{text}{}", " ".repeat(len - text.len()));
        assert!(list(&padded("fd00::/8", MAX_TEXT)).is_ok());
        assert_eq!(list(&padded("fd00::/8", MAX_TEXT + 1)), Err(Invalid));
        // Shown, each prefix is a byte longer than here.
        let prefixes = |count: usize| vec!["1::3:4:5:6:7:8"; count].join(" ");
        let shown = |count: usize| list(&prefixes(count)).map(|list| list.to_string().len() + 1);
        assert_eq!(shown(63), Ok(1008));
        assert_eq!(shown(64), Err(Invalid));
        assert_eq!(prefixes(64).len() + 1, 960);
    }

    #[test]
    fn a_list_has_the_addresses_of_its_prefixes() {
        let both = "10.77.0.0/24 fd77::/64 192.168.1.7";
        for address in ["10.77.0.255", "fd77::ffff:0:0:1", "192.168.1.7"] {
            assert!(has(both, address), "{address}");
        }
        for address in ["10.77.1.0", "10.76.255.255", "fd77:0:0:1::", "192.168.1.6"] {
            assert!(!has(both, address), "{address}");
        }
        assert!(has("any", "10.77.1.0") && has("any", "fd77::1"));
        assert!(has("0.0.0.0/0", "255.255.255.255") && has("::/0", "fd77::1"));
        assert!(has("128.0.0.0/1", "255.0.0.1") && !has("128.0.0.0/1", "127.0.0.1"));
    }

    #[test]
    fn mapped_addresses_are_ipv4_addresses() {
        assert!(has("10.0.0.0/8", "::ffff:10.1.2.3"));
        assert!(has("::ffff:10.0.0.0/104", "10.1.2.3"));
        for list in ["::/0", "::/64", "::ffff:0:0/95"] {
            assert!(!has(list, "10.1.2.3"), "{list}");
            assert!(!has(list, "::ffff:10.1.2.3"), "{list}");
        }
        assert!(!has("0.0.0.0/0", "::1") && !has("0.0.0.0/0", "::10.1.2.3"));
    }
}
