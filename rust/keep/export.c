// SPDX-License-Identifier: GPL-2.0
/*
 * What rust/abstractions/kept.rs needs of C: Rust has no means to export what it
 * defines, nor to call what may be a macro.
 */
#include <linux/export.h>
#include <linux/rcupdate.h>
#include <svcrdma_keep.h>

/* Kernels that do not preempt wait with synchronize_rcu() here. */
void svcrdma_keep_wait_for_tasks(void);
void svcrdma_keep_wait_for_tasks(void)
{
	synchronize_rcu_tasks();
}

EXPORT_SYMBOL_GPL(svcrdma_keep_id);
