// SPDX-License-Identifier: GPL-2.0

//! Private data of two peers, and the parameters on which they agree.

use super::*;
use svcrdma_proto::cm::{Peer, Thresholds};

/// The private data of a client and the server's offer: sizes to send and receive, remote
/// invalidation.
pub(crate) type Meeting = (Vec<u8>, (u32, u32, bool));

pub(crate) fn meeting() -> impl Strategy<Value = Meeting> {
    let magic = pick![7 => Just(0xf6ab_0e18u32), 1 => any::<u32>()];
    let version = pick![7 => Just(1u8), 1 => any::<u8>()];
    let rest = prop::collection::vec(any::<u8>(), 0..60);
    let before = pick![3 => Just(vec![]), 1 => prop::collection::vec(any::<u8>(), 0..10)];
    let private = (before, magic, version, rest).prop_map(|(before, magic, version, rest)| {
        [&before[..], &magic.to_be_bytes(), &[version], &rest].concat()
    });
    let private = pick![3 => private, 1 => prop::collection::vec(any::<u8>(), 0..10)];
    let size = || pick![0..10_000u32, 0..300_000u32, any::<u32>()];
    (private, (size(), size(), any::<bool>()))
}

/// Parses private data as RFC 8797 defines it: sizes that the client sends and receives, remote
/// invalidation.
fn model(private: &[u8]) -> (u32, u32, bool) {
    let size = |code: u8| (u32::from(code) + 1) * 1024;
    match private {
        [0xf6, 0xab, 0x0e, 0x18, 1, flags, send, receive, ..] => {
            (size(*send), size(*receive), flags & 1 == 1)
        }
        // The private data of RPC-over-RDMA starts at the magic number.
        [0xf6, 0xab, 0x0e, 0x18, ..] => (1024, 1024, false),
        [_, rest @ ..] => model(rest),
        [] => (1024, 1024, false),
    }
}

/// Checks that the private data is parsed as the model does, and that the agreement is what both
/// sides support.
pub(crate) fn check((private, ours): &Meeting) -> Verdict {
    let peer = Peer::parse(private);
    let (theirs_send, theirs_receive, theirs_can) = model(private);
    let told = (peer.send, peer.receive, peer.remote_invalidation);
    prop_assert_eq!(told, (theirs_send, theirs_receive, theirs_can));

    let (send, receive, can) = *ours;
    let ours = Peer {
        remote_invalidation: can,
        send,
        receive,
    };
    let both = Thresholds::negotiate(&ours, &peer);
    prop_assert_eq!(both.send, send.min(theirs_receive));
    prop_assert_eq!(both.receive, receive.min(theirs_send));
    prop_assert_eq!(both.invalidate, can && theirs_can);

    // Whole KiB, rounded down and limited to what a byte can express.
    let coded = |size: u32| (size / 1024 * 1024).clamp(1024, 256 * 1024);
    let said = model(&ours.private_data());
    prop_assert_eq!(said, (coded(send), coded(receive), can));
    Ok(())
}
