// SPDX-License-Identifier: GPL-2.0

//! Types and functions for callbacks, which the simulator does not make.

use crate::{kvec, net, svc_xprt, xdr_buf};
use core::marker::PhantomData;
use kernel::{
    bindings::module,
    ffi::{c_char, c_int, c_void},
};

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
pub struct rpc_task;

#[repr(C)]
pub struct rpc_xprt {
    pub ops: *const rpc_xprt_ops,
    pub xprt_class: *const xprt_class,
    pub bc_xprt: *mut svc_xprt,
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

pub unsafe fn xprt_register_transport(_: *mut xprt_class) -> c_int {
    0
}

pub unsafe fn xprt_unregister_transport(_: *mut xprt_class) -> c_int {
    0
}

macro_rules! unused {
    ($($name:ident($($ty:ty),*) $(-> $out:ty)?;)*) => {$(
        pub unsafe extern "C" fn $name($(_: $ty),*) $(-> $out)? {
            unreachable!(concat!(stringify!($name), ": the simulator makes no callbacks"))
        }
    )*};
}

unused! {
    ktime_get() -> i64;
    read_bytes_from_xdr_buf(*const xdr_buf, u32, *mut c_void, u32) -> c_int;
    task_buf_alloc(*mut rpc_task) -> c_int;
    task_buf_free(*mut rpc_task);
    xprt_alloc(*mut net, usize, u32, u32) -> *mut rpc_xprt;
    xprt_alloc_slot(*mut rpc_xprt, *mut rpc_task);
    xprt_complete_rqst(*mut rpc_task, c_int);
    xprt_discard(*mut rpc_xprt);
    xprt_disconnect_done(*mut rpc_xprt);
    xprt_free(*mut rpc_xprt);
    xprt_free_slot(*mut rpc_xprt, *mut rpc_rqst);
    xprt_get(*mut rpc_xprt) -> *mut rpc_xprt;
    xprt_is_unused(*mut rpc_xprt) -> bool;
    xprt_lookup_rqst(*mut rpc_xprt, u32) -> *mut rpc_rqst;
    xprt_print_stats(*mut rpc_xprt, *mut crate::seq_file);
    xprt_publish(*mut rpc_xprt, *mut svc_xprt) -> bool;
    xprt_put(*mut rpc_xprt);
    xprt_queue_lock(*mut rpc_xprt);
    xprt_queue_unlock(*mut rpc_xprt);
    xprt_refuse_connect(*mut rpc_xprt);
    xprt_release_rqst_cong(*mut rpc_task);
    xprt_release_xprt_cong(*mut rpc_xprt, *mut rpc_task);
    xprt_request_get_cong(*mut rpc_xprt, *mut rpc_rqst) -> bool;
    xprt_reserve_xprt_cong(*mut rpc_xprt, *mut rpc_task) -> c_int;
    xprt_set_connected(*mut rpc_xprt);
    xprt_set_cwnd(*mut rpc_xprt, u32);
    xprt_set_peer(*mut rpc_xprt, *mut xprt_create) -> c_int;
    xprt_wait_for_buffer_space(*mut rpc_xprt) -> bool;
    xprt_wait_for_reply_request_def(*mut rpc_task);
    xprt_write_space(*mut rpc_xprt) -> bool;
}
