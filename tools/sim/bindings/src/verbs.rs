// SPDX-License-Identifier: GPL-2.0

//! Queue pairs, as the module sees them, and the numbers of the verbs. `engine` executes what is
//! posted.

use crate::{
    engine::End, ib_cq, ib_cqe, ib_device, ib_event, ib_mr, ib_pd, link::Link, rdma_cm_id, Anon,
    Ptr,
};
use core::mem::ManuallyDrop;
use kernel::{
    ffi::{c_int, c_void},
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
pub const ib_access_flags_IB_ACCESS_REMOTE_READ: u32 = 4;
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

pub(crate) const NO_KEY: ib_send_wr__bindgen_ty_2 = ib_send_wr__bindgen_ty_2 {
    invalidate_rkey: ManuallyDrop::new(0),
};

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

#[derive(Clone)]
pub(crate) struct SendRequest {
    pub(crate) number: u64,
    pub(crate) cqe: *mut ib_cqe,
    pub(crate) opcode: ib_wr_opcode,
    pub(crate) flags: c_int,
    pub(crate) entries: Vec<(u64, usize, u32)>,
    pub(crate) addr: u64,
    pub(crate) key: u32,
    pub(crate) mr: *mut ib_mr,
    pub(crate) access: c_int,
}

impl SendRequest {
    pub(crate) fn is_send(&self) -> bool {
        self.opcode == ib_wr_opcode_IB_WR_SEND || self.opcode == ib_wr_opcode_IB_WR_SEND_WITH_INV
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.iter().map(|(_, len, _)| len).sum()
    }
}

pub(crate) struct ReceiveRequest {
    pub(crate) cqe: *mut ib_cqe,
    pub(crate) entries: Vec<(u64, usize, u32)>,
}

pub struct ib_qp {
    pub device: *mut ib_device,
    pub pd: Ptr<ib_pd>,
    pub link: Ptr<Link>,
    pub(crate) send_cq: Ptr<ib_cq>,
    pub(crate) recv_cq: Ptr<ib_cq>,
    pub(crate) depth: u64,
    pub(crate) receives_depth: usize,
    max_sge: c_int,
    handler: Option<unsafe extern "C" fn(*mut ib_event, *mut c_void)>,
    context: *mut c_void,
    pub(crate) sends: VecDeque<SendRequest>,
    /// The work requests that were started; those whose end is None wait for a response.
    pub(crate) started: VecDeque<(SendRequest, Option<End>)>,
    pub(crate) receives: VecDeque<ReceiveRequest>,
    /// The number of the last work request that was posted, and of the last one that was retired.
    pub(crate) posted: u64,
    pub(crate) retired: u64,
    pub is_broken: bool,
    /// The device does nothing for the queue pair any more. Taking it to the error state returns this.
    pub stuck: Option<c_int>,
    pub(crate) is_destroyed: bool,
    pub(crate) task: Option<JoinHandle<()>>,
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
        max_sge: attr.cap.max_send_sge as c_int,
        handler: attr.event_handler,
        context: attr.qp_context,
        sends: VecDeque::new(),
        started: VecDeque::new(),
        receives: VecDeque::new(),
        posted: 0,
        retired: 0,
        is_broken: false,
        stuck: None,
        is_destroyed: false,
        task: None,
    });
    id.qp = qp.0;
    id.link.get().qp = Some(qp);
    qp.get().task = Some(sim::spawn("qp", move || qp.run()));
    0
}

impl Ptr<ib_device> {
    /// Returns the queue pairs that there are.
    pub fn qps(self) -> Vec<Ptr<ib_qp>> {
        let qps = self.get().ids.iter().map(|id| id.get().qp);
        qps.filter(|qp| !qp.is_null()).map(Ptr).collect()
    }
}

impl Ptr<ib_qp> {
    pub fn link(self) -> Ptr<Link> {
        self.get().link
    }

    /// Returns true if work of the queue pair completes in `cq`.
    pub fn uses(self, cq: Ptr<ib_cq>) -> bool {
        self.get().send_cq == cq || self.get().recv_cq == cq
    }

    /// Reports a fatal error of the queue pair.
    pub fn report(self) {
        let mut event = ib_event {
            event: ib_event_type_IB_EVENT_QP_FATAL,
        };
        if let Some(handler) = self.get().handler {
            unsafe { handler(&mut event, self.get().context) };
        }
        self.fail();
    }
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
    Ptr(qp).get().stuck.unwrap_or(0)
}

unsafe fn entries(list: *const ib_sge, count: c_int) -> Vec<(u64, usize, u32)> {
    let entry = |i: usize| unsafe { &*list.add(i) };
    let entries =
        (0..count as usize).map(|i| (entry(i).addr, entry(i).length as usize, entry(i).lkey));
    entries.collect()
}

pub unsafe fn ib_post_send(
    qp: *mut ib_qp,
    wr: *const ib_send_wr,
    bad: *mut *const ib_send_wr,
) -> c_int {
    let qp = Ptr(qp);
    assert!(
        !qp.get().is_destroyed,
        "a post to a queue pair that is destroyed"
    );
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
        assert!(
            this.posted - this.retired <= this.depth,
            "a send queue overflows"
        );
        assert!(
            wr.num_sge <= this.max_sge,
            "too many entries in a work request"
        );
        let (mut addr, mut key, mut mr, mut access) = (0, 0, core::ptr::null_mut(), 0);
        match wr.opcode {
            ib_wr_opcode_IB_WR_RDMA_READ | ib_wr_opcode_IB_WR_RDMA_WRITE => {
                let wr = unsafe { &*next.cast::<ib_rdma_wr>() };
                (addr, key) = (wr.remote_addr, wr.rkey);
            }
            ib_wr_opcode_IB_WR_REG_MR => {
                let wr = unsafe { &*next.cast::<ib_reg_wr>() };
                (mr, key, access) = (wr.mr, wr.key, wr.access);
            }
            ib_wr_opcode_IB_WR_SEND_WITH_INV | ib_wr_opcode_IB_WR_LOCAL_INV => {
                key = *wr.ex.invalidate_rkey;
            }
            _ => {}
        }
        this.sends.push_back(SendRequest {
            number: this.posted,
            cqe: *wr.__bindgen_anon_1.wr_cqe,
            opcode: wr.opcode,
            flags: wr.send_flags,
            entries: unsafe { entries(wr.sg_list, wr.num_sge) },
            addr,
            key,
            mr,
            access,
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
    bad: *mut *const ib_recv_wr,
) -> c_int {
    let qp = Ptr(qp);
    assert!(
        !qp.get().is_destroyed,
        "a post to a queue pair that is destroyed"
    );
    let mut next = wr;
    while !next.is_null() {
        if sim::fails(Fault::Receive) {
            unsafe { *bad = next };
            return -12;
        }
        let wr = unsafe { &*next };
        let receives = &mut qp.get().receives;
        receives.push_back(ReceiveRequest {
            cqe: *wr.__bindgen_anon_1.wr_cqe,
            entries: unsafe { entries(wr.sg_list, wr.num_sge) },
        });
        assert!(
            receives.len() <= qp.get().receives_depth,
            "a receive queue overflows"
        );
        next = wr.next;
    }
    qp.changed();
    sim::point();
    0
}
