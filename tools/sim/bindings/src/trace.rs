// SPDX-License-Identifier: GPL-2.0

//! The module's trace events, which the time line of a run shows.

use kernel::{ffi::c_char, sim::event};

/// Returns a text of C.
unsafe fn text<'a>(text: *const c_char) -> &'a str {
    let text = unsafe { core::ffi::CStr::from_ptr(text.cast()) };
    text.to_str().expect("the module's texts are UTF-8")
}

pub unsafe fn rust_do_trace_svcrdma_rs_accept(
    conn: u64,
    status: i32,
    receive: u32,
    send: u32,
    credits: u32,
    peer: *const c_char,
) {
    let peer = unsafe { text(peer) };
    event(format_args!(
        "accept: {conn} of {peer}: {status}, {receive} and {send} bytes, {credits} credits"
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

pub unsafe fn rust_do_trace_svcrdma_rs_close(
    conn: u64,
    reason: u32,
    detail: i32,
    peer: *const c_char,
) {
    kernel::sim::note_close(conn, reason);
    let peer = unsafe { text(peer) };
    event(format_args!("close: {conn} of {peer}: {reason}, {detail}"));
}

pub unsafe fn rust_do_trace_svcrdma_rs_dead(conn: u64) {
    kernel::sim::note_dead(conn);
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

pub unsafe fn rust_do_trace_svcrdma_rs_shortage(
    begins: u32,
    unvalidated: u32,
    pages: u32,
    device: *const c_char,
) {
    // Each shortage ends.
    kernel::sim::count("shortage", if begins == 1 { 1 } else { -1 });
    let device = unsafe { text(device) };
    event(format_args!(
        "shortage: {device}: {begins}, {unvalidated}, {pages} pages"
    ));
}

pub unsafe fn rust_do_trace_svcrdma_rs_listener(listens: u32, net: u32, address: *const c_char) {
    let address = unsafe { text(address) };
    event(format_args!("listener: {address} in {net}: {listens}"));
}

pub unsafe fn rust_do_trace_svcrdma_rs_lane_retired(lane: u32, failed: u32, device: *const c_char) {
    let device = unsafe { text(device) };
    event(format_args!("lane retired: {device}: {lane}, {failed}"));
}
