// SPDX-License-Identifier: GPL-2.0
/*
 * Makes inline functions and macros of C callable from Rust. The functions are grouped by the
 * header of what they wrap, and decide nothing.
 */
#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/random.h>
#include <linux/ratelimit.h>
#include <linux/rcupdate.h>
#include <linux/scatterlist.h>
#include <linux/sysctl.h>
#include <linux/unroll.h>
#include <linux/workqueue.h>
#include <linux/sunrpc/addr.h>
#include <linux/sunrpc/sched.h>
#include <linux/sunrpc/svc.h>
#include <linux/sunrpc/svc_xprt.h>
#include <linux/sunrpc/svcauth.h>
#include <linux/sunrpc/svcauth_gss.h>
#include <linux/sunrpc/xprt.h>
#include <net/ipv6.h>
#include <net/net_namespace.h>
#include <net/netns/generic.h>
#include <rdma/ib_verbs.h>
#include <rdma/rdma_cm.h>
#include <svcrdma_helpers.h>

/* linux/jiffies.h */

/* Returns the milliseconds since the boot, without the time that the host was suspended. */
u64 svcrdma_helper_uptime_ms(void)
{
	return jiffies64_to_msecs(get_jiffies_64() - INITIAL_JIFFIES);
}

/* linux/mm.h */

struct page *svcrdma_helper_alloc_page(bool retry)
{
	return alloc_page(GFP_KERNEL | __GFP_NOWARN | (retry ? 0 : __GFP_NORETRY));
}

void svcrdma_helper_put_page(struct page *page)
{
	put_page(page);
}

void *svcrdma_helper_page_address(struct page *page)
{
	return page_address(page);
}

void svcrdma_helper_put_pages(struct page **pages, int count)
{
	release_pages(pages, count);
}

/*
 * Returns how many pages there are before the first one, of count, that others use. The caller has
 * a reference to each page, as each other user has. Large folios, whose references are those of the
 * first page, do not count as pages of the caller: they keep more memory.
 */
u32 svcrdma_helper_private_pages(struct page *const *pages, u32 count)
{
	u32 i;

	for (i = 0; i < count; i++)
		if (page_ref_count(pages[i]) != 1 || PageHead(pages[i]))
			break;
	return i;
}

/*
 * Exchanges pages with those of slots, which have a reference of the caller each. Returns true if
 * nobody else uses the pages that came. The caller keeps large folios out of both.
 */
bool svcrdma_helper_exchange_pages(struct page **pages, struct page **slots, u32 count)
{
	int others = 0;

	unrolled_count(4)
	for (u32 i = 0; i < count; i++) {
		struct page *page = slots[i];

		slots[i] = pages[i];
		pages[i] = page;
		others |= page_ref_count(page) ^ 1;
	}
	return !others;
}

/* linux/cpumask.h */

u32 svcrdma_helper_online_cpus(void)
{
	return num_online_cpus();
}

/* net/net_namespace.h */

void svcrdma_helper_net_get(struct net *net)
{
	get_net(net);
}

void svcrdma_helper_net_put(struct net *net)
{
	put_net(net);
}

struct net *svcrdma_helper_net_initial(void)
{
	return &init_net;
}

bool svcrdma_helper_net_is_initial(const struct net *net)
{
	return net_eq(net, &init_net);
}

u32 svcrdma_helper_net_number(const struct net *net)
{
	return net->ns.inum;
}

/* net/netns/generic.h */

void *svcrdma_helper_net_generic(const struct net *net, unsigned int id)
{
	return net_generic(net, id);
}

/* linux/workqueue.h */

struct workqueue_struct *svcrdma_helper_alloc_workqueue(void)
{
	return alloc_workqueue("svcrdma", WQ_UNBOUND | WQ_MEM_RECLAIM, 0);
}

void svcrdma_helper_flush_workqueue(struct workqueue_struct *wq)
{
	flush_workqueue(wq);
}

void svcrdma_helper_init_delayed_work(struct delayed_work *dwork, work_func_t func)
{
	INIT_DELAYED_WORK(dwork, func);
}

void svcrdma_helper_queue_delayed_work(struct workqueue_struct *wq,
				       struct delayed_work *dwork, u32 msecs)
{
	queue_delayed_work(wq, dwork, msecs_to_jiffies(msecs));
}

void svcrdma_helper_disable_delayed_work_sync(struct delayed_work *dwork)
{
	disable_delayed_work_sync(dwork);
}

