// SPDX-License-Identifier: GPL-2.0
/*
 * What rust/abstractions/kept.rs needs of C: Rust has no means to export what it
 * defines, nor to call what may be a macro.
 */
#include <linux/export.h>
#include <linux/in6.h>
#include <linux/rcupdate.h>
#include <rdma/rdma_cm.h>
#include <svcrdma_keep.h>

/* Kernels that do not preempt wait with synchronize_rcu() here. */
void svcrdma_keep_wait_for_tasks(void);
void svcrdma_keep_wait_for_tasks(void)
{
	synchronize_rcu_tasks();
}

/* Binds the id to a port of all addresses, of both families; -EBUSY if it has a listener. */
int svcrdma_keep_bind(struct rdma_cm_id *id, u16 port);
int svcrdma_keep_bind(struct rdma_cm_id *id, u16 port)
{
	struct sockaddr_in6 addr = {
		.sin6_family = AF_INET6,
		.sin6_port = htons(port),
	};
	int error = rdma_bind_addr(id, (struct sockaddr *)&addr);

	return error == -EADDRINUSE || error == -EADDRNOTAVAIL ? -EBUSY : error;
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
