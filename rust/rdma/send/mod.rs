// SPDX-License-Identifier: GPL-2.0

//! Sends: the work requests that a connection posts, and the queue that owns their memory.

mod age;
pub mod buffer;
pub mod chain;
pub(crate) mod chain_buffers;
pub(crate) mod claim;
mod inner;
pub mod progress;
pub mod queue;
mod request;
mod slots;
pub mod work;
