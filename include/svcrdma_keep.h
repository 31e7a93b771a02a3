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
 * which must not go with the caller. False if there is no memory: the id stays
 * the caller's.
 */
bool svcrdma_keep(struct rdma_cm_id *id);

#endif
