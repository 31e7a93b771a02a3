// SPDX-License-Identifier: GPL-2.0
/*
 * Makes rxe use the DMA API, as hardware does, for tests. It is loaded when rdma_rxe is. Devices that
 * register while this is loaded get a DMA device with bounce buffers: the device sees what the CPU has
 * written only when that is mapped or synced, and the CPU what the device has written only when that is
 * unmapped or synced. A list of pages gets one buffer if there is memory for that, as an IOMMU would
 * give it one range of addresses. It stays loaded.
 *
 * The device's addresses are those of no memory, and none is used twice. When rxe transfers data they
 * are translated. The kernel log has a warning if one is not mapped then, and the data is that of no
 * buffer; and also if a mapping is undone or synced that was not made like that. Parameters:
 *
 * lists    how many lists were mapped
 * listed   how many ranges of lists are mapped
 * singles  how many other mappings exist
 * refused  how many lists could not be mapped because of "fail", "every" and "pool"
 * fail     how many of the next lists cannot be mapped
 * lost     set to lose what the CPU has written to memory that is mapped for the device to write, as the
 *          DMA API allows
 * every    every so many-th list cannot be mapped; 0 for none
 * pool     KiB that all mapped lists may have together; 0 for no limit
 * receives how many of the next buffers of a page or more that the device writes to, and that are no
 *          lists, cannot be mapped
 * owners   set to warn if memory that the device writes is synced for the one that owns it already;
 *          Linux's client does so
 */
#include <linux/dma-map-ops.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/xarray.h>
#include <rdma/ib_verbs.h>

/* The most bytes of an entry of a list, as with bounce buffers of the kernel. */
#define MOST (5 * PAGE_SIZE)

/* What memory holds while a device owns it. */
#define OWNED_BY_DEVICE 0x5a

/* Addresses of the device are not canonical for the CPU. Each mapping has a window, whose number is new. */
#define ADDRESSES (1ULL << 60)
#define WINDOW_SHIFT (PAGE_SHIFT + MAX_PAGE_ORDER + 1)

/* More than rxe transfers at a time. */
#define ELSEWHERE_ORDER 4

struct part {
	void *memory;
	size_t size;
};

struct mapping {
	void *pages;
	unsigned int order;
	/* Of the first byte; the mapping has the page offset of the memory. */
	void *start;
	/* What the device has for start. */
	dma_addr_t addr;
	size_t size;
	enum dma_data_direction dir;
	bool owned_by_cpu;
	/* Which of the numbers above it counts in. */
	int *kind;
	int count;
	struct part parts[] __counted_by(count);
};

/* The mappings by the numbers of their windows. */
static DEFINE_XARRAY(mappings);
static struct platform_device *pdev;
/* What addresses that are not mapped are translated to. */
static void *elsewhere;
/* The window of the last mapping, and the bytes of all lists. Changed under the lock of mappings. */
static unsigned long window;
static size_t listed_bytes;

static unsigned int lists, refused, fail, every, pool, receives;
static int listed, singles;
static bool owners, lost;
module_param(lists, uint, 0444);
module_param(refused, uint, 0444);
module_param(every, uint, 0644);
module_param(pool, uint, 0644);
module_param(receives, uint, 0644);
module_param(listed, int, 0444);
module_param(singles, int, 0444);
module_param(fail, uint, 0644);
module_param(owners, bool, 0444);
module_param(lost, bool, 0444);

static bool reaches_device(enum dma_data_direction dir) { return dir != DMA_FROM_DEVICE; }
static bool reaches_cpu(enum dma_data_direction dir) { return dir != DMA_TO_DEVICE; }

/* Copies between the buffer and the first size bytes of the memory. */
static void to_buffer(struct mapping *mapping, size_t size)
{
	void *at = mapping->start;

	for (int i = 0; i < mapping->count && size; i++) {
		size_t len = min(size, mapping->parts[i].size);

		memcpy(at, mapping->parts[i].memory, len);
		at += len;
		size -= len;
	}
}

static void to_memory(struct mapping *mapping, size_t size)
{
	void *at = mapping->start;

	for (int i = 0; i < mapping->count && size; i++) {
		size_t len = min(size, mapping->parts[i].size);

		memcpy(mapping->parts[i].memory, at, len);
		at += len;
		size -= len;
	}
}

