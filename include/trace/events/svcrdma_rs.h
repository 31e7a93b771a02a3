/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM svcrdma_rs

#if !defined(_TRACE_SVCRDMA_RS_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_SVCRDMA_RS_H
#include <linux/tracepoint.h>

/*
 * A connection request was accepted (status is 0) or failed (status is a negative errno). receive
 * and send are the inline thresholds in bytes, credits is the initial grant. peer is the address
 * and the port.
 */
TRACE_EVENT(svcrdma_rs_accept,
	TP_PROTO(u64 conn, int status, u32 receive, u32 send, u32 credits, const char *peer),
	TP_ARGS(conn, status, receive, send, credits, peer),
	TP_STRUCT__entry(
		__field(u64, conn)
		__field(int, status)
		__field(u32, receive)
		__field(u32, send)
		__field(u32, credits)
		__string(peer, peer)
	),
	TP_fast_assign(
		__entry->conn = conn;
		__entry->status = status;
		__entry->receive = receive;
		__entry->send = send;
		__entry->credits = credits;
		__assign_str(peer);
	),
	TP_printk("conn=%llu status=%d receive=%u send=%u credits=%u peer=%s",
		  __entry->conn, __entry->status, __entry->receive,
		  __entry->send, __entry->credits, __get_str(peer))
);

/*
 * A Call was received in a message of len bytes. read is the number of bytes in pages once its Read
 * chunks are pulled, writes the number of its Write chunks, and reply is 1 if it offers a Reply
 * chunk.
 */
TRACE_EVENT(svcrdma_rs_call,
	TP_PROTO(u64 conn, u32 xid, u32 len, u32 read, u32 writes, u32 reply),
	TP_ARGS(conn, xid, len, read, writes, reply),
	TP_STRUCT__entry(
		__field(u64, conn)
		__field(u32, xid)
		__field(u32, len)
		__field(u32, read)
		__field(u32, writes)
		__field(u32, reply)
	),
	TP_fast_assign(
		__entry->conn = conn;
		__entry->xid = xid;
		__entry->len = len;
		__entry->read = read;
		__entry->writes = writes;
		__entry->reply = reply;
	),
	TP_printk("conn=%llu xid=0x%08x len=%u read=%u writes=%u reply=%u",
		  __entry->conn, __entry->xid, __entry->len,
		  __entry->read, __entry->writes, __entry->reply)
);

/*
 * A Reply is sent. len is the length of the RPC message in bytes, inline the part of it in the
 * Send; the rest is moved by RDMA Write. credits is the grant.
 */
TRACE_EVENT(svcrdma_rs_reply,
	TP_PROTO(u64 conn, u32 xid, u32 len, u32 sent, u32 credits),
	TP_ARGS(conn, xid, len, sent, credits),
	TP_STRUCT__entry(
		__field(u64, conn)
		__field(u32, xid)
		__field(u32, len)
		__field(u32, sent)
		__field(u32, credits)
	),
	TP_fast_assign(
		__entry->conn = conn;
		__entry->xid = xid;
		__entry->len = len;
		__entry->sent = sent;
		__entry->credits = credits;
	),
	TP_printk("conn=%llu xid=0x%08x len=%u inline=%u credits=%u",
		  __entry->conn, __entry->xid, __entry->len,
		  __entry->sent, __entry->credits)
);

/*
 * A connection starts to close. reason and detail are defined in rust/svc/close_reason.rs. peer is
 * the address and the port.
 */
TRACE_EVENT(svcrdma_rs_close,
	TP_PROTO(u64 conn, u32 reason, int detail, const char *peer),
	TP_ARGS(conn, reason, detail, peer),
	TP_STRUCT__entry(
		__field(u64, conn)
		__field(u32, reason)
		__field(int, detail)
		__string(peer, peer)
	),
	TP_fast_assign(
		__entry->conn = conn;
		__entry->reason = reason;
		__entry->detail = detail;
		__assign_str(peer);
	),
	TP_printk("conn=%llu reason=%u detail=%d peer=%s",
		  __entry->conn, __entry->reason, __entry->detail, __get_str(peer))
);

