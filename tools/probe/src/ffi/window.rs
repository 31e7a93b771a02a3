// SPDX-License-Identifier: GPL-2.0

//! Memory windows: handles that the peer may invalidate, unlike that of a [`Region`].

use super::{bindings, check, memory::Region, pd::Pd};
use crate::error::{Error, Result};
use std::{
    mem,
    ptr::{self, NonNull},
    rc::Rc, //
};

/// A memory window of type 2 and the memory that it covers.
///
/// # Invariants
///
/// `mw` is valid until Drop, which deallocates it before `region` is dropped, or leaks `region`.
pub(crate) struct Window {
    mw: NonNull<bindings::ibv_mw>,
    rkey: u32,
    region: Region,
}

impl Window {
    /// Allocates a window of `len` bytes, which is not bound yet. Returns `None` if the device
    /// provides no window.
    pub(super) fn new(pd: &Rc<Pd>, len: usize) -> Result<Option<Self>> {
        let access = bindings::IBV_ACCESS_LOCAL_WRITE | bindings::IBV_ACCESS_MW_BIND;
        let region = Region::with_access(pd, len, access)?;
        // SAFETY: the protection domain is valid, and its context as long as that.
        let alloc = unsafe { (*(*pd.as_ptr()).context).ops.alloc_mw };
        let alloc = alloc.ok_or_else(|| Error::unavailable("the device has no memory windows"))?;
        // SAFETY: the protection domain is valid; the provider's own function is used.
        let mw = unsafe { alloc(pd.as_ptr(), bindings::IBV_MW_TYPE_2) };
        let Some(mw) = NonNull::new(mw) else {
            return Ok(None);
        };
        // SAFETY: fresh from the provider.
        let first = unsafe { mw.as_ref() }.rkey;
        // The owner chooses the lowest byte of the key, a different one for each bind.
        let rkey = first & !0xff | first.wrapping_add(1) & 0xff;
        // INVARIANT: fresh; `Drop` deallocates it before the fields are dropped.
        Ok(Some(Self { mw, rkey, region }))
    }

    /// Posts the bind of the window to `qp`.
    ///
    /// # Safety
    ///
    /// `qp` is a queue pair of the protection domain.
    pub(super) unsafe fn post_bind(&self, id: u64, qp: NonNull<bindings::ibv_qp>) -> Result<()> {
        let mr = self.region.mr();
        // SAFETY: all-zero is valid: numbers and pointers that may be NULL.
        let mut wr: bindings::ibv_send_wr = unsafe { mem::zeroed() };
        wr.wr_id = id;
        wr.opcode = bindings::IBV_WR_BIND_MW;
        wr.send_flags = bindings::IBV_SEND_SIGNALED;
        let access = bindings::IBV_ACCESS_REMOTE_READ | bindings::IBV_ACCESS_REMOTE_WRITE;
        wr.__bindgen_anon_2.bind_mw = bindings::ibv_send_wr__bindgen_ty_4__bindgen_ty_1 {
            mw: self.mw.as_ptr(),
            rkey: self.rkey,
            bind_info: bindings::ibv_mw_bind_info {
                mr: mr.map_or(ptr::null_mut(), NonNull::as_ptr),
                addr: self.region.address(),
                length: self.region.len() as u64,
                mw_access_flags: access,
            },
        };
        let mut bad = ptr::null_mut();
        // SAFETY: valid by the contract of this function, and so is its context.
        let post = unsafe { (*qp.as_ref().context).ops.post_send };
        let post = post.ok_or_else(|| Error::unavailable("the device has no post_send"))?;
        // SAFETY: the request lives through the call, which copies it; window and memory stay until
        // `self` is dropped.
        check("ibv_post_send", unsafe {
            post(qp.as_ptr(), &mut wr, &mut bad)
        })
    }

    /// Returns the handle that the peer uses.
    pub(crate) fn rkey(&self) -> u32 {
        self.rkey
    }

    /// Returns the memory that the window covers.
    pub(crate) fn region(&self) -> &Region {
        &self.region
    }
}

impl Drop for Window {
    fn drop(&mut self) {
        // SAFETY: valid by the invariant, and so is its context.
        let free = unsafe { (*self.mw.as_ref().context).ops.dealloc_mw };
        // SAFETY: valid by the invariant, not used again.
        let freed = free.is_some_and(|free| unsafe { free(self.mw.as_ptr()) } == 0);
        if !freed {
            self.region.leak();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{self, Fake};
    use super::*;

    /// Returns true if the memory of a window is freed with it.
    fn is_freed(fake: &Fake) -> bool {
        let window = Window::new(&fake.pd(), 64).unwrap().unwrap();
        fake::watch(window.region().address());
        drop(window);
        fake::was_freed()
    }

    #[test]
    fn memory_of_a_window_that_stays_is_leaked() {
        let fake = Fake::new();
        assert!(is_freed(&fake));
        fake.fail("dealloc_mw");
        assert!(!is_freed(&fake));
        // That of the first window only.
        assert_eq!(fake.count("ibv_dealloc_pd"), 1);
    }
}
