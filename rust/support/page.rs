// SPDX-License-Identifier: GPL-2.0

//! Pages with a single owner.
//!
//! `kernel::page::Page` does not fit: it cannot take over a page that sunrpc has allocated.
//!
//! C header: [`include/linux/mm.h`](srctree/include/linux/mm.h)

use kernel::prelude::*;

pub use kernel::page::PAGE_SIZE;

/// A page with a single owner, which the CPU and devices may write to.
///
/// # Invariants
///
/// - `page` is valid and in the kernel's linear map. This value owns a reference to the page, and
///   there is no other. So the page is in no page cache, which would have a reference.
/// - `address` is that of its first byte.
pub struct FreshPage {
    page: *mut bindings::page,
    address: *mut u8,
}

// SAFETY: A page belongs to no thread.
unsafe impl Send for FreshPage {}
// SAFETY: A shared `FreshPage` only tells addresses.
unsafe impl Sync for FreshPage {}

/// The effort of a page allocation.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Effort {
    /// Fails rather than retries reclaim (`__GFP_NORETRY`). For callers that reclaim may wait for,
    /// and for callers that try again later.
    Little,
    /// Retries reclaim as long as the kernel does by default, so that the allocation rarely fails.
    Full,
}

impl FreshPage {
    /// Allocates a page, without a warning in the log if that fails. The page is not zeroed, unless
    /// the kernel is configured to zero all pages. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    // Not inlined: tests make allocations fail by a probe on this function.
    #[inline(never)]
    pub fn new(effort: Effort) -> Result<Self> {
        // SAFETY: The function has no preconditions.
        let page = unsafe { bindings::alloc_page(effort == Effort::Full) };
        if page.is_null() {
            return Err(ENOMEM);
        }
        // SAFETY: A newly allocated page has one reference, which the caller owns. It is in the
        // linear map, as the allocation did not ask for high memory.
        Ok(unsafe { Self::from_raw(page) })
    }

    /// Takes over a page from its single owner.
    ///
    /// # Safety
    ///
    /// `page` is valid and in the linear map. The caller owns the only reference and gives it up.
    #[inline]
    pub(crate) unsafe fn from_raw(page: *mut bindings::page) -> Self {
        // SAFETY: The page is in the linear map by the safety requirements of this function.
        let address = unsafe { bindings::page_address(page) }.cast();
        // INVARIANT: By the safety requirements of this function.
        Self { page, address }
    }

    /// Gives up the page. The caller owns its reference afterwards.
    #[inline]
    pub(crate) fn into_raw(self) -> *mut bindings::page {
        core::mem::ManuallyDrop::new(self).page
    }

    /// Returns the C structure.
    #[inline]
    pub fn as_ptr(&self) -> *mut bindings::page {
        self.page
    }

    /// Returns the address of the first byte. It is valid as long as `self` lives.
    #[inline]
    pub fn address(&self) -> *mut u8 {
        self.address
    }
}

impl Drop for FreshPage {
    #[inline]
    fn drop(&mut self) {
        // SAFETY: By the type invariant `self` owns a reference.
        unsafe { bindings::put_page(self.as_ptr()) };
    }
}
