// SPDX-License-Identifier: GPL-2.0

//! The parts of `rdma::recv`.

#[path = "../../../../rust/rdma/recv/budget.rs"]
pub mod budget;
pub(crate) mod buffer;
pub mod pool;
#[path = "../../../../rust/rdma/recv/returns.rs"]
pub(crate) mod returns;
