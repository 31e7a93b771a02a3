// SPDX-License-Identifier: GPL-2.0

//! Private data of connection requests and replies, and the inline thresholds that follow from it
//! (RFC 8797, section 4).

/// First word of the private data.
const MAGIC: u32 = 0xf6ab_0e18;

/// Bytes of the private data.
const LEN: usize = 8;

/// Version of the private data.
const VERSION: u8 = 1;

/// Flag: the sender supports remote invalidation.
const REMOTE_INVALIDATION: u8 = 1;

/// Inline threshold of a peer without private data, in bytes (RFC 8166, section 3.3.3).
pub const DEFAULT_THRESHOLD: u32 = 1024;

/// The properties that a peer, or this server, declares in its private data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// The sender supports remote invalidation.
    pub remote_invalidation: bool,
    /// The largest message that the sender sends, in bytes.
    pub send: u32,
    /// The largest message that the sender receives, in bytes.
    pub receive: u32,
}

impl Default for Peer {
    /// Returns the properties of a peer without private data.
    fn default() -> Self {
        Self {
            remote_invalidation: false,
            send: DEFAULT_THRESHOLD,
            receive: DEFAULT_THRESHOLD,
        }
    }
}

impl Peer {
    /// Parses the private data of a connection request. It may be absent or belong to another
    /// protocol. Another layer may have put bytes before it, so the magic number is searched for
    /// (RFC 8797, section 5.2).
    pub fn parse(private: &[u8]) -> Self {
        let mut found = private.windows(LEN).filter_map(<[u8]>::first_chunk);
        match found.find(|bytes| bytes.starts_with(&MAGIC.to_be_bytes())) {
            Some(&[_, _, _, _, VERSION, flags, send, receive]) => Self {
                remote_invalidation: flags & REMOTE_INVALIDATION != 0,
                send: size(send),
                receive: size(receive),
            },
            _ => Self::default(),
        }
    }

    /// Returns the private data that declares these properties. Sizes are rounded down to whole
    /// KiB, from 1 to 256.
    ///
    /// A peer expects Send With Invalidate only if both sides have declared support for it (RFC
    /// 8797, section 4.1).
    pub fn private_data(&self) -> [u8; LEN] {
        let [m0, m1, m2, m3] = MAGIC.to_be_bytes();
        let flags = if self.remote_invalidation {
            REMOTE_INVALIDATION
        } else {
            0
        };
        let (send, receive) = (code(self.send), code(self.receive));
        [m0, m1, m2, m3, VERSION, flags, send, receive]
    }
}

/// The inline thresholds of a connection, and its use of remote invalidation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// The largest message that the client may send, in bytes.
    pub receive: u32,
    /// The largest message that the server may send, in bytes.
    pub send: u32,
    /// Replies may invalidate the client's memory registrations.
    pub invalidate: bool,
}

impl Thresholds {
    /// Returns the smaller size of both sides for each direction (RFC 8797, section 4.2), and
    /// remote invalidation if both sides support it.
    pub fn negotiate(ours: &Peer, theirs: &Peer) -> Self {
        Self {
            receive: ours.receive.min(theirs.send),
            send: ours.send.min(theirs.receive),
            invalidate: ours.remote_invalidation && theirs.remote_invalidation,
        }
    }
}

/// Returns the size in bytes that `code` stands for (RFC 8797, section 4.2).
fn size(code: u8) -> u32 {
    u32::from(code).saturating_add(1).saturating_mul(1024)
}

/// Returns the code for a size of `size` bytes.
fn code(size: u32) -> u8 {
    let kib = size.checked_div(1024).unwrap_or(0).saturating_sub(1);
    u8::try_from(kib).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [u8; 8] = [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 255];

    #[test]
    fn private_data_is_parsed() {
        let peer = Peer {
            remote_invalidation: true,
            send: 4096,
            receive: 256 * 1024,
        };
        assert_eq!(Peer::parse(&GOOD), peer);
        // The connection manager may append zeroes.
        assert_eq!(Peer::parse(&[&GOOD[..], &[0; 48]].concat()), peer);
        // Another layer may have put bytes before it.
        for len in 1..20 {
            let behind = [&[0xf6; 20][..len], &GOOD].concat();
            assert_eq!(Peer::parse(&behind), peer);
            assert_eq!(Peer::parse(&behind[..len + 7]), Peer::default());
        }
        // Unknown flags are ignored.
        let mut flags = GOOD;
        flags[5] = 0xfe;
        assert!(!Peer::parse(&flags).remote_invalidation);
    }

    #[test]
    fn other_private_data_is_ignored() {
        for len in 0..8 {
            assert_eq!(Peer::parse(&GOOD[..len]), Peer::default());
        }
        for at in 0..5 {
            let mut bad = GOOD;
            bad[at] ^= 0x10;
            assert_eq!(Peer::parse(&bad), Peer::default());
        }
        assert_eq!(Peer::default().send, 1024);
    }

    fn ours(send: u32, receive: u32, remote_invalidation: bool) -> Peer {
        Peer {
            remote_invalidation,
            send,
            receive,
        }
    }

    #[test]
    fn sizes_are_coded_in_kib() {
        let codes = |size| ours(size, size, false).private_data()[6];
        assert_eq!([0, 1023, 1024, 2047, 2048].map(codes), [0, 0, 0, 0, 1]);
        assert_eq!([256 * 1024, 257 * 1024, u32::MAX].map(codes), [255; 3]);
    }

    #[test]
    fn declared_properties_are_parsed_again() {
        for can in [false, true] {
            let ours = ours(4096, 8192, can);
            assert_eq!(Peer::parse(&ours.private_data()), ours);
        }
    }

    #[test]
    fn the_smaller_size_is_used_in_each_direction() {
        let peer = Peer::parse(&GOOD);
        let both = Thresholds::negotiate(&ours(8192, 2048, true), &peer);
        assert_eq!(
            (both.send, both.receive, both.invalidate),
            (8192, 2048, true)
        );
        let device = Thresholds::negotiate(&ours(1 << 20, 1 << 20, false), &peer);
        assert_eq!((device.send, device.receive), (256 * 1024, 4096));
        assert!(!device.invalidate);
        let silent = Thresholds::negotiate(&ours(8192, 8192, true), &Peer::default());
        assert_eq!((silent.send, silent.receive), (1024, 1024));
        assert!(!silent.invalidate);
    }
}
