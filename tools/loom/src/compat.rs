// SPDX-License-Identifier: GPL-2.0

//! Model of `support::compat`.

use kernel::error::Error;

pub fn enobufs() -> Error {
    Error::new(-105)
}
