// SPDX-License-Identifier: GPL-2.0

//! Connect requests: the parameters of a peer that connects, and those that it is accepted with.
//!
//! C header: [`include/rdma/rdma_cm.h`](srctree/include/rdma/rdma_cm.h)

/// The parameters of a connect request, valid while its handler runs.
pub struct Request<'a> {
    /// The private data of the peer. Connection managers pad it with zeros.
    pub private: &'a [u8],
    /// RDMA Reads that the peer serves at a time.
    pub reads: u8,
    /// RDMA Reads that the peer issues at a time.
    pub peer_reads: u8,
}

impl<'a> Request<'a> {
    /// # Safety
    ///
    /// - `param` belongs to a connect request.
    /// - For `'a`, `param` and its private data are valid, and nobody changes them.
    pub(super) unsafe fn from_raw(param: *const bindings::rdma_conn_param) -> Self {
        // SAFETY: By the safety requirements of this function.
        let (data, len) = unsafe { ((*param).private_data, (*param).private_data_len) };
        let private = if data.is_null() {
            &[]
        } else {
            // SAFETY: By the safety requirements of this function there are `len` bytes at `data`.
            unsafe { core::slice::from_raw_parts(data.cast::<u8>(), usize::from(len)) }
        };
        Self {
            private,
            // SAFETY: By the safety requirements of this function.
            reads: unsafe { (*param).initiator_depth },
            // SAFETY: By the safety requirements of this function.
            peer_reads: unsafe { (*param).responder_resources },
        }
    }
}

/// The RDMA Reads that run at a time on a connection.
///
/// A ULP that exposes no memory passes a number: the Reads that this host issues.
#[derive(Clone, Copy, Default)]
pub struct Reads {
    /// Reads that this host issues: at most [`Request::reads`], and at most what its device takes.
    pub issued: u8,
    /// Reads that this host serves, of exposed memory: at most [`Request::peer_reads`], and at most
    /// what its device takes ([`Limits`](crate::device::Limits), `max_qp_rd_atom`).
    pub served: u8,
}

impl From<u8> for Reads {
    fn from(issued: u8) -> Self {
        Self { issued, served: 0 }
    }
}
