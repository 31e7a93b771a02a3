// SPDX-License-Identifier: GPL-2.0

//! Claims: which work invalidates a memory region.

use crate::mem::memory_region::MemoryRegion;
use core::ptr::NonNull;

/// The claim of a piece of work on the memory region that its work requests register, if any.
///
/// A [`Chain`](crate::send::chain::Chain) takes memory regions for a claim. A
/// [`SendQueue`](crate::send::queue::SendQueue) keeps the claim beside the work, and completes it
/// when the work has completed. This is the only way in which a memory region becomes idle again.
///
/// # Invariants
///
/// - The memory region is borrowed by the chains of the work that the claim belongs to.
/// - If `is_invalidated`, the chains of the work invalidate each MR that they register, and each MR of
///   an exposure that they revoke.
pub(crate) struct Claim {
    memory_region: Option<NonNull<MemoryRegion>>,
    is_invalidated: bool,
}

// SAFETY: `MemoryRegion` is `Send`, and a claim moves between threads only together with the work
// that owns the memory region.
unsafe impl Send for Claim {}

impl Claim {
    /// Returns the claim of work that is not posted yet.
    #[inline]
    pub(crate) fn none() -> Self {
        // INVARIANT: No MR is registered.
        Self {
            memory_region: None,
            is_invalidated: true,
        }
    }

    /// Claims `memory_region`, which the caller's chain borrows. Returns false if the work has
    /// claimed another memory region, or if other work has registered MRs of `memory_region`.
    pub(crate) fn take(&mut self, memory_region: &MemoryRegion) -> bool {
        let this = NonNull::from(memory_region);
        if self.memory_region.is_none() && memory_region.is_idle() {
            // INVARIANT: The caller's chain borrows the memory region. No MR of it is registered.
            self.memory_region = Some(this);
        }
        self.memory_region == Some(this)
    }

    /// Claims `memory_region` of an exposure, which other work has registered, to invalidate it.
    /// Returns false if the work has claimed another memory region.
    pub(crate) fn take_exposed(&mut self, memory_region: &MemoryRegion) -> bool {
        let this = NonNull::from(memory_region);
        if self.memory_region.is_none() {
            // INVARIANT: The caller's chain borrows the memory region. MRs of it are registered.
            self.memory_region = Some(this);
            self.is_invalidated = false;
        }
        self.memory_region == Some(this)
    }

    /// Notes that a chain of the work registers an MR.
    #[inline]
    pub(crate) fn on_registration(&mut self) {
        self.is_invalidated = false;
    }

    /// Notes that the chains of the work invalidate each MR that they register.
    #[inline]
    pub(crate) fn on_all_invalidated(&mut self) {
        self.is_invalidated = true;
    }

    /// Returns true if the chains of the work invalidate each MR that they register.
    #[inline]
    pub(crate) fn is_invalidated(&self) -> bool {
        self.is_invalidated
    }

    /// Marks the memory region idle.
    ///
    /// # Safety
    ///
    /// - All work requests that were built with this claim have completed successfully.
    /// - The work that owns the memory region has not changed since they were built, and is not
    ///   dropped yet.
    #[inline]
    pub(crate) unsafe fn complete(&self) {
        let Some(memory_region) = self.memory_region.filter(|_| self.is_invalidated) else {
            return;
        };
        // SAFETY: The chains have borrowed the memory region from the work by the type invariant.
        // By the safety requirements of this function the work still owns it.
        let memory_region = unsafe { memory_region.as_ref() };
        // SAFETY: The chains invalidate each MR of the memory region, as `is_invalidated`, and the device
        // has executed them by the safety requirements of this function.
        unsafe { memory_region.set_idle() };
    }
}
