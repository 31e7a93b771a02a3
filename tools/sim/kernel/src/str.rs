// SPDX-License-Identifier: GPL-2.0

//! Strings of C.

pub use core::ffi::CStr;

use crate::{alloc, error::Result, ffi::c_char};
use core::{fmt, ops::Deref};

pub trait CStrExt {
    fn as_char_ptr(&self) -> *const c_char;
    unsafe fn from_char_ptr<'a>(ptr: *const c_char) -> &'a Self;
}

impl CStrExt for CStr {
    fn as_char_ptr(&self) -> *const c_char {
        self.as_ptr().cast()
    }

    unsafe fn from_char_ptr<'a>(ptr: *const c_char) -> &'a Self {
        // SAFETY: The caller's.
        unsafe { Self::from_ptr(ptr.cast()) }
    }
}

pub struct CString(std::ffi::CString);

impl CString {
    pub fn try_from_fmt(args: fmt::Arguments<'_>) -> Result<Self> {
        alloc::allocate()?;
        let text = std::ffi::CString::new(args.to_string());
        Ok(Self(text.expect("a formatted string has no zero byte")))
    }
}

impl Deref for CString {
    type Target = CStr;

    fn deref(&self) -> &CStr {
        &self.0
    }
}

/// Formats into a buffer.
pub struct Formatter<'a>(&'a mut [u8]);

impl<'a> Formatter<'a> {
    pub fn new(buffer: &'a mut [u8]) -> Self {
        Self(buffer)
    }
}

impl fmt::Write for Formatter<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        use std::io::Write as _;
        self.0.write_all(text.as_bytes()).map_err(|_| fmt::Error)
    }
}
