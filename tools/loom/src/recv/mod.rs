// SPDX-License-Identifier: GPL-2.0

//! The parts of `rdma::recv`.

#[path = "../../../../rust/rdma/recv/budget.rs"]
pub mod budget;
pub mod buffer;
#[path = "../../../../rust/rdma/recv/chain.rs"]
mod chain;
#[path = "../../../../rust/rdma/recv/end.rs"]
mod end;
#[path = "../../../../rust/rdma/recv/inner.rs"]
mod inner;
#[path = "../../../../rust/rdma/recv/pool.rs"]
pub mod pool;
#[path = "../../../../rust/rdma/recv/returns.rs"]
pub(crate) mod returns;
