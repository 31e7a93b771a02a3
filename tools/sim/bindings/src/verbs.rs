// SPDX-License-Identifier: GPL-2.0

//! An RDMA device: queue pairs, completion queues, memory regions.
//!
//! A task executes the work requests of each queue pair, in their order, and another one calls the
//! handlers of each completion queue.

use crate::{link::Link, memory::for_each_piece, rdma_cm_id, scatterlist, Ptr, PAGE};
use core::mem::ManuallyDrop;
use kernel::{
    ffi::{c_char, c_int, c_void},
    sim::{self, Fault},
};
use shuttle::thread::JoinHandle;
use std::collections::VecDeque;

pub type ib_wc_status = u32;
pub type ib_wc_opcode = u32;
pub type ib_wr_opcode = u32;

pub const ib_wc_status_IB_WC_SUCCESS: ib_wc_status = 0;
pub const ib_wc_status_IB_WC_WR_FLUSH_ERR: ib_wc_status = 5;
pub const REMOTE_ACCESS_ERROR: ib_wc_status = 10;
pub const RETRIES_EXCEEDED: ib_wc_status = 12;
pub const IB_WC_RECV: ib_wc_opcode = 128;
pub const ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM: ib_wc_opcode = 129;
pub const ib_wc_flags_IB_WC_WITH_INVALIDATE: u32 = 8;
pub const ib_wr_opcode_IB_WR_RDMA_WRITE: ib_wr_opcode = 0;
pub const ib_wr_opcode_IB_WR_SEND: ib_wr_opcode = 2;
pub const ib_wr_opcode_IB_WR_RDMA_READ: ib_wr_opcode = 4;
pub const ib_wr_opcode_IB_WR_SEND_WITH_INV: ib_wr_opcode = 9;
pub const ib_wr_opcode_IB_WR_LOCAL_INV: ib_wr_opcode = 10;
pub const ib_wr_opcode_IB_WR_REG_MR: ib_wr_opcode = 32;
pub const ib_send_flags_IB_SEND_FENCE: u32 = 1;
pub const ib_send_flags_IB_SEND_SIGNALED: u32 = 2;
pub const ib_access_flags_IB_ACCESS_LOCAL_WRITE: u32 = 1;
pub const ib_access_flags_IB_ACCESS_REMOTE_WRITE: u32 = 2;
pub const ib_mr_type_IB_MR_TYPE_MEM_REG: u32 = 0;
pub const ib_qp_state_IB_QPS_ERR: u32 = 6;
pub const ib_qp_attr_mask_IB_QP_STATE: u32 = 1;
pub const ib_qp_type_IB_QPT_RC: u32 = 2;
pub const ib_sig_type_IB_SIGNAL_REQ_WR: u32 = 1;
pub const ib_rnr_timeout_IB_RNR_TIMER_655_36: u32 = 0;
pub const ib_event_type_IB_EVENT_CQ_ERR: u32 = 0;
pub const ib_event_type_IB_EVENT_QP_FATAL: u32 = 1;
pub const ib_event_type_IB_EVENT_QP_REQ_ERR: u32 = 2;
pub const ib_event_type_IB_EVENT_QP_ACCESS_ERR: u32 = 3;
pub const ib_event_type_IB_EVENT_DEVICE_FATAL: u32 = 8;
pub const IB_DEVICE_NAME_MAX: u32 = 64;

// Devices

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct svcrdma_limits {
    pub max_qp_wr: u32,
    pub max_send_sge: u32,
    pub max_sge_rd: u32,
    pub max_cqe: u32,
    pub max_qp_init_rd_atom: u32,
    pub num_comp_vectors: u32,
    pub max_mr_pages: u32,
    pub mem_mgt_extensions: bool,
    pub iwarp: bool,
}

pub struct ib_device {
    pub limits: svcrdma_limits,
    pub is_registered: bool,
    /// What keeps the device registered.
    pub users: u32,
    pub ids: Vec<Ptr<rdma_cm_id>>,
    pub handlers: Vec<Ptr<ib_event_handler>>,
}

pub unsafe fn device_get(_: *mut ib_device) {
    sim::count("reference to a device", 1);
}

