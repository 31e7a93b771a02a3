// SPDX-License-Identifier: GPL-2.0

//! Ids of connections that are kept for a while without a queue pair, and of peers who ask for one
//! meanwhile: all unsafe code of `svcrdma_keep.ko`, which consists of little else.
//!
//! C header: [`include/rdma/rdma_cm.h`](srctree/include/rdma/rdma_cm.h)

use super::bindings;
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    str::CStr,
    sync::{
        atomic::{
            Atomic,
            Full, //
        },
        global_lock,
        Arc, //
    },
};

global_lock! {
    // SAFETY: `Kept::new` initialises it before this module offers its function to others: a
    // symbol of a module is found only after its initialisation.
    unsafe(uninit) static IDS: Mutex<KVec<Id>> = KVec::new();
}

/// Whether [`IDS`] is initialised.
static IS_USED: Atomic<i32> = Atomic::new(0);

/// What an id shows up to its zero, as whose it is.
type Name = [u8; 8];

/// What ids show that are made here, and those of requests that come to them.
static NAME: &CStr = c"svcrdma_keep";

/// How many requests are held; others are rejected.
const REQUESTS: usize = 1024;

/// What an id is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A connection that has no queue pair any more.
    Connection,
    /// Nothing yet: a peer asks for a connection.
    Request,
    /// A listener.
    Listener,
}

/// An id without a queue pair, or what one has left behind that the RDMA core destroys; dropping it
/// destroys the id.
///
/// # Invariants
///
/// `raw` is live, and nobody else destroys it. It shows no other name than `_name`, or [`NAME`].
struct Id {
    raw: Option<NonNull<bindings::rdma_cm_id>>,
    kind: Kind,
    /// Dropped when nobody sees the id any more.
    _name: Option<Arc<Name>>,
}

// SAFETY: Ids may be used on any thread, and `Arc<Name>` is `Send`.
unsafe impl Send for Id {}

impl Id {
    fn is(&self, kind: Kind) -> bool {
        self.raw.is_some() && self.kind == kind
    }

    /// Destroys it, which disconnects the peer, or has it ask again. Sleeps.
    fn destroy(&mut self) {
        let Some(raw) = self.raw.take() else {
            return;
        };
        if self.kind == Kind::Request {
            // A Linux client waits for three seconds before it asks again, but for this reason
            // (net/sunrpc/xprtrdma/verbs.c, `rpcrdma_cm_event_handler`).
            let reason = bindings::ib_cm_rej_reason_IB_CM_REJ_STALE_CONN as u8;
            // An error would mean that the peer does not ask any more.
            // SAFETY: By the type invariant; there is no private data.
            let _ = unsafe { bindings::rdma_reject(raw.as_ptr(), core::ptr::null(), 0, reason) };
        }
        // SAFETY: By the type invariant; no handler runs after this has returned.
        unsafe { bindings::rdma_destroy_id(raw.as_ptr()) };
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        self.destroy();
    }
}

// Without lockdep a `struct lockdep_map`, which ids have inside, is empty.
#[allow(improper_ctypes)]
extern "C" {
    /// Waits until each task has slept, or was in user space: none is in a function of this module
    /// any more that it was in before, not even preempted. Sleeps (rust/keep/export.c).
    fn svcrdma_keep_wait_for_tasks();

    /// Binds an id to a port of all addresses, of both families. 0 or a negative errno: that of `EBUSY`
    /// if the port has a listener (rust/keep/export.c).
    fn svcrdma_keep_bind(id: *mut bindings::rdma_cm_id, port: u16) -> c_int;

    /// Whether the id of a connect request, which has a device, is of iWARP (rust/keep/export.c).
    fn svcrdma_keep_is_iwarp(id: *mut bindings::rdma_cm_id) -> bool;
}

/// All that is kept; dropping it gives it up.
pub(crate) struct Kept(PhantomData<()>);

impl Kept {
    /// Makes an empty one. The only one, or this fails with `EBUSY`.
    pub(crate) fn new() -> Result<Self> {
        IS_USED.cmpxchg(0, 1, Full).map_err(|_| EBUSY)?;
        // SAFETY: Only the first to come here has got past the line above.
        unsafe { IDS.init() };
        Ok(Self(PhantomData))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        svcrdma_keep_make_way();
        // Not destroyed under the lock, which handlers take.
        let mut ids = core::mem::take(&mut *IDS.lock());
        let count = |kind| ids.iter().filter(|id| id.is(kind)).count();
        pr_info!(
            "disconnecting {} connections that were kept, {} requests wait for new ones\n",
            count(Kind::Connection),
            count(Kind::Request)
        );
        for id in ids.iter_mut() {
            id.destroy();
        }
        // A handler that has given its id up for a device's removal may not have returned yet, nor
        // the core have destroyed the id, which shows its name until then.
        // SAFETY: The function has no preconditions but that it may sleep.
        unsafe { svcrdma_keep_wait_for_tasks() };
        drop(ids);
    }
}

