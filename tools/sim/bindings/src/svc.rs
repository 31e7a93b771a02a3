// SPDX-License-Identifier: GPL-2.0

//! sunrpc's server: transports, the threads of nfsd, and a program that checks its arguments.

use crate::{callback::rpc_xprt, defer::Deferred, net, page, sockaddr, Ptr};
use kernel::{
    bindings::module,
    ffi::{c_char, c_int, c_uint, c_void},
    sim,
};
use std::{cell::RefCell, collections::VecDeque};

pub const RPCSVC_MAXPAYLOAD: u32 = 4 << 20;
pub const XPT_BUSY: u32 = 0;
pub const XPT_CONN: u32 = 1;
pub const XPT_CLOSE: u32 = 2;
pub const XPT_DATA: u32 = 3;
pub const XPT_DEAD: u32 = 5;
pub const XPT_DEFERRED: u32 = 8;
pub const XPT_LISTENER: u32 = 10;
pub const XPT_CACHE_AUTH: u32 = 11;
pub const XPT_CONG_CTRL: u32 = 14;
pub const XPT_PEER_VALID: u32 = 16;

/// The port of peers that the program does not validate, and of those that it does.
pub const STRANGER: u16 = 666;
pub const FRIEND: u16 = 700;

/// The pages of a request.
pub(crate) const MAX_PAGES: usize = 259;

#[repr(C)]
pub struct svc_xprt_class {
    pub xcl_name: *const c_char,
    pub xcl_owner: *mut module,
    pub xcl_ops: *const svc_xprt_ops,
    pub xcl_max_payload: u32,
    pub xcl_ident: c_int,
    pub xcl_list: [usize; 2],
}

#[repr(C)]
pub struct svc_xprt_ops {
    pub xpo_create: Option<
        unsafe extern "C" fn(*mut svc_serv, *mut net, *mut sockaddr, c_int, c_int) -> *mut svc_xprt,
    >,
    pub xpo_accept: Option<unsafe extern "C" fn(*mut svc_xprt) -> *mut svc_xprt>,
    pub xpo_has_wspace: Option<unsafe extern "C" fn(*mut svc_xprt) -> c_int>,
    pub xpo_recvfrom: Option<unsafe extern "C" fn(*mut svc_rqst) -> c_int>,
    pub xpo_sendto: Option<unsafe extern "C" fn(*mut svc_rqst) -> c_int>,
    pub xpo_result_payload: Option<unsafe extern "C" fn(*mut svc_rqst, c_uint, c_uint) -> c_int>,
    pub xpo_release_ctxt: Option<unsafe extern "C" fn(*mut svc_xprt, *mut c_void)>,
    pub xpo_detach: Option<unsafe extern "C" fn(*mut svc_xprt)>,
    pub xpo_free: Option<unsafe extern "C" fn(*mut svc_xprt)>,
    pub xpo_kill_temp_xprt: Option<unsafe extern "C" fn(*mut svc_xprt)>,
    pub xpo_handshake: Option<unsafe extern "C" fn(*mut svc_xprt)>,
}

#[repr(C)]
pub struct svc_xprt {
    pub xpt_class: *mut svc_xprt_class,
    pub xpt_net: *mut net,
    pub xpt_server: *mut svc_serv,
    pub(crate) flags: u32,
    refs: u32,
    pub(crate) running: i32,
    /// The program validates the peer with its first Call.
    is_trusted: bool,
    peer: sockaddr,
    pub(crate) has_client: bool,
    pub(crate) bc_xprt: *mut rpc_xprt,
}

#[repr(C)]
#[derive(Clone, Copy)]
pub struct kvec {
    pub iov_base: *mut c_void,
    pub iov_len: usize,
}

const NO_BYTES: kvec = kvec {
    iov_base: core::ptr::null_mut(),
    iov_len: 0,
};

#[repr(C)]
pub struct xdr_buf {
    pub head: [kvec; 1],
    pub tail: [kvec; 1],
    pub pages: *mut *mut page,
    pub page_base: u32,
    pub page_len: u32,
    pub buflen: u32,
    pub len: u32,
}

pub const EMPTY: xdr_buf = xdr_buf {
    head: [NO_BYTES],
    tail: [NO_BYTES],
    pages: core::ptr::null_mut(),
    page_base: 0,
    page_len: 0,
    buflen: 0,
    len: 0,
};

#[repr(C)]
pub struct svc_rqst {
    pub rq_xprt: *mut svc_xprt,
    pub rq_xprt_ctxt: *mut c_void,
    pub rq_vers: u32,
    pub rq_arg: xdr_buf,
    pub rq_res: xdr_buf,
    pub rq_pages: *mut *mut page,
    pub rq_respages: *mut *mut page,
    pub rq_next_page: *mut *mut page,
    pub rq_maxpages: usize,
}

/// A server: its transports and threads.
pub struct svc_serv {
    pub(crate) net: *mut net,
    pub(crate) xprts: Vec<Ptr<svc_xprt>>,
    pub(crate) ready: VecDeque<Ptr<svc_xprt>>,
    pub(crate) is_ending: bool,
    /// The Calls that were deferred and wait for a thread.
    pub(crate) deferred: Vec<Deferred>,
    /// The chance that the program drops a Call, in 1024ths.
    pub drops: u64,
    /// The chance that sunrpc defers a Call, in 1024ths.
    pub defers: u64,
    /// The chance that the program keeps pages of its arguments or results for a while, in 1024ths.
    pub keeps: u64,
    /// The callbacks to each client, and those that were answered.
    pub callbacks: u64,
    pub called_back: u64,
}

