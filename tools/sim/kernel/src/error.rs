// SPDX-License-Identifier: GPL-2.0

//! Error numbers.

use crate::alloc::AllocError;
use core::{convert::Infallible, num::TryFromIntError};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error(i32);

pub type Result<T = (), E = Error> = core::result::Result<T, E>;

macro_rules! codes {
    ($($name:ident = $value:literal;)*) => {
        pub mod code {
            $(pub const $name: super::Error = super::Error(-$value);)*
        }
    };
}

codes! {
    ENOENT = 2; EIO = 5; E2BIG = 7; EAGAIN = 11; ENOMEM = 12; EACCES = 13; EBUSY = 16; EEXIST = 17;
    ENODEV = 19; EINVAL = 22; ENOSPC = 28; EMSGSIZE = 90;
}

impl Error {
    pub fn from_errno(errno: i32) -> Self {
        Self(errno)
    }

    pub fn to_errno(self) -> i32 {
        self.0
    }

    pub fn to_ptr<T>(self) -> *mut T {
        self.0 as isize as *mut T
    }
}

impl From<AllocError> for Error {
    fn from(_: AllocError) -> Self {
        code::ENOMEM
    }
}

impl From<Infallible> for Error {
    fn from(never: Infallible) -> Self {
        match never {}
    }
}

impl From<TryFromIntError> for Error {
    fn from(_: TryFromIntError) -> Self {
        code::EINVAL
    }
}

pub fn to_result(errno: i32) -> Result {
    if errno < 0 {
        Err(Error(errno))
    } else {
        Ok(())
    }
}

pub fn from_err_ptr<T>(ptr: *mut T) -> Result<*mut T> {
    let value = ptr as isize;
    if (-4095..0).contains(&value) {
        Err(Error(value as i32))
    } else {
        Ok(ptr)
    }
}

pub fn from_result(f: impl FnOnce() -> Result<i32>) -> i32 {
    f().unwrap_or_else(Error::to_errno)
}
