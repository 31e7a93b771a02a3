// SPDX-License-Identifier: GPL-2.0
/*
 * Raises errors that soft devices never report, for tests. It is loaded in a VM before svcrdma creates
 * its queues. Completion queues that have an event handler are svcrdma's. Parameters:
 *
 * fail     what is written there happens at once:
 *          "cq" raises IB_EVENT_CQ_ERR for all queues of svcrdma;
 *          "cq-dead" does so too, and from now on these queues complete nothing;
 *          "cq-silent": they complete nothing, without an event;
 *          "sends-silent", "receives-silent": those alone that a queue pair has for that work;
 *          "new-silent": queues that are made from now on complete nothing, without an event;
 *          "device" raises IB_EVENT_DEVICE_FATAL for all devices with queues of svcrdma;
 *          "none": all queues complete work again, also what has waited
 * modify   how many of the next transitions to the error state of queue pairs of svcrdma fail
 * regions  how many memory regions for work requests all devices together may have
 * full     names a function of svcrdma that makes a queue and whose second argument is the capacity: it
 *          makes queues without room until an empty string is written
 */
#include <linux/kprobes.h>
#include <linux/module.h>
#include <rdma/ib_verbs.h>

#define MOST 64

/* A completion queue that exists, or none. */
struct queue {
	struct ib_cq *cq;
	/* What the queue pairs that use it have it for. */
	bool has_sends, has_receives;
	/* It completes nothing if it is svcrdma's. */
	bool is_dead;
};

/* Changed under the lock. In no order. */
static struct queue queues[MOST];
static DEFINE_RAW_SPINLOCK(lock);
/* New queues are dead. */
static bool new_are_dead;

static struct queue *find(const struct ib_cq *cq)
{
	int i;

	for (i = 0; i < MOST; i++)
		if (READ_ONCE(queues[i].cq) == cq)
			return &queues[i];
	return NULL;
}

static int cq_made(struct kretprobe_instance *instance, struct pt_regs *regs)
{
	struct ib_cq *cq = (void *)regs_return_value(regs);
	struct queue *queue;
	unsigned long flags;

	if (IS_ERR_OR_NULL(cq))
		return 0;
	raw_spin_lock_irqsave(&lock, flags);
	queue = find(NULL);
	if (queue) {
		*queue = (struct queue){ .is_dead = new_are_dead };
		WRITE_ONCE(queue->cq, cq);
	}
	raw_spin_unlock_irqrestore(&lock, flags);
	if (!queue)
		pr_warn("faults: more than %d completion queues, not all can fail\n", MOST);
	return 0;
}

static int cq_goes(struct kprobe *probe, struct pt_regs *regs)
{
	struct queue *queue;
	unsigned long flags;

	raw_spin_lock_irqsave(&lock, flags);
	queue = find((void *)regs_get_kernel_argument(regs, 0));
	if (queue)
		WRITE_ONCE(queue->cq, NULL);
	raw_spin_unlock_irqrestore(&lock, flags);
	return 0;
}

/* The second argument of ib_create_qp_kernel() has the attributes. */
static int qp_is_made(struct kprobe *probe, struct pt_regs *regs)
{
	const struct ib_qp_init_attr *attr = (void *)regs_get_kernel_argument(regs, 1);
	struct queue *sends, *receives;
	unsigned long flags;

	raw_spin_lock_irqsave(&lock, flags);
	sends = attr->send_cq ? find(attr->send_cq) : NULL;
	receives = attr->recv_cq ? find(attr->recv_cq) : NULL;
	if (sends)
		sends->has_sends = true;
	if (receives)
		receives->has_receives = true;
	raw_spin_unlock_irqrestore(&lock, flags);
	return 0;
}

static bool is_dead(const struct ib_cq *cq)
{
	const struct queue *queue = find(cq);

	return queue && queue->is_dead && cq->event_handler;
}

/* The second argument of poll_cq is the number of completions that it may return. */
static int cq_is_polled(struct kprobe *probe, struct pt_regs *regs)
{
	if (is_dead((void *)regs_get_kernel_argument(regs, 0)))
		regs->si = 0;
	return 0;
}

/* A queue with completions that nobody polls would be polled for ever. */
static int cq_is_armed(struct kprobe *probe, struct pt_regs *regs)
{
	if (is_dead((void *)regs_get_kernel_argument(regs, 0)))
		regs->si &= ~IB_CQ_REPORT_MISSED_EVENTS;
	return 0;
}

static atomic_t transitions;

/* Drivers of soft devices refuse attributes that they do not have, before they change anything. */
static int qp_is_modified(struct kprobe *probe, struct pt_regs *regs)
{
	const struct ib_qp *qp = (void *)regs_get_kernel_argument(regs, 0);
	const struct ib_qp_attr *attr = (void *)regs_get_kernel_argument(regs, 1);

	if (regs->dx & IB_QP_STATE && attr->qp_state == IB_QPS_ERR && qp->send_cq &&
	    find(qp->send_cq) && qp->send_cq->event_handler &&
	    atomic_dec_if_positive(&transitions) >= 0)
		regs->dx |= IB_QP_RATE_LIMIT;
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
	{ .symbol_name = "ib_create_qp_kernel", .pre_handler = qp_is_made },
	{ .symbol_name = "ib_modify_qp", .pre_handler = qp_is_modified },
	{ .symbol_name = "ib_dereg_mr_user", .pre_handler = region_goes },
};
static struct kretprobe after[] = {
	{ .kp.symbol_name = "__ib_alloc_cq", .handler = cq_made, .maxactive = 16 },
	{ .kp.symbol_name = "ib_alloc_mr", .handler = region_made, .maxactive = 16 },
};

