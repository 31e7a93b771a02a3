// SPDX-License-Identifier: GPL-2.0

//! Safe wrappers of librdmacm and libibverbs. Contains all unsafe code of the program.
//!
//! An [`Endpoint`] is one connection and belongs to one thread. Each object holds an Rc of those that
//! it uses: queue pair, completion queue, protection domain, identifier. A [`Region`] holds the
//! protection domain and may outlive its endpoint; the connection's identifier lives as long.

mod cm;
mod completion;
mod endpoint;
#[cfg(test)]
mod fake;
mod memory;
mod pd;
mod wait;
mod window;

#[cfg(test)]
pub(crate) use self::fake::Fake;
pub(crate) use self::{
    cm::{Addresses, Event, Offer},
    completion::Completion,
    endpoint::{Endpoint, Rdma, Remote, Wakeup},
    memory::Region,
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
use nix::sys::signal::{self, SigHandler, Signal};
use std::{
    ffi::c_int,
    io,
    ptr::NonNull, //
};

/// Restores the default action of SIGPIPE, so that the process ends when the reader of its output
/// has gone. Rust ignores the signal at start, and then a print would panic.
pub(crate) fn end_with_reader() {
    // SAFETY: no other thread runs yet, and the default action runs no code of this program.
    let restored = unsafe { signal::signal(Signal::SIGPIPE, SigHandler::SigDfl) };
    // The signal exists and may be changed, so this cannot fail.
    debug_assert!(restored.is_ok());
}

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
