// SPDX-License-Identifier: GPL-2.0

//! A device for tests.
//!
//! The functions of librdmacm and libibverbs that are defined here take the place of the libraries'
//! in the test program. They log their names and fail if a test says so. Each test has its own device,
//! as each runs in a thread of its own; without a [`Fake`] there is no device.

use super::{
    bindings::{self, *},
    cm::{Addresses, Id},
    endpoint::Endpoint,
    memory::Region,
    pd::Pd,
};
use crate::error::Result;
use nix::errno::Errno;
use std::{
    alloc::{GlobalAlloc, Layout, System},
    cell::{Cell, RefCell},
    collections::VecDeque,
    ffi::{c_int, c_void},
    io::{Read, Write},
    mem,
    os::{fd::AsRawFd, unix::net::UnixStream},
    ptr,
    rc::Rc,
    time::Duration, //
};

/// The device of this thread.
struct Device {
    log: Vec<&'static str>,
    failing: Vec<&'static str>,
    /// Events of the connection manager. The stream has a byte for each.
    events: VecDeque<rdma_cm_event_type>,
    streams: (UnixStream, UnixStream),
    context: *mut ibv_context,
}

thread_local! {
    static DEVICE: RefCell<Option<Device>> = const { RefCell::new(None) };
    /// The address of an allocation, and true if it was freed.
    static WATCHED: Cell<u64> = const { Cell::new(0) };
    static FREED: Cell<bool> = const { Cell::new(false) };
}

/// The allocator of the test program, which notes when a watched allocation is freed.
struct Allocator;

#[global_allocator]
static ALLOCATOR: Allocator = Allocator;

// SAFETY: all calls go to the system's allocator.
unsafe impl GlobalAlloc for Allocator {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: the caller's contract is the same.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
        // A thread that ends has no such values any more.
        if WATCHED.try_with(Cell::get).is_ok_and(|it| it == ptr as u64) {
            FREED.set(true);
            WATCHED.set(0);
        }
        // SAFETY: the caller's contract is the same.
        unsafe { System.dealloc(ptr, layout) }
    }
}

/// Watches the allocation at `address`, as seen from this thread.
pub(crate) fn watch(address: u64) {
    WATCHED.set(address);
    FREED.set(false);
}

/// Returns true if the watched allocation was freed.
pub(crate) fn was_freed() -> bool {
    FREED.get()
}

/// The device of a test.
pub(crate) struct Fake;

impl Fake {
    /// Creates the device of this thread.
    pub(crate) fn new() -> Self {
        // SAFETY: all-zero is valid: numbers and pointers that may be NULL.
        let mut context: Box<ibv_context> = Box::new(unsafe { mem::zeroed() });
        context.ops.alloc_mw = Some(alloc_mw);
        context.ops.dealloc_mw = Some(dealloc_mw);
        context.ops.poll_cq = Some(poll_cq);
        context.ops.req_notify_cq = Some(req_notify_cq);
        context.ops.post_recv = Some(post_recv);
        context.ops.post_send = Some(post_send);
        let device = Device {
            log: Vec::new(),
            failing: Vec::new(),
            events: VecDeque::new(),
            streams: UnixStream::pair().expect("a pair of sockets"),
            context: Box::into_raw(context),
        };
        DEVICE.set(Some(device));
        Self
    }

    /// Makes all further calls of `call` fail.
    pub(crate) fn fail(&self, call: &'static str) {
        with(|device| device.failing.push(call));
    }

    /// Returns the number of successful calls of `call`.
    pub(crate) fn count(&self, call: &str) -> usize {
        with(|device| device.log.iter().filter(|done| **done == call).count())
    }

    /// Returns the last `count` successful calls.
    pub(crate) fn last(&self, count: usize) -> Vec<&'static str> {
        with(|device| device.log[device.log.len().saturating_sub(count)..].to_vec())
    }

    /// Returns the number of objects that were created and not destroyed.
    pub(crate) fn objects(&self) -> usize {
        let pairs = [
            ("rdma_create_event_channel", "rdma_destroy_event_channel"),
            ("rdma_create_id", "rdma_destroy_id"),
            ("ibv_alloc_pd", "ibv_dealloc_pd"),
            ("ibv_create_comp_channel", "ibv_destroy_comp_channel"),
            ("ibv_create_cq", "ibv_destroy_cq"),
            ("rdma_create_qp", "rdma_destroy_qp"),
            ("ibv_reg_mr", "ibv_dereg_mr"),
        ];
        let left = pairs.map(|(create, destroy)| self.count(create) - self.count(destroy));
        left.iter().sum()
    }

    /// Ends the connection, which the server does.
    pub(crate) fn disconnect(&self) {
        raise(RDMA_CM_EVENT_DISCONNECTED);
    }

    /// Returns an endpoint.
    pub(crate) fn endpoint(&self) -> Endpoint {
        self.open(8).expect("an endpoint")
    }

    /// Opens an endpoint with this depth.
    pub(crate) fn open(&self, depth: u32) -> Result<Endpoint> {
        Endpoint::open(Self::addresses(), None, depth, Duration::ZERO)
    }

    /// Returns the addresses of a server, which accepts connections and answers nothing.
    pub(crate) fn addresses() -> Addresses {
        Addresses {
            to: ([127, 0, 0, 1], 20049).into(),
            from: None,
        }
    }

    /// Returns a protection domain.
    pub(super) fn pd(&self) -> Rc<Pd> {
        let id = Id::new().expect("an identifier");
        id.resolve(Self::addresses(), Duration::ZERO)
            .expect("an address");
        Rc::new(Pd::new(id).expect("a protection domain"))
    }

    /// Returns registered memory, which alone holds its protection domain.
    pub(crate) fn region(&self, len: usize) -> Region {
        Region::new(&self.pd(), len).expect("memory")
    }
}

