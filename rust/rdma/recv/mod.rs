// SPDX-License-Identifier: GPL-2.0

//! Receives: the buffers that messages arrive in, and their return.

pub mod budget;
pub mod buffer;
mod chain;
mod end;
mod inner;
pub mod pool;
pub mod receive;
mod returns;
