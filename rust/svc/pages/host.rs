// SPDX-License-Identifier: GPL-2.0

//! Hosts: the Reply pages and Receive buffers that the connections of one host on a device hold.
//!
//! A host is a [`Source`]: an IPv4 address, an IPv6 network of 64 bits, or a GID of InfiniBand. The
//! pages and buffers of its connections count for the host and for the device.
//! [`svcrdma_proto::host_share`] decides if the host may hold more.

use super::held::Held;
use core::ops::Deref;
use kernel::{
    new_spinlock,
    prelude::*,
    rbtree::{
        RBTree,
        RBTreeNodeReservation, //
    },
    sync::{
        Arc,
        SpinLock, //
    },
};
use rdma::recv::budget::Budget;
use svcrdma_proto::{
    host_share::{
        is_ample,
        Holdings, //
    },
    source::Source, //
};

/// A host.
///
/// # Context
///
/// Any; the numbers are atomic. Connections change them in batches, so that the path of a Call
/// rarely does.
pub(crate) struct Host {
    /// The pages in Replies of the host.
    held: Held,
    /// The pages in Replies of all hosts.
    all_held: Arc<Held>,
    /// The Receive buffers of the host, which count in `all_receives` too.
    receives: Arc<Budget>,
    /// The Receive buffers of all hosts.
    all_receives: Arc<Budget>,
}

impl Host {
    /// Counts `pages` more pages in Replies, or fewer if the number is negative.
    pub(crate) fn add_reply_pages(&self, pages: i32) {
        self.held.add(pages);
        self.all_held.add(pages);
    }

    /// Returns how many more pages in Replies the host may hold while all may hold `limit`; 0 or
    /// less if it may hold no more. While there is ample, returns what nobody holds, which is more.
    #[inline]
    pub(crate) fn reply_pages_left(&self, limit: u32) -> i64 {
        let all = self.all_held.count();
        if is_ample(limit, all) {
            i64::from(limit).saturating_sub(all)
        } else {
            self.share_left(limit, all)
        }
    }

    /// Returns how many more pages in Replies the host may hold by its share.
    #[cold]
    #[inline(never)]
    fn share_left(&self, limit: u32, all: i64) -> i64 {
        let host = self.held.count();
        Holdings { host, all }.left(limit)
    }

    /// Returns the budget of the host's Receive buffers.
    pub(crate) fn receives(&self) -> &Arc<Budget> {
        &self.receives
    }

    /// Returns the host's share of `limit` Receive buffers.
    pub(crate) fn receives_share(&self, limit: u32) -> u32 {
        let holdings = Holdings {
            host: self.receives.used().into(),
            all: self.all_receives.used().into(),
        };
        u32::try_from(holdings.share(limit)).unwrap_or(u32::MAX)
    }
}

/// A host, and the number of its connections.
struct Entry {
    host: Arc<Host>,
    connections: u32,
}

/// The hosts of a device that have connections.
///
/// # Locking
///
/// A spinlock, a leaf. It is taken when a connection comes or goes.
#[pin_data]
pub(crate) struct Hosts {
    #[pin]
    table: SpinLock<RBTree<Source, Entry>>,
    held: Arc<Held>,
    receives: Arc<Budget>,
}

impl Hosts {
    /// Creates the table of a device without hosts, whose Replies count in `held` and whose Receive
    /// buffers in `receives`. May sleep.
    pub(crate) fn new(held: Arc<Held>, receives: Arc<Budget>) -> Result<Arc<Self>> {
        Arc::pin_init(
            pin_init!(Self {
                table <- new_spinlock!(RBTree::new(), "svcrdma hosts"),
                held,
                receives,
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the host of a new connection from `source`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn join(self: &Arc<Self>, source: Source) -> Result<HostRef> {
        let new = Arc::new(self.new_host()?, GFP_KERNEL)?;
        let node = RBTreeNodeReservation::new(GFP_KERNEL)?;
        let mut table = self.table.lock();
        // An unused host and node are dropped after the lock is released.
        let (host, _unused) = if let Some(entry) = table.get_mut(&source) {
            entry.connections = entry.connections.saturating_add(1);
            (entry.host.clone(), Some((new, node)))
        } else {
            let entry = Entry {
                host: new.clone(),
                connections: 1,
            };
            table.insert(node.into_node(source, entry));
            (new, None)
        };
        drop(table);
        Ok(HostRef {
            host,
            source,
            hosts: self.clone(),
        })
    }

    /// Creates a host without pages and buffers. May sleep.
    fn new_host(&self) -> Result<Host> {
        Ok(Host {
            held: Held::new(),
            all_held: self.held.clone(),
            receives: Arc::new(Budget::part_of(self.receives.clone()), GFP_KERNEL)?,
            all_receives: self.receives.clone(),
        })
    }

    /// Ends a connection from `source`.
    fn leave(&self, source: &Source) {
        let mut table = self.table.lock();
        let is_last = table.get_mut(source).is_some_and(|entry| {
            entry.connections = entry.connections.saturating_sub(1);
            entry.connections == 0
        });
        let gone = if is_last { table.remove(source) } else { None };
        drop(table);
        drop(gone);
    }
}

/// The host of a connection. Dropping the last one of a host removes it from the table.
pub(crate) struct HostRef {
    host: Arc<Host>,
    source: Source,
    hosts: Arc<Hosts>,
}

impl Deref for HostRef {
    type Target = Arc<Host>;

    #[inline]
    fn deref(&self) -> &Arc<Host> {
        &self.host
    }
}

impl Drop for HostRef {
    fn drop(&mut self) {
        self.hosts.leave(&self.source);
    }
}