thread_local! {
    pub(crate) static CLASS: RefCell<Option<Ptr<svc_xprt_class>>> = const { RefCell::new(None) };
}

pub unsafe fn svc_reg_xprt_class(class: *mut svc_xprt_class) -> c_int {
    CLASS.with(|registered| *registered.borrow_mut() = Some(Ptr(class)));
    0
}

pub unsafe fn svc_unreg_xprt_class(_: *mut svc_xprt_class) {
    CLASS.with(|registered| *registered.borrow_mut() = None);
}

pub unsafe fn svc_xprt_init(
    net: *mut net,
    class: *mut svc_xprt_class,
    xprt: *mut svc_xprt,
    serv: *mut svc_serv,
) {
    sim::count("transport", 1);
    let this = svc_xprt {
        xpt_class: class,
        xpt_net: net,
        xpt_server: serv,
        flags: 1 << XPT_BUSY,
        refs: 1,
        running: 0,
        is_trusted: sim::chance(768),
        peer: crate::address(0, 0),
        has_client: false,
        bc_xprt: core::ptr::null_mut(),
    };
    unsafe { xprt.write(this) };
}

pub unsafe fn xprt_set_flag(xprt: *mut svc_xprt, flag: u32) {
    sim::point();
    unsafe { (*xprt).flags |= 1 << flag };
}

pub unsafe fn xprt_clear_flag(xprt: *mut svc_xprt, flag: u32) {
    sim::point();
    unsafe { (*xprt).flags &= !(1 << flag) };
}

pub unsafe fn xprt_test_flag(xprt: *const svc_xprt, flag: u32) -> bool {
    unsafe { (*xprt).flags & (1 << flag) != 0 }
}

pub unsafe fn xprt_running(xprt: *const svc_xprt) -> c_int {
    sim::point();
    unsafe { (*xprt).running }
}

pub unsafe fn xprt_has_others(_: *mut svc_xprt) -> bool {
    true
}

pub unsafe fn xprt_set_addrs(xprt: *mut svc_xprt, _local: *mut sockaddr, peer: *mut sockaddr) {
    // A listener has none.
    if let Some(peer) = unsafe { peer.as_ref() } {
        Ptr(xprt).get().peer = *peer;
    }
}

pub unsafe fn serv_maxpages(_: *const svc_xprt) -> u32 {
    MAX_PAGES as u32
}

pub unsafe fn rqst_begin(rqst: *mut svc_rqst) {
    unsafe { (*rqst).rq_xprt_ctxt = core::ptr::null_mut() };
}

pub unsafe fn rqst_is_plain(_: *mut svc_rqst) -> bool {
    true
}

pub unsafe fn xprt_abandon(xprt: *mut svc_xprt) {
    Ptr(xprt).put();
}

/// Queues a transport for a thread if it has something to do.
pub unsafe fn svc_xprt_enqueue(xprt: *mut svc_xprt) {
    let xprt = Ptr(xprt);
    sim::point();
    if !xprt.is_ready() {
        return;
    }
    sim::point();
    let this = xprt.get();
    if this.flags & (1 << XPT_BUSY) != 0 {
        return;
    }
    this.flags |= 1 << XPT_BUSY;
    let serv = Ptr(this.xpt_server);
    serv.get().ready.push_back(xprt);
    sim::wake(serv.0);
}

/// Lets other threads have the transport.
pub unsafe fn svc_xprt_received(xprt: *mut svc_xprt) {
    sim::point();
    Ptr(xprt).get().flags &= !(1 << XPT_BUSY);
    unsafe { svc_xprt_enqueue(xprt) };
}

impl Ptr<svc_xprt> {
    pub(crate) fn ops(self) -> &'static svc_xprt_ops {
        unsafe { &*(*self.get().xpt_class).xcl_ops }
    }

    pub(crate) fn has(self, flag: u32) -> bool {
        self.get().flags & (1 << flag) != 0
    }

    /// Returns true if the program validates the peer: by its port, or by seed.
    pub(crate) fn is_trusted(self) -> bool {
        match crate::port(&self.get().peer) {
            STRANGER => false,
            FRIEND => true,
            _ => self.get().is_trusted,
        }
    }

    fn is_ready(self) -> bool {
        if self.has(XPT_BUSY) {
            return false;
        }
        if self.has(XPT_CONN) || self.has(XPT_CLOSE) {
            return true;
        }
        let has_space = self.ops().xpo_has_wspace.expect("the operation is there");
        (self.has(XPT_DATA) || self.has(XPT_DEFERRED)) && unsafe { has_space(self.0) } != 0
    }

    pub(crate) fn hold(self) {
        self.get().refs += 1;
    }

    pub(crate) fn put(self) {
        self.get().refs -= 1;
        if self.get().refs == 0 {
            sim::count("transport", -1);
            if !self.get().bc_xprt.is_null() {
                unsafe { crate::xprt_put(self.get().bc_xprt) };
            }
            let free = self.ops().xpo_free.expect("the operation is there");
            unsafe { free(self.0) };
        }
    }

    /// A Call of NFS 4 is dropped, which its client does not repeat over the same connection: the
    /// module has to close that at its next look.
    pub(crate) fn expect_close(self) {
        self.hold();
        sim::spawn_short("expectation", move || {
            let is_closed = || self.has(XPT_CLOSE) || self.has(XPT_DEAD);
            sim::sleep(2500);
            assert!(
                is_closed(),
                "a dropped Call of NFS 4 leaves its connection open"
            );
            self.put();
        });
    }

    pub(crate) fn close(self) {
        self.get().flags |= 1 << XPT_CLOSE;
        unsafe { svc_xprt_enqueue(self.0) };
    }
}