/* Functions of the driver whose queues are dead. Registered as long as any are. */
static struct kprobe poll, arm;
static DEFINE_MUTEX(driver_lock);

static void let_complete(void)
{
	unsigned long flags;
	int i;

	if (!poll.addr)
		return;
	raw_spin_lock_irqsave(&lock, flags);
	new_are_dead = false;
	for (i = 0; i < MOST; i++) {
		struct ib_cq *cq = queues[i].cq;
		bool was_dead = cq && is_dead(cq);

		queues[i].is_dead = false;
		if (was_dead)
			cq->comp_handler(cq, cq->cq_context);
	}
	raw_spin_unlock_irqrestore(&lock, flags);
	unregister_kprobe(&arm);
	unregister_kprobe(&poll);
	memset(&arm, 0, sizeof(arm));
	memset(&poll, 0, sizeof(poll));
}

/* Makes it possible that queues are dead. All devices have one driver. */
static int watch_driver(void)
{
	unsigned long flags;
	int error, i;

	if (poll.addr)
		return 0;
	raw_spin_lock_irqsave(&lock, flags);
	for (i = 0; i < MOST; i++) {
		if (!queues[i].cq)
			continue;
		poll.addr = (void *)queues[i].cq->device->ops.poll_cq;
		arm.addr = (void *)queues[i].cq->device->ops.req_notify_cq;
		break;
	}
	raw_spin_unlock_irqrestore(&lock, flags);
	if (!poll.addr)
		return -ENOENT;
	poll.pre_handler = cq_is_polled;
	arm.pre_handler = cq_is_armed;
	error = register_kprobe(&poll);
	if (!error) {
		error = register_kprobe(&arm);
		if (error)
			unregister_kprobe(&poll);
	}
	if (error) {
		memset(&arm, 0, sizeof(arm));
		memset(&poll, 0, sizeof(poll));
	}
	return error;
}

/* What "fail" can do to queues. */
static const struct {
	const char *name;
	bool has_event, is_dead, sends_only, receives_only;
} kinds[] = {
	{ "cq", .has_event = true },
	{ "cq-dead", .has_event = true, .is_dead = true },
	{ "cq-silent", .is_dead = true },
	{ "sends-silent", .is_dead = true, .sends_only = true },
	{ "receives-silent", .is_dead = true, .receives_only = true },
};

/* Returns how many queues have failed. */
static int fail_queues(int kind)
{
	struct ib_event event = { .event = IB_EVENT_CQ_ERR };
	unsigned long flags;
	int i, count = 0;

	raw_spin_lock_irqsave(&lock, flags);
	for (i = 0; i < MOST; i++) {
		struct queue *queue = &queues[i];
		struct ib_cq *cq = queue->cq;

		if (!cq || !cq->event_handler || (kinds[kind].sends_only && !queue->has_sends) ||
		    (kinds[kind].receives_only && !queue->has_receives))
			continue;
		count++;
		queue->is_dead |= kinds[kind].is_dead;
		if (!kinds[kind].has_event)
			continue;
		event.device = cq->device;
		event.element.cq = cq;
		cq->event_handler(&event, cq->cq_context);
	}
	raw_spin_unlock_irqrestore(&lock, flags);
	return count;
}

/* Returns how many devices have failed. Handlers of the event are called later, by a workqueue. */
static int fail_devices(void)
{
	struct ib_event event = { .event = IB_EVENT_DEVICE_FATAL };
	struct ib_device *devices[MOST];
	int i, count = 0;
	unsigned long flags;

	raw_spin_lock_irqsave(&lock, flags);
	for (i = 0; i < MOST; i++) {
		struct ib_cq *cq = queues[i].cq;

		if (cq && cq->event_handler && (!count || devices[count - 1] != cq->device))
			devices[count++] = cq->device;
	}
	raw_spin_unlock_irqrestore(&lock, flags);
	/* This allocates memory. No test removes a device meanwhile. */
	for (i = 0; i < count; i++) {
		event.device = devices[i];
		ib_dispatch_event(&event);
	}
	return count;
}

static int fail_as(const char *what)
{
	int error, kind;

	if (sysfs_streq(what, "none")) {
		let_complete();
		return 0;
	}
	if (sysfs_streq(what, "device"))
		return fail_devices() ? 0 : -ENOENT;
	if (sysfs_streq(what, "new-silent")) {
		error = watch_driver();
		new_are_dead = !error;
		return error;
	}
	for (kind = 0; kind < ARRAY_SIZE(kinds); kind++) {
		if (!sysfs_streq(what, kinds[kind].name))
			continue;
		error = kinds[kind].is_dead ? watch_driver() : 0;
		if (error)
			return error;
		return fail_queues(kind) ? 0 : -ENOENT;
	}
	return -EINVAL;
}

static int fail(const char *what, const struct kernel_param *param)
{
	int error;

	mutex_lock(&driver_lock);
	error = fail_as(what);
	mutex_unlock(&driver_lock);
	return error;
}

static const struct kernel_param_ops fail_ops = { .set = fail };
module_param_cb(fail, &fail_ops, NULL, 0200);

static int set_transitions(const char *count, const struct kernel_param *param)
{
	int number, error = kstrtoint(count, 0, &number);

	if (!error)
		atomic_set(&transitions, number);
	return error;
}

static int get_transitions(char *buffer, const struct kernel_param *param)
{
	return sysfs_emit(buffer, "%d\n", atomic_read(&transitions));
}

static const struct kernel_param_ops transitions_ops = {
	.set = set_transitions,
	.get = get_transitions,
};
module_param_cb(modify, &transitions_ops, NULL, 0644);

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
	let_complete();
	undo(ARRAY_SIZE(before), ARRAY_SIZE(after));
}

module_init(faults_init);
module_exit(faults_exit);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Failures of devices, for tests");
