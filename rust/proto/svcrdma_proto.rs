// SPDX-License-Identifier: GPL-2.0

//! RPC-over-RDMA version 1 on the server side (RFC 8166, 8167, 8267, 8797).
//!
//! This crate holds the wire format and each decision of the transport that is arithmetic or a
//! state machine. Messages and events go in; plans and values come out. No function allocates,
//! sleeps or calls the kernel, and no input makes one panic. A plan is checked against its budget
//! before it is returned, so the transport only carries it out.
//!
//! - Messages: [`decode`], [`header`], [`chunk`], [`error`], [`encode`], [`cm`].
//! - Calls: [`layout`], [`rpc`], [`ulb`]. Replies: [`reply`].
//! - Flow control: [`credits`], [`receives`], [`callbacks`], [`sq`].
//! - Lanes: [`lanes`].
//! - Connect requests: [`prefixes`], [`source`], [`recent_peers`].
//! - Fair shares: [`turns`], [`shares`], [`host_share`], [`shortage`], [`space`], [`pace`].
//! - Containers over preallocated slots: [`ring`].
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

pub mod callbacks;
pub mod chunk;
pub mod cm;
pub mod credits;
pub mod decode;
pub mod encode;
pub mod error;
mod fill;
pub mod header;
pub mod histogram;
pub mod host_share;
mod invalidation;
pub mod lanes;
pub mod layout;
pub mod pace;
mod parts;
pub mod phase;
pub mod prefixes;
mod read;
mod read_list;
pub mod receives;
pub mod recent_peers;
pub mod reply;
mod report;
pub mod ring;
pub mod rpc;
pub mod shares;
pub mod shortage;
mod sink;
pub mod source;
pub mod space;
pub mod sq;
pub mod turns;
pub mod ulb;
mod wire;
mod write;