pub unsafe fn device_put(_: *mut ib_device) {
    sim::count("reference to a device", -1);
}

pub unsafe fn device_limits(device: *mut ib_device, limits: *mut svcrdma_limits) {
    unsafe { *limits = (*device).limits };
}

pub unsafe fn device_name(_: *const ib_device, buf: *mut c_char, _: usize) {
    unsafe { core::ptr::copy_nonoverlapping(c"model0".as_ptr().cast(), buf, 7) };
}

pub unsafe fn ib_device_try_get(device: *mut ib_device) -> bool {
    sim::point();
    let device = unsafe { &mut *device };
    device.users += u32::from(device.is_registered);
    device.is_registered
}

pub unsafe fn ib_device_put(device: *mut ib_device) {
    unsafe { (*device).users -= 1 };
    sim::wake(device);
}

#[repr(C)]
pub struct ib_client {
    pub name: *const c_char,
    pub add: Option<unsafe extern "C" fn(*mut ib_device) -> c_int>,
    pub remove: Option<unsafe extern "C" fn(*mut ib_device, *mut c_void)>,
    pub list: [usize; 2],
}

#[repr(C)]
pub struct ib_event {
    pub event: u32,
}

#[repr(C)]
pub struct ib_event_handler {
    device: *mut ib_device,
    f: Option<unsafe extern "C" fn(*mut ib_event_handler, *mut ib_event)>,
}

pub unsafe fn register_event_handler(
    handler: *mut ib_event_handler,
    device: *mut ib_device,
    f: Option<unsafe extern "C" fn(*mut ib_event_handler, *mut ib_event)>,
) {
    unsafe {
        handler.write(ib_event_handler { device, f });
        (*device).handlers.push(Ptr(handler));
    }
}

pub unsafe fn ib_unregister_event_handler(handler: *mut ib_event_handler) {
    unsafe { (*(*handler).device).handlers.retain(|one| one.0 != handler) };
}

/// Reports an event of the whole device.
pub fn report(device: Ptr<ib_device>, event: u32) {
    for handler in device.get().handlers.clone() {
        let mut event = ib_event { event };
        if let Some(f) = handler.get().f {
            unsafe { f(handler.0, &mut event) };
        }
    }
}

// Protection domains and memory regions

#[repr(C)]
pub struct ib_pd {
    pub device: *mut ib_device,
    pub local_dma_lkey: u32,
    /// What was made in it.
    users: u32,
    regions: Vec<Ptr<ib_mr>>,
}

pub unsafe fn ib_alloc_pd(device: *mut ib_device) -> *mut ib_pd {
    sim::might_sleep("ib_alloc_pd");
    sim::count("protection domain", 1);
    Ptr::new(ib_pd {
        device,
        local_dma_lkey: 7,
        users: 0,
        regions: Vec::new(),
    })
    .0
}

pub unsafe fn ib_dealloc_pd(pd: *mut ib_pd) {
    sim::might_sleep("ib_dealloc_pd");
    assert_eq!(unsafe { (*pd).users }, 0, "a protection domain ends before what is in it");
    sim::count("protection domain", -1);
}

#[repr(C)]
pub struct ib_mr {
    pub lkey: u32,
    pub rkey: u32,
    pub iova: u64,
    pd: Ptr<ib_pd>,
    is_valid: bool,
    /// The DMA addresses of its pages.
    pages: Vec<u64>,
}

pub unsafe fn ib_alloc_mr(pd: *mut ib_pd, _: u32, _pages: u32) -> *mut ib_mr {
    sim::might_sleep("ib_alloc_mr");
    if sim::fails(Fault::Memory) {
        return kernel::error::code::ENOMEM.to_ptr();
    }
    sim::count("memory region", 1);
    let pd = Ptr(pd);
    pd.get().users += 1;
    let key = 0x100 * (2 + pd.get().regions.len() as u32);
    let mr = Ptr::new(ib_mr {
        lkey: key,
        rkey: key,
        iova: 0,
        pd,
        is_valid: false,
        pages: Vec::new(),
    });
    pd.get().regions.push(mr);
    mr.0
}

