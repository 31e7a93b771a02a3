/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What svcrdma_keep.ko offers to svcrdma.ko, which looks for it at run time and
 * does without it where it is not loaded.
 */
#ifndef _SVCRDMA_KEEP_H
#define _SVCRDMA_KEEP_H

#include <linux/types.h>

struct net;
struct rdma_cm_id;

/*
 * Takes over the id of a connection whose queue pair is destroyed, and does not
 * tell the peer until svcrdma_keep.ko is unloaded. Sleeps. The RDMA core must
 * not have begun to remove the id's device. The name that the id shows is from a
 * Rust Arc, and a reference to it comes with the id. False if there is no memory:
 * both stay the caller's.
 */
bool svcrdma_keep_id(struct rdma_cm_id *id, const char (*name)[8]);

/*
 * Listens on a port of all addresses, of both families, when its last listener
 * has gone: before, it can not, and does nothing. Who asks for a connection
 * waits until svcrdma_keep.ko is unloaded, and is then told to ask again. The
 * namespace is live. Sleeps.
 */
void svcrdma_keep_listen(struct net *net, u16 port);

/* Listens no more, on no port, so that others can. Sleeps. */
void svcrdma_keep_make_way(void);

#endif
