// SPDX-License-Identifier: GPL-2.0

//! Devices: the RDMA devices, the objects that their connections share, and their removal.
//!
//! | file | object |
//! |---|---|
//! | `devices` | the list of devices |
//! | `device` | a device |
//! | `table` | the connections of a device |
//! | `pages` | the pages and regions that Calls and Replies of a device borrow |
//! | `shortage` | ends page shortages |
//! | `capabilities` | the limits of a device, and what follows from them |
//! | `lanes` | the lanes of a device |
//! | `lane` | the objects that the connections of a completion vector share |
//! | `cqs` | the completion queues of a lane |
//!
//! No verbs object is created on a device before its first connection. One mutex serializes the
//! creation of these objects, each accept, and their destruction. So a removal sees a connection
//! either complete or not at all.
//!
//! The removal never waits for nfsd: memory that Calls in nfsd still use (Receive buffers, pool)
//! outlives it. One device never waits for another device, which may hang: each device has a
//! separate watchdog.

pub(crate) mod capabilities;
mod cqs;
#[expect(
    clippy::module_inception,
    reason = "a type is in the file of its name, and mod.rs has none"
)]
pub(crate) mod device;
pub(crate) mod devices;
pub(crate) mod lane;
mod lanes;
pub(crate) mod pages;
mod shortage;
mod table;
