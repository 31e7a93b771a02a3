// SPDX-License-Identifier: GPL-2.0

//! Bindings that bindgen generates for each kernel: the headers of sunrpc and RDMA, the trace
//! events, and the functions of rust/helpers.c.
//!
//! Only `support`, `rdma` and `sunrpc` use this crate, as private dependency. Types that
//! `kernel::bindings` also has are re-exported from there, so that pointers to them have one type.
//!
//! The list of C headers is in `bindings_helper.h`, the selection of items in
//! `bindgen_parameters`.

#![allow(
    clippy::all,
    clippy::as_underscore,
    clippy::cast_lossless,
    clippy::ptr_as_ptr,
    clippy::ref_as_ptr,
    clippy::undocumented_unsafe_blocks,
    dead_code,
    improper_ctypes,
    missing_docs,
    non_camel_case_types,
    non_snake_case,
    non_upper_case_globals,
    unreachable_pub,
    unsafe_op_in_unsafe_fn
)]

mod raw {
    // Definitions in the generated files shadow this glob import.
    pub use kernel::bindings::*;
    use kernel::ffi;
    use pin_init::{MaybeZeroable, Zeroable};

    // SAFETY: The type is a newtype around `Storage`, which is `Zeroable`.
    unsafe impl<Storage> Zeroable for __BindgenBitfieldUnit<Storage> where Storage: Zeroable {}

    include!(concat!(env!("SVCRDMA_OBJ"), "/rust/bindings/generated.rs"));
    include!(concat!(
        env!("SVCRDMA_OBJ"),
        "/rust/bindings/helpers_generated.rs"
    ));
}

pub use raw::*;