struct delayed_work *svcrdma_helper_to_delayed_work(struct work_struct *work)
{
	return to_delayed_work(work);
}

/* linux/ratelimit.h */

#define RATELIMIT(line) \
	RATELIMIT_STATE_INIT(states[line], DEFAULT_RATELIMIT_INTERVAL, DEFAULT_RATELIMIT_BURST)

bool svcrdma_helper_ratelimit(enum svcrdma_line line)
{
	static struct ratelimit_state states[] = {
		[SVCRDMA_LINE_REFUSAL] = RATELIMIT(SVCRDMA_LINE_REFUSAL),
		[SVCRDMA_LINE_CLOSE] = RATELIMIT(SVCRDMA_LINE_CLOSE),
		[SVCRDMA_LINE_OTHER] = RATELIMIT(SVCRDMA_LINE_OTHER),
	};

	return ___ratelimit(&states[line], KBUILD_MODNAME);
}

/* linux/sunrpc/svc_xprt.h */

void svcrdma_helper_xprt_set_flag(struct svc_xprt *xprt, u32 flag)
{
	set_bit(flag, &xprt->xpt_flags);
}

void svcrdma_helper_xprt_clear_flag(struct svc_xprt *xprt, u32 flag)
{
	clear_bit(flag, &xprt->xpt_flags);
}

/*
 * Returns the number of requests that threads process, without deferred ones: see
 * svc_xprt_reserve_slot() and svc_xprt_release_slot(). The acquire makes visible what a thread has
 * stored before the end of its request.
 */
int svcrdma_helper_xprt_running(const struct svc_xprt *xprt)
{
	return atomic_read_acquire(&xprt->xpt_nr_rqsts);
}

bool svcrdma_helper_xprt_test_flag(const struct svc_xprt *xprt, u32 flag)
{
	return test_bit(flag, &xprt->xpt_flags);
}

/* Returns true if the service of xprt has a listener of another class. */
bool svcrdma_helper_xprt_has_others(struct svc_xprt *xprt)
{
	struct svc_serv *serv = xprt->xpt_server;
	struct svc_xprt *other;
	bool found = false;

	spin_lock_bh(&serv->sv_lock);
	list_for_each_entry(other, &serv->sv_permsocks, xpt_list)
		found |= other->xpt_class != xprt->xpt_class;
	spin_unlock_bh(&serv->sv_lock);
	return found;
}

size_t svcrdma_helper_addr_len(const struct sockaddr *addr)
{
	/* svc_addr_len() is a BUG for a family that it does not know, as of the peer of a listening id. */
	switch (addr->sa_family) {
	case AF_INET:
	case AF_INET6:
		return svc_addr_len(addr);
	default:
		return 0;
	}
}

/*
 * Sets the port of the remote address to 0, so that the duplicate reply cache, which compares
 * address and port, recognises a client after a reconnect. XPT_LOCAL marks a client on this host,
 * whose writes nfsd throttles only against the device that they go to (PF_LOCAL_THROTTLE).
 */
void svcrdma_helper_xprt_set_addrs(struct svc_xprt *xprt, struct sockaddr *local,
				   struct sockaddr *remote)
{
	svc_xprt_set_local(xprt, local, svcrdma_helper_addr_len(local));
	if (!remote) {
		strscpy(xprt->xpt_remotebuf, "listener");
		return;
	}
	svc_xprt_set_remote(xprt, remote, svcrdma_helper_addr_len(remote));
	rpc_set_port((struct sockaddr *)&xprt->xpt_remote, 0);
	snprintf(xprt->xpt_remotebuf, sizeof(xprt->xpt_remotebuf), "%pISc", remote);
	if (rpc_cmp_addr(local, remote))
		set_bit(XPT_LOCAL, &xprt->xpt_flags);
}

/* Frees a transport that was never published. The put drops a module reference. */
void svcrdma_helper_xprt_abandon(struct svc_xprt *xprt)
{
	__module_get(xprt->xpt_class->xcl_owner);
	svc_xprt_put(xprt);
}

/* Sets the scope of a link-local address, which the connection manager does not fill in. */
void svcrdma_helper_addr_set_scope(struct sockaddr *addr, const struct rdma_cm_id *id)
{
	struct sockaddr_in6 *sin6 = (struct sockaddr_in6 *)addr;

	if (addr->sa_family == AF_INET6 && !sin6->sin6_scope_id &&
	    ipv6_addr_type(&sin6->sin6_addr) & IPV6_ADDR_LINKLOCAL)
		sin6->sin6_scope_id = id->route.addr.dev_addr.bound_dev_if;
}

