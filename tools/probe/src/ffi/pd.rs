// SPDX-License-Identifier: GPL-2.0

//! Protection domains.

use super::{bindings, check_ptr, cm::Id};
use crate::error::{Error, Result};
use std::ptr::NonNull;

/// A protection domain and the identifier whose device it belongs to. librdmacm may close the device
/// when no identifier uses it.
///
/// # Invariants
///
/// The pointer comes from `ibv_alloc_pd` of the device of `id`, and is deallocated only by Drop.
pub(super) struct Pd {
    pd: NonNull<bindings::ibv_pd>,
    id: Id,
}

impl Pd {
    /// Allocates a protection domain of the device to which `id` is resolved.
    pub(super) fn new(id: Id) -> Result<Self> {
        let verbs = NonNull::new(id.verbs());
        let verbs = verbs.ok_or_else(|| Error::unavailable("the address has no RDMA device"))?;
        // SAFETY: a resolved identifier keeps its device open.
        let pd = unsafe { bindings::ibv_alloc_pd(verbs.as_ptr()) };
        // INVARIANT: fresh from `ibv_alloc_pd`.
        let pd = check_ptr("ibv_alloc_pd", pd)?;
        Ok(Self { pd, id })
    }

    /// Returns the raw pointer, which is valid as long as `self`.
    pub(super) fn as_ptr(&self) -> *mut bindings::ibv_pd {
        self.pd.as_ptr()
    }

    /// Returns the identifier.
    pub(super) fn id(&self) -> &Id {
        &self.id
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: valid by the invariant; everything made of it holds an Rc and is gone.
        unsafe { bindings::ibv_dealloc_pd(self.pd.as_ptr()) };
    }
}
