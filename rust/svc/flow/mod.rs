// SPDX-License-Identifier: GPL-2.0

//! The way of a Call from the wire to nfsd and back.
//!
//! | step | file |
//! |---|---|
//! | the device completes a Receive, or posted work | `dispatch` |
//! | the message is decoded | `receive` |
//! | its Read chunks are read | `read` |
//! | nfsd gets the Call, or it ends here | `handoff` |
//! | nfsd takes the Call, and sends the results | `xprt` |
//! | the Reply is built and queued | `send` |
//! | nfsd calls the client | `backchannel` |
//! | the connection is torn down | `teardown` |

pub(crate) mod backchannel;
pub(crate) mod dispatch;
pub(crate) mod handoff;
pub(crate) mod read;
pub(crate) mod receive;
pub(crate) mod send;
pub(crate) mod teardown;
pub(crate) mod xprt;
