// SPDX-License-Identifier: GPL-2.0

//! The place for what differs between the supported kernels: errnos that the oldest one lacks.

use kernel::{
    bindings,
    prelude::*, //
};

macro_rules! errno {
    ($(#[$doc:meta])* $name:ident, $errno:ident) => {
        $(#[$doc])*
        pub fn $name() -> Error {
            // CAST: An errno is a small positive number.
            Error::from_errno(-(bindings::$errno as c_int))
        }
    };
}

errno!(
    /// No connection (any more).
    enotconn,
    ENOTCONN
);
errno!(
    /// No slot for a request.
    ebadslt,
    EBADSLT
);
errno!(
    /// No buffer now.
    enobufs,
    ENOBUFS
);
errno!(
    /// The device lacks something that is needed here.
    eopnotsupp,
    EOPNOTSUPP
);
