// SPDX-License-Identifier: GPL-2.0

//! The end of Receive buffers: with their queue pair, or with the last `Receive` of it.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    device::Pd,
    recv::{
        buffer::{
            Buffer,
            State, //
        },
        chain::ReceiveChain,
        pool::{
            Mapped,
            ReceivePool, //
        },
    },
};
use core::ptr::NonNull;
use kernel::{
    prelude::*,
    sync::{
        Arc,
        ArcBorrow, //
    },
};

impl<S: State> ReceivePool<S> {
    /// Unmaps all buffers, and frees those that are not lent. May sleep.
    ///
    /// # Safety
    ///
    /// - The pool is closed.
    /// - Its queue pair is destroyed, and all completions of the queue pair were handled.
    pub(crate) unsafe fn give_back(&self) {
        {
            let mut inner = self.inner.lock();
            inner.chain = ReceiveChain::new();
            inner.spare = ReceiveChain::new();
            inner.posted = self.completed.get();
            for buffer in self.returns.close() {
                // SAFETY: The list has given the buffer up, and the lock is held.
                unsafe { (*buffer.as_ptr()).lent = false };
            }
        }
        // SAFETY: By the safety requirements of this function.
        while let Some((buffer, pd)) = unsafe { self.take_any() } {
            // SAFETY: `take_any` has removed the buffer from the table. It is not lent, the lists
            // were emptied above, and the queue pair is destroyed, so nobody else uses it. It is
            // mapped for `pd`.
            unsafe { Self::free(buffer, pd.as_deref()) };
        }
        let pd = self.inner.lock().pd.take();
        drop(pd);
    }

    /// Removes buffers from the table until it finds one that is not lent, and returns that. Unmaps
    /// the lent buffers.
    ///
    /// # Safety
    ///
    /// The requirements of [`Self::give_back`].
    unsafe fn take_any(&self) -> Option<Mapped<S>> {
        let mut inner = self.inner.lock();
        loop {
            let buffer = inner.table.pop()?;
            let raw = buffer.as_ptr();
            // SAFETY: The buffer was in the table, so it is live. All completions were handled, so
            // none sets `lent`; it is cleared only under the lock, which is held.
            if !unsafe { (*raw).lent } {
                return Some((buffer, inner.pd.clone()));
            }
            // SAFETY: The buffer is live, as it is lent. `index` changes only under the lock, and
            // its `Receive` does not read it.
            unsafe { (*raw).index = Buffer::<S>::NOWHERE };
            if let Some(pd) = &inner.pd {
                // SAFETY: The buffer is mapped for `pd` by the type invariant, and not posted, as
                // it is lent.
                unsafe { Buffer::unmap(buffer, pd) };
            }
        }
    }

    /// Takes a buffer back from a `Receive` after the queue pair was destroyed.
    ///
    /// # Safety
    ///
    /// As for [`Self::recycle`].
    // Out of line: rarely needed.
    #[inline(never)]
    pub(crate) unsafe fn end(buffer: NonNull<Buffer<S>>) {
        let raw = buffer.as_ptr();
        // SAFETY: The buffer is live, and has a reference to the pool.
        let pool = Arc::from(unsafe { ArcBorrow::from_raw((*raw).pool.cast::<Self>()) });
        let inner = pool.inner.lock();
        // SAFETY: The buffer is live by the safety requirements of this function; `index` changes
        // only under the lock, which is held.
        let is_known = unsafe { (*raw).index } != Buffer::<S>::NOWHERE;
        if is_known {
            // `give_back` finds the buffer in the table and frees it.
            // SAFETY: The buffer is live, and the lock is held.
            unsafe { (*raw).lent = false };
        }
        drop(inner);
        if !is_known {
            // SAFETY: Nobody else uses the buffer. It is not in the table, so it is not mapped by
            // the type invariant.
            unsafe { Self::free(buffer, None) };
        }
    }

    /// Unmaps and frees a buffer, and then drops its reference to the pool. Does not sleep.
    ///
    /// # Safety
    ///
    /// - `buffer` is a live buffer of a `ReceivePool<S>`. It is not in the table, and nobody else
    ///   uses it.
    /// - It is mapped for `pd`, or not mapped if `pd` is `None`.
    // Out of line: rarely needed.
    #[inline(never)]
    pub(crate) unsafe fn free(buffer: NonNull<Buffer<S>>, pd: Option<&Pd>) {
        // SAFETY: The buffer is live, and its reference is taken out once, as the buffer is freed
        // below.
        let pool = unsafe { Arc::from_raw((*buffer.as_ptr()).pool.cast::<Self>()) };
        if let Some(pd) = pd {
            // SAFETY: By the safety requirements of this function.
            unsafe { Buffer::unmap(buffer, pd) };
        }
        // SAFETY: Nobody else uses the buffer by the safety requirements of this function.
        // `Buffer::new` has made it from a `KBox`.
        drop(unsafe { KBox::from_raw(buffer.as_ptr()) });
        pool.budget.put();
    }
}
