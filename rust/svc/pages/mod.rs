// SPDX-License-Identifier: GPL-2.0

//! Pages: the objects that Calls and Replies of a device borrow, and the pages that hosts hold.
//!
//! | file | object |
//! |---|---|
//! | `pool` | pages, regions and reply contexts, which Calls borrow; its lock protects a `stock` |
//! | `refill` | makes and frees what the pool lends |
//! | `cache` | the idle page regions of a lane |
//! | `line` | the connections whose Calls wait for pages; their order is that of `turns` |
//! | `read_buffer` | the pages that a Call has borrowed |
//! | `watch` | finds the Calls that wait for too long |
//! | `reply` | the contexts that Replies and callbacks are sent with |
//! | `results` | makes a context the Reply with the results of nfsd |
//! | `host` | the Reply pages and Receive buffers that the connections of a host hold |
//! | `held` | the number of pages in Replies |
//! | `sizes` | the sizes of the pool |

pub(crate) mod cache;
pub(crate) mod held;
pub(crate) mod host;
pub(crate) mod line;
pub(crate) mod pool;
pub(crate) mod read_buffer;
pub(crate) mod refill;
pub(crate) mod reply;
pub(crate) mod results;
pub(crate) mod sizes;
pub(crate) mod stock;
pub(crate) mod turns;
pub(crate) mod watch;
