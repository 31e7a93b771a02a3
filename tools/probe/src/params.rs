// SPDX-License-Identifier: GPL-2.0

//! The parameters of a connection.

use crate::ffi::Offer;
use svcrdma_proto::cm;

/// The parameters of a connection.
#[derive(Clone, Debug)]
pub(crate) struct Params {
    /// The private data of the connection request.
    pub(crate) private_data: Vec<u8>,
    /// The size of a Receive buffer in bytes.
    pub(crate) receive_size: usize,
    /// The number of posted Receives.
    pub(crate) receives: u32,
    /// True if a Receive is posted again after its message was taken.
    pub(crate) reposts: bool,
    /// The minimum of Sends that can be in flight; the peer has at least as many slots as Receives.
    pub(crate) sends: u32,
    /// The number of RDMA Reads that the server may have in flight.
    pub(crate) reads: u8,
    /// The number of RDMA Reads that the peer may have in flight.
    pub(crate) own_reads: u8,
    /// The time after which either side sends a message again: 4.096 us times 2 to this power.
    /// Without one, half a second.
    pub(crate) ack_timeout: Option<u8>,
}

impl Default for Params {
    /// Returns the parameters of the Linux client.
    fn default() -> Self {
        Self {
            private_data: cm::Peer {
                remote_invalidation: false,
                send: 4096,
                receive: 4096,
            }
            .private_data()
            .to_vec(),
            receive_size: 4096,
            receives: 16,
            reposts: true,
            sends: 1,
            reads: 16,
            own_reads: 0,
            ack_timeout: None,
        }
    }
}

/// Returns the connection request of a peer with these parameters.
pub(crate) fn offer(params: &Params) -> Offer<'_> {
    Offer {
        private_data: &params.private_data,
        reads: params.reads,
        own_reads: params.own_reads,
        // 7 means forever: a server must not rely on its device to give up on a peer that posts no
        // Receives.
        rnr_retry: 7,
    }
}
