// SPDX-License-Identifier: GPL-2.0

//! Errors. No test lets an allocation fail.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Error(i32);

pub type Result<T = (), E = Error> = core::result::Result<T, E>;

impl Error {
    pub const fn new(errno: i32) -> Self {
        Self(errno)
    }
}

impl From<core::convert::Infallible> for Error {
    fn from(never: core::convert::Infallible) -> Self {
        match never {}
    }
}

pub mod code {
    use super::Error;

    pub const EIO: Error = Error(-5);
    pub const ENOMEM: Error = Error(-12);
    pub const ENODEV: Error = Error(-19);
}
