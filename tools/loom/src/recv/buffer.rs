// SPDX-License-Identifier: GPL-2.0

//! Model of the Receive buffers.

use crate::recv::returns::Aligned;
use core::ptr::{null_mut, NonNull};

pub(crate) trait State {}

#[repr(C)]
pub(crate) struct Buffer<S: State> {
    pub(crate) below: *mut Self,
    pub(crate) state: S,
    _aligned: [Aligned; 0],
}

impl<S: State> Buffer<S> {
    pub(crate) fn new(state: S) -> NonNull<Self> {
        let buffer = Box::new(Self {
            below: null_mut(),
            state,
            _aligned: [],
        });
        NonNull::new(Box::into_raw(buffer)).unwrap()
    }
}