pub unsafe fn ib_dereg_mr_user(mr: *mut ib_mr, _: *mut c_void) -> c_int {
    sim::might_sleep("ib_dereg_mr");
    let mr = Ptr(mr).get();
    mr.is_valid = false;
    mr.pages.clear();
    mr.pd.get().users -= 1;
    sim::count("memory region", -1);
    0
}

pub unsafe fn mr_put(
    mr: *mut ib_mr,
    _: *mut scatterlist,
    segments: *const ib_sge,
    skip: u32,
    size: u32,
    iova: u64,
) -> bool {
    let mr = Ptr(mr).get();
    assert!(!mr.is_valid, "a memory region is set up while it is valid");
    let (mut segments, mut skip) = (segments, skip);
    let count = size as usize / PAGE;
    mr.pages.clear();
    while mr.pages.len() < count {
        let segment = unsafe { &*segments };
        mr.pages.push(segment.addr + u64::from(skip));
        skip += PAGE as u32;
        if skip == segment.length {
            (segments, skip) = (segments.wrapping_add(1), 0);
        }
    }
    // The low byte of a key is the consumer's.
    let key = (mr.lkey & !0xff) | (mr.lkey.wrapping_add(1) & 0xff);
    (mr.lkey, mr.rkey, mr.iova) = (key, key, iova);
    true
}

// Completion queues

#[repr(C)]
pub struct ib_cqe {
    pub done: Option<unsafe extern "C" fn(*mut ib_cq, *mut ib_wc)>,
}

#[repr(C)]
pub struct Anon {
    pub wr_cqe: ManuallyDrop<*mut ib_cqe>,
}

pub type ib_send_wr__bindgen_ty_1 = Anon;

#[repr(C)]
pub struct ib_wc {
    pub __bindgen_anon_1: Anon,
    pub status: ib_wc_status,
    pub opcode: ib_wc_opcode,
    pub wc_flags: c_int,
    pub byte_len: u32,
}

/// A completion; of a Send, with its number in the queue.
struct Done {
    wc: ib_wc,
    send: Option<(Ptr<ib_qp>, u64)>,
}

pub struct ib_cq {
    pub device: *mut ib_device,
    context: *mut c_void,
    handler: Option<unsafe extern "C" fn(*mut ib_event, *mut c_void)>,
    entries: usize,
    queue: VecDeque<Done>,
    is_busy: bool,
    is_ending: bool,
    task: Option<JoinHandle<()>>,
}

pub unsafe fn ib_alloc_cq(
    device: *mut ib_device,
    context: *mut c_void,
    handler: Option<unsafe extern "C" fn(*mut ib_event, *mut c_void)>,
    entries: u32,
    _vector: u32,
) -> *mut ib_cq {
    sim::might_sleep("ib_alloc_cq");
    if sim::fails(Fault::Memory) {
        return kernel::error::code::ENOMEM.to_ptr();
    }
    sim::count("completion queue", 1);
    let cq = Ptr::new(ib_cq {
        device,
        context,
        handler,
        entries: entries as usize,
        queue: VecDeque::new(),
        is_busy: false,
        is_ending: false,
        task: None,
    });
    cq.get().task = Some(sim::spawn("cq", move || cq.run()));
    cq.0
}

impl Ptr<ib_cq> {
    fn run(self) {
        loop {
            sim::wait(self.0, || self.get().is_ending || !self.get().queue.is_empty());
            // A completion may be late.
            if sim::chance(32) {
                sim::sleep(1 + sim::below(8));
            }
            self.get().is_busy = true;
            let Some(mut done) = self.get().queue.pop_front() else {
                return;
            };
            if let Some((qp, number)) = done.send {
                qp.get().retired = number;
            }
            let cqe = *done.wc.__bindgen_anon_1.wr_cqe;
            let f = unsafe { (*cqe).done }.expect("a work request has a handler");
            unsafe { f(self.0, &mut done.wc) };
            self.get().is_busy = false;
            sim::wake(self.0);
        }
    }

    fn push(self, done: Done) {
        let cq = self.get();
        assert!(!cq.is_ending, "a completion for a completion queue that has ended");
        assert!(cq.queue.len() < cq.entries, "a completion queue overflows");
        cq.queue.push_back(done);
        sim::wake(self.0);
    }

