// SPDX-License-Identifier: GPL-2.0

//! Inboxes: the queues of Calls and connect requests that wait for an nfsd thread.
//!
//! The class of a transport owns the [`Inbox`], and pushes to it from completion workers and other
//! process contexts. An inbox can exist before its transport and outlives it. Only the inbox raises
//! and clears `XPT_DATA` and `XPT_CONN`.
//!
//! C header: [`include/linux/sunrpc/svc_xprt.h`](srctree/include/linux/sunrpc/svc_xprt.h)
//!
//! # Locking
//!
//! A spin lock of the inbox protects all of its state. The inbox raises the flag and enqueues the
//! transport under that lock, and clears the flag under the lock together with removing the last
//! item. So a thread is woken once for each item and never for an empty inbox, and the inbox does
//! not touch its transport after detaching it (`svc_xprt_enqueue` and `svc_xprt_received` in
//! net/sunrpc/svc_xprt.c). No function sleeps, except [`Inbox::new`].

use core::ptr::NonNull;
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    },
};
use support::ring::{
    Refused,
    Ring, //
};

/// The flag of a transport that announces an item to nfsd.
#[derive(Clone, Copy)]
pub enum Flag {
    /// `XPT_CONN`: a connect request waits to be accepted.
    Conn,
    /// `XPT_DATA`: a Call waits to be received.
    Data,
}

impl Flag {
    #[inline]
    fn bit(self) -> u32 {
        match self {
            Flag::Conn => bindings::XPT_CONN,
            Flag::Data => bindings::XPT_DATA,
        }
    }
}

/// The transport of an inbox.
///
/// # Invariants
///
/// The transport is live as long as the inbox holds this value, see [`Inbox::attach`].
struct Target(NonNull<bindings::svc_xprt>);

// SAFETY: The functions that are called with the pointer may be called on any thread.
unsafe impl Send for Target {}

impl Target {
    /// Raises a flag of the transport.
    #[inline]
    fn set(&self, bit: u32) {
        // SAFETY: The transport is live by the type invariant.
        unsafe { bindings::xprt_set_flag(self.0.as_ptr(), bit) };
    }

    /// Clears a flag of the transport.
    #[inline]
    fn clear(&self, bit: u32) {
        // SAFETY: The transport is live by the type invariant.
        unsafe { bindings::xprt_clear_flag(self.0.as_ptr(), bit) };
    }

    /// Wakes an nfsd thread if the flags of the transport call for one.
    #[inline]
    fn enqueue(&self) {
        // SAFETY: The transport is live by the type invariant.
        unsafe { bindings::svc_xprt_enqueue(self.0.as_ptr()) };
    }
}

/// The fields of an [`Inbox`] that its lock protects.
struct Inner<T> {
    /// The transport, from attach to detach.
    target: Option<Target>,
    /// True if the inbox refuses new items, because its transport is closing or gone.
    closed: bool,
    items: Ring<T>,
}

impl<T> Inner<T> {
    /// Queues `item`, and wakes an nfsd thread for it by `flag`.
    ///
    /// # Errors
    ///
    /// Returns the item if there is no room.
    #[inline]
    fn push(&mut self, item: T, flag: Flag) -> Result<(), T> {
        self.items.push(item)?;
        if let Some(target) = &self.target {
            target.set(flag.bit());
            target.enqueue();
        }
        Ok(())
    }
}

/// A bounded queue of items for the nfsd threads that serve a transport.
///
/// The items are Calls for the inbox of a connection, and connect requests for the inbox of a
/// listener. The transport and the producer of the items share the inbox.
#[pin_data]
pub struct Inbox<T> {
    flag: Flag,
    #[pin]
    inner: SpinLock<Inner<T>>,
}

