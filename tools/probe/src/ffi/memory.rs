// SPDX-License-Identifier: GPL-2.0

//! Protection domains and registered memory.

use super::{bindings, check_ptr};
use crate::error::{Error, Result};
use std::{
    ptr::{self, NonNull},
    rc::Rc, //
};

/// A protection domain.
///
/// # Invariants
///
/// The pointer comes from `ibv_alloc_pd` and is deallocated only by Drop.
pub(super) struct Pd(NonNull<bindings::ibv_pd>);

impl Pd {
    /// Allocates a protection domain.
    ///
    /// # Safety
    ///
    /// `verbs` is an open device context, and stays open as long as the result lives.
    pub(super) unsafe fn new(verbs: *mut bindings::ibv_context) -> Result<Self> {
        // SAFETY: `verbs` is open by the contract of this function.
        let pd = unsafe { bindings::ibv_alloc_pd(verbs) };
        // INVARIANT: fresh from `ibv_alloc_pd`.
        check_ptr("ibv_alloc_pd", pd).map(Self)
    }

    /// Returns the raw pointer, which is valid as long as `self`.
    pub(super) fn as_ptr(&self) -> *mut bindings::ibv_pd {
        self.0.as_ptr()
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: valid by the invariant; regions and queue pairs hold an Rc and are gone.
        unsafe { bindings::ibv_dealloc_pd(self.0.as_ptr()) };
    }
}

/// Memory that the peer may read and write while it is registered.
///
/// The bytes are only copied in and out through raw pointers, so the peer may change them at any
/// time.
///
/// # Invariants
///
/// `bytes` is an allocation made by `Box` and freed only by Drop. `mr`, if present, covers
/// all of it.
pub(crate) struct Region {
    mr: Option<NonNull<bindings::ibv_mr>>,
    bytes: NonNull<[u8]>,
    rkey: u32,
    pd: Rc<Pd>,
}

impl Region {
    /// Allocates `len` bytes and registers them.
    pub(super) fn new(pd: &Rc<Pd>, len: usize) -> Result<Self> {
        let access = bindings::IBV_ACCESS_LOCAL_WRITE
            | bindings::IBV_ACCESS_REMOTE_READ
            | bindings::IBV_ACCESS_REMOTE_WRITE;
        Self::with_access(pd, len, access)
    }

    /// Allocates `len` bytes and registers them with this access.
    pub(super) fn with_access(
        pd: &Rc<Pd>,
        len: usize,
        access: bindings::ibv_access_flags,
    ) -> Result<Self> {
        // A registration cannot be empty.
        let owned = vec![0u8; len.max(1)].into_boxed_slice();
        let bytes = NonNull::from(Box::leak(owned));
        // INVARIANT: `bytes` comes from the Box above.
        let mut region = Self {
            mr: None,
            bytes,
            rkey: 0,
            pd: pd.clone(),
        };
        region.register(access)?;
        Ok(region)
    }

    /// Registers the memory.
    fn register(&mut self, access: bindings::ibv_access_flags) -> Result<()> {
        // SAFETY: the range is our own allocation (type invariant), and it stays until Drop has
        // deregistered it.
        let mr = unsafe {
            bindings::ibv_reg_mr(
                self.pd.as_ptr(),
                self.bytes.as_ptr().cast(),
                self.len(),
                access as i32,
            )
        };
        let mr = check_ptr("ibv_reg_mr", mr)?;
        // SAFETY: fresh from `ibv_reg_mr`.
        self.rkey = unsafe { mr.as_ref() }.rkey;
        // INVARIANT: registered with the whole range.
        self.mr = Some(mr);
        Ok(())
    }

    /// Returns the size in bytes.
    pub(crate) fn len(&self) -> usize {
        self.bytes.len()
    }

    /// Returns the address that the peer uses.
    pub(crate) fn address(&self) -> u64 {
        self.bytes.as_ptr().cast::<u8>() as u64
    }

    /// Returns the handle that the peer uses; it does not change when the memory is revoked.
    pub(crate) fn rkey(&self) -> u32 {
        self.rkey
    }

    /// Returns the memory registration, unless it was revoked.
    pub(super) fn mr(&self) -> Option<NonNull<bindings::ibv_mr>> {
        self.mr
    }

    /// Returns the local key, or 0 if the memory was revoked.
    pub(super) fn lkey(&self) -> u32 {
        // SAFETY: `mr` is valid until Drop or `revoke` takes it.
        self.mr.map_or(0, |mr| unsafe { mr.as_ref() }.lkey)
    }

    /// Deregisters the memory, after which the peer's accesses fail.
    pub(crate) fn revoke(&mut self) {
        if let Some(mr) = self.mr.take() {
            // SAFETY: `mr` was registered by `register` and is not used again. The device no longer
            // accesses the memory when the call returns.
            unsafe { bindings::ibv_dereg_mr(mr.as_ptr()) };
        }
    }

    /// Copies `bytes` to `offset`.
    pub(crate) fn write(&self, offset: usize, bytes: &[u8]) -> Result<()> {
        self.check_range(offset, bytes.len())?;
        let target = self.bytes.as_ptr().cast::<u8>();
        // SAFETY: the range lies within the allocation; it cannot overlap the borrowed `bytes`,
        // because no reference into the allocation exists.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), target.add(offset), bytes.len()) };
        Ok(())
    }

    /// Returns a copy of `len` bytes at `offset`.
    pub(crate) fn read(&self, offset: usize, len: usize) -> Result<Vec<u8>> {
        self.check_range(offset, len)?;
        let mut copy = vec![0u8; len];
        let source = self.bytes.as_ptr().cast::<u8>();
        // SAFETY: the range lies within the allocation, and `copy` has room for it.
        unsafe { ptr::copy_nonoverlapping(source.add(offset), copy.as_mut_ptr(), len) };
        Ok(copy)
    }

    /// Returns an error for a range outside the memory.
    pub(super) fn check_range(&self, offset: usize, len: usize) -> Result<()> {
        match offset.checked_add(len) {
            Some(end) if end <= self.len() => Ok(()),
            _ => Err(Error::unavailable("range outside the registered memory")),
        }
    }
}

impl Drop for Region {
    fn drop(&mut self) {
        self.revoke();
        // SAFETY: by the invariant the memory came from a Box. It is not registered any more and no
        // references to it exist.
        drop(unsafe { Box::from_raw(self.bytes.as_ptr()) });
    }
}