/* The endpoint of a connection, its hardware half, was destroyed. */
TRACE_EVENT(svcrdma_rs_dead,
	TP_PROTO(u64 conn),
	TP_ARGS(conn),
	TP_STRUCT__entry(__field(u64, conn)),
	TP_fast_assign(__entry->conn = conn;),
	TP_printk("conn=%llu", __entry->conn)
);

/* A message could not be decoded or served. reason is defined in rust/proto/error.rs. */
TRACE_EVENT(svcrdma_rs_malformed,
	TP_PROTO(u64 conn, u32 xid, u32 reason, u32 len),
	TP_ARGS(conn, xid, reason, len),
	TP_STRUCT__entry(
		__field(u64, conn)
		__field(u32, xid)
		__field(u32, reason)
		__field(u32, len)
	),
	TP_fast_assign(
		__entry->conn = conn;
		__entry->xid = xid;
		__entry->reason = reason;
		__entry->len = len;
	),
	TP_printk("conn=%llu xid=0x%08x reason=%u len=%u",
		  __entry->conn, __entry->xid, __entry->reason, __entry->len)
);

/* A Reply of len bytes fits neither inline nor in the client's chunks, so ERR_CHUNK is sent. */
TRACE_EVENT(svcrdma_rs_refused,
	TP_PROTO(u64 conn, u32 xid, u32 len),
	TP_ARGS(conn, xid, len),
	TP_STRUCT__entry(
		__field(u64, conn)
		__field(u32, xid)
		__field(u32, len)
	),
	TP_fast_assign(
		__entry->conn = conn;
		__entry->xid = xid;
		__entry->len = len;
	),
	TP_printk("conn=%llu xid=0x%08x len=%u",
		  __entry->conn, __entry->xid, __entry->len)
);

/*
 * The watchdog of a device has found Calls that wait too long for pages (begins is 1), or that none
 * waits any more (begins is 0). unvalidated is 1 if the Calls are of unvalidated peers. pages is the
 * number of pages that they want.
 */
TRACE_EVENT(svcrdma_rs_shortage,
	TP_PROTO(u32 begins, u32 unvalidated, u32 pages, const char *device),
	TP_ARGS(begins, unvalidated, pages, device),
	TP_STRUCT__entry(
		__field(u32, begins)
		__field(u32, unvalidated)
		__field(u32, pages)
		__string(device, device)
	),
	TP_fast_assign(
		__entry->begins = begins;
		__entry->unvalidated = unvalidated;
		__entry->pages = pages;
		__assign_str(device);
	),
	TP_printk("begins=%u unvalidated=%u pages=%u device=%s",
		  __entry->begins, __entry->unvalidated, __entry->pages, __get_str(device))
);

/*
 * A listener has lost its device or its address (listens is 0), or listens again (listens is 1). net
 * is the inode number of the network namespace.
 */
TRACE_EVENT(svcrdma_rs_listener,
	TP_PROTO(u32 listens, u32 net, const char *address),
	TP_ARGS(listens, net, address),
	TP_STRUCT__entry(
		__field(u32, listens)
		__field(u32, net)
		__string(address, address)
	),
	TP_fast_assign(
		__entry->listens = listens;
		__entry->net = net;
		__assign_str(address);
	),
	TP_printk("listens=%u net=%u address=%s",
		  __entry->listens, __entry->net, __get_str(address))
);

/*
 * A lane was retired: no connection uses it, or the device is being removed. failed is 1 if one of
 * its completion queues had failed.
 */
TRACE_EVENT(svcrdma_rs_lane_retired,
	TP_PROTO(u32 lane, u32 failed, const char *device),
	TP_ARGS(lane, failed, device),
	TP_STRUCT__entry(
		__field(u32, lane)
		__field(u32, failed)
		__string(device, device)
	),
	TP_fast_assign(
		__entry->lane = lane;
		__entry->failed = failed;
		__assign_str(device);
	),
	TP_printk("lane=%u failed=%u device=%s",
		  __entry->lane, __entry->failed, __get_str(device))
);
#endif
#include <trace/define_trace.h>
