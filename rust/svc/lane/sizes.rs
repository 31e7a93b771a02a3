// SPDX-License-Identifier: GPL-2.0

//! Sizes: how much of each kind of object a pool holds, and keeps when nobody needs it.

use sunrpc::callback::SLOTS;

/// The room of a small page region: 128 KiB, not aligned, and the page of head and tail.
pub(crate) const SMALL: usize = 34;

/// The room of a large page region: the largest payload, 4 MiB, and `nfsd`'s four extra pages.
pub(crate) const LARGE: usize = 1028;

/// How many page regions of a size, and how many replies, are kept when nobody needs them.
pub(crate) const KEEP: usize = 256;

/// Send contexts that nfsd's replies leave: only they can be made when there is none.
pub(crate) const FOR_OTHERS: usize = 32;

/// Send contexts that answers to what cannot be decoded leave to callbacks: whoever makes others wait
/// for theirs is not to be one client.
pub(crate) const FOR_CALLBACKS: usize = 16;

/// Memory regions of a size that there is room for. More are not needed unless more Calls are read
/// at once.
pub(crate) const MEMORY_REGIONS: usize = 1024;

/// Replies that are made with the hardware, for callbacks and for answers to what cannot be decoded.
pub(crate) const REPLIES: usize = 48;

// Replies of nfsd leave some to answers, and these leave enough for all callbacks of a connection.
const _: () = assert!(SLOTS as usize <= FOR_CALLBACKS && FOR_CALLBACKS < FOR_OTHERS);
const _: () = assert!(FOR_OTHERS < REPLIES && REPLIES <= KEEP);
