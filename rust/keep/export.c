// SPDX-License-Identifier: GPL-2.0
/*
 * What rust/abstractions/kept.rs needs of C: Rust has no means to export what it
 * defines, nor to call what may be a macro.
 */
#include <linux/export.h>
#include <linux/rcupdate.h>
#include <rdma/rdma_cm.h>
#include <svcrdma_keep.h>

/* Kernels that do not preempt wait with synchronize_rcu() here. */
void svcrdma_keep_wait_for_tasks(void);
void svcrdma_keep_wait_for_tasks(void)
{
	synchronize_rcu_tasks();
}

/* Whether the id, which has a device, is of iWARP. */
bool svcrdma_keep_is_iwarp(struct rdma_cm_id *id);
bool svcrdma_keep_is_iwarp(struct rdma_cm_id *id)
{
	return rdma_cap_iw_cm(id->device, id->port_num);
}

EXPORT_SYMBOL_GPL(svcrdma_keep_id);
EXPORT_SYMBOL_GPL(svcrdma_keep_listen);
EXPORT_SYMBOL_GPL(svcrdma_keep_make_way);
