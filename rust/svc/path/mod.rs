// SPDX-License-Identifier: GPL-2.0

//! The path of a Call from the wire to nfsd, and of its Reply back.
//!
//! | step | file |
//! |---|---|
//! | the device completes a Receive, or other posted work | `complete` |
//! | the message is decoded | `receive` |
//! | the Read chunks of the Call are read | `read` |
//! | the Call is queued for nfsd, refused, or dropped | `deliver` |
//! | nfsd takes the Call, and sends the results | `xprt` |
//! | the Reply is built and queued | `reply` |
//!
//! Two files are not on this path: `callback` carries nfsd's Calls to the client, and `teardown`
//! ends a connection.

pub(crate) mod callback;
pub(crate) mod complete;
pub(crate) mod deliver;
pub(crate) mod read;
pub(crate) mod receive;
pub(crate) mod reply;
pub(crate) mod teardown;
pub(crate) mod xprt;