int svcrdma_helper_addr_format(char *buf, size_t len, const struct sockaddr *addr)
{
	const struct sockaddr_in6 *sin6 = (const struct sockaddr_in6 *)addr;

	if (addr->sa_family == AF_INET6 && sin6->sin6_scope_id)
		return scnprintf(buf, len, "%pISpsc", addr);
	return scnprintf(buf, len, "%pISpc", addr);
}

/* linux/sunrpc/svc.h */

u32 svcrdma_helper_serv_maxpages(const struct svc_xprt *xprt)
{
	return svc_serv_maxpages(xprt->xpt_server);
}

/*
 * RDMA has no privileged ports. Who may create queue pairs is up to the administrator of the
 * fabric, so every peer counts as secure. rq_prot is part of the key of the duplicate reply cache.
 */
void svcrdma_helper_rqst_begin(struct svc_rqst *rqstp)
{
	rqstp->rq_xprt_ctxt = NULL;
	rqstp->rq_prot = IPPROTO_MAX;
	set_bit(RQ_SECURE, &rqstp->rq_flags);
	assign_bit(RQ_LOCAL, &rqstp->rq_flags,
		   test_bit(XPT_LOCAL, &rqstp->rq_xprt->xpt_flags));
	svc_xprt_copy_addrs(rqstp, rqstp->rq_xprt);
}

/* Returns true if results are sent as they were encoded, without integrity or privacy. */
bool svcrdma_helper_rqst_is_plain(struct svc_rqst *rqstp)
{
	switch (svc_auth_flavor(rqstp)) {
	case RPC_AUTH_NULL:
	case RPC_AUTH_UNIX:
	case RPC_AUTH_GSS_KRB5:
		return true;
	default:
		return false;
	}
}

/* linux/sunrpc/xprt.h */

void svcrdma_helper_xprt_queue_lock(struct rpc_xprt *xprt)
{
	spin_lock(&xprt->queue_lock);
}

void svcrdma_helper_xprt_queue_unlock(struct rpc_xprt *xprt)
{
	spin_unlock(&xprt->queue_lock);
}

void svcrdma_helper_xprt_set_cwnd(struct rpc_xprt *xprt, u32 requests)
{
	spin_lock(&xprt->transport_lock);
	xprt->cwnd = (unsigned long)requests << RPC_CWNDSHIFT;
	spin_unlock(&xprt->transport_lock);
}

void svcrdma_helper_xprt_set_connected(struct rpc_xprt *xprt)
{
	xprt_set_connected(xprt);
}

void svcrdma_helper_xprt_refuse_connect(struct rpc_xprt *xprt)
{
	xprt_clear_connecting(xprt);
	xprt_wake_pending_tasks(xprt, -ENOTCONN);
}

static void xprt_free_strings(struct rpc_xprt *xprt)
{
	for (int i = 0; i < RPC_DISPLAY_MAX; i++)
		kfree(xprt->address_strings[i]);
}

/* Sets the peer of a callback transport, and marks the transport bound and connected. */
int svcrdma_helper_xprt_set_peer(struct rpc_xprt *xprt, const struct xprt_create *args)
{
	static const struct rpc_timeout timeout = {
		.to_initval = 60 * HZ,
		.to_maxval = 60 * HZ,
	};
	const struct sockaddr *addr = args->dstaddr;

	if (args->addrlen > sizeof(xprt->addr))
		return -EINVAL;
	memcpy(&xprt->addr, addr, args->addrlen);
	xprt->addrlen = args->addrlen;
	xprt->prot = args->ident;
	xprt->timeout = &timeout;
	xprt->max_payload = PAGE_SIZE;
	xprt->address_strings[RPC_DISPLAY_ADDR] = kasprintf(GFP_KERNEL, "%pISc", addr);
	xprt->address_strings[RPC_DISPLAY_PORT] =
		kasprintf(GFP_KERNEL, "%u", rpc_get_port(addr));
	xprt->address_strings[RPC_DISPLAY_PROTO] = kstrdup("rdma", GFP_KERNEL);
	xprt->address_strings[RPC_DISPLAY_NETID] =
		kstrdup(addr->sa_family == AF_INET6 ? "rdma6" : "rdma", GFP_KERNEL);
	xprt->address_strings[RPC_DISPLAY_HEX_ADDR] =
		kasprintf(GFP_KERNEL, "%pISc", addr);
	xprt->address_strings[RPC_DISPLAY_HEX_PORT] =
		kasprintf(GFP_KERNEL, "%04x", rpc_get_port(addr));
	for (int i = 0; i < RPC_DISPLAY_MAX; i++) {
		if (!xprt->address_strings[i]) {
			xprt_free_strings(xprt);
			return -ENOMEM;
		}
	}
	xprt_set_bound(xprt);
	xprt_set_connected(xprt);
	return 0;
}

