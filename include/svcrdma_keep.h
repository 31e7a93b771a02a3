/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What svcrdma_keep.ko offers to svcrdma.ko, which looks for it at run time and
 * does without it where it is not loaded.
 */
#ifndef _SVCRDMA_KEEP_H
#define _SVCRDMA_KEEP_H

#include <linux/types.h>

struct rdma_cm_id;

/*
 * Takes over the id of a connection whose queue pair is destroyed, and does not
 * tell the peer until svcrdma_keep.ko is unloaded. Sleeps. The RDMA core must
 * not have begun to remove the id's device, and goes on to show the id's name,
 * see below. False if there is no memory: the id stays the caller's.
 */
bool svcrdma_keep(struct rdma_cm_id *id);

/*
 * Takes over the 8 bytes from kmalloc() that such ids show as their name, before
 * the caller goes. They are freed after the ids. Sleeps. False if there is no
 * memory: they must stay for good.
 */
bool svcrdma_keep_name(char (*name)[8]);

#endif
