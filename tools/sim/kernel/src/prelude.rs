// SPDX-License-Identifier: GPL-2.0

//! The items of the kernel crate's prelude.

pub use crate::{
    alloc::{KBox, KVVec, KVec, GFP_KERNEL},
    error::{code::*, Error, Result},
    ffi::{c_char, c_int, c_long, c_uint, c_ulong, c_void},
    fmt_arguments as fmt, module, pr_err, pr_info, pr_warn,
    str::CStrExt as _,
    try_init, try_pin_init, ThisModule,
};
pub use core::{ffi::CStr, pin::Pin};
pub use pin_init::{init, pin_data, pin_init, pinned_drop, Init, PinInit};
