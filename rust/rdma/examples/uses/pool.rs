// SPDX-License-Identifier: GPL-2.0

use kernel::{prelude::*, sync::Arc};
use rdma::{
    device::Pd,
    recv::{budget::Budget, pool::ReceivePool},
};

/// The most Receive buffers of the connections of a device together.
const LIMIT: u32 = 16384;

/// Makes the Receive pool of a connection, with the first credits. `budget` is that of the device.
pub fn accept(pd: &Arc<Pd>, budget: Arc<Budget>) -> Result<Arc<ReceivePool<()>>> {
    let pool = ReceivePool::new(pd, 147, budget)?;
    // Here `Qp::new` takes the pool. The first credits are always needed, so nothing limits them.
    let (_credits, made) = pool.resize(8, 0, None);
    made?;
    Ok(pool)
}

/// Grants a busy peer more credits, in a context that may sleep. Returns the number to grant: fewer if
/// there is little memory, or if the budget is used up.
pub fn grow(pool: &Arc<ReceivePool<()>>) -> u32 {
    let (backed, _made) = pool.resize(128, 0, Some(LIMIT));
    backed
}

/// Takes credits back that a peer has not used for some time.
pub fn shrink(pool: &Arc<ReceivePool<()>>) -> u32 {
    let (backed, _made) = pool.resize(16, 0, Some(LIMIT));
    pool.trim();
    backed
}