    /// Reports that the completion queue has failed.
    pub fn fail(self) {
        let mut event = ib_event {
            event: ib_event_type_IB_EVENT_CQ_ERR,
        };
        if let Some(handler) = self.get().handler {
            unsafe { handler(&mut event, self.get().context) };
        }
    }
}

pub unsafe fn poll_cq(_: *mut ib_cq) {}

/// Waits for what is polled now.
pub unsafe fn flush_cq(cq: *mut ib_cq) {
    let cq = Ptr(cq);
    sim::wait(cq.0, || !cq.get().is_busy && cq.get().queue.is_empty());
}

pub unsafe fn ib_free_cq(cq: *mut ib_cq) {
    let cq = Ptr(cq);
    sim::might_sleep("ib_free_cq");
    cq.get().is_ending = true;
    sim::wake(cq.0);
    if let Some(task) = cq.get().task.take() {
        task.join().expect("handlers do not fail");
    }
    sim::count("completion queue", -1);
}

pub unsafe fn ib_wc_status_msg(_: ib_wc_status) -> *const c_char {
    c"status".as_ptr().cast()
}

// Queue pairs

#[repr(C)]
pub struct ib_sge {
    pub addr: u64,
    pub length: u32,
    pub lkey: u32,
}

#[repr(C)]
pub struct ib_send_wr__bindgen_ty_2 {
    pub invalidate_rkey: ManuallyDrop<u32>,
}

#[repr(C)]
pub struct ib_send_wr {
    pub next: *mut ib_send_wr,
    pub __bindgen_anon_1: Anon,
    pub sg_list: *mut ib_sge,
    pub num_sge: c_int,
    pub opcode: ib_wr_opcode,
    pub send_flags: c_int,
    pub ex: ib_send_wr__bindgen_ty_2,
}

#[repr(C)]
pub struct ib_rdma_wr {
    pub wr: ib_send_wr,
    pub remote_addr: u64,
    pub rkey: u32,
}

#[repr(C)]
pub struct ib_reg_wr {
    pub wr: ib_send_wr,
    pub mr: *mut ib_mr,
    pub key: u32,
    pub access: c_int,
}

#[repr(C)]
pub struct ib_recv_wr {
    pub next: *mut ib_recv_wr,
    pub __bindgen_anon_1: Anon,
    pub sg_list: *mut ib_sge,
    pub num_sge: c_int,
}

#[repr(C)]
pub struct ib_qp_attr {
    pub qp_state: u32,
}

#[repr(C)]
pub struct ib_qp_cap {
    pub max_send_wr: u32,
    pub max_recv_wr: u32,
    pub max_send_sge: u32,
    pub max_recv_sge: u32,
}

#[repr(C)]
pub struct ib_qp_init_attr {
    pub event_handler: Option<unsafe extern "C" fn(*mut ib_event, *mut c_void)>,
    pub qp_context: *mut c_void,
    pub send_cq: *mut ib_cq,
    pub recv_cq: *mut ib_cq,
    pub cap: ib_qp_cap,
    pub sq_sig_type: u32,
    pub qp_type: u32,
}

struct Send {
    number: u64,
    cqe: *mut ib_cqe,
    opcode: ib_wr_opcode,
    is_signalled: bool,
    entries: Vec<(u64, usize, u32)>,
    addr: u64,
    key: u32,
    mr: *mut ib_mr,
}

struct Receive {
    cqe: *mut ib_cqe,
    entries: Vec<(u64, usize, u32)>,
}

pub struct ib_qp {
    pub device: *mut ib_device,
    pub pd: Ptr<ib_pd>,
    pub link: Ptr<Link>,
    send_cq: Ptr<ib_cq>,
    recv_cq: Ptr<ib_cq>,
    depth: u64,
    receives_depth: usize,
    sends: VecDeque<Send>,
    receives: VecDeque<Receive>,
    /// The number of the last work request that was posted, and of the last one that was retired.
    posted: u64,
    retired: u64,
    pub is_broken: bool,
    is_destroyed: bool,
    task: Option<JoinHandle<()>>,
}

