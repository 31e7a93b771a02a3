// SPDX-License-Identifier: GPL-2.0
/*
 * Makes calls of svcrdma to the RDMA core and the driver rxe, and its DMA mappings, fail, for tests. Only
 * calls from the code between "start" and "end" fail, so other users of the device are spared. A
 * call that fails does nothing. There is no exit: a task may be in refuse(). Parameters:
 *
 * start, end  addresses of code
 * fail        "NAME EVERY MOST": from now on each EVERYth call of NAME fails, until MOST have failed;
 *             "none": none fails. Reads as "CALLS FAILED", the numbers since the last write.
 */
#include <linux/kprobes.h>
#include <linux/module.h>

/* A function that can fail, and its result then. */
struct call {
	const char *name;
	long result;
	/* It has a work request as its second argument, and a pointer to the one that failed as its third. */
	bool is_post;
};

/* Inline functions are named by what they call: ib_post_send() calls the driver. */
static const struct call calls[] = {
	{ "__ib_alloc_pd", -ENOMEM },
	{ "__ib_alloc_cq", -ENOMEM },
	{ "__rdma_create_kernel_id", -ENOMEM },
	{ "ib_alloc_mr", -ENOMEM },
	{ "ib_map_mr_sg", -ENOMEM },
	{ "ib_modify_qp", -EIO },
	{ "ib_register_client", -ENOMEM },
	{ "rdma_accept", -ENOMEM },
	{ "rdma_bind_addr", -ENOMEM },
	{ "rdma_create_qp", -ENOMEM },
	{ "rdma_disconnect", -EIO },
	{ "rdma_listen", -ENOMEM },
	{ "rdma_set_afonly", -ENOMEM },
	{ "rdma_set_min_rnr_timer", -ENOMEM },
	{ "rxe_post_recv", -ENOMEM, .is_post = true },
	{ "rxe_post_send", -ENOMEM, .is_post = true },
	/* Soft devices need no DMA API, so mappings fail where svcrdma asks for them. */
	{ "svcrdma_helper_ib_dma_map_pages", 0 },
	{ "svcrdma_helper_ib_dma_mapping_error", 1 },
};

static ulong start, end;
module_param(start, ulong, 0644);
module_param(end, ulong, 0644);

/* The function that fails, or NULL, and its probe. Changed under the lock of parameters. */
static const struct call *failing;
static struct kprobe probe;
static unsigned int every;
static int most;
static atomic_t made, failed;

static noinline long refuse(long result)
{
	return result;
}

static int entered(struct kprobe *probe, struct pt_regs *regs)
{
	/* The function has not begun, so the stack begins with its return address. */
	unsigned long caller = *(unsigned long *)regs->sp;

	if (caller < start || caller >= end)
		return 0;
	if ((unsigned int)atomic_inc_return(&made) % every || !atomic_add_unless(&failed, 1, most))
		return 0;
	if (failing->is_post)
		*(unsigned long *)regs->dx = regs->si;
	regs->di = failing->result;
	regs->ip = (unsigned long)refuse;
	return 1;
}
NOKPROBE_SYMBOL(entered);

/* A probe with this handler is not optimized: an optimized one cannot leave its function. */
static void left(struct kprobe *probe, struct pt_regs *regs, unsigned long flags)
{
}

static void let_succeed(void)
{
	if (failing)
		unregister_kprobe(&probe);
	failing = NULL;
	memset(&probe, 0, sizeof(probe));
}

static int set_fail(const char *text, const struct kernel_param *param)
{
	char name[64];
	unsigned int interval, limit;
	int error;

	if (sysfs_streq(text, "none")) {
		let_succeed();
		return 0;
	}
	if (sscanf(text, "%63s %u %u", name, &interval, &limit) != 3 || !interval || limit > INT_MAX)
		return -EINVAL;
	let_succeed();
	for (int i = 0; i < ARRAY_SIZE(calls); i++)
		if (!strcmp(calls[i].name, name))
			failing = &calls[i];
	if (!failing)
		return -ENOENT;
	every = interval;
	most = limit;
	atomic_set(&made, 0);
	atomic_set(&failed, 0);
	probe.symbol_name = failing->name;
	probe.pre_handler = entered;
	probe.post_handler = left;
	error = register_kprobe(&probe);
	if (error) {
		failing = NULL;
		let_succeed();
	}
	return error;
}

static int get_fail(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%d %d\n", atomic_read(&made), atomic_read(&failed));
}

static const struct kernel_param_ops fail_ops = { .set = set_fail, .get = get_fail };
module_param_cb(fail, &fail_ops, NULL, 0644);

static int __init calls_init(void)
{
	return 0;
}

module_init(calls_init);
MODULE_DESCRIPTION("svcrdma tests: failing calls of the RDMA core and the driver, and mappings");
MODULE_LICENSE("GPL");
