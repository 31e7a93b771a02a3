// SPDX-License-Identifier: GPL-2.0

//! Addresses, network namespaces, sysctl, workqueues, and other small things.

use kernel::{
    ffi::{c_char, c_int, c_void},
    sim, workqueue,
};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    ffi::CStr,
};

pub const AF_INET: u32 = 2;
pub const AF_INET6: u32 = 10;
pub const svcrdma_line_SVCRDMA_LINE_REFUSAL: u32 = 0;
pub const svcrdma_line_SVCRDMA_LINE_CLOSE: u32 = 1;
pub const svcrdma_line_SVCRDMA_LINE_OTHER: u32 = 2;

#[repr(C)]
#[derive(Clone, Copy)]
pub struct __kernel_sockaddr_storage(pub [u8; 128]);

pub type sockaddr = __kernel_sockaddr_storage;

/// Returns an IPv4 address.
pub fn address(host: u32, port: u16) -> sockaddr {
    let mut bytes = [0; 128];
    bytes[..2].copy_from_slice(&(AF_INET as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&port.to_be_bytes());
    bytes[4..8].copy_from_slice(&host.to_be_bytes());
    __kernel_sockaddr_storage(bytes)
}

/// Returns an IPv6 address.
pub fn address6(host: u32, port: u16) -> sockaddr {
    let mut bytes = [0; 128];
    bytes[..2].copy_from_slice(&(AF_INET6 as u16).to_ne_bytes());
    bytes[2..4].copy_from_slice(&port.to_be_bytes());
    bytes[8..10].copy_from_slice(&[0x20, 0x01]);
    // In the network, as the hosts of a network count as one.
    bytes[12..16].copy_from_slice(&host.to_be_bytes());
    __kernel_sockaddr_storage(bytes)
}

/// Returns the GID of RoCE that stands for an address.
pub fn gid(addr: &sockaddr) -> [u8; 16] {
    let bytes = &addr.0;
    let mut gid = [0; 16];
    if is_ipv6(addr) {
        gid.copy_from_slice(&bytes[8..24]);
    } else {
        gid[10..12].fill(0xff);
        gid[12..].copy_from_slice(&bytes[4..8]);
    }
    gid
}

/// Returns the port of an address.
pub fn port(addr: &sockaddr) -> u16 {
    u16::from_be_bytes([addr.0[2], addr.0[3]])
}

fn is_ipv6(addr: &sockaddr) -> bool {
    addr.0[..2] == (AF_INET6 as u16).to_ne_bytes()
}

pub unsafe fn addr_len(addr: *const sockaddr) -> usize {
    match is_ipv6(unsafe { &*addr }) {
        true => 28,
        false => 16,
    }
}

pub unsafe fn addr_set_scope(_: *mut sockaddr, _: *const crate::rdma_cm_id) {}

pub unsafe fn addr_format(buf: *mut c_char, len: usize, addr: *const sockaddr) -> c_int {
    let bytes = unsafe { (*addr).0 };
    let port = port(unsafe { &*addr });
    let text = match is_ipv6(unsafe { &*addr }) {
        true => format!("[{:x?}]:{port}", &bytes[8..24]),
        false => format!("{}.{}.{}.{}:{port}", bytes[4], bytes[5], bytes[6], bytes[7]),
    };
    let len = text.len().min(len);
    unsafe { core::ptr::copy_nonoverlapping(text.as_ptr(), buf, len) };
    len as c_int
}

pub unsafe fn online_cpus() -> u32 {
    2
}

/// All lines are printed.
pub unsafe fn ratelimit(_: u32) -> bool {
    true
}

/// All tasks pass a point at which they can sleep.
pub unsafe fn wait_for_tasks() {
    sim::might_sleep("wait for tasks");
    sim::sleep(1);
}

pub unsafe fn uptime_ms() -> u64 {
    sim::now()
}

pub unsafe fn get_random_u64() -> u64 {
    sim::below(u64::MAX)
}

// Network namespaces: the initial one, and another one.

pub struct net {
    generic: Cell<*mut c_void>,
}

thread_local! {
    static NETS: [net; 2] = const {
        [net { generic: Cell::new(core::ptr::null_mut()) }, net { generic: Cell::new(core::ptr::null_mut()) }]
    };
    /// The operations of the module, and the namespaces that it knows.
    static PERNET: RefCell<Option<(crate::Ptr<pernet_operations>, Vec<*mut net>)>> = const { RefCell::new(None) };
    static TABLES: RefCell<HashMap<(*mut net, String), *mut ctl_table>> = RefCell::default();
}

/// Returns the initial namespace.
pub fn init_net() -> *mut net {
    NETS.with(|nets| core::ptr::from_ref(&nets[0]).cast_mut())
}

/// Returns the other namespace.
pub fn other_net() -> *mut net {
    NETS.with(|nets| core::ptr::from_ref(&nets[1]).cast_mut())
}

/// Ends the other namespace, which has no transports any more.
pub fn end_other_net() {
    end_net(other_net());
}

pub unsafe fn net_initial() -> *mut net {
    init_net()
}

#[repr(C)]
pub struct pernet_operations {
    pub init: Option<unsafe extern "C" fn(*mut net) -> c_int>,
    pub exit: Option<unsafe extern "C" fn(*mut net)>,
    pub id: *mut u32,
    pub size: usize,
    pub list: [usize; 2],
}

pub unsafe fn register_pernet_subsys(ops: *mut pernet_operations) -> c_int {
    let ops = crate::Ptr(ops);
    PERNET.with(|pernet| *pernet.borrow_mut() = Some((ops, Vec::new())));
    for net in [init_net(), other_net()] {
        let result = unsafe { ops.get().init.map_or(0, |init| init(net)) };
        if result != 0 {
            unsafe { unregister_pernet_subsys(ops.0) };
            return result;
        }
        PERNET.with(|pernet| {
            let mut pernet = pernet.borrow_mut();
            pernet.as_mut().map(|(_, nets)| nets.push(net))
        });
    }
    0
}

pub unsafe fn unregister_pernet_subsys(_: *mut pernet_operations) {
    end_other_net();
    end_net(init_net());
}

fn end_net(net: *mut net) {
    let exit = PERNET.with(|pernet| {
        let mut pernet = pernet.borrow_mut();
        let (ops, nets) = pernet.as_mut()?;
        let at = nets.iter().position(|one| *one == net)?;
        nets.remove(at);
        ops.get().exit
    });
    if let Some(exit) = exit {
        unsafe { exit(net) };
    }
}

pub unsafe fn net_generic(net: *const net, _: u32) -> *mut c_void {
    unsafe { (*net).generic.as_ptr().cast() }
}

pub unsafe fn net_get(_: *mut net) {
    sim::count("reference to a namespace", 1);
}

pub unsafe fn net_put(_: *mut net) {
    sim::count("reference to a namespace", -1);
}

pub unsafe fn net_is_initial(net: *const net) -> bool {
    core::ptr::eq(net, init_net())
}

pub unsafe fn net_number(net: *const net) -> u32 {
    match core::ptr::eq(net, init_net()) {
        true => 1,
        false => 2,
    }
}

// sysctl

#[repr(C)]
pub struct ctl_table {
    pub procname: *const c_char,
    pub data: *mut c_void,
    pub maxlen: c_int,
    pub mode: u16,
    pub proc_handler: Option<proc_handler>,
    pub extra1: *mut c_void,
    pub extra2: *mut c_void,
}

type proc_handler = unsafe extern "C" fn(
    *const ctl_table,
    c_int,
    *mut c_void,
    *mut usize,
    *mut kernel::bindings::loff_t,
) -> c_int;

/// The namespace of a table.
pub struct ctl_table_header(*mut net);

pub unsafe fn register_net_sysctl_sz(
    net: *mut net,
    _path: *const c_char,
    table: *mut ctl_table,
    count: usize,
) -> *mut ctl_table_header {
    sim::count("sysctl table", 1);
    for i in 0..count {
        let entry = unsafe { table.add(i) };
        let name = unsafe { CStr::from_ptr((*entry).procname.cast()) };
        let name = name.to_str().expect("a name is text").to_string();
        TABLES.with(|tables| tables.borrow_mut().insert((net, name), entry));
    }
    Box::into_raw(Box::new(ctl_table_header(net)))
}

pub unsafe fn unregister_net_sysctl_table(header: *mut ctl_table_header) {
    sim::count("sysctl table", -1);
    let ctl_table_header(net) = *unsafe { Box::from_raw(header) };
    TABLES.with(|tables| tables.borrow_mut().retain(|(of, _), _| *of != net));
}

/// Returns the file of one of the module's settings.
fn setting(name: &str) -> *mut ctl_table {
    let key = (init_net(), name.to_string());
    let entry = TABLES.with(|tables| tables.borrow().get(&key).copied());
    entry.expect("the module has the setting")
}

/// Sets one of the module's settings.
pub fn set(name: &str, value: i64) {
    unsafe { *(*setting(name)).data.cast() = value };
}

/// Writes a setting that is a text. Returns true if the module takes it.
pub fn write_text(name: &str, text: &str) -> bool {
    let (mut bytes, entry) = (text.as_bytes().to_vec(), setting(name));
    let (mut len, mut at) = (bytes.len(), 0);
    let handler = unsafe { (*entry).proc_handler }.expect("a file has a function");
    unsafe { handler(entry, 1, bytes.as_mut_ptr().cast(), &mut len, &mut at) == 0 }
}

/// Reads a setting that is a text.
pub fn read_text(name: &str) -> String {
    let (mut bytes, entry) = (vec![0u8; 1024], setting(name));
    let (mut len, mut at) = (bytes.len(), 0);
    let handler = unsafe { (*entry).proc_handler }.expect("a file has a function");
    let result = unsafe { handler(entry, 0, bytes.as_mut_ptr().cast(), &mut len, &mut at) };
    assert_eq!(result, 0, "{name} cannot be read");
    bytes.truncate(len);
    String::from_utf8(bytes).expect("a setting is text")
}

/// Reads the files of all counters of a namespace.
pub fn read_counters(net: *mut net) -> Vec<(String, Vec<i64>)> {
    let entries: Vec<_> = TABLES.with(|tables| {
        let tables = tables.borrow();
        let tables = tables.iter().filter(|((of, _), _)| *of == net);
        let tables = tables.map(|((_, name), entry)| (name.clone(), *entry));
        tables.collect()
    });
    let is_counter =
        |entry: *mut ctl_table| unsafe { (*entry).mode & 0o222 == 0 && (*entry).maxlen % 8 == 0 };
    let counters = entries.into_iter().filter(|(_, entry)| is_counter(*entry));
    counters.map(|(name, entry)| (name, read(entry))).collect()
}

fn read(entry: *mut ctl_table) -> Vec<i64> {
    let handler = unsafe { (*entry).proc_handler }.expect("a file has a function");
    let (mut len, mut at) = (0, 0);
    unsafe { handler(entry, 0, core::ptr::null_mut(), &mut len, &mut at) };
    let (data, count) = unsafe { ((*entry).data.cast::<i64>(), (*entry).maxlen as usize / 8) };
    unsafe { core::slice::from_raw_parts(data, count) }.to_vec()
}

pub unsafe extern "C" fn proc_doulongvec_minmax(
    _: *const ctl_table,
    _: c_int,
    _: *mut c_void,
    _: *mut usize,
    _: *mut kernel::bindings::loff_t,
) -> c_int {
    0
}

/// Reads the text of a table.
pub unsafe fn proc_dostring(
    table: *const ctl_table,
    _: c_int,
    buffer: *mut c_void,
    len: *mut usize,
    _: *mut kernel::bindings::loff_t,
) -> c_int {
    unsafe {
        let text = CStr::from_ptr((*table).data.cast()).to_bytes();
        *len = text.len().min(*len);
        core::ptr::copy_nonoverlapping(text.as_ptr(), buffer.cast(), *len);
    }
    0
}

// Workqueues

use kernel::bindings::workqueue_struct;

#[repr(C)]
pub struct work_struct {
    func: Option<unsafe extern "C" fn(*mut work_struct)>,
    is_queued: Cell<bool>,
}

pub type delayed_work = work_struct;

pub unsafe fn alloc_workqueue() -> *mut workqueue_struct {
    workqueue::create()
}

pub unsafe fn flush_workqueue(queue: *mut workqueue_struct) {
    unsafe { (*queue).flush() };
}

pub unsafe fn init_delayed_work(
    work: *mut delayed_work,
    func: Option<unsafe extern "C" fn(*mut work_struct)>,
) {
    let is_queued = Cell::new(false);
    unsafe { work.write(work_struct { func, is_queued }) };
}

thread_local! {
    /// The queue of each delayed work item.
    static QUEUES: RefCell<HashMap<usize, *mut workqueue_struct>> = RefCell::default();
}

pub unsafe fn queue_delayed_work(
    queue: *mut workqueue_struct,
    work: *mut delayed_work,
    msecs: u32,
) {
    QUEUES.with(|queues| queues.borrow_mut().insert(work.addr(), queue));
    let func = unsafe { (*work).func }.expect("the work item has a function");
    let work = crate::Ptr(work);
    let run = move || unsafe {
        let work = work;
        func(work.0)
    };
    unsafe { (*queue).queue(work.0.addr(), msecs.into(), Box::new(run)) };
}

pub unsafe fn disable_delayed_work_sync(work: *mut delayed_work) {
    let queue = QUEUES.with(|queues| queues.borrow_mut().remove(&work.addr()));
    if let Some(queue) = queue {
        unsafe { (*queue).disable(work.addr()) };
    }
}

pub unsafe fn to_delayed_work(work: *mut work_struct) -> *mut delayed_work {
    work
}

pub unsafe fn hold_module() {
    sim::count("reference to the module", 1);
}

pub unsafe fn put_module() {
    sim::count("reference to the module", -1);
}