/* Makes a CPU that reads what the device owns find something else. */
static void give_to_device(struct mapping *mapping)
{
	for (int i = 0; i < mapping->count; i++)
		memset(mapping->parts[i].memory, OWNED_BY_DEVICE, mapping->parts[i].size);
}

static void drop(struct mapping *mapping)
{
	free_pages((unsigned long)mapping->pages, mapping->order);
	kfree(mapping);
}

/* Gives the mapping, which counts in kind, a window. */
static int publish(struct mapping *mapping)
{
	unsigned long flags;
	int error;

	xa_lock_irqsave(&mappings, flags);
	error = xa_err(__xa_store(&mappings, ++window, mapping, GFP_ATOMIC));
	if (!error) {
		++*mapping->kind;
		if (mapping->kind == &listed)
			listed_bytes += mapping->size;
	}
	mapping->addr = ADDRESSES + ((dma_addr_t)window << WINDOW_SHIFT) + offset_in_page(mapping->start);
	xa_unlock_irqrestore(&mappings, flags);
	return error;
}

static unsigned long window_of(dma_addr_t addr) { return (addr - ADDRESSES) >> WINDOW_SHIFT; }

/* Maps the memory of parts, which are count, as one range. Returns NULL if there is no memory. */
static struct mapping *map(const struct part *parts, int count, int *kind,
			   enum dma_data_direction dir, unsigned long attrs)
{
	gfp_t gfp = GFP_ATOMIC | __GFP_NOWARN;
	struct mapping *mapping = kzalloc(struct_size(mapping, parts, count), gfp);
	size_t offset = offset_in_page(parts[0].memory);

	if (!mapping)
		return NULL;
	mapping->count = count;
	mapping->kind = kind;
	mapping->dir = dir;
	for (int i = 0; i < count; i++) {
		mapping->parts[i] = parts[i];
		mapping->size += parts[i].size;
	}
	mapping->order = get_order(offset + mapping->size);
	mapping->pages = mapping->order > MAX_PAGE_ORDER ?
		NULL : (void *)__get_free_pages(gfp, mapping->order);
	if (!mapping->pages) {
		kfree(mapping);
		return NULL;
	}
	mapping->start = mapping->pages + offset;
	/* What the device does not write stays, as with bounce buffers of the kernel. */
	if (lost && dir == DMA_FROM_DEVICE)
		memset(mapping->start, OWNED_BY_DEVICE, mapping->size);
	else if (!(attrs & DMA_ATTR_SKIP_CPU_SYNC))
		to_buffer(mapping, mapping->size);
	if (dir == DMA_FROM_DEVICE)
		give_to_device(mapping);
	if (publish(mapping)) {
		to_memory(mapping, mapping->size);
		drop(mapping);
		return NULL;
	}
	return mapping;
}

/* Returns the mapping that begins at addr. */
static struct mapping *find(dma_addr_t addr, enum dma_data_direction dir)
{
	struct mapping *mapping = xa_load(&mappings, window_of(addr));

	if (WARN_ON(!mapping || mapping->addr != addr || mapping->dir != dir))
		return NULL;
	return mapping;
}

static void unmap(struct mapping *mapping, unsigned long attrs)
{
	unsigned long flags;

	xa_lock_irqsave(&mappings, flags);
	__xa_erase(&mappings, window_of(mapping->addr));
	--*mapping->kind;
	if (mapping->kind == &listed)
		listed_bytes -= mapping->size;
	xa_unlock_irqrestore(&mappings, flags);
	if (reaches_cpu(mapping->dir) && !(attrs & DMA_ATTR_SKIP_CPU_SYNC))
		to_memory(mapping, mapping->size);
	memset(mapping->start, OWNED_BY_DEVICE, mapping->size);
	drop(mapping);
}

static dma_addr_t map_phys(struct device *dev, phys_addr_t phys, size_t size,
			   enum dma_data_direction dir, unsigned long attrs)
{
	struct part part = { phys_to_virt(phys), size };
	struct mapping *mapping;

