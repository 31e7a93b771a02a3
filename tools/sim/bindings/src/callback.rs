// SPDX-License-Identifier: GPL-2.0

//! sunrpc's transports for callbacks. `client` uses them.

use crate::{kvec, net, svc_xprt, xdr_buf, Ptr};
use core::{alloc::Layout, marker::PhantomData};
use kernel::{
    bindings::module,
    ffi::{c_char, c_int, c_void},
    sim::{self, Fault},
};
use std::cell::Cell;

pub const XPRT_TRANSPORT_BC: u32 = 1 << 31;

pub struct __IncompleteArrayField<T>(PhantomData<T>);

impl<T> __IncompleteArrayField<T> {
    pub const fn new() -> Self {
        Self(PhantomData)
    }
}

impl<T> Default for __IncompleteArrayField<T> {
    fn default() -> Self {
        Self::new()
    }
}

#[repr(C)]
pub struct xprt_class {
    pub list: [usize; 2],
    pub ident: c_int,
    pub setup: Option<unsafe extern "C" fn(*mut xprt_create) -> *mut rpc_xprt>,
    pub owner: *mut module,
    pub name: [c_char; 32],
    pub netid: __IncompleteArrayField<*const c_char>,
}

#[repr(C)]
pub struct xprt_create {
    pub net: *mut net,
    pub srcaddr: *mut crate::sockaddr,
    pub bc_xprt: *mut svc_xprt,
}

#[repr(C)]
pub struct rpc_task {
    pub(crate) rqst: *mut rpc_rqst,
    pub(crate) is_done: bool,
}

#[repr(C)]
pub struct rpc_xprt {
    pub ops: *const rpc_xprt_ops,
    pub xprt_class: *const xprt_class,
    pub bc_xprt: *mut svc_xprt,
    layout: Layout,
    pub(crate) refs: u32,
    pub(crate) is_locked: bool,
    is_queue_locked: bool,
    pub(crate) is_connected: bool,
    pub(crate) wants_space: bool,
    /// The most Calls under way, and their number.
    pub(crate) window: u32,
    pub(crate) under_way: u32,
    /// The Calls that wait for their replies.
    pub(crate) waiting: Vec<Ptr<rpc_rqst>>,
}

#[repr(C)]
pub struct rpc_rqst {
    pub rq_xprt: *mut rpc_xprt,
    pub rq_task: *mut rpc_task,
    pub rq_xid: u32,
    pub rq_xtime: i64,
    pub rq_xmit_bytes_sent: usize,
    pub rq_snd_buf: xdr_buf,
    pub rq_private_buf: xdr_buf,
    pub rq_buffer: kvec,
    pub(crate) is_under_way: bool,
}

type Xprt = unsafe extern "C" fn(*mut rpc_xprt);
type XprtTask = unsafe extern "C" fn(*mut rpc_xprt, *mut rpc_task);
type Task = unsafe extern "C" fn(*mut rpc_task);

#[repr(C)]
pub struct rpc_xprt_ops {
    pub reserve_xprt: Option<unsafe extern "C" fn(*mut rpc_xprt, *mut rpc_task) -> c_int>,
    pub release_xprt: Option<XprtTask>,
    pub alloc_slot: Option<XprtTask>,
    pub free_slot: Option<unsafe extern "C" fn(*mut rpc_xprt, *mut rpc_rqst)>,
    pub connect: Option<XprtTask>,
    pub buf_alloc: Option<unsafe extern "C" fn(*mut rpc_task) -> c_int>,
    pub buf_free: Option<Task>,
    pub send_request: Option<unsafe extern "C" fn(*mut rpc_rqst) -> c_int>,
    pub wait_for_reply_request: Option<Task>,
    pub release_request: Option<Task>,
    pub close: Option<Xprt>,
    pub destroy: Option<Xprt>,
    pub print_stats: Option<unsafe extern "C" fn(*mut rpc_xprt, *mut crate::seq_file)>,
    pub inject_disconnect: Option<Xprt>,
    pub timer: Option<XprtTask>,
}

thread_local! {
    pub(crate) static BACKCHANNEL: Cell<*mut xprt_class> = const { Cell::new(core::ptr::null_mut()) };
}

pub unsafe fn xprt_register_transport(class: *mut xprt_class) -> c_int {
    BACKCHANNEL.set(class);
    0
}

pub unsafe fn xprt_unregister_transport(_: *mut xprt_class) -> c_int {
    BACKCHANNEL.set(core::ptr::null_mut());
    0
}

pub unsafe fn ktime_get() -> i64 {
    sim::now() as i64
}

pub unsafe fn read_bytes_from_xdr_buf(
    buf: *const xdr_buf,
    base: u32,
    out: *mut c_void,
    len: u32,
) -> c_int {
    let head = unsafe { (*buf).head[0] };
    if (base + len) as usize > head.iov_len {
        return -22;
    }
    let from = head.iov_base.cast::<u8>().wrapping_add(base as usize);
    unsafe { core::ptr::copy_nonoverlapping(from, out.cast(), len as usize) };
    0
}

// Transports

pub unsafe fn xprt_alloc(_: *mut net, size: usize, _slots: u32, _most: u32) -> *mut rpc_xprt {
    sim::might_sleep("xprt_alloc");
    if sim::fails(Fault::Memory) {
        return core::ptr::null_mut();
    }
    sim::count("callback transport", 1);
    let layout = Layout::from_size_align(size, 16).expect("the size is small");
    let xprt = unsafe { std::alloc::alloc_zeroed(layout).cast::<rpc_xprt>() };
    let this = rpc_xprt {
        ops: core::ptr::null(),
        xprt_class: core::ptr::null(),
        bc_xprt: core::ptr::null_mut(),
        layout,
        refs: 1,
        is_locked: false,
        is_queue_locked: false,
        is_connected: false,
        wants_space: false,
        window: 1,
        under_way: 0,
        waiting: Vec::new(),
    };
    unsafe { xprt.write(this) };
    xprt
}

