// SPDX-License-Identifier: GPL-2.0

//! The connection manager and the registry of devices.

use crate::{address, ib_client, ib_device, ib_qp, link::Link, net, sockaddr, svcrdma_limits, Ptr};
use kernel::{
    ffi::{c_char, c_int, c_void},
    sim::{self, Fault},
};
use std::cell::RefCell;

pub const sa_path_rec_type_SA_PATH_REC_TYPE_ROCE_V1: u32 = 1;
pub const sa_path_rec_type_SA_PATH_REC_TYPE_ROCE_V2: u32 = 2;
pub const rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_REQUEST: u32 = 4;
pub const rdma_cm_event_type_RDMA_CM_EVENT_ESTABLISHED: u32 = 9;
pub const rdma_cm_event_type_RDMA_CM_EVENT_DISCONNECTED: u32 = 10;
pub const rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL: u32 = 11;
pub const rdma_cm_event_type_RDMA_CM_EVENT_ADDR_CHANGE: u32 = 14;
pub const rdma_cm_event_type_RDMA_CM_EVENT_TIMEWAIT_EXIT: u32 = 15;

#[repr(C)]
pub struct rdma_conn_param {
    pub private_data: *const c_void,
    pub private_data_len: u8,
    pub initiator_depth: u8,
    pub responder_resources: u8,
    pub rnr_retry_count: u8,
}

#[repr(C)]
pub struct rdma_cm_event_param {
    /// In C it is the struct.
    pub conn: *const rdma_conn_param,
}

#[repr(C)]
pub struct rdma_cm_event {
    pub event: u32,
    pub param: rdma_cm_event_param,
}

#[repr(C)]
pub struct sa_path_rec {
    pub dgid: [u8; 16],
    pub rec_type: u32,
    pub mtu: u8,
    pub traffic_class: u8,
}

pub struct rdma_addr {
    pub src_addr: sockaddr,
    pub dst_addr: sockaddr,
}

pub struct rdma_route {
    pub addr: rdma_addr,
    pub path_rec: *mut sa_path_rec,
}

type Handler = unsafe extern "C" fn(*mut rdma_cm_id, *mut rdma_cm_event) -> c_int;

pub struct rdma_cm_id {
    net: *mut net,
    pub context: *mut c_void,
    pub event_handler: Option<Handler>,
    pub device: *mut ib_device,
    pub qp: *mut ib_qp,
    pub route: rdma_route,
    pub link: Ptr<Link>,
    is_busy: bool,
    is_destroyed: bool,
}

#[derive(Default)]
struct Registry {
    listeners: Vec<Ptr<rdma_cm_id>>,
    devices: Vec<Ptr<ib_device>>,
    clients: Vec<Ptr<ib_client>>,
}

thread_local! {
    static REGISTRY: RefCell<Registry> = RefCell::default();
}

fn registry<R>(f: impl FnOnce(&mut Registry) -> R) -> R {
    REGISTRY.with(|registry| f(&mut registry.borrow_mut()))
}

/// Forgets what a run before has left.
pub fn reset_registry() {
    registry(|registry| *registry = Registry::default());
}

fn new_id(net: *mut net, handler: Option<Handler>, context: *mut c_void) -> Ptr<rdma_cm_id> {
    sim::count("cm id", 1);
    let id = Ptr::new(rdma_cm_id {
        net,
        context,
        event_handler: handler,
        device: core::ptr::null_mut(),
        qp: core::ptr::null_mut(),
        route: rdma_route {
            addr: rdma_addr {
                src_addr: address(0, 0),
                dst_addr: address(0, 0),
            },
            path_rec: core::ptr::null_mut(),
        },
        link: Ptr(core::ptr::null_mut()),
        is_busy: false,
        is_destroyed: false,
    });
    id.get().link = Ptr::new(Link::new(id));
    id
}

fn lock_handler(id: Ptr<rdma_cm_id>) {
    sim::wait(id.0, || !id.get().is_busy);
    id.get().is_busy = true;
}

fn unlock_handler(id: Ptr<rdma_cm_id>) {
    id.get().is_busy = false;
    sim::wake(id.0);
}

fn handle(id: Ptr<rdma_cm_id>, event: u32, private: &[u8], reads: u8) -> c_int {
    let conn = rdma_conn_param {
        private_data: private.as_ptr().cast(),
        private_data_len: private.len() as u8,
        initiator_depth: reads,
        responder_resources: 0,
        rnr_retry_count: 7,
    };
    let param = rdma_cm_event_param { conn: &conn };
    let mut event = rdma_cm_event { event, param };
    let handler = id.get().event_handler.expect("an id has a handler");
    unsafe { handler(id.0, &mut event) }
}

