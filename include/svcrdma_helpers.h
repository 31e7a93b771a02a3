/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Types of rust/helpers.c: those that it fills in for Rust, because the kernel's own types differ
 * between versions, and the arguments that the kernel has no type for.
 */
#ifndef _SVCRDMA_HELPERS_H
#define _SVCRDMA_HELPERS_H

#include <linux/types.h>

/* The properties of an RDMA device that matter to the server. */
struct svcrdma_limits {
	u32 max_qp_wr;
	u32 max_send_sge;
	u32 max_sge_rd;
	u32 max_cqe;
	u32 max_qp_init_rd_atom;
	u32 max_qp_rd_atom;
	u32 num_comp_vectors;
	/* The pages that a memory region can hold; 0 without fast registration. */
	u32 max_mr_pages;
	/* The device supports Send With Invalidate. */
	bool mem_mgt_extensions;
	/* The sinks of RDMA Reads must be registered. */
	bool iwarp;
};

/* The log lines that are limited together. */
enum svcrdma_line {
	SVCRDMA_LINE_REFUSAL,
	SVCRDMA_LINE_CLOSE,
	SVCRDMA_LINE_OTHER,
};

#endif
