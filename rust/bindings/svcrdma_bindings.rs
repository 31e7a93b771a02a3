// SPDX-License-Identifier: GPL-2.0

//! What bindgen made of the headers of sunrpc and RDMA, of our trace events and of helpers.c.
//!
//! Only `support`, `rdma` and `sunrpc` see this crate. Types that `kernel::bindings` has are shared with it.

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
    // Whatever the generated files define shadows the names of this import.
    pub use kernel::bindings::*;
    use kernel::ffi;
    use pin_init::{MaybeZeroable, Zeroable};

    // SAFETY: A newtype around `Storage`.
    unsafe impl<Storage> Zeroable for __BindgenBitfieldUnit<Storage> where Storage: Zeroable {}

    include!(concat!(env!("SVCRDMA_OBJ"), "/rust/bindings/generated.rs"));
    include!(concat!(
        env!("SVCRDMA_OBJ"),
        "/rust/bindings/helpers_generated.rs"
    ));
}

pub use raw::*;
