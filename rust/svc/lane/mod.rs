// SPDX-License-Identifier: GPL-2.0

//! What the connections of a device share.
//!
//! | file | object |
//! |---|---|
//! | `domain` | all of what follows, for one device |
//! | `pool` | pages, regions and reply contexts, which Calls borrow; its lock protects a `stock` |
//! | `refill` | makes and frees what the pool lends |
//! | `line` | parked Calls; the pool knows each as a `waiter` and lends it a `loan` |
//! | `watch` | finds the Calls that are parked for too long |
//! | `reply` | the contexts that Replies and callbacks are sent with |
//! | `held` | the number of pages in Replies |
//! | `table` | the connections |
//! | `sizes` | the sizes of the pool |
//!
//! Nothing here knows more of a connection than [`Tenant`](table::Tenant) offers.

pub(crate) mod domain;
pub(crate) mod held;
pub(crate) mod line;
pub(crate) mod loan;
pub(crate) mod pool;
mod refill;
pub(crate) mod reply;
mod sizes;
mod stock;
pub(crate) mod table;
pub(crate) mod waiter;
pub(crate) mod watch;