/* Sets the callback transport of svc, unless another client has just set one. */
bool svcrdma_helper_xprt_publish(struct rpc_xprt *xprt, struct svc_xprt *svc)
{
	return !cmpxchg(&svc->xpt_bc_xprt, NULL, xprt);
}

void svcrdma_helper_hold_module(void)
{
	__module_get(THIS_MODULE);
}

void svcrdma_helper_put_module(void)
{
	module_put(THIS_MODULE);
}

/* Waits until each task has slept voluntarily or left the kernel. */
void svcrdma_helper_wait_for_tasks(void)
{
	synchronize_rcu_tasks();
}

/* Frees a callback transport. */
void svcrdma_helper_xprt_discard(struct rpc_xprt *xprt)
{
	xprt_free_strings(xprt);
	xprt_free(xprt);
}

bool svcrdma_helper_xprt_is_unused(struct rpc_xprt *xprt)
{
	return !kref_read(&xprt->kref);
}

void svcrdma_helper_xprt_print_stats(struct rpc_xprt *xprt, struct seq_file *seq)
{
	seq_printf(seq, "\txprt:\tsvcrdma-bc %lu %lu %lu %llu\n", xprt->stat.sends,
		   xprt->stat.recvs, xprt->stat.bad_xids, xprt->stat.req_u);
}

/* linux/sunrpc/sched.h */

int svcrdma_helper_task_buf_alloc(struct rpc_task *task)
{
	struct rpc_rqst *rqst = task->tk_rqstp;

	rqst->rq_buffer = kmalloc(rqst->rq_callsize + rqst->rq_rcvsize,
				  rpc_task_gfp_mask() | __GFP_NOWARN);
	if (!rqst->rq_buffer)
		return -ENOMEM;
	rqst->rq_rbuffer = rqst->rq_buffer + rqst->rq_callsize;
	return 0;
}

void svcrdma_helper_task_buf_free(struct rpc_task *task)
{
	kfree(task->tk_rqstp->rq_buffer);
}

/* rdma/ib_verbs.h */

void svcrdma_helper_device_limits(struct ib_device *dev, struct svcrdma_limits *out)
{
	const struct ib_device_attr *attrs = &dev->attrs;

	out->max_qp_wr = attrs->max_qp_wr;
	out->max_send_sge = attrs->max_send_sge;
	out->max_sge_rd = attrs->max_sge_rd;
	out->max_cqe = attrs->max_cqe;
	out->max_qp_init_rd_atom = attrs->max_qp_init_rd_atom;
	out->max_qp_rd_atom = attrs->max_qp_rd_atom;
	out->num_comp_vectors = dev->num_comp_vectors;
	out->max_mr_pages = attrs->max_fast_reg_page_list_len;
	out->mem_mgt_extensions =
		attrs->device_cap_flags & IB_DEVICE_MEM_MGT_EXTENSIONS;
	out->iwarp = rdma_protocol_iwarp(dev, rdma_start_port(dev));
}

/* Copies the name, as the device may be renamed. */
void svcrdma_helper_device_name(const struct ib_device *dev, char *buf, size_t len)
{
	strscpy(buf, dev->name, len);
}

void svcrdma_helper_device_get(struct ib_device *dev)
{
	get_device(&dev->dev);
}

void svcrdma_helper_device_put(struct ib_device *dev)
{
	put_device(&dev->dev);
}

bool svcrdma_helper_ib_device_try_get(struct ib_device *dev)
{
	return ib_device_try_get(dev);
}

struct ib_pd *svcrdma_helper_ib_alloc_pd(struct ib_device *dev)
{
	return ib_alloc_pd(dev, 0);
}

void svcrdma_helper_ib_dealloc_pd(struct ib_pd *pd)
{
	ib_dealloc_pd(pd);
}