pub unsafe fn rdma_create_qp(
    id: *mut rdma_cm_id,
    pd: *mut ib_pd,
    attr: *mut ib_qp_init_attr,
) -> c_int {
    sim::might_sleep("rdma_create_qp");
    if sim::fails(Fault::Memory) {
        return -12;
    }
    sim::count("queue pair", 1);
    let (id, pd, attr) = (Ptr(id).get(), Ptr(pd), Ptr(attr).get());
    pd.get().users += 1;
    let qp = Ptr::new(ib_qp {
        device: pd.get().device,
        pd,
        link: id.link,
        send_cq: Ptr(attr.send_cq),
        recv_cq: Ptr(attr.recv_cq),
        depth: attr.cap.max_send_wr.into(),
        receives_depth: attr.cap.max_recv_wr as usize,
        sends: VecDeque::new(),
        receives: VecDeque::new(),
        posted: 0,
        retired: 0,
        is_broken: false,
        is_destroyed: false,
        task: None,
    });
    id.qp = qp.0;
    id.link.get().qp = Some(qp);
    qp.get().task = Some(sim::spawn("qp", move || qp.run()));
    0
}

pub unsafe fn rdma_destroy_qp(id: *mut rdma_cm_id) {
    sim::might_sleep("rdma_destroy_qp");
    let id = Ptr(id).get();
    let qp = Ptr(id.qp);
    qp.get().is_destroyed = true;
    id.link.get().qp = None;
    qp.changed();
    if let Some(task) = qp.get().task.take() {
        task.join().expect("the device does not fail");
    }
    id.qp = core::ptr::null_mut();
    qp.get().pd.get().users -= 1;
    sim::count("queue pair", -1);
}

pub unsafe fn ib_modify_qp(qp: *mut ib_qp, attr: *mut ib_qp_attr, _: c_int) -> c_int {
    sim::might_sleep("ib_modify_qp");
    if unsafe { (*attr).qp_state } == ib_qp_state_IB_QPS_ERR {
        Ptr(qp).fail();
    }
    0
}

unsafe fn entries(list: *const ib_sge, count: c_int) -> Vec<(u64, usize, u32)> {
    let entry = |i: usize| unsafe { &*list.add(i) };
    let entries = (0..count as usize).map(|i| (entry(i).addr, entry(i).length as usize, entry(i).lkey));
    entries.collect()
}

pub unsafe fn ib_post_send(
    qp: *mut ib_qp,
    wr: *const ib_send_wr,
    bad: *mut *const ib_send_wr,
) -> c_int {
    let qp = Ptr(qp);
    assert!(!qp.get().is_destroyed, "a post to a queue pair that is destroyed");
    let mut next = wr;
    while !next.is_null() {
        // A part of a list may be posted.
        if sim::fails(Fault::Post) {
            unsafe { *bad = next };
            return -12;
        }
        let wr = unsafe { &*next };
        let this = qp.get();
        this.posted += 1;
        assert!(this.posted - this.retired <= this.depth, "a send queue overflows");
        let (mut addr, mut key, mut mr) = (0, 0, core::ptr::null_mut());
        match wr.opcode {
            ib_wr_opcode_IB_WR_RDMA_READ | ib_wr_opcode_IB_WR_RDMA_WRITE => {
                let wr = unsafe { &*next.cast::<ib_rdma_wr>() };
                (addr, key) = (wr.remote_addr, wr.rkey);
            }
            ib_wr_opcode_IB_WR_REG_MR => {
                let wr = unsafe { &*next.cast::<ib_reg_wr>() };
                (mr, key) = (wr.mr, wr.key);
            }
            ib_wr_opcode_IB_WR_SEND_WITH_INV | ib_wr_opcode_IB_WR_LOCAL_INV => {
                key = *wr.ex.invalidate_rkey;
            }
            _ => {}
        }
        this.sends.push_back(Send {
            number: this.posted,
            cqe: *wr.__bindgen_anon_1.wr_cqe,
            opcode: wr.opcode,
            is_signalled: wr.send_flags as u32 & ib_send_flags_IB_SEND_SIGNALED != 0,
            entries: unsafe { entries(wr.sg_list, wr.num_sge) },
            addr,
            key,
            mr,
        });
        next = wr.next;
    }
    qp.changed();
    sim::point();
    0
}

