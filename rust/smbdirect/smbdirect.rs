// SPDX-License-Identifier: GPL-2.0

//! SMB Direct (MS-SMBD), and a small bulk protocol that uses it as its transport.
//!
//! SMB Direct carries the messages of an upper layer over a reliable RDMA connection. It divides
//! them into Sends that fit the receiver's buffers, and keeps the sender within the buffers that the
//! receiver has posted. This crate holds the wire format and the state of a connection. Messages go
//! in; decisions and messages come out. No function allocates, sleeps or calls the kernel, and no
//! input makes one panic. Both roles are covered, so a server and its client share the code.
//!
//! - Messages of SMB Direct, all little-endian: [`negotiate`] (MS-SMBD 2.2.1, 2.2.2), [`data`] (2.2.3),
//!   [`descriptor`] (2.2.3.1).
//! - State: [`credits`], [`reassembly`], and [`session`], which combines them with the keep-alive
//!   (MS-SMBD 3.1).
//! - Messages of the upper layer: [`bulk`].
//!
//! # Context
//!
//! Any.
//!
//! # Locking
//!
//! None. A caller that shares a value protects it with its own lock.

#![cfg_attr(not(any(MODULE, test)), no_std)]
#![forbid(unsafe_code)]
#![deny(missing_docs)]
#![cfg_attr(
    not(test),
    deny(
        clippy::arithmetic_side_effects,
        clippy::expect_used,
        clippy::indexing_slicing,
        clippy::panic,
        clippy::unwrap_used
    )
)]

pub mod bulk;
pub mod credits;
pub mod data;
pub mod descriptor;
pub mod negotiate;
pub mod reassembly;
pub mod session;
mod wire;
