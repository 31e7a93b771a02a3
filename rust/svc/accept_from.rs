// SPDX-License-Identifier: GPL-2.0

//! The setting `accept_from`: the prefixes from which peers may connect.
//!
//! Adapters take RoCE and InfiniBand past all firewall rules of the host for the listener's port,
//! so that only the listener itself can refuse peers by their address. Each network namespace has
//! its own list, because an address means something in its namespace only. A list applies to new
//! connect requests.
//!
//! # Context
//!
//! Process context; may sleep.
//!
//! # Locking
//!
//! A spinlock protects the pointer to the list, a leaf. The list itself never changes. No Call
//! reads it.

use core::net::IpAddr;
use kernel::{
    fmt, new_spinlock,
    prelude::*,
    str::CString,
    sync::{
        Arc,
        SpinLock, //
    },
};
use support::sysctl_text::Text;
use svcrdma_proto::{
    prefixes::{
        Invalid,
        Prefix,
        Prefixes, //
    },
    source::Origin, //
};

/// A list.
struct List(Prefixes<KVec<Prefix>>);

impl fmt::Display for List {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// The list of one network namespace.
pub(crate) struct AcceptFrom(Pin<KBox<SpinLock<Arc<List>>>>);

impl AcceptFrom {
    /// Creates the list that has all addresses. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new() -> Result<Self> {
        let list = Arc::new(List(Prefixes::default()), GFP_KERNEL)?;
        let lock = new_spinlock!(list, "svcrdma accept_from");
        Ok(Self(KBox::pin_init(lock, GFP_KERNEL)?))
    }

    /// Returns the list.
    fn list(&self) -> Arc<List> {
        self.0.lock().clone()
    }

    /// Returns the first address of a connect request that the list does not have.
    pub(crate) fn missing(&self, origin: &Origin) -> Option<IpAddr> {
        let list = self.list();
        let mut addresses = origin.addresses();
        addresses.find(|address| !list.0.contains(*address))
    }
}

impl Text for AcceptFrom {
    fn show(&self) -> Result<CString> {
        CString::try_from_fmt(fmt!("{}", *self.list()))
    }

    fn store(&self, text: &str) -> Result {
        let list = Prefixes::parse::<Refused>(text, KVec::new(), |list, prefix| {
            let pushed = list.push(prefix, GFP_KERNEL);
            pushed.map_err(|e| Refused(e.into()))
        });
        let list = list.map_err(|Refused(e)| e)?;
        let mut list = Arc::new(List(list), GFP_KERNEL)?;
        core::mem::swap(&mut *self.0.lock(), &mut list);
        Ok(())
    }
}

/// The errno for a text that is refused.
struct Refused(Error);

impl From<Invalid> for Refused {
    fn from(_: Invalid) -> Self {
        Self(EINVAL)
    }
}