/*
 * Allocates a completion queue whose events are passed to handler, with context. ib_alloc_cq() sets
 * the context before it creates the queue of the device, and so before the device can report an
 * event. Drivers check the handler before they call it, without a lock: the release makes visible to
 * the handler all that was stored before.
 */
struct ib_cq *svcrdma_helper_ib_alloc_cq(struct ib_device *dev, void *context,
					 void (*handler)(struct ib_event *, void *), u32 cqes,
					 u32 vector)
{
	struct ib_cq *cq = ib_alloc_cq(dev, context, cqes, vector, IB_POLL_WORKQUEUE);

	if (!IS_ERR(cq))
		smp_store_release(&cq->event_handler, handler);
	return cq;
}

void svcrdma_helper_register_event_handler(struct ib_event_handler *handler, struct ib_device *dev,
					   void (*f)(struct ib_event_handler *, struct ib_event *))
{
	INIT_IB_EVENT_HANDLER(handler, dev, f);
	ib_register_event_handler(handler);
}

void svcrdma_helper_poll_cq(struct ib_cq *cq)
{
	queue_work(cq->comp_wq, &cq->work);
}

void svcrdma_helper_flush_cq(struct ib_cq *cq)
{
	flush_work(&cq->work);
}

/*
 * Sets up an invalid memory region for the bytes of segments from skip on, size bytes at the address
 * iova. The region covers these bytes alone: its last page may be a part of a page. skip is whole
 * pages, within the first segment. list has an entry for each page. Returns true if the region covers
 * all bytes.
 */
bool svcrdma_helper_mr_put(struct ib_mr *mr, struct scatterlist *list,
			   const struct ib_sge *segments, u32 skip, u32 size, u64 iova)
{
	struct scatterlist *sg = list;
	int count, put;

	sg_init_table(list, DIV_ROUND_UP(size, PAGE_SIZE));
	for (u32 left = size; left; sg++, segments++) {
		sg_dma_address(sg) = segments->addr + skip;
		sg_dma_len(sg) = min(segments->length - skip, left);
		left -= sg_dma_len(sg);
		skip = 0;
	}
	count = sg - list;
	ib_update_fast_reg_key(mr, ib_inc_rkey(mr->rkey));
	put = ib_map_mr_sg(mr, list, count, NULL, PAGE_SIZE);
	mr->iova = iova;
	return put == count && mr->length == size;
}

u64 svcrdma_helper_get_random_u64(void)
{
	return get_random_u64();
}

int svcrdma_helper_ib_post_recv(struct ib_qp *qp, const struct ib_recv_wr *wr,
				const struct ib_recv_wr **bad)
{
	return ib_post_recv(qp, wr, bad);
}

int svcrdma_helper_ib_post_send(struct ib_qp *qp, const struct ib_send_wr *wr,
				const struct ib_send_wr **bad)
{
	return ib_post_send(qp, wr, bad);
}

/* The values of Direction in rust/rdma/mem/dma.rs. */
static_assert(DMA_BIDIRECTIONAL == 0 && DMA_TO_DEVICE == 1 && DMA_FROM_DEVICE == 2);

u64 svcrdma_helper_ib_dma_map_page(struct ib_device *dev, struct page *page, int direction)
{
	return ib_dma_map_page(dev, page, 0, PAGE_SIZE, direction);
}

void svcrdma_helper_ib_dma_unmap_page(struct ib_device *dev, u64 addr, int direction)
{
	ib_dma_unmap_page(dev, addr, PAGE_SIZE, direction);
}

int svcrdma_helper_ib_dma_mapping_error(struct ib_device *dev, u64 addr)
{
	return ib_dma_mapping_error(dev, addr);
}

/*
 * Returns the end of the pages that lie behind each other in memory, from the first on. Where struct
 * pages have no common array, those of distant pages may lie side by side.
 */
static struct page *const *behind(struct page *const *pages, struct page *const *end)
{
	const struct page *page = *pages;

	while (++pages != end && *pages == page + 1 &&
	       (IS_ENABLED(CONFIG_SPARSEMEM_VMEMMAP) ||
		page_to_pfn(*pages) == page_to_pfn(page) + 1))
		page++;
	return pages;
}

/* Maps whole pages for a soft device, whose addresses are those of the kernel. */
static u32 virt_map_pages(struct ib_pd *pd, struct page *const *pages, u32 count,
			  struct ib_sge *segments)
{
	struct page *const *end = pages + count, *const *first;
	struct ib_sge *segment = segments;