pub unsafe fn ib_post_recv(
    qp: *mut ib_qp,
    wr: *const ib_recv_wr,
    _bad: *mut *const ib_recv_wr,
) -> c_int {
    let qp = Ptr(qp);
    assert!(!qp.get().is_destroyed, "a post to a queue pair that is destroyed");
    let mut next = wr;
    while !next.is_null() {
        let wr = unsafe { &*next };
        let receives = &mut qp.get().receives;
        receives.push_back(Receive {
            cqe: *wr.__bindgen_anon_1.wr_cqe,
            entries: unsafe { entries(wr.sg_list, wr.num_sge) },
        });
        assert!(receives.len() <= qp.get().receives_depth, "a receive queue overflows");
        next = wr.next;
    }
    qp.changed();
    sim::point();
    0
}

/// How a work request ends.
enum End {
    Done,
    /// The peer is gone, or the queue pair is in error before it was executed.
    Flushed,
    Failed(ib_wc_status),
}

impl Ptr<ib_qp> {
    pub fn changed(self) {
        sim::wake(self.0);
        sim::wake(self.get().link.0);
    }

    /// Moves the queue pair to the error state.
    pub fn fail(self) {
        self.get().is_broken = true;
        self.changed();
    }

    /// Returns true if a Receive is posted.
    pub fn has_receive(self) -> bool {
        !self.get().receives.is_empty()
    }

    fn run(self) {
        let link = self.get().link;
        loop {
            sim::wait(self.0, || {
                let this = self.get();
                let is_ready = this.is_broken || link.get().is_open();
                let has_work = is_ready && !this.sends.is_empty();
                this.is_destroyed || has_work || (this.is_broken && !this.receives.is_empty())
            });
            if self.get().is_destroyed {
                return;
            }
            if let Some(send) = self.get().sends.pop_front() {
                self.execute(send);
            } else if let Some(receive) = self.get().receives.pop_front() {
                self.end_receive(receive, ib_wc_status_IB_WC_WR_FLUSH_ERR, 0);
            }
            sim::point();
        }
    }

    fn execute(self, send: Send) {
        let end = if self.get().is_broken {
            End::Flushed
        } else {
            self.transfer(&send)
        };
        if self.get().is_destroyed {
            return;
        }
        let status = match end {
            End::Done if !send.is_signalled => return,
            End::Done => ib_wc_status_IB_WC_SUCCESS,
            End::Flushed => ib_wc_status_IB_WC_WR_FLUSH_ERR,
            End::Failed(status) => status,
        };
        if status != ib_wc_status_IB_WC_SUCCESS {
            self.fail();
        }
        let wc = ib_wc {
            __bindgen_anon_1: Anon {
                wr_cqe: ManuallyDrop::new(send.cqe),
            },
            status,
            opcode: 0,
            wc_flags: 0,
            byte_len: 0,
        };
        let number = send.number;
        let send = Some((self, number));
        self.get().send_cq.push(Done { wc, send });
    }

    /// Waits until `is_ready`. Returns false if the queue pair fails before.
    fn wait_for_peer(self, mut is_ready: impl FnMut() -> bool) -> bool {
        let link = self.get().link;
        sim::wait(link.0, || {
            let this = self.get();
            this.is_destroyed || this.is_broken || link.get().is_gone() || is_ready()
        });
        let this = self.get();
        !(this.is_destroyed || this.is_broken)
    }