/// Delivers an event to `id` soon, unless it is destroyed before.
pub fn deliver_event(id: Ptr<rdma_cm_id>, event: u32) {
    sim::spawn_short("cm", move || {
        if sim::chance(256) {
            sim::sleep(sim::below(50));
        }
        lock_handler(id);
        if !id.get().is_destroyed {
            handle(id, event, &[], 0);
        }
        unlock_handler(id);
    });
}

/// Tells all listeners that their address has changed.
pub fn lose_address() {
    for id in registry(|registry| registry.listeners.clone()) {
        deliver_event(id, rdma_cm_event_type_RDMA_CM_EVENT_ADDR_CHANGE);
    }
}

/// Connects `peer` to the listener of `net`, as [`request`], and waits for the answer. Returns the connection, or
/// None if it is refused.
pub fn connect(
    net: *mut net,
    device: Ptr<ib_device>,
    peer: sockaddr,
    private: &[u8],
    begin: impl FnOnce(Ptr<Link>),
) -> Option<Ptr<Link>> {
    let link = request(net, device, peer, private, begin)?;
    sim::wait_for(link.0, 60_000, || {
        link.get().is_accepted || link.get().is_closed
    });
    (link.get().is_accepted && !link.get().is_closed).then_some(link)
}

/// Requests a connection of `peer` to the listener of `net`; `begin` gets the connection before the server learns
/// of it. Returns the connection, or None if it is refused at once.
pub fn request(
    net: *mut net,
    device: Ptr<ib_device>,
    peer: sockaddr,
    private: &[u8],
    begin: impl FnOnce(Ptr<Link>),
) -> Option<Ptr<Link>> {
    let is_of = |id: &&Ptr<rdma_cm_id>| id.get().net == net;
    let listener = registry(|registry| registry.listeners.iter().find(is_of).copied())?;
    lock_handler(listener);
    if listener.get().is_destroyed {
        unlock_handler(listener);
        return None;
    }
    let id = new_id(net, listener.get().event_handler, listener.get().context);
    let link = id.get().link;
    let path = sa_path_rec {
        dgid: crate::gid(&peer),
        rec_type: sa_path_rec_type_SA_PATH_REC_TYPE_ROCE_V2,
        mtu: 5,
        traffic_class: 0,
    };
    id.get().device = device.0;
    id.get().route.addr.dst_addr = peer;
    id.get().route.addr.src_addr = listener.get().route.addr.src_addr;
    id.get().route.path_rec = match device.get().limits.iwarp {
        true => core::ptr::null_mut(),
        false => Ptr::new(path).0,
    };
    device.get().ids.push(id);
    begin(link);
    lock_handler(id);
    let refused = handle(
        id,
        rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_REQUEST,
        private,
        16,
    );
    unlock_handler(id);
    unlock_handler(listener);
    if refused != 0 {
        unsafe { rdma_destroy_id(id.0) };
        return None;
    }
    Some(link)
}

pub unsafe fn rdma_create_id(
    net: *mut net,
    handler: Option<Handler>,
    context: *mut c_void,
    _name: *const c_char,
) -> *mut rdma_cm_id {
    sim::might_sleep("rdma_create_id");
    if sim::fails(Fault::Memory) {
        return kernel::error::code::ENOMEM.to_ptr();
    }
    new_id(net, handler, context).0
}

pub unsafe fn rdma_set_afonly(_: *mut rdma_cm_id, _: c_int) -> c_int {
    0
}

pub unsafe fn rdma_bind_addr(id: *mut rdma_cm_id, addr: *mut sockaddr) -> c_int {
    unsafe { (*id).route.addr.src_addr = *addr };
    failure()
}

pub unsafe fn rdma_listen(id: *mut rdma_cm_id, _: c_int) -> c_int {
    let failure = failure();
    if failure == 0 {
        registry(|registry| registry.listeners.push(Ptr(id)));
    }
    failure
}

fn failure() -> c_int {
    match sim::fails(Fault::Memory) {
        true => -12,
        false => 0,
    }
}

pub unsafe fn rdma_set_min_rnr_timer(_: *mut rdma_cm_id, _: u8) -> c_int {
    0
}

pub unsafe fn rdma_id_is_roce(_: *mut rdma_cm_id) -> bool {
    true
}

