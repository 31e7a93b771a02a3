// SPDX-License-Identifier: GPL-2.0

//! Safe wrappers of librdmacm, libibverbs and a little libc. Contains all unsafe code of the
//! program.
//!
//! An [`Endpoint`] is one connection. It belongs to one thread and owns all its objects. A
//! [`Region`] shares the protection domain with its endpoint and may outlive it.

mod cm;
mod completion;
mod endpoint;
mod memory;
mod net;
mod window;

pub(crate) use self::{
    cm::{Event, Offer},
    completion::Completion,
    endpoint::{Endpoint, Wakeup},
    memory::Region,
    net::{end_with_reader, is_attached, raise_file_limit},
    window::Window, //
};

/// The generated bindings, which are private to this folder.
mod bindings {
    #![allow(
        clippy::all,
        dead_code,
        missing_docs,
        non_camel_case_types,
        non_snake_case,
        non_upper_case_globals,
        unreachable_pub,
        unsafe_op_in_unsafe_fn,
        clippy::undocumented_unsafe_blocks
    )]
    include!(concat!(env!("OUT_DIR"), "/bindings.rs"));
}

use crate::error::{Error, Result};
use std::{
    ffi::c_int,
    io,
    ptr::NonNull, //
};

/// Converts a return value to a result: 0 or -1 with errno (librdmacm), or 0 or an errno
/// (libibverbs).
fn check(what: &'static str, result: c_int) -> Result<()> {
    match result {
        0 => Ok(()),
        errno if errno > 0 => Err(Error::os(what, io::Error::from_raw_os_error(errno))),
        _ => Err(Error::os(what, io::Error::last_os_error())),
    }
}

/// Converts a pointer that is NULL on failure to a result.
fn check_ptr<T>(what: &'static str, pointer: *mut T) -> Result<NonNull<T>> {
    NonNull::new(pointer).ok_or_else(|| Error::os(what, io::Error::last_os_error()))
}
