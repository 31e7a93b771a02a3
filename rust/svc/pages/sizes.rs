// SPDX-License-Identifier: GPL-2.0

//! Sizes of the pool: pages of a region, and how many objects of each kind the pool keeps.

use sunrpc::callback::SLOTS;

/// Pages of a small page region: those of 128 KiB that are not page-aligned, and one page for head
/// and tail.
pub(crate) const SMALL: usize = 34;

/// Pages of a large page region: those of the largest payload, 4 MiB, and nfsd's four extra pages.
pub(crate) const LARGE: usize = 1028;

/// The most free page regions of a size, and the most free reply contexts, that the pool keeps.
pub(crate) const MAX_FREE: usize = 256;

/// Free memory regions of a size that the pool has room for. More exist only while more Calls are
/// read at a time.
pub(crate) const MAX_FREE_MEMORY_REGIONS: usize = 1024;

/// Free reply contexts that the pool starts with and that the watchdog restores.
pub(crate) const RESERVE_REPLIES: usize = 32;

/// The number of free reply contexts at which nfsd's Replies stop taking from the pool. An nfsd
/// thread may sleep and allocate a context. Callbacks use the rest, and may not.
pub(crate) const REPLY_WATERMARK: usize = 16;

// The contexts below the watermark are enough for all callbacks of a connection.
const _: () = assert!(SLOTS as usize <= REPLY_WATERMARK);
const _: () = assert!(REPLY_WATERMARK < RESERVE_REPLIES && RESERVE_REPLIES <= MAX_FREE);

/// Returns the pages of the region that is used for `pages` pages.
pub(crate) fn size_for(pages: usize) -> usize {
    if pages <= SMALL {
        SMALL
    } else {
        LARGE.max(pages)
    }
}
