// SPDX-License-Identifier: GPL-2.0

//! Differences between the supported kernels: errnos that the `kernel` crate of the oldest one
//! lacks.
//!
//! C header: [`include/uapi/asm-generic/errno.h`](srctree/include/uapi/asm-generic/errno.h)

use kernel::{
    bindings,
    prelude::*, //
};

/// Defines a function that returns an errno as an [`Error`].
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
    /// Returns `ENOTCONN`: the connection is closing or closed.
    enotconn,
    ENOTCONN
);
errno!(
    /// Returns `EBADSLT`: sunrpc has no slot for a request.
    ebadslt,
    EBADSLT
);
errno!(
    /// Returns `ENOBUFS`: there is no buffer at the moment.
    enobufs,
    ENOBUFS
);
errno!(
    /// Returns `EOPNOTSUPP`: the device lacks a required feature.
    eopnotsupp,
    EOPNOTSUPP
);