pub unsafe fn rdma_lock_handler(id: *mut rdma_cm_id) {
    lock_handler(Ptr(id));
}

pub unsafe fn rdma_unlock_handler(id: *mut rdma_cm_id) {
    unlock_handler(Ptr(id));
}

pub unsafe fn rdma_accept(id: *mut rdma_cm_id, param: *mut rdma_conn_param) -> c_int {
    sim::might_sleep("rdma_accept");
    let id = Ptr(id);
    let link = id.get().link;
    let param = unsafe { &*param };
    let len = param.private_data_len.into();
    let private = unsafe { core::slice::from_raw_parts(param.private_data.cast::<u8>(), len) };
    if link.get().is_lost || sim::fails(Fault::Memory) {
        return -107;
    }
    link.get().private = private.to_vec();
    link.get().is_accepted = true;
    sim::wake(link.0);
    sim::wake(id.get().qp);
    deliver_event(id, rdma_cm_event_type_RDMA_CM_EVENT_ESTABLISHED);
    0
}

/// Closes the connection of `id`. A peer that lives confirms it.
pub unsafe fn rdma_disconnect(id: *mut rdma_cm_id) -> c_int {
    sim::might_sleep("rdma_disconnect");
    let id = Ptr(id);
    let link = id.get().link;
    let was_open = link.get().is_accepted && !link.get().is_closed;
    link.get().is_closed = true;
    sim::wake(link.0);
    if !id.get().qp.is_null() {
        Ptr(id.get().qp).fail();
    }
    if was_open && !link.get().is_lost {
        deliver_event(id, rdma_cm_event_type_RDMA_CM_EVENT_DISCONNECTED);
    }
    0
}

pub unsafe fn rdma_destroy_id(id: *mut rdma_cm_id) {
    sim::might_sleep("rdma_destroy_id");
    let id = Ptr(id);
    lock_handler(id);
    assert!(
        id.get().qp.is_null(),
        "an id is destroyed before its queue pair"
    );
    assert!(!id.get().is_destroyed, "an id is destroyed twice");
    id.get().is_destroyed = true;
    unlock_handler(id);
    registry(|registry| registry.listeners.retain(|one| *one != id));
    if !id.get().device.is_null() {
        Ptr(id.get().device).get().ids.retain(|one| *one != id);
    }
    id.get().link.get().is_closed = true;
    sim::wake(id.get().link.0);
    sim::count("cm id", -1);
}

// Devices and their clients

pub unsafe fn ib_register_client(client: *mut ib_client) -> c_int {
    registry(|registry| registry.clients.push(Ptr(client)));
    for device in registry(|registry| registry.devices.clone()) {
        add_client(device, Ptr(client));
    }
    0
}

pub unsafe fn ib_unregister_client(client: *mut ib_client) {
    registry(|registry| registry.clients.retain(|one| one.0 != client));
    for device in registry(|registry| registry.devices.clone()) {
        remove_client(device, Ptr(client));
    }
}

fn add_client(device: Ptr<ib_device>, client: Ptr<ib_client>) {
    let add = client.get().add.expect("a client has the function");
    device.get().has_client = unsafe { add(device.0) } == 0;
}

/// A client that could not add the device is not told of its removal.
fn remove_client(device: Ptr<ib_device>, client: Ptr<ib_client>) {
    let remove = client.get().remove.expect("a client has the function");
    if core::mem::take(&mut device.get().has_client) {
        unsafe { remove(device.0, core::ptr::null_mut()) };
    }
}

/// Adds a device.
pub fn add_device(limits: svcrdma_limits) -> Ptr<ib_device> {
    let device = Ptr::new(ib_device {
        limits,
        is_registered: true,
        has_client: false,
        users: 0,
        ids: Vec::new(),
        handlers: Vec::new(),
        cqs: Vec::new(),
        loses: 0,
        misses: 0,
    });
    registry(|registry| registry.devices.push(device));
    for client in registry(|registry| registry.clients.clone()) {
        add_client(device, client);
    }
    device
}

/// Removes a device: returns when nothing uses it any more.
pub fn remove_device(device: Ptr<ib_device>) {
    registry(|registry| registry.devices.retain(|one| *one != device));
    device.get().is_registered = false;
    for id in device.get().ids.clone() {
        deliver_event(id, rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL);
    }
    for client in registry(|registry| registry.clients.clone()) {
        remove_client(device, client);
    }
    sim::wait(device.0, || device.get().users == 0);
}
