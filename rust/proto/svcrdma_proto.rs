// SPDX-License-Identifier: GPL-2.0

//! RPC-over-RDMA version 1 as a server sees it (RFC 8166, 8167, 8267, 8797).
//!
//! Everything here is a pure function or a small state machine: messages and events go in, plans
//! and values come out. Nothing allocates, nothing blocks, nothing knows of the kernel, and no
//! input makes it panic. A plan is checked against its budget before it is returned, so that the
//! transport only has to carry it out.
//!
//! Values refer to a received message by byte offsets and do not borrow it; the functions that need
//! its bytes take it again. Handing them another message than the one decoded gives useless
//! results, but never a panic or an endless loop.
//!
//! Locking and context: none; callers bring their own lock where they share a value.

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
pub mod encode;
pub mod error;
pub mod header;
mod invalidation;
pub mod layout;
pub mod pace;
mod parts;
mod read;
pub mod receives;
pub mod reply;
mod report;
pub mod ring;
pub mod rpc;
pub mod shares;
pub mod shortage;
pub mod space;
pub mod sq;
pub mod stack;
pub mod ulb;
mod wire;
mod write;
