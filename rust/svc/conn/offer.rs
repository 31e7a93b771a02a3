// SPDX-License-Identifier: GPL-2.0

//! Offers: what a connect request says of a peer.

use svcrdma_proto::{
    cm::Peer,
    source::Origin, //
};

/// The parameters that a peer sends with its connect request.
#[derive(Clone, Copy)]
pub(crate) struct Offer {
    /// The addresses of the peer.
    pub(crate) origin: Origin,
    /// The inline thresholds and abilities of the peer (RFC 8797).
    pub(crate) peer: Peer,
    /// The number of RDMA Reads that the peer serves at a time.
    pub(crate) reads: u8,
}