    fn transfer(self, send: &Send) -> End {
        let link = self.get().link;
        if link.get().is_slow && sim::chance(128) {
            sim::sleep(sim::below(20));
        }
        let is_access = !send.entries.is_empty();
        match send.opcode {
            ib_wr_opcode_IB_WR_RDMA_READ => {
                if !self.wait_for_peer(|| link.get().serves_reads) {
                    return End::Flushed;
                }
                let len = send.entries.iter().map(|entry| entry.1).sum();
                let Some(bytes) = link.get().read(send.key, send.addr, len) else {
                    return self.refused();
                };
                self.scatter(&send.entries, &bytes);
            }
            ib_wr_opcode_IB_WR_RDMA_WRITE if is_access => {
                let bytes = self.gather(&send.entries);
                if !link.get().write(send.key, send.addr, &bytes) {
                    return self.refused();
                }
            }
            ib_wr_opcode_IB_WR_SEND | ib_wr_opcode_IB_WR_SEND_WITH_INV => {
                if !self.wait_for_peer(|| link.get().receives > 0) {
                    return End::Flushed;
                }
                if link.get().is_gone() {
                    return self.refused();
                }
                let bytes = self.gather(&send.entries);
                let is_invalidating = send.opcode == ib_wr_opcode_IB_WR_SEND_WITH_INV;
                link.get().take(bytes, is_invalidating.then_some(send.key));
                sim::wake(link.0);
            }
            ib_wr_opcode_IB_WR_REG_MR => {
                let mr = Ptr(send.mr).get();
                assert!(!mr.is_valid && mr.lkey == send.key, "registration of a valid region");
                mr.is_valid = true;
            }
            ib_wr_opcode_IB_WR_LOCAL_INV => {
                let mr = self.region(send.key);
                assert!(mr.is_valid, "invalidation of an invalid region");
                mr.is_valid = false;
            }
            _ => {}
        }
        End::Done
    }

    fn refused(self) -> End {
        // The peer's device retries before it reports that the peer is gone.
        if self.get().link.get().is_gone() {
            sim::sleep(20);
            End::Failed(RETRIES_EXCEEDED)
        } else {
            End::Failed(REMOTE_ACCESS_ERROR)
        }
    }

    fn region(self, key: u32) -> &'static mut ib_mr {
        let regions = &self.get().pd.get().regions;
        let region = regions.iter().map(|mr| mr.get()).find(|mr| mr.lkey == key);
        // SAFETY: Regions stay, see `Ptr::new()`.
        unsafe { &mut *core::ptr::from_mut(region.expect("a key that no region has")) }
    }

    /// Returns the DMA addresses of an entry.
    fn pieces(self, (addr, len, key): (u64, usize, u32)) -> Vec<(u64, usize)> {
        if key == self.get().pd.get().local_dma_lkey {
            return vec![(addr, len)];
        }
        let mr = self.region(key);
        assert!(mr.is_valid, "the device uses a region that is not valid");
        let mut at = (addr - mr.iova) as usize;
        let (end, mut pieces) = (at + len, Vec::new());
        while at < end {
            let piece = (PAGE - at % PAGE).min(end - at);
            let page = mr.pages.get(at / PAGE).expect("an access beyond the region");
            pieces.push((page + (at % PAGE) as u64, piece));
            at += piece;
        }
        pieces
    }

    fn gather(self, entries: &[(u64, usize, u32)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (addr, len) in entries.iter().flat_map(|entry| self.pieces(*entry)) {
            for_each_piece(addr, len, true, |piece| bytes.extend_from_slice(piece));
        }
        bytes
    }

    fn scatter(self, entries: &[(u64, usize, u32)], bytes: &[u8]) {
        let mut rest = bytes;
        for (addr, len) in entries.iter().flat_map(|entry| self.pieces(*entry)) {
            for_each_piece(addr, len, false, |piece| {
                let (now, later) = rest.split_at(piece.len().min(rest.len()));
                piece[..now.len()].copy_from_slice(now);
                rest = later;
            });
        }
    }

    fn end_receive(self, receive: Receive, status: ib_wc_status, len: usize) {
        let wc = ib_wc {
            __bindgen_anon_1: Anon {
                wr_cqe: ManuallyDrop::new(receive.cqe),
            },
            status,
            opcode: IB_WC_RECV,
            wc_flags: 0,
            byte_len: len as u32,
        };
        self.get().recv_cq.push(Done { wc, send: None });
    }

    /// Delivers a message of the peer to a Receive.
    pub fn deliver(self, bytes: &[u8]) {
        let receive = self.get().receives.pop_front().expect("a Receive is posted");
        self.scatter(&receive.entries, bytes);
        self.end_receive(receive, ib_wc_status_IB_WC_SUCCESS, bytes.len());
    }
}
