// SPDX-License-Identifier: GPL-2.0

//! librdmacm, libibverbs and a little libc behind safe types; all unsafe code of the program.
//!
//! One [`Endpoint`] is one connection and belongs to one thread. It owns all its objects; a
//! [`Region`] shares the protection domain with it and may outlive it.

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

/// The generated bindings; nothing outside this folder names them.
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

/// Turns the 0 or -1 of librdmacm, or the errno of libibverbs, into a result.
fn check(what: &'static str, result: c_int) -> Result<()> {
    match result {
        0 => Ok(()),
        errno if errno > 0 => Err(Error::os(what, io::Error::from_raw_os_error(errno))),
        _ => Err(Error::os(what, io::Error::last_os_error())),
    }
}

/// Turns a pointer that is NULL on failure into a result.
fn check_ptr<T>(what: &'static str, pointer: *mut T) -> Result<NonNull<T>> {
    NonNull::new(pointer).ok_or_else(|| Error::os(what, io::Error::last_os_error()))
}