	if (receives && dir == DMA_FROM_DEVICE && size >= PAGE_SIZE) {
		receives--;
		return DMA_MAPPING_ERROR;
	}
	mapping = map(&part, 1, &singles, dir, attrs);
	return mapping ? mapping->addr : DMA_MAPPING_ERROR;
}

static void unmap_phys(struct device *dev, dma_addr_t addr, size_t size,
		       enum dma_data_direction dir, unsigned long attrs)
{
	struct mapping *mapping = find(addr, dir);

	if (mapping && !WARN_ON(mapping->kind != &singles || mapping->size != size))
		unmap(mapping, attrs);
}

static void unmap_sg(struct device *dev, struct scatterlist *list, int count,
		     enum dma_data_direction dir, unsigned long attrs)
{
	struct scatterlist *entry = list;

	for (int left = count; left > 0; entry = sg_next(entry)) {
		struct mapping *mapping = find(sg_dma_address(entry), dir);

		if (!mapping || WARN_ON(mapping->count > left || mapping->size != sg_dma_len(entry)))
			return;
		left -= mapping->count;
		unmap(mapping, attrs);
	}
}

/* Maps the parts as one range if possible, or each by itself. Returns the number of ranges. */
static int map_parts(struct device *dev, struct scatterlist *list, struct part *parts, int count,
		     enum dma_data_direction dir, unsigned long attrs)
{
	struct scatterlist *entry = list;
	int done = 0, step = count;

	for (int ranges = 0; done < count; ranges++, done += step, entry = sg_next(entry)) {
		struct mapping *mapping = map(parts + done, step, &listed, dir, attrs);

		if (!mapping && step > 1) {
			step = 1;
			mapping = map(parts + done, step, &listed, dir, attrs);
		}
		if (!mapping) {
			unmap_sg(dev, list, done, dir, attrs);
			return -ENOMEM;
		}
		sg_dma_address(entry) = mapping->addr;
		sg_dma_len(entry) = mapping->size;
		if (done + step == count)
			return ranges + 1;
	}
	return -EINVAL;
}

/* Returns true if a list of size bytes cannot be mapped because of the parameters. */
static bool is_refused(size_t size)
{
	bool is_short = pool && READ_ONCE(listed_bytes) + size > pool * 1024UL;

	lists++;
	if (fail)
		fail--;
	else if (!is_short && (!every || lists % every))
		return false;
	refused++;
	return true;
}

static int map_sg(struct device *dev, struct scatterlist *list, int count,
		  enum dma_data_direction dir, unsigned long attrs)
{
	struct part *parts = kmalloc_array(count, sizeof(*parts), GFP_ATOMIC);
	struct scatterlist *entry;
	int i, error = -ENOMEM;
	bool fits = true;
	size_t size = 0;

	if (!parts)
		return error;
	for_each_sg(list, entry, count, i) {
		parts[i] = (struct part){ sg_virt(entry), entry->length };
		fits &= entry->length <= MOST;
		size += entry->length;
	}
	if (!WARN_ON(!fits) && !is_refused(size))
		error = map_parts(dev, list, parts, count, dir, attrs);
	kfree(parts);
	return error;
}

static void sync_for_cpu(struct device *dev, dma_addr_t addr, size_t size, enum dma_data_direction dir)
{
	struct mapping *mapping = find(addr, dir);

	if (!mapping || WARN_ON(size > mapping->size) || !reaches_cpu(dir))
		return;
	WARN_ON(owners && mapping->owned_by_cpu);
	mapping->owned_by_cpu = true;
	to_memory(mapping, size);
}

static void sync_for_device(struct device *dev, dma_addr_t addr, size_t size,
			    enum dma_data_direction dir)
{
	struct mapping *mapping = find(addr, dir);

	if (!mapping || WARN_ON(size > mapping->size))
		return;
	if (reaches_device(dir)) {
		to_buffer(mapping, size);
		return;
	}
	WARN_ON(owners && !mapping->owned_by_cpu);
	mapping->owned_by_cpu = false;
	give_to_device(mapping);
}

static size_t max_mapping_size(struct device *dev) { return MOST; }
static int supported(struct device *dev, u64 mask) { return 1; }

