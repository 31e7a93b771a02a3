// SPDX-License-Identifier: GPL-2.0

//! What the peers tell each other when they connect (RFC 8797, section 4).

/// First word of the private data.
const MAGIC: u32 = 0xf6ab_0e18;

/// Bytes of the private data.
const LEN: usize = 8;

/// Version of the private data.
const VERSION: u8 = 1;

/// Flag: the sender supports remote invalidation.
const REMOTE_INVALIDATION: u8 = 1;

/// Threshold of a peer that says nothing, in bytes (RFC 8166, section 3.3.3).
pub const DEFAULT_THRESHOLD: u32 = 1024;

/// What a peer says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Peer {
    /// Whether replies may invalidate its memory registrations.
    pub remote_invalidation: bool,
    /// The largest message it sends, in bytes.
    pub send: u32,
    /// The largest message it receives, in bytes.
    pub receive: u32,
}

impl Default for Peer {
    /// A peer that says nothing.
    fn default() -> Self {
        Self {
            remote_invalidation: false,
            send: DEFAULT_THRESHOLD,
            receive: DEFAULT_THRESHOLD,
        }
    }
}

impl Peer {
    /// Reads the private data of a connection request, which may be absent or another protocol's.
    /// What is meant for us is where our magic is: there may be something before it (RFC 8797,
    /// section 5.2).
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
}

/// What a connection may carry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// The largest message the client may send, in bytes.
    pub receive: u32,
    /// The largest message we may send, in bytes.
    pub send: u32,
    /// Whether replies may invalidate the client's memory registrations.
    pub invalidate: bool,
}

impl Thresholds {
    /// Takes the smaller of both sides' sizes in each direction (RFC 8797, section 4.2).
    pub fn negotiate(
        ours_send: u32,
        ours_receive: u32,
        device_can_invalidate: bool,
        peer: &Peer,
    ) -> Self {
        Self {
            receive: ours_receive.min(peer.send),
            send: ours_send.min(peer.receive),
            invalidate: device_can_invalidate && peer.remote_invalidation,
        }
    }
}

/// Makes our private data. Sizes are in bytes and rounded down to whole KiB, 1 to 256 of them.
///
/// A peer expects Send With Invalidate only if both sides have said that they support it (RFC 8797,
/// section 4.1).
pub fn private_data(send: u32, receive: u32, can_invalidate: bool) -> [u8; LEN] {
    let [m0, m1, m2, m3] = MAGIC.to_be_bytes();
    let flags = if can_invalidate {
        REMOTE_INVALIDATION
    } else {
        0
    };
    [m0, m1, m2, m3, VERSION, flags, code(send), code(receive)]
}

/// Returns the bytes that `code` stands for (RFC 8797, section 4.2).
fn size(code: u8) -> u32 {
    u32::from(code).saturating_add(1).saturating_mul(1024)
}

/// Returns the code of `size` bytes.
fn code(size: u32) -> u8 {
    let kib = size.checked_div(1024).unwrap_or(0).saturating_sub(1);
    u8::try_from(kib).unwrap_or(u8::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: [u8; 8] = [0xf6, 0xab, 0x0e, 0x18, 1, 1, 3, 255];

    #[test]
    fn private_data_is_read() {
        let peer = Peer {
            remote_invalidation: true,
            send: 4096,
            receive: 256 * 1024,
        };
        assert_eq!(Peer::parse(&GOOD), peer);
        // The connection manager may append zeroes.
        assert_eq!(Peer::parse(&[&GOOD[..], &[0; 48]].concat()), peer);
        // Another layer may have put something before it, of any length.
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
    fn other_private_data_says_nothing() {
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

    #[test]
    fn sizes_are_coded_in_kib() {
        let codes = |size| private_data(size, size, false)[6];
        assert_eq!([0, 1023, 1024, 2047, 2048].map(codes), [0, 0, 0, 0, 1]);
        assert_eq!([256 * 1024, 257 * 1024, u32::MAX].map(codes), [255; 3]);
        let ours = Peer::parse(&private_data(4096, 8192, false));
        assert_eq!((ours.send, ours.receive), (4096, 8192));
        assert!(!ours.remote_invalidation);
        let can = Peer::parse(&private_data(4096, 8192, true));
        assert!(can.remote_invalidation);
    }

    #[test]
    fn the_smaller_size_holds_in_each_direction() {
        let peer = Peer::parse(&GOOD);
        let both = Thresholds::negotiate(8192, 2048, true, &peer);
        assert_eq!(
            (both.send, both.receive, both.invalidate),
            (8192, 2048, true)
        );
        let device = Thresholds::negotiate(1 << 20, 1 << 20, false, &peer);
        assert_eq!((device.send, device.receive), (256 * 1024, 4096));
        assert!(!device.invalidate);
        let silent = Thresholds::negotiate(8192, 8192, true, &Peer::default());
        assert_eq!((silent.send, silent.receive), (1024, 1024));
        assert!(!silent.invalidate);
    }
}