pub unsafe fn xprt_free(xprt: *mut rpc_xprt) {
    sim::count("callback transport", -1);
    unsafe {
        let layout = (*xprt).layout;
        core::ptr::drop_in_place(xprt);
        std::alloc::dealloc(xprt.cast(), layout);
    }
}

pub unsafe fn xprt_discard(xprt: *mut rpc_xprt) {
    unsafe { xprt_free(xprt) };
}

pub unsafe fn xprt_set_peer(_: *mut rpc_xprt, _: *mut xprt_create) -> c_int {
    if sim::fails(Fault::Memory) {
        return -12;
    }
    0
}

pub unsafe fn xprt_publish(xprt: *mut rpc_xprt, svc: *mut svc_xprt) -> bool {
    let svc = Ptr(svc).get();
    if !svc.bc_xprt.is_null() {
        return false;
    }
    svc.bc_xprt = xprt;
    Ptr(xprt).get().is_connected = true;
    true
}

pub unsafe fn xprt_get(xprt: *mut rpc_xprt) -> *mut rpc_xprt {
    Ptr(xprt).get().refs += 1;
    xprt
}

/// Puts a reference; a work item destroys the transport after the last.
pub unsafe fn xprt_put(xprt: *mut rpc_xprt) {
    let xprt = Ptr(xprt);
    assert!(xprt.get().refs > 0, "a callback transport is put too often");
    xprt.get().refs -= 1;
    if xprt.get().refs == 0 {
        sim::spawn_short("xprt", move || {
            let destroy = xprt.ops().destroy.expect("the operation is there");
            unsafe { destroy(xprt.0) };
        });
    }
}

pub unsafe fn xprt_is_unused(xprt: *mut rpc_xprt) -> bool {
    Ptr(xprt).get().refs == 0
}

pub unsafe fn xprt_set_connected(xprt: *mut rpc_xprt) {
    Ptr(xprt).get().is_connected = true;
}

pub unsafe fn xprt_disconnect_done(xprt: *mut rpc_xprt) {
    let xprt = Ptr(xprt);
    xprt.get().is_connected = false;
    sim::wake(xprt.0);
    for rqst in &xprt.get().waiting {
        sim::wake(rqst.get().rq_task);
    }
}

pub unsafe fn xprt_queue_lock(xprt: *mut rpc_xprt) {
    let xprt = Ptr(xprt);
    sim::wait(xprt.0, || !xprt.get().is_queue_locked);
    xprt.get().is_queue_locked = true;
}

pub unsafe fn xprt_queue_unlock(xprt: *mut rpc_xprt) {
    Ptr(xprt).get().is_queue_locked = false;
    sim::wake(xprt);
}

pub unsafe fn xprt_lookup_rqst(xprt: *mut rpc_xprt, xid: u32) -> *mut rpc_rqst {
    let waiting = &Ptr(xprt).get().waiting;
    let found = waiting.iter().find(|rqst| rqst.get().rq_xid == xid);
    found.map_or(core::ptr::null_mut(), |rqst| rqst.0)
}

pub unsafe fn xprt_complete_rqst(task: *mut rpc_task, _len: c_int) {
    let task = Ptr(task);
    task.get().is_done = true;
    Ptr(Ptr(task.get().rqst).get().rq_xprt).forget(Ptr(task.get().rqst));
    sim::wake(task.0);
}

pub unsafe fn xprt_set_cwnd(xprt: *mut rpc_xprt, calls: u32) {
    Ptr(xprt).get().window = calls;
    sim::wake(xprt);
}

pub unsafe fn xprt_request_get_cong(xprt: *mut rpc_xprt, rqst: *mut rpc_rqst) -> bool {
    let (xprt, rqst) = (Ptr(xprt).get(), Ptr(rqst).get());
    if !rqst.is_under_way && xprt.under_way < xprt.window {
        xprt.under_way += 1;
        rqst.is_under_way = true;
    }
    rqst.is_under_way
}

pub unsafe fn xprt_wait_for_buffer_space(xprt: *mut rpc_xprt) -> bool {
    sim::point();
    Ptr(xprt).get().wants_space = true;
    true
}

pub unsafe fn xprt_write_space(xprt: *mut rpc_xprt) -> bool {
    sim::point();
    let wanted = core::mem::replace(&mut Ptr(xprt).get().wants_space, false);
    sim::wake(xprt);
    wanted
}

macro_rules! elsewhere {
    ($($name:ident($($ty:ty),*) $(-> $out:ty)?;)*) => {$(
        pub unsafe extern "C" fn $name($(_: $ty),*) $(-> $out)? {
            unreachable!(concat!(stringify!($name), ": the client has it"))
        }
    )*};
}

elsewhere! {
    task_buf_alloc(*mut rpc_task) -> c_int;
    task_buf_free(*mut rpc_task);
    xprt_alloc_slot(*mut rpc_xprt, *mut rpc_task);
    xprt_free_slot(*mut rpc_xprt, *mut rpc_rqst);
    xprt_print_stats(*mut rpc_xprt, *mut crate::seq_file);
    xprt_refuse_connect(*mut rpc_xprt);
    xprt_release_rqst_cong(*mut rpc_task);
    xprt_release_xprt_cong(*mut rpc_xprt, *mut rpc_task);
    xprt_reserve_xprt_cong(*mut rpc_xprt, *mut rpc_task) -> c_int;
    xprt_wait_for_reply_request_def(*mut rpc_task);
}