static const struct dma_map_ops ops = {
	.map_phys = map_phys,
	.unmap_phys = unmap_phys,
	.map_sg = map_sg,
	.unmap_sg = unmap_sg,
	.sync_single_for_cpu = sync_for_cpu,
	.sync_single_for_device = sync_for_device,
	.max_mapping_size = max_mapping_size,
	.dma_supported = supported,
};

/* Returns where the device finds the size bytes at addr, and warns if they are not mapped. */
static void *translate(dma_addr_t addr, size_t size)
{
	struct mapping *mapping;
	void *at = elsewhere;
	unsigned long flags;

	xa_lock_irqsave(&mappings, flags);
	mapping = xa_load(&mappings, window_of(addr));
	if (mapping && addr >= mapping->addr && addr - mapping->addr + size <= mapping->size)
		at = mapping->start + (addr - mapping->addr);
	xa_unlock_irqrestore(&mappings, flags);
	WARN_ONCE(at == elsewhere, "bounce: the device uses %zu bytes at %llx, which are not mapped\n", size,
		  (u64)addr);
	return at;
}

/*
 * The second argument of rxe_mr_copy() is an address, the fourth is the number of bytes. Addresses in
 * memory regions may be any: Linux's client puts the XID of a Call into the upper half. So an address
 * beyond all windows so far belongs to a region.
 */
static int data_is_transferred(struct kprobe *probe, struct pt_regs *regs)
{
	if (regs->si >= ADDRESSES && window_of(regs->si) <= READ_ONCE(window))
		regs->si = (unsigned long)translate(regs->si, (u32)regs->cx);
	return 0;
}

static int (*map_region)(struct ib_mr *mr, struct scatterlist *list, int count, unsigned int *offset);

/* Maps a memory region. rxe translates its addresses to pages here. */
static int map_mr_sg(struct ib_mr *mr, struct scatterlist *list, int count, unsigned int *offset)
{
	dma_addr_t *addresses = kmalloc_array(count, sizeof(*addresses), GFP_ATOMIC);
	struct scatterlist *entry;
	int i, mapped;

	if (!addresses)
		return -ENOMEM;
	for_each_sg(list, entry, count, i) {
		addresses[i] = sg_dma_address(entry);
		sg_dma_address(entry) = (uintptr_t)translate(addresses[i], sg_dma_len(entry));
	}
	mapped = map_region(mr, list, count, offset);
	for_each_sg(list, entry, count, i)
		sg_dma_address(entry) = addresses[i];
	kfree(addresses);
	return mapped;
}

/* The third argument of ib_register_device() is the DMA device; soft devices have none. */
static int device_registers(struct kprobe *probe, struct pt_regs *regs)
{
	struct ib_device *device = (void *)regs->di;

	if (regs->dx)
		return 0;
	regs->dx = (unsigned long)&pdev->dev;
	if (device->ops.map_mr_sg == map_mr_sg)
		return 0;
	map_region = device->ops.map_mr_sg;
	device->ops.map_mr_sg = map_mr_sg;
	return 0;
}

static struct kprobe probe = { .symbol_name = "ib_register_device", .pre_handler = device_registers };
static struct kprobe transfer = { .symbol_name = "rxe_mr_copy", .pre_handler = data_is_transferred };

static int __init bounce_init(void)
{
	int error = -ENOMEM;

	elsewhere = (void *)__get_free_pages(GFP_KERNEL | __GFP_ZERO, ELSEWHERE_ORDER);
	if (!elsewhere)
		return error;
	pdev = platform_device_register_simple("bounce", PLATFORM_DEVID_NONE, NULL, 0);
	error = PTR_ERR_OR_ZERO(pdev);
	if (error)
		goto free;
	set_dma_ops(&pdev->dev, &ops);
	error = dma_coerce_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (error)
		goto unregister;
	error = register_kprobe(&transfer);
	if (error)
		goto unregister;
	error = register_kprobe(&probe);
	if (!error)
		return 0;
	unregister_kprobe(&transfer);
unregister:
	platform_device_unregister(pdev);
free:
	free_pages((unsigned long)elsewhere, ELSEWHERE_ORDER);
	return error;
}

module_init(bounce_init);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Bounce buffers for soft RDMA devices, for tests");
