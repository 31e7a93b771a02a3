// SPDX-License-Identifier: GPL-2.0
/*
 * Exports what rust/abstractions/kept.rs defines, which Rust has no means for.
 */
#include <linux/export.h>
#include <svcrdma_keep.h>

EXPORT_SYMBOL_GPL(svcrdma_keep_id);
