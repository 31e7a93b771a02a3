// SPDX-License-Identifier: GPL-2.0

//! Callbacks, as a peer sees them.

use crate::manner::Manner;
use bindings::{link::Link, words, Ptr};
use kernel::sim;

/// The Receives that a peer has for callbacks.
pub const RECEIVES: usize = 16;
/// The callbacks that a peer grants.
const GRANT: u32 = 8;

/// Returns true if `message` is a Call of the server.
pub fn is_call(message: &[u8]) -> bool {
    // RDMA_MSG without chunks, and an RPC message of the type CALL.
    let word = |n: usize| message.get(4 * n..4 * n + 4);
    (3..7).chain([8]).all(|n| word(n) == Some(&[0; 4]))
}

/// Answers a callback. Returns false if the connection has ended.
pub fn answer(link: Ptr<Link>, manner: Manner, refuses: bool, xid: u32) -> bool {
    link.get().receives += 1;
    let reply = match sim::below(16) {
        0 if refuses => words(&[xid, 1, GRANT, 4, 2]),
        1 if !manner.is_correct() => return true,
        _ => words(&[xid, 1, GRANT, 0, 0, 0, 0, xid, 1, 0, 0, 0, 0]),
    };
    let sent = link.send(&reply);
    let has_waited = manner.is_correct() && sent == Some(true);
    assert!(!has_waited, "the answer to a callback found no Receive");
    sent.is_some()
}
