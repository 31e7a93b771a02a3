// SPDX-License-Identifier: GPL-2.0

//! Registered memory.

use super::{bindings, check, check_ptr, pd::Pd};
use crate::error::{Error, Result};
use std::{
    mem,
    ptr::{self, NonNull},
    rc::Rc, //
};

/// Memory that the peer may read and write while it is registered.
///
/// The bytes are only copied in and out through raw pointers, so the peer may change them at any
/// time. Memory that the device may still access is never freed, nor is its protection domain.
///
/// # Invariants
///
/// `bytes` is an allocation made by `Box` and freed only by Drop. `mr`, if present, covers
/// all of it. `is_leaked` is true if the device may access the memory although `mr` is not present.
pub(crate) struct Region {
    mr: Option<NonNull<bindings::ibv_mr>>,
    bytes: NonNull<[u8]>,
    rkey: u32,
    is_leaked: bool,
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
        let len = len.max(1);
        let mut owned = Vec::new();
        owned
            .try_reserve_exact(len)
            .map_err(|_| Error::unavailable(format!("no memory for {len} bytes")))?;
        owned.resize(len, 0u8);
        let bytes = NonNull::from(Box::leak(owned.into_boxed_slice()));
        // INVARIANT: `bytes` comes from the Box above.
        let mut region = Self {
            mr: None,
            bytes,
            rkey: 0,
            is_leaked: false,
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
    ///
    /// # Errors
    ///
    /// If the device refuses, it may still access the memory, which is leaked then.
    pub(crate) fn revoke(&mut self) -> Result<()> {
        let Some(mr) = self.mr.take() else {
            return Ok(());
        };
        // SAFETY: `mr` was registered by `register` and is not used again. The device no longer
        // accesses the memory when a successful call returns.
        let result = unsafe { bindings::ibv_dereg_mr(mr.as_ptr()) };
        let result = check("ibv_dereg_mr", result);
        if result.is_err() {
            self.leak();
        }
        result
    }

    /// Never frees the memory and what its registration needs, as the device may still access it.
    pub(super) fn leak(&mut self) {
        if !mem::replace(&mut self.is_leaked, true) {
            mem::forget(self.pd.clone());
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
        // A failure leaks the memory.
        let _ = self.revoke();
        if !self.is_leaked {
            // SAFETY: by the invariants the memory came from a Box, and the device does not access
            // it any more. No references to it exist.
            drop(unsafe { Box::from_raw(self.bytes.as_ptr()) });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{self, Fake};
    use super::*;

    #[test]
    fn memory_is_freed_when_the_device_has_let_it_go() {
        let fake = Fake::new();
        let mut region = fake.region(64);
        fake::watch(region.address());
        region.revoke().unwrap();
        region.revoke().unwrap();
        drop(region);
        assert!(fake::was_freed());
        assert_eq!(fake.count("ibv_dereg_mr"), 1);
        assert_eq!(
            fake.last(3),
            [
                "ibv_dealloc_pd",
                "rdma_destroy_id",
                "rdma_destroy_event_channel"
            ]
        );
    }

    #[test]
    fn memory_that_the_device_keeps_is_leaked() {
        let fake = Fake::new();
        fake.fail("ibv_dereg_mr");
        let mut region = fake.region(64);
        fake::watch(region.address());
        assert!(region.revoke().is_err());
        drop(region);
        assert!(!fake::was_freed());
        assert_eq!(fake.count("ibv_dealloc_pd"), 0);
        assert_eq!(fake.count("rdma_destroy_id"), 0);
    }

    #[test]
    fn memory_that_no_device_can_hold_is_an_error() {
        let fake = Fake::new();
        assert!(Region::new(&fake.pd(), usize::MAX).is_err());
    }
}
