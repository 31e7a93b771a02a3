/* SPDX-License-Identifier: GPL-2.0 */
/*
 * What rust/helpers.c fills in for Rust, where the kernel's own type
 * differs between versions.
 */
#ifndef _SVCRDMA_HELPERS_H
#define _SVCRDMA_HELPERS_H

#include <linux/types.h>

/* The limits of an RDMA device that a server meets. */
struct svcrdma_limits {
	u32 max_qp_wr;
	u32 max_send_sge;
	u32 max_sge_rd;
	u32 max_cqe;
	u32 max_qp_init_rd_atom;
	u32 num_comp_vectors;
	/* Pages of a memory region; 0 if there are none of the kind that is needed. */
	u32 max_mr_pages;
	/* Send With Invalidate works. */
	bool mem_mgt_extensions;
	/* RDMA Read sinks need a memory registration. */
	bool iwarp;
};

#endif
