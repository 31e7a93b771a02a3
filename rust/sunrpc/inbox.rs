// SPDX-License-Identifier: GPL-2.0

//! What waits for an nfsd thread: the one place that raises and clears `XPT_DATA` and `XPT_CONN`.
//!
//! An [`Inbox`] outlives the `svc_xprt` that it wakes threads for. Completions add to it in any
//! process context; nothing of it sleeps. Raising the flag and enqueueing the
//! transport happen under the inbox' lock, as does clearing the flag with the last item. So a
//! thread is woken once for an item and never for an empty queue, and no transport is touched
//! after its detach (net/sunrpc/svc_xprt.c, `svc_xprt_enqueue` and `svc_xprt_received`).

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

/// The flag of a transport that tells nfsd about an item.
#[derive(Clone, Copy)]
pub enum Flag {
    /// A connection waits to be accepted.
    Conn,
    /// A Call waits to be handled.
    Data,
}

impl Flag {
    fn bit(self) -> u32 {
        match self {
            Flag::Conn => bindings::XPT_CONN,
            Flag::Data => bindings::XPT_DATA,
        }
    }
}

/// A transport that is live as long as this is in an inbox.
struct Target(NonNull<bindings::svc_xprt>);

// SAFETY: What is done with the pointer, under the inbox' lock, may be done on any thread.
unsafe impl Send for Target {}

impl Target {
    fn set(&self, bit: u32) {
        // SAFETY: The transport is live by `Inbox::attach`.
        unsafe { bindings::xprt_set_flag(self.0.as_ptr(), bit) };
    }

    fn clear(&self, bit: u32) {
        // SAFETY: The transport is live by `Inbox::attach`.
        unsafe { bindings::xprt_clear_flag(self.0.as_ptr(), bit) };
    }

    fn enqueue(&self) {
        // SAFETY: The transport is live by `Inbox::attach`.
        unsafe { bindings::svc_xprt_enqueue(self.0.as_ptr()) };
    }
}

struct Inner<T> {
    target: Option<Target>,
    /// No item is taken any more, and the transport is to be closed.
    closed: bool,
    items: Ring<T>,
}

/// A bounded queue of items for the nfsd threads of a transport.
#[pin_data]
pub struct Inbox<T> {
    flag: Flag,
    #[pin]
    inner: SpinLock<Inner<T>>,
}

impl<T: Send> Inbox<T> {
    /// Makes an inbox for `capacity` items, which `flag` announces. It has no transport yet. May sleep.
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

    /// Adds an item and wakes a thread for it.
    ///
    /// # Errors
    ///
    /// The item, with whether the inbox is full or closed.
    pub fn push(&self, item: T) -> Result<(), Refused<T>> {
        let mut inner = self.inner.lock();
        if inner.closed {
            return Err(Refused::Closed(item));
        }
        inner.items.push(item).map_err(Refused::Full)?;
        if let Some(target) = &inner.target {
            target.set(self.flag.bit());
            target.enqueue();
        }
        Ok(())
    }

    /// Takes the first item; clears the flag when nothing is left.
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

    /// Returns how many items `is_meant` is true of. It is called under the lock.
    pub fn count(&self, is_meant: impl Fn(&T) -> bool) -> usize {
        let inner = self.inner.lock();
        let meant = inner.items.iter().filter(|item| is_meant(item));
        meant.fold(0, |count: usize, _| count.saturating_add(1))
    }

    /// Has nfsd look again for items, after it was told that it must not handle them.
    pub fn wake(&self) {
        if let Some(target) = &self.inner.lock().target {
            target.enqueue();
        }
    }

    /// Has nfsd close the transport, now or as soon as there is one; takes no more items.
    pub fn close(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        if let Some(target) = &inner.target {
            target.set(bindings::XPT_CLOSE);
            target.enqueue();
        }
    }

    /// Whether its transport, if there is one, can go: its service has a listener of another class.
    pub fn is_replaceable(&self) -> bool {
        let inner = self.inner.lock();
        // SAFETY: The transport is live by `Inbox::attach`, and so is its service: `svc_delete_xprt`
        // detaches a transport before it takes it off the service's list, and `svc_destroy` comes
        // when the list is empty.
        let has_others = |target: &Target| unsafe { bindings::xprt_has_others(target.0.as_ptr()) };
        inner.target.as_ref().is_none_or(has_others)
    }

    /// Makes `xprt` the transport to wake threads for.
    ///
    /// # Safety
    ///
    /// - `xprt` is initialised, has `XPT_BUSY`, and is not published yet.
    /// - It lives until [`Inbox::detach`] is called.
    pub(super) unsafe fn attach(&self, xprt: NonNull<bindings::svc_xprt>) {
        let mut inner = self.inner.lock();
        let target = Target(xprt);
        if !inner.items.is_empty() {
            target.set(self.flag.bit());
        }
        if inner.closed {
            target.set(bindings::XPT_CLOSE);
        }
        inner.target = Some(target);
    }

    /// Forgets the transport and takes no more items.
    pub(super) fn detach(&self) {
        let mut inner = self.inner.lock();
        inner.closed = true;
        inner.target = None;
    }
}