fn with<T>(f: impl FnOnce(&mut Device) -> T) -> T {
    DEVICE.with_borrow_mut(|device| f(device.as_mut().expect("a device")))
}

/// Logs the call `name` and returns true, unless it is to fail.
fn succeeds(name: &'static str) -> bool {
    let succeeds = DEVICE.with_borrow_mut(|device| match device {
        Some(device) if !device.failing.contains(&name) => {
            device.log.push(name);
            true
        }
        _ => false,
    });
    if !succeeds {
        Errno::ENOMEM.set();
    }
    succeeds
}

/// Returns what a call returns that is to fail or to succeed.
fn status(name: &'static str) -> c_int {
    if succeeds(name) {
        0
    } else {
        Errno::ENOMEM as c_int
    }
}

/// Creates an object, all-zero but for what `fill` sets.
fn create<T>(name: &'static str, fill: impl FnOnce(&mut T, &mut Device)) -> *mut T {
    if !succeeds(name) {
        return ptr::null_mut();
    }
    // SAFETY: all objects are of numbers and pointers that may be NULL.
    let mut object: Box<T> = Box::new(unsafe { mem::zeroed() });
    with(|device| fill(&mut object, device));
    Box::into_raw(object)
}

/// Destroys an object of [`create`].
fn destroy<T>(name: &'static str, object: *mut T) -> c_int {
    let status = status(name);
    if status == 0 {
        // SAFETY: the callers of these functions pass objects of `create`, and each once.
        drop(unsafe { Box::from_raw(object) });
    }
    status
}

/// Adds an event of the connection manager.
fn raise(event: rdma_cm_event_type) {
    with(|device| {
        device.events.push_back(event);
        device.streams.0.write_all(&[1]).expect("room for a byte");
    });
}

#[no_mangle]
extern "C" fn rdma_create_event_channel() -> *mut rdma_event_channel {
    create(
        "rdma_create_event_channel",
        |it: &mut rdma_event_channel, d| {
            it.fd = d.streams.1.as_raw_fd();
        },
    )
}

#[no_mangle]
extern "C" fn rdma_destroy_event_channel(channel: *mut rdma_event_channel) {
    destroy("rdma_destroy_event_channel", channel);
}

#[no_mangle]
extern "C" fn rdma_create_id(
    _channel: *mut rdma_event_channel,
    id: *mut *mut rdma_cm_id,
    _context: *mut c_void,
    _space: rdma_port_space,
) -> c_int {
    let new = create("rdma_create_id", |_: &mut rdma_cm_id, _| ());
    // SAFETY: the caller passes a place for the pointer.
    unsafe { *id = new };
    if new.is_null() {
        -1
    } else {
        0
    }
}

#[no_mangle]
extern "C" fn rdma_destroy_id(id: *mut rdma_cm_id) -> c_int {
    destroy("rdma_destroy_id", id)
}

#[no_mangle]
extern "C" fn rdma_resolve_addr(
    id: *mut rdma_cm_id,
    _from: *mut sockaddr,
    _to: *mut sockaddr,
    _timeout: c_int,
) -> c_int {
    let status = status("rdma_resolve_addr");
    if status == 0 {
        // SAFETY: `id` comes from `rdma_create_id`.
        unsafe { (*id).verbs = with(|device| device.context) };
        raise(RDMA_CM_EVENT_ADDR_RESOLVED);
    }
    status
}

#[no_mangle]
extern "C" fn rdma_resolve_route(_id: *mut rdma_cm_id, _timeout: c_int) -> c_int {
    raise(RDMA_CM_EVENT_ROUTE_RESOLVED);
    status("rdma_resolve_route")
}

