// SPDX-License-Identifier: GPL-2.0

//! Model of the Receive buffers. Their pages are mapped from their creation on.

use crate::{
    device::Pd,
    ib_cqe,
    ib_qp,
    ib_recv_wr,
    recv::returns::Aligned,
    verbs::Cookie, //
};
use core::ptr::{null, null_mut, NonNull};
use kernel::{error::Result, ffi::c_void};

pub trait State: Default {}

#[derive(Clone, Copy)]
pub(crate) struct Receiver;

#[repr(C)]
pub(crate) struct Buffer<S: State> {
    cqe: ib_cqe,
    pub(crate) pool: *const c_void,
    pub(crate) wr: ib_recv_wr,
    pub(crate) index: usize,
    pub(crate) lent: bool,
    is_mapped: bool,
    pub(crate) below: *mut Self,
    pub(crate) state: S,
    _aligned: [Aligned; 0],
}

impl<S: State> Buffer<S> {
    pub(crate) const NOWHERE: usize = usize::MAX;

    /// Creates a buffer without a pool.
    pub(crate) fn alone() -> NonNull<Self> {
        let wr = ib_recv_wr {
            next: null_mut(),
            __bindgen_anon_1: Cookie { wr_cqe: null_mut() },
        };
        let buffer = Box::into_raw(Box::new(Self {
            cqe: ib_cqe,
            pool: null(),
            wr,
            index: Self::NOWHERE,
            lent: false,
            is_mapped: false,
            below: null_mut(),
            state: S::default(),
            _aligned: [],
        }));
        // SAFETY: The buffer was just made.
        unsafe { (*buffer).wr.__bindgen_anon_1.wr_cqe = &raw mut (*buffer).cqe };
        NonNull::new(buffer).unwrap()
    }

    /// # Safety
    ///
    /// That of the module's function.
    pub(crate) unsafe fn new(
        pool: *const c_void,
        pd: &Pd,
        _receiver: Receiver,
    ) -> Result<NonNull<Self>> {
        let buffer = Self::alone();
        // SAFETY: The buffer was just made.
        unsafe {
            (*buffer.as_ptr()).pool = pool;
            (*buffer.as_ptr()).is_mapped = true;
        }
        pd.map(1);
        Ok(buffer)
    }

    /// # Safety
    ///
    /// That of the module's function.
    pub(crate) unsafe fn unmap(buffer: NonNull<Self>, pd: &Pd) {
        // SAFETY: The caller's.
        let is_mapped = unsafe { core::mem::replace(&mut (*buffer.as_ptr()).is_mapped, false) };
        assert!(is_mapped, "unmapped twice");
        pd.map(-1);
    }

    /// # Safety
    ///
    /// That of the module's function.
    pub(crate) unsafe fn sync_for_device(buffer: NonNull<Self>, _qp: NonNull<ib_qp>) {
        // SAFETY: The caller's.
        assert!(
            unsafe { (*buffer.as_ptr()).is_mapped },
            "synced, but not mapped"
        );
    }
}

impl<S: State> Drop for Buffer<S> {
    fn drop(&mut self) {
        assert!(
            !self.is_mapped || std::thread::panicking(),
            "freed, but mapped"
        );
    }
}