/// See include/svcrdma_keep.h.
///
/// # Safety
///
/// `id` is live and without a queue pair, the caller's to destroy, and the RDMA core does not
/// remove its device before this has returned. It shows `name`, which is from `Arc::into_raw`.
#[no_mangle]
unsafe extern "C" fn svcrdma_keep_id(id: *mut bindings::rdma_cm_id, name: *const Name) -> bool {
    let Some(id) = NonNull::new(id) else {
        return false;
    };
    {
        let mut ids = IDS.lock();
        // The caller's workqueue may be what freeing memory waits for.
        if ids.reserve(1, GFP_NOWAIT).is_err() {
            return false;
        }
        // SAFETY: By the safety requirements of this function, as it returns true.
        let name = unsafe { Arc::from_raw(name) };
        // There is room.
        // INVARIANT: As above.
        let _ = ids.push_within_capacity(Id {
            raw: Some(id),
            kind: Kind::Connection,
            _name: Some(name),
        });
    }
    // Not under the lock of the list: a handler takes them the other way round. What happens to
    // the id until then is told the old handler, which is still there.
    // SAFETY: The id is live; `Kept` does not drop it meanwhile, as the caller has a reference to
    // this module.
    unsafe { bindings::rdma_lock_handler(id.as_ptr()) };
    // SAFETY: As above; with the lock held no handler runs.
    unsafe {
        (*id.as_ptr()).context = core::ptr::null_mut();
        (*id.as_ptr()).event_handler = Some(event);
    }
    // SAFETY: As locked above.
    unsafe { bindings::rdma_unlock_handler(id.as_ptr()) };
    true
}

/// See include/svcrdma_keep.h.
///
/// # Safety
///
/// `net` is live.
#[no_mangle]
unsafe extern "C" fn svcrdma_keep_listen(net: *mut bindings::net, port: u16) {
    // SAFETY: By the safety requirements of this function.
    match unsafe { listen(net, port) } {
        // The listener of the other family is left. For both there is one, as the RDMA core is not
        // careful with a listener that goes while another one of its port stays.
        Ok(()) | Err(EBUSY) => {}
        // Without it clients come back some seconds later.
        Err(e) => pr_warn!("cannot listen (error {})\n", e.to_errno()),
    }
}

/// # Safety
///
/// As for [`svcrdma_keep_listen`].
unsafe fn listen(net: *mut bindings::net, port: u16) -> Result {
    // SAFETY: `net` is live, and the handler needs no context. The name is this module's, which waits
    // in `Kept`'s drop until nobody sees it.
    let id = unsafe {
        bindings::__rdma_create_kernel_id(
            net,
            Some(event),
            core::ptr::null_mut(),
            bindings::rdma_ucm_port_space_RDMA_PS_TCP,
            bindings::ib_qp_type_IB_QPT_RC,
            NAME.as_char_ptr(),
        )
    };
    let raw = NonNull::new(from_err_ptr(id)?).ok_or(ENOMEM)?;
    // INVARIANT: As just made.
    let id = Id {
        raw: Some(raw),
        kind: Kind::Listener,
        _name: None,
    };
    let raw = raw.as_ptr();
    // SAFETY: The id is live by the type invariant.
    to_result(unsafe { svcrdma_keep_bind(raw, port) })?;
    // SAFETY: As above.
    to_result(unsafe { bindings::rdma_listen(raw, 128) })?;
    // What there is no room for is dropped after the lock: handlers take it.
    let id = {
        let mut ids = IDS.lock();
        ids.reserve(1, GFP_NOWAIT)?;
        ids.push_within_capacity(id)
    };
    id.map_err(|_| ENOMEM)
}

/// See include/svcrdma_keep.h.
#[no_mangle]
extern "C" fn svcrdma_keep_make_way() {
    loop {
        let listener = {
            let mut ids = IDS.lock();
            let at = ids.iter().position(|id| id.is(Kind::Listener));
            at.and_then(|at| ids.remove(at).ok())
        };
        // Not destroyed under the lock, which handlers take.
        if listener.is_none() {
            return;
        }
    }
}

/// What happens to a connection that is kept is nothing to us, but for the removal of its device. Who
/// asks for one is held.
///
/// # Safety
///
/// The RDMA core calls this for an id that is or was in [`IDS`], or is a listener's that will be, or for
/// the new id of a connect request.
unsafe extern "C" fn event(
    id: *mut bindings::rdma_cm_id,
    event: *mut bindings::rdma_cm_event,
) -> c_int {
    // SAFETY: By the safety requirements of this function.
    let event = unsafe { (*event).event };
    // The core destroys the id when this returns 1, and with that rejects a peer; of one whose device
    // goes it waits until somebody else does otherwise.
    let is_to_go = match event {
        bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_REQUEST => {
            // iWARP has no reason that has a client ask again at once: the sooner it knows the better.
            // SAFETY: The id of a request has a device, and is live.
            let is_iwarp = unsafe { svcrdma_keep_is_iwarp(id) };
            is_iwarp || !hold(id)
        }
        bindings::rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL => forget(id, |_| true),
        // Nobody asks any more.
        _ => forget(id, |kind| kind == Kind::Request),
    };
    c_int::from(is_to_go)
}

/// Holds the `id` of a connect request; `false` if there is no room.
fn hold(id: *mut bindings::rdma_cm_id) -> bool {
    let mut ids = IDS.lock();
    // Who has given up makes room. A connection's name stays on the list.
    ids.retain(|kept| kept.raw.is_some() || kept.kind == Kind::Connection);
    let held = ids.iter().filter(|id| id.is(Kind::Request)).count();
    if held >= REQUESTS || ids.reserve(1, GFP_NOWAIT).is_err() {
        return false;
    }
    // INVARIANT: The new id is the handler's, and shows the name of its listener.
    let request = Id {
        raw: NonNull::new(id),
        kind: Kind::Request,
        _name: None,
    };
    // There is room.
    let _ = ids.push_within_capacity(request);
    true
}

/// Leaves `id` to the RDMA core; `false` if it is not on the list, or of no such kind.
fn forget(id: *mut bindings::rdma_cm_id, is_such: impl Fn(Kind) -> bool) -> bool {
    let raw = NonNull::new(id);
    let mut ids = IDS.lock();
    let mut such = ids.iter_mut().filter(|kept| is_such(kept.kind));
    let found = such.find(|kept| kept.raw == raw);
    found.and_then(|kept| kept.raw.take()).is_some()
}