impl<T: Send> Inbox<T> {
    /// Creates an inbox without a transport, for up to `capacity` items. `flag` announces each
    /// item. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(capacity: usize, flag: Flag) -> Result<Arc<Self>> {
        let inner = Inner {
            target: None,
            closed: false,
            items: Ring::with_capacity(capacity)?,
        };
        Arc::pin_init(
            pin_init!(Self {
                flag,
                inner <- new_spinlock!(inner, "svcrdma inbox"),
            }),
            GFP_KERNEL,
        )
    }

    /// Queues `item` and wakes an nfsd thread for it.
    ///
    /// [`Connect::has_space`](super::xprt::Connect::has_space) may be called under the inbox' lock.
    /// Without a transport the item waits for one.
    ///
    /// # Errors
    ///
    /// Returns the item in [`Refused::Closed`] if the inbox is closed, and in [`Refused::Full`] if
    /// the inbox is full.
    #[inline]
    pub fn push(&self, item: T) -> Result<(), Refused<T>> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err(Refused::Closed(item));
        }
        inner.push(item, self.flag).map_err(Refused::Full)
    }

    /// Queues `item` as [`Self::push`] does. If the inbox is full, an item whose index `choose`
    /// returns gives its place to the new one. Index 0 is the oldest item. `choose` is called under
    /// the inbox' lock.
    ///
    /// Returns the item that has left the inbox, so that the caller drops it without the lock.
    ///
    /// # Errors
    ///
    /// As [`Self::push`]; [`Refused::Full`] if the inbox is full and `choose` returns `None`.
    pub fn push_instead(
        &self,
        item: T,
        choose: impl FnOnce(&Ring<T>, &T) -> Option<usize>,
    ) -> Result<Option<T>, Refused<T>> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err(Refused::Closed(item));
        }
        let chosen = if inner.items.is_full() {
            choose(&inner.items, &item)
        } else {
            None
        };
        let gone = chosen.and_then(|index| inner.items.remove(index));
        match inner.push(item, self.flag) {
            Ok(()) => Ok(gone),
            Err(item) => Err(Refused::Full(item)),
        }
    }

    /// Removes and returns the oldest item. Clears the flag if no item is left.
    ///
    /// sunrpc's tables of operations call this before `accept` and `recvfrom`. A class calls it to
    /// empty the inbox of a transport that never came into being.
    #[inline]
    pub fn pop(&self) -> Option<T> {
        let mut inner = self.inner.lock();
        let item = inner.items.pop();
        if inner.items.is_empty() {
            if let Some(target) = &inner.target {
                target.clear(self.flag.bit());
            }
        }
        item
    }

    /// Returns the result of `look` for the items, the oldest first. `look` is called under the
    /// inbox' lock.
    pub fn look<R>(&self, look: impl FnOnce(&Ring<T>) -> R) -> R {
        look(&self.inner.lock().items)
    }

    /// Wakes an nfsd thread if an item waits.
    ///
    /// A class calls this when [`Connect::has_space`](super::xprt::Connect::has_space) returns true
    /// again after it has returned false.
    pub fn wake(&self) {
        if let Some(target) = &self.inner.lock().target {
            target.enqueue();
        }
    }

    /// Closes the inbox: refuses new items from now on, and makes nfsd close the transport.
    ///
    /// An inbox without a transport remembers this; its transport is closed right after attach.
    /// Items that are queued already are still delivered, or released when the transport is
    /// detached.
    pub fn close(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        if let Some(target) = &inner.target {
            target.set(bindings::XPT_CLOSE);
            target.enqueue();
        }
    }

    /// Returns true if the listener of this inbox can be removed from its service: the service has
    /// a listener of another class, or the inbox has no transport. Returns true for the inbox of a
    /// connection.
    ///
    /// Takes `sv_lock` of the service under the inbox' lock.
    pub fn is_replaceable(&self) -> bool {
        if !matches!(self.flag, Flag::Conn) {
            return true;
        }
        let inner = self.inner.lock();
        // SAFETY: The transport is live by the invariant of `Target`. Its service is live as well: the
        // transport is a listener, and only `svc_delete_xprt` takes listeners from the service's list,
        // after it has detached them. The service is only destroyed when that list is empty
        // (`svc_destroy`).
        let has_others = |target: &Target| unsafe { bindings::xprt_has_others(target.0.as_ptr()) };
        inner.target.as_ref().is_none_or(has_others)
    }

    /// Makes `xprt` the transport of this inbox.
    ///
    /// Items that wait already raise the flag at once. No thread is woken: sunrpc enqueues a
    /// transport when it has published the transport and clears `XPT_BUSY`.
    ///
    /// # Safety
    ///
    /// - `xprt` is initialised, has `XPT_BUSY` set, and is not published yet.
    /// - `xprt` is live until [`Inbox::detach`] is called.
    pub(super) unsafe fn attach(&self, xprt: NonNull<bindings::svc_xprt>) {
        let mut inner = self.inner.lock();
        // INVARIANT: By the safety requirements of this function; `detach` removes the value.
        let target = Target(xprt);
        if !inner.items.is_empty() {
            target.set(self.flag.bit());
        }
        if inner.closed {
            target.set(bindings::XPT_CLOSE);
        }
        inner.target = Some(target);
    }

    /// Closes the inbox and detaches the transport, which the inbox does not touch any more.
    pub(super) fn detach(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        inner.target = None;
    }
}
