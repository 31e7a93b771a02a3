// SPDX-License-Identifier: GPL-2.0
/*
 * Raises errors that soft devices never report, for tests. It is loaded in a VM before svcrdma creates
 * its queues. Parameters:
 *
 * fail     writing "cq" raises IB_EVENT_CQ_ERR for all completion queues that have an event handler
 * regions  how many memory regions for work requests all devices together may have
 * full     names a function of svcrdma that makes a queue and whose second argument is the capacity: it
 *          makes queues without room until an empty string is written
 */
#include <linux/kprobes.h>
#include <linux/module.h>
#include <rdma/ib_verbs.h>

#define MOST 64

/* Completion queues that exist, in no order. */
static void *cqs[MOST];

static void note(void **list, void *queue)
{
	int i;

	for (i = 0; i < MOST; i++)
		if (!cmpxchg(&list[i], NULL, queue))
			return;
	pr_warn("faults: more than %d completion queues, not all can fail\n", MOST);
}

static void forget(void **list, void *queue)
{
	int i;

	for (i = 0; i < MOST; i++)
		cmpxchg(&list[i], queue, NULL);
}

static int cq_made(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	void *queue = (void *)regs_return_value(regs);

	if (!IS_ERR_OR_NULL(queue))
		note(cqs, queue);
	return 0;
}

static int cq_goes(struct kprobe *probe, struct pt_regs *regs)
{
	forget(cqs, (void *)regs_get_kernel_argument(regs, 0));
	return 0;
}

static int regions = INT_MAX;
module_param(regions, int, 0644);
static atomic_t live_regions;

/* The second argument of ib_alloc_mr() is the type, and it refuses this one. */
static int region_is_made(struct kprobe *probe, struct pt_regs *regs)
{
	if (atomic_read(&live_regions) >= regions)
		regs->si = IB_MR_TYPE_USER;
	return 0;
}

static int region_made(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	if (!IS_ERR_OR_NULL((void *)regs_return_value(regs)))
		atomic_inc(&live_regions);
	return 0;
}

static int region_goes(struct kprobe *probe, struct pt_regs *regs)
{
	struct ib_mr *mr = (void *)regs_get_kernel_argument(regs, 0);

	if (mr->type == IB_MR_TYPE_MEM_REG)
		atomic_dec(&live_regions);
	return 0;
}

static struct kprobe before[] = {
	{ .symbol_name = "ib_alloc_mr", .pre_handler = region_is_made },
	{ .symbol_name = "ib_free_cq", .pre_handler = cq_goes },
	{ .symbol_name = "ib_dereg_mr_user", .pre_handler = region_goes },
};
static struct kretprobe after[] = {
	{ .kp.symbol_name = "__ib_alloc_cq", .handler = cq_made, .maxactive = 16 },
	{ .kp.symbol_name = "ib_alloc_mr", .handler = region_made, .maxactive = 16 },
};

static int fail(const char *what, const struct kernel_param *param)
{
	struct ib_event event = {};
	int i, told = 0;

	for (i = 0; i < MOST; i++) {
		struct ib_cq *cq = cqs[i];

		if (sysfs_streq(what, "cq") && cq && cq->event_handler) {
			event.event = IB_EVENT_CQ_ERR;
			event.device = cq->device;
			event.element.cq = cq;
			cq->event_handler(&event, cq->cq_context);
			told++;
		}
	}
	return told ? 0 : -ENOENT;
}

static const struct kernel_param_ops fail_ops = { .set = fail };
module_param_cb(fail, &fail_ops, NULL, 0200);

static int queue_is_made(struct kprobe *probe, struct pt_regs *regs)
{
	regs->si = 0;
	return 0;
}

static char maker_name[KSYM_NAME_LEN];
static struct kprobe maker;
static DEFINE_MUTEX(maker_lock);

static void let_be(void)
{
	if (maker.symbol_name)
		unregister_kprobe(&maker);
	memset(&maker, 0, sizeof(maker));
}

static int full(const char *what, const struct kernel_param *param)
{
	int error = 0;

	mutex_lock(&maker_lock);
	let_be();
	strscpy(maker_name, what);
	strim(maker_name);
	if (*maker_name) {
		maker.symbol_name = maker_name;
		maker.pre_handler = queue_is_made;
		error = register_kprobe(&maker);
		if (error)
			memset(&maker, 0, sizeof(maker));
	}
	mutex_unlock(&maker_lock);
	return error;
}

static const struct kernel_param_ops full_ops = { .set = full };
module_param_cb(full, &full_ops, NULL, 0200);

static void undo(int probes, int returns)
{
	while (returns-- > 0)
		unregister_kretprobe(&after[returns]);
	while (probes-- > 0)
		unregister_kprobe(&before[probes]);
}

static int __init faults_init(void)
{
	int error, probes, returns = 0;

	for (probes = 0; probes < ARRAY_SIZE(before); probes++) {
		error = register_kprobe(&before[probes]);
		if (error)
			goto undo;
	}
	for (; returns < ARRAY_SIZE(after); returns++) {
		error = register_kretprobe(&after[returns]);
		if (error)
			goto undo;
	}
	return 0;
undo:
	undo(probes, returns);
	return error;
}

static void __exit faults_exit(void)
{
	let_be();
	undo(ARRAY_SIZE(before), ARRAY_SIZE(after));
}

module_init(faults_init);
module_exit(faults_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Events of devices that fail, for tests");
