// SPDX-License-Identifier: GPL-2.0
/*
 * Makes allocations of objects fail in a kernel that has fault injection, but not CONFIG_FAILSLAB. /sys/kernel/debug/failslab has
 * the parameters of the kernel's fault injection; /proc/PID/fail-nth counts these allocations, too.
 *
 * A probe is hit in the context of an NMI, where the kernel neither knows the task nor may the function be skipped safely. So it
 * only lets execution go on in a function of this module, which fails or calls the allocator.
 */
#include <linux/debugfs.h>
#include <linux/fault-inject.h>
#include <linux/kprobes.h>
#include <linux/module.h>

/* The flags of gfp_nested_mask(): kmemleak allocates beside each allocation, and gives up if it cannot. */
#define NESTED (__GFP_NORETRY | __GFP_NOMEMALLOC | __GFP_NOWARN)

static DECLARE_FAULT_ATTR(attr);
static struct dentry *dir;

typedef void *allocate(unsigned long, unsigned long, unsigned long, unsigned long, unsigned long);

struct allocator {
	struct kprobe probe;
	allocate *instead;
};

static int entered(struct kprobe *probe, struct pt_regs *regs)
{
	struct allocator *allocator = container_of(probe, struct allocator, probe);

	/* The function has not begun, so the stack begins with its return address. */
	if ((!attr.probability && !current->fail_nth) || within_module(*(unsigned long *)regs->sp, THIS_MODULE))
		return 0;
	regs->ip = (unsigned long)allocator->instead;
	return 1;
}
NOKPROBE_SYMBOL(entered);

/* A probe with this handler is not optimized: an optimized one cannot leave its function. */
static void left(struct kprobe *probe, struct pt_regs *regs, unsigned long flags)
{
}

static bool fails(gfp_t flags)
{
	return !(flags & __GFP_NOFAIL) && (flags & NESTED) != NESTED && should_fail(&attr, 1);
}

/* An allocator with its flags; Rust frees by some, with size 0. */
#define ALLOCATOR(name, flags, size)                                                                                               \
	static allocate instead_of_##name;                                                                                         \
	static struct allocator of_##name = {                                                                                      \
		{ .symbol_name = #name, .pre_handler = entered, .post_handler = left }, instead_of_##name                          \
	};                                                                                                                         \
	static noinline void *instead_of_##name(unsigned long a, unsigned long b, unsigned long c, unsigned long d,                \
						unsigned long e)                                                                   \
	{                                                                                                                          \
		void *result;                                                                                                      \
                                                                                                                                   \
		if ((size) && fails(flags))                                                                                        \
			return NULL;                                                                                               \
		result = ((allocate *)of_##name.probe.addr)(a, b, c, d, e);                                                        \
		/* No tail call: entered() looks for this function's address. */                                                   \
		barrier();                                                                                                         \
		return result;                                                                                                     \
	}

ALLOCATOR(kmem_cache_alloc_noprof, b, true)
ALLOCATOR(kmem_cache_alloc_lru_noprof, c, true)
ALLOCATOR(kmem_cache_alloc_node_noprof, b, true)
ALLOCATOR(__kmalloc_noprof, b, true)
ALLOCATOR(__kmalloc_node_noprof, b, true)
ALLOCATOR(__kmalloc_cache_noprof, b, true)
ALLOCATOR(__kmalloc_cache_node_noprof, b, true)
ALLOCATOR(__kmalloc_node_track_caller_noprof, b, true)
ALLOCATOR(krealloc_node_align_noprof, d, b)
ALLOCATOR(kvrealloc_node_align_noprof, d, b)

static struct allocator *const allocators[] = {
	&of_kmem_cache_alloc_noprof,
	&of_kmem_cache_alloc_lru_noprof,
	&of_kmem_cache_alloc_node_noprof,
	&of___kmalloc_noprof,
	&of___kmalloc_node_noprof,
	&of___kmalloc_cache_noprof,
	&of___kmalloc_cache_node_noprof,
	&of___kmalloc_node_track_caller_noprof,
	&of_krealloc_node_align_noprof,
	&of_kvrealloc_node_align_noprof,
};

static int __init slab_init(void)
{
	size_t i;
	int err;

	dir = fault_create_debugfs_attr("failslab", NULL, &attr);
	if (IS_ERR(dir))
		return PTR_ERR(dir);
	for (i = 0; i < ARRAY_SIZE(allocators); i++) {
		err = register_kprobe(&allocators[i]->probe);
		if (err) {
			pr_err("slab: %s: error %d\n", allocators[i]->probe.symbol_name, err);
			while (i--)
				unregister_kprobe(&allocators[i]->probe);
			debugfs_remove_recursive(dir);
			return err;
		}
	}
	return 0;
}

/* There is no exit: a task may be in a function above. */
module_init(slab_init);
MODULE_DESCRIPTION("svcrdma tests: failing allocations of objects");
MODULE_LICENSE("GPL");