	for (; pages != end; segment++) {
		first = pages;
		pages = behind(first, end);
		segment->addr = (uintptr_t)page_address(*first);
		segment->length = (pages - first) << PAGE_SHIFT;
		segment->lkey = pd->local_dma_lkey;
	}
	return segment - segments;
}

/* Makes a list of whole pages, in entries of at most most pages. Returns the number of entries. */
static u32 list_pages(struct page *const *pages, u32 count, u32 most, struct scatterlist *list)
{
	struct page *const *end = pages + count, *const *first;
	struct scatterlist *entry = list;

	sg_init_table(list, count);
	for (; pages != end; entry++) {
		first = pages;
		pages = behind(first, end - first > most ? first + most : end);
		sg_set_page(entry, *first, (pages - first) << PAGE_SHIFT, 0);
	}
	sg_mark_end(entry - 1);
	return entry - list;
}

static noinline u32 dma_map_pages(struct ib_pd *pd, struct page *const *pages, u32 count,
				  int direction, struct ib_sge *segments,
				  struct scatterlist *list, u32 *entries)
{
	struct ib_device *dev = pd->device;
	/* Bounce buffers have a limit, too. */
	size_t most = min_t(size_t, ib_dma_max_seg_size(dev),
			    dma_max_mapping_size(dev->dma_device));
	u32 used = list_pages(pages, count, max(most >> PAGE_SHIFT, 1), list);

	count = ib_dma_map_sg(dev, list, used, direction);
	*entries = count ? used : 0;
	for (u32 i = 0; i < count; i++) {
		segments[i].addr = sg_dma_address(&list[i]);
		segments[i].length = sg_dma_len(&list[i]);
		segments[i].lkey = pd->local_dma_lkey;
	}
	return count;
}

/*
 * Maps count whole pages with one call. The segments are what the device may access, in the order of
 * the pages. Returns their number, or 0 if the pages cannot be mapped. Sets entries to the number of
 * entries of list that have to be unmapped. Both arrays have an entry for each page.
 */
u32 svcrdma_helper_ib_dma_map_pages(struct ib_pd *pd, struct page *const *pages, u32 count,
				    int direction, struct ib_sge *segments,
				    struct scatterlist *list, u32 *entries)
{
	if (!ib_uses_virt_dma(pd->device))
		return dma_map_pages(pd, pages, count, direction, segments, list, entries);
	*entries = 0;
	return virt_map_pages(pd, pages, count, segments);
}

void svcrdma_helper_ib_dma_unmap_pages(struct ib_pd *pd, struct scatterlist *list, u32 entries,
				       int direction)
{
	ib_dma_unmap_sg(pd->device, list, entries, direction);
}

/* Unmaps without a sync, which could overwrite what the CPU has written to the page. */
void svcrdma_helper_ib_dma_unmap_page_as_is(struct ib_device *dev, u64 addr)
{
	if (!ib_uses_virt_dma(dev))
		dma_unmap_page_attrs(dev->dma_device, addr, PAGE_SIZE, DMA_FROM_DEVICE,
				     DMA_ATTR_SKIP_CPU_SYNC);
}

/* Syncs a page for Receives, for the device before it is posted or for the CPU after completion. */
void svcrdma_helper_ib_dma_sync_receive(struct ib_device *dev, u64 addr, bool to_device)
{
	if (to_device)
		ib_dma_sync_single_for_device(dev, addr, PAGE_SIZE, DMA_FROM_DEVICE);
	else
		ib_dma_sync_single_for_cpu(dev, addr, PAGE_SIZE, DMA_FROM_DEVICE);
}

void svcrdma_helper_ib_dma_sync_for_device(struct ib_device *dev, u64 addr, size_t len)
{
	ib_dma_sync_single_for_device(dev, addr, len, DMA_TO_DEVICE);
}

/* rdma/rdma_cm.h */

struct rdma_cm_id *svcrdma_helper_rdma_create_id(struct net *net,
						 rdma_cm_event_handler handler,
						 void *context, const char *name)
{
	return __rdma_create_kernel_id(net, handler, context, RDMA_PS_TCP,
				       IB_QPT_RC, name);
}

/* Returns true if the port of the device that the id is bound to speaks RoCE. */
bool svcrdma_helper_rdma_id_is_roce(const struct rdma_cm_id *id)
{
	return rdma_protocol_roce(id->device, id->port_num);
}
