/* SPDX-License-Identifier: GPL-2.0 */
#undef TRACE_SYSTEM
#define TRACE_SYSTEM svcrdma_rs

#if !defined(_TRACE_SVCRDMA_RS_H) || defined(TRACE_HEADER_MULTI_READ)
#define _TRACE_SVCRDMA_RS_H
#include <linux/tracepoint.h>

/*
 * A connection request was accepted (status is 0) or failed (status is a negative errno). receive
 * and send are the inline thresholds in bytes, credits is the initial grant.
 */
TRACE_EVENT(svcrdma_rs_accept,
	TP_PROTO(u64 conn, int status, u32 receive, u32 send, u32 credits),
	TP_ARGS(conn, status, receive, send, credits),
	TP_STRUCT__entry(
		__field(u64, conn)
		__field(int, status)
		__field(u32, receive)
		__field(u32, send)
		__field(u32, credits)
	),
	TP_fast_assign(
		__entry->conn = conn;
		__entry->status = status;
		__entry->receive = receive;
		__entry->send = send;
		__entry->credits = credits;
	),
	TP_printk("conn=%llu status=%d receive=%u send=%u credits=%u",
		  __entry->conn, __entry->status, __entry->receive,
		  __entry->send, __entry->credits)
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

/* A connection starts to close. reason and detail are defined in rust/svc/close_reason.rs. */
TRACE_EVENT(svcrdma_rs_close,
	TP_PROTO(u64 conn, u32 reason, int detail),
	TP_ARGS(conn, reason, detail),
	TP_STRUCT__entry(
		__field(u64, conn)
		__field(u32, reason)
		__field(int, detail)
	),
	TP_fast_assign(
		__entry->conn = conn;
		__entry->reason = reason;
		__entry->detail = detail;
	),
	TP_printk("conn=%llu reason=%u detail=%d",
		  __entry->conn, __entry->reason, __entry->detail)
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
#endif
#include <trace/define_trace.h>
