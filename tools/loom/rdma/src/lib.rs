// SPDX-License-Identifier: GPL-2.0

//! Model of what the transport uses of `rdma`.

pub mod recv {
    //! Receive pools.

    pub mod pool;
}
