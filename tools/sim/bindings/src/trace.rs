// SPDX-License-Identifier: GPL-2.0

//! The module's trace events, which the time line of a run shows.

use kernel::sim::event;

pub unsafe fn rust_do_trace_svcrdma_rs_accept(
    conn: u64,
    status: i32,
    receive: u32,
    send: u32,
    credits: u32,
) {
    event(format_args!(
        "accept: {conn}: {status}, {receive} and {send} bytes, {credits} credits"
    ));
}

pub unsafe fn rust_do_trace_svcrdma_rs_call(
    conn: u64,
    xid: u32,
    len: u32,
    read: u32,
    writes: u32,
    reply: u32,
) {
    event(format_args!(
        "call: {conn}: {xid:#x}, {len} bytes, read {read}, {writes} and {reply} chunks"
    ));
}

pub unsafe fn rust_do_trace_svcrdma_rs_reply(
    conn: u64,
    xid: u32,
    len: u32,
    sent: u32,
    credits: u32,
) {
    event(format_args!(
        "reply: {conn}: {xid:#x}, {len} bytes, {sent} inline, {credits} credits"
    ));
}

pub unsafe fn rust_do_trace_svcrdma_rs_close(conn: u64, reason: u32, detail: i32) {
    kernel::sim::note_close(reason);
    event(format_args!("close: {conn}: {reason}, {detail}"));
}

pub unsafe fn rust_do_trace_svcrdma_rs_dead(conn: u64) {
    event(format_args!("dead: {conn}"));
}

pub unsafe fn rust_do_trace_svcrdma_rs_malformed(conn: u64, xid: u32, reason: u32, len: u32) {
    event(format_args!(
        "malformed: {conn}: {xid:#x}, {reason}, {len} bytes"
    ));
}

pub unsafe fn rust_do_trace_svcrdma_rs_refused(conn: u64, xid: u32, len: u32) {
    event(format_args!("refused: {conn}: {xid:#x}, {len} bytes"));
}
