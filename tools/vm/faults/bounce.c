// SPDX-License-Identifier: GPL-2.0
/*
 * Makes soft RDMA devices use the DMA API, as hardware does, for tests. Devices that register while
 * this is loaded get a DMA device whose addresses are those of bounce buffers: the device sees what
 * the CPU has written only when that is mapped or synced, and the CPU what the device has written
 * only when that is unmapped or synced. A list of pages gets one buffer if there is memory for that,
 * as an IOMMU would give it one range of addresses. It stays loaded. Parameters:
 *
 * lists    how many lists were mapped
 * listed   how many ranges of lists are mapped
 * singles  how many other mappings exist
 * fail     how many of the next lists cannot be mapped
 * lost     set to lose what the CPU has written to memory that is mapped for the device to write, as the
 *          DMA API allows
 * owners   set to warn if memory that the device writes is synced for the one that owns it already;
 *          Linux's client does so
 *
 * The kernel log has a warning if a mapping is undone or synced that was not made like that.
 */
#include <linux/dma-map-ops.h>
#include <linux/kprobes.h>
#include <linux/module.h>
#include <linux/platform_device.h>
#include <linux/scatterlist.h>
#include <linux/slab.h>
#include <linux/xarray.h>

/* The most bytes of an entry of a list, as with bounce buffers of the kernel. */
#define MOST (5 * PAGE_SIZE)

/* What memory holds while a device owns it. */
#define OWNED_BY_DEVICE 0x5a

struct part {
	void *memory;
	size_t size;
};

struct mapping {
	void *pages;
	unsigned int order;
	/* Of the first byte; the mapping has the page offset of the memory. */
	void *start;
	size_t size;
	enum dma_data_direction dir;
	bool owned_by_cpu;
	/* Which of the numbers above it counts in. */
	int *kind;
	int count;
	struct part parts[] __counted_by(count);
};

static DEFINE_XARRAY(mappings);
static struct platform_device *pdev;

static unsigned int lists, fail;
static int listed, singles;
static bool owners, lost;
module_param(lists, uint, 0444);
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

/* Maps the memory of parts, which are count, as one range. Returns NULL if there is no memory. */
static struct mapping *map(const struct part *parts, int count, int *kind,
			   enum dma_data_direction dir, unsigned long attrs)
{
	gfp_t gfp = GFP_ATOMIC | __GFP_NOWARN;
	struct mapping *mapping = kzalloc(struct_size(mapping, parts, count), gfp);
	size_t offset = offset_in_page(parts[0].memory);
	unsigned long flags;
	int error;

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
	xa_lock_irqsave(&mappings, flags);
	error = xa_err(__xa_store(&mappings, (unsigned long)mapping->pages >> PAGE_SHIFT, mapping,
				  GFP_ATOMIC));
	*kind += !error;
	xa_unlock_irqrestore(&mappings, flags);
	if (error) {
		to_memory(mapping, mapping->size);
		drop(mapping);
		return NULL;
	}
	return mapping;
}

/* Returns the mapping that begins at addr. */
static struct mapping *find(dma_addr_t addr, enum dma_data_direction dir)
{
	struct mapping *mapping = xa_load(&mappings, addr >> PAGE_SHIFT);

	if (WARN_ON(!mapping || (dma_addr_t)(uintptr_t)mapping->start != addr || mapping->dir != dir))
		return NULL;
	return mapping;
}

static void unmap(struct mapping *mapping, unsigned long attrs)
{
	unsigned long flags;

	xa_lock_irqsave(&mappings, flags);
	__xa_erase(&mappings, (unsigned long)mapping->pages >> PAGE_SHIFT);
	--*mapping->kind;
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
	struct mapping *mapping = map(&part, 1, &singles, dir, attrs);

	return mapping ? (uintptr_t)mapping->start : DMA_MAPPING_ERROR;
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
		sg_dma_address(entry) = (uintptr_t)mapping->start;
		sg_dma_len(entry) = mapping->size;
		if (done + step == count)
			return ranges + 1;
	}
	return -EINVAL;
}

static int map_sg(struct device *dev, struct scatterlist *list, int count,
		  enum dma_data_direction dir, unsigned long attrs)
{
	struct part *parts = kmalloc_array(count, sizeof(*parts), GFP_ATOMIC);
	struct scatterlist *entry;
	int i, error = -ENOMEM;

	lists++;
	if (fail) {
		fail--;
	} else if (parts) {
		bool fits = true;

		for_each_sg(list, entry, count, i) {
			parts[i] = (struct part){ sg_virt(entry), entry->length };
			fits &= entry->length <= MOST;
		}
		if (!WARN_ON(!fits))
			error = map_parts(dev, list, parts, count, dir, attrs);
	}
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

/* The third argument of ib_register_device() is the DMA device; soft devices have none. */
static int device_registers(struct kprobe *probe, struct pt_regs *regs)
{
	if (!regs->dx)
		regs->dx = (unsigned long)&pdev->dev;
	return 0;
}

static struct kprobe probe = { .symbol_name = "ib_register_device", .pre_handler = device_registers };

static int __init bounce_init(void)
{
	int error;

	pdev = platform_device_register_simple("bounce", PLATFORM_DEVID_NONE, NULL, 0);
	if (IS_ERR(pdev))
		return PTR_ERR(pdev);
	set_dma_ops(&pdev->dev, &ops);
	error = dma_coerce_mask_and_coherent(&pdev->dev, DMA_BIT_MASK(64));
	if (!error)
		error = register_kprobe(&probe);
	if (error)
		platform_device_unregister(pdev);
	return error;
}

module_init(bounce_init);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Bounce buffers for soft RDMA devices, for tests");
