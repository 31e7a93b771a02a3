// SPDX-License-Identifier: GPL-2.0

//! RDMA devices, protection domains, and memory regions.

use crate::{ib_cq, ib_sge, rdma_cm_id, scatterlist, Ptr, PAGE};
use kernel::{
    ffi::{c_char, c_int, c_void},
    sim::{self, Fault},
};

#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct svcrdma_limits {
    pub max_qp_wr: u32,
    pub max_send_sge: u32,
    pub max_sge_rd: u32,
    pub max_cqe: u32,
    pub max_qp_init_rd_atom: u32,
    pub max_qp_rd_atom: u32,
    pub num_comp_vectors: u32,
    pub max_mr_pages: u32,
    pub mem_mgt_extensions: bool,
    pub iwarp: bool,
}

pub struct ib_device {
    pub limits: svcrdma_limits,
    pub is_registered: bool,
    /// The module could add the device.
    pub has_client: bool,
    /// The references that keep the device registered.
    pub users: u32,
    pub ids: Vec<Ptr<rdma_cm_id>>,
    pub handlers: Vec<Ptr<ib_event_handler>>,
    pub cqs: Vec<Ptr<ib_cq>>,
    /// The chances that a completion is lost, and that it is not signalled, in 1024ths.
    pub loses: u64,
    pub misses: u64,
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

#[repr(C)]
pub struct ib_pd {
    pub device: *mut ib_device,
    pub local_dma_lkey: u32,
    /// The objects made in it.
    pub(crate) users: u32,
    pub(crate) regions: Vec<Ptr<ib_mr>>,
}

pub unsafe fn ib_alloc_pd(device: *mut ib_device) -> *mut ib_pd {
    sim::might_sleep("ib_alloc_pd");
    if sim::fails(Fault::Memory) {
        return kernel::error::code::ENOMEM.to_ptr();
    }
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
    assert_eq!(
        unsafe { (*pd).users },
        0,
        "a protection domain ends before what is in it"
    );
    sim::count("protection domain", -1);
}

#[repr(C)]
pub struct ib_mr {
    pub lkey: u32,
    pub rkey: u32,
    pub iova: u64,
    pd: Ptr<ib_pd>,
    pub(crate) is_valid: bool,
    pub(crate) access: c_int,
    /// The DMA addresses of its pages.
    pub(crate) pages: Vec<u64>,
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
        access: 0,
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
    let count = (size as usize).div_ceil(PAGE);
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