#[no_mangle]
extern "C" fn rdma_get_cm_event(
    _channel: *mut rdma_event_channel,
    event: *mut *mut rdma_cm_event,
) -> c_int {
    let new = create("rdma_get_cm_event", |it: &mut rdma_cm_event, device| {
        it.event = device.events.pop_front().expect("an event");
        device.streams.1.read_exact(&mut [0]).expect("its byte");
    });
    // SAFETY: the caller passes a place for the pointer.
    unsafe { *event = new };
    if new.is_null() {
        -1
    } else {
        0
    }
}

#[no_mangle]
extern "C" fn rdma_ack_cm_event(event: *mut rdma_cm_event) -> c_int {
    destroy("rdma_ack_cm_event", event)
}

#[no_mangle]
extern "C" fn rdma_create_qp(
    id: *mut rdma_cm_id,
    _pd: *mut ibv_pd,
    _attr: *mut ibv_qp_init_attr,
) -> c_int {
    let qp = create("rdma_create_qp", |it: &mut ibv_qp, device| {
        it.context = device.context;
    });
    // SAFETY: `id` comes from `rdma_create_id`.
    unsafe { (*id).qp = qp };
    if qp.is_null() {
        -1
    } else {
        0
    }
}

#[no_mangle]
extern "C" fn rdma_destroy_qp(id: *mut rdma_cm_id) {
    // SAFETY: `id` comes from `rdma_create_id`.
    destroy("rdma_destroy_qp", unsafe { (*id).qp });
}

#[no_mangle]
extern "C" fn rdma_connect(_id: *mut rdma_cm_id, _param: *mut rdma_conn_param) -> c_int {
    raise(RDMA_CM_EVENT_ESTABLISHED);
    status("rdma_connect")
}

#[no_mangle]
extern "C" fn rdma_disconnect(_id: *mut rdma_cm_id) -> c_int {
    status("rdma_disconnect")
}

#[no_mangle]
extern "C" fn ibv_alloc_pd(context: *mut ibv_context) -> *mut ibv_pd {
    create("ibv_alloc_pd", |it: &mut ibv_pd, _| it.context = context)
}

#[no_mangle]
extern "C" fn ibv_dealloc_pd(pd: *mut ibv_pd) -> c_int {
    destroy("ibv_dealloc_pd", pd)
}

#[no_mangle]
extern "C" fn ibv_reg_mr(
    _pd: *mut ibv_pd,
    _address: *mut c_void,
    _len: usize,
    _access: c_int,
) -> *mut bindings::ibv_mr {
    create("ibv_reg_mr", |_, _| ())
}

#[no_mangle]
extern "C" fn ibv_dereg_mr(mr: *mut bindings::ibv_mr) -> c_int {
    destroy("ibv_dereg_mr", mr)
}

#[no_mangle]
extern "C" fn ibv_create_comp_channel(_context: *mut ibv_context) -> *mut ibv_comp_channel {
    create("ibv_create_comp_channel", |it: &mut ibv_comp_channel, d| {
        // Nothing is ever written to this end.
        it.fd = d.streams.0.as_raw_fd();
    })
}

#[no_mangle]
extern "C" fn ibv_destroy_comp_channel(channel: *mut ibv_comp_channel) -> c_int {
    destroy("ibv_destroy_comp_channel", channel)
}

#[no_mangle]
extern "C" fn ibv_create_cq(
    context: *mut ibv_context,
    _entries: c_int,
    _cq_context: *mut c_void,
    _channel: *mut ibv_comp_channel,
    _vector: c_int,
) -> *mut ibv_cq {
    create("ibv_create_cq", |it: &mut ibv_cq, _| it.context = context)
}

#[no_mangle]
extern "C" fn ibv_destroy_cq(cq: *mut ibv_cq) -> c_int {
    destroy("ibv_destroy_cq", cq)
}

extern "C" fn alloc_mw(pd: *mut ibv_pd, _kind: ibv_mw_type) -> *mut ibv_mw {
    create("alloc_mw", |it: &mut ibv_mw, device| {
        it.pd = pd;
        it.context = device.context;
    })
}

extern "C" fn dealloc_mw(mw: *mut ibv_mw) -> c_int {
    destroy("dealloc_mw", mw)
}

extern "C" fn poll_cq(_cq: *mut ibv_cq, _entries: c_int, _done: *mut ibv_wc) -> c_int {
    0
}

extern "C" fn req_notify_cq(_cq: *mut ibv_cq, _solicited: c_int) -> c_int {
    0
}

extern "C" fn post_recv(
    _qp: *mut ibv_qp,
    _request: *mut ibv_recv_wr,
    _bad: *mut *mut ibv_recv_wr,
) -> c_int {
    status("post_recv")
}

extern "C" fn post_send(
    _qp: *mut ibv_qp,
    _request: *mut ibv_send_wr,
    _bad: *mut *mut ibv_send_wr,
) -> c_int {
    status("post_send")
}
