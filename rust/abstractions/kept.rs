// SPDX-License-Identifier: GPL-2.0

//! Ids of connections that are kept for a while without a queue pair: all unsafe code of
//! `svcrdma_keep.ko`, which consists of little else.
//!
//! C header: [`include/rdma/rdma_cm.h`](srctree/include/rdma/rdma_cm.h)

use super::bindings;
use core::{
    marker::PhantomData,
    ptr::NonNull, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Atomic,
            Full, //
        },
        global_lock, //
    },
};

global_lock! {
    // SAFETY: `Kept::new` initialises it before this module offers its function to others: a
    // symbol of a module is found only after its initialisation.
    unsafe(uninit) static HELD: Mutex<Held> = Held::new();
}

/// Whether [`HELD`] is initialised.
static IS_USED: Atomic<i32> = Atomic::new(0);

/// What ids show up to its zero, as whose they are.
type Name = [u8; 8];

/// An id without a queue pair; dropping it destroys it, which disconnects the peer. Sleeps.
///
/// # Invariants
///
/// It is live, and nobody else destroys it.
struct Id(NonNull<bindings::rdma_cm_id>);

// SAFETY: Ids may be used on any thread.
unsafe impl Send for Id {}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; no handler runs after this has returned.
        unsafe { bindings::rdma_destroy_id(self.0.as_ptr()) };
    }
}

/// What the module holds. The order of the fields is the order of teardown.
struct Held {
    ids: KVec<Id>,
    /// Names that the ids show.
    names: KVec<KBox<Name>>,
}

impl Held {
    const fn new() -> Self {
        Self {
            ids: KVec::new(),
            names: KVec::new(),
        }
    }
}

extern "C" {
    /// Waits until each task has slept, or was in user space: none is in a function of this module
    /// any more that it was in before, not even preempted. Sleeps (include/linux/rcupdate.h).
    fn synchronize_rcu_tasks();
}

/// All that is kept; dropping it gives it up.
pub(crate) struct Kept(PhantomData<()>);

impl Kept {
    /// Makes an empty one. The only one, or this fails with `EBUSY`.
    pub(crate) fn new() -> Result<Self> {
        IS_USED.cmpxchg(0, 1, Full).map_err(|_| EBUSY)?;
        // SAFETY: Only the first to come here has got past the line above.
        unsafe { HELD.init() };
        Ok(Self(PhantomData))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        // Not destroyed under the lock, which handlers take.
        let held = core::mem::replace(&mut *HELD.lock(), Held::new());
        pr_info!(
            "disconnecting {} connections that were kept\n",
            held.ids.len()
        );
        drop(held);
        // A handler that has given its id up for a device's removal may not have returned yet.
        // SAFETY: The function has no preconditions but that it may sleep.
        unsafe { synchronize_rcu_tasks() };
    }
}

/// See include/svcrdma_keep.h.
///
/// # Safety
///
/// `id` is live and without a queue pair, the caller's to destroy, its name stays, and the RDMA
/// core does not remove its device before this has returned.
#[no_mangle]
unsafe extern "C" fn svcrdma_keep(id: *mut bindings::rdma_cm_id) -> bool {
    let Some(id) = NonNull::new(id) else {
        return false;
    };
    {
        let mut held = HELD.lock();
        // The caller's workqueue may be what freeing memory waits for.
        if held.ids.reserve(1, GFP_NOWAIT).is_err() {
            return false;
        }
        // There is room.
        // INVARIANT: By the safety requirements of this function, as it returns true.
        let _ = held.ids.push_within_capacity(Id(id));
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
/// `name` is from a `KBox<Name>`, and the caller's to free.
#[no_mangle]
unsafe extern "C" fn svcrdma_keep_name(name: *mut Name) -> bool {
    let mut held = HELD.lock();
    if held.names.reserve(1, GFP_NOWAIT).is_err() {
        return false;
    }
    // SAFETY: By the safety requirements of this function, as it returns true.
    let name = unsafe { KBox::from_raw(name) };
    // There is room.
    let _ = held.names.push_within_capacity(name);
    true
}

/// What happens to an id that is kept is nothing to us, but for the removal of its device.
///
/// # Safety
///
/// The RDMA core calls this for an id of [`HELD`], or for one that [`Kept`] is about to destroy.
unsafe extern "C" fn event(
    id: *mut bindings::rdma_cm_id,
    event: *mut bindings::rdma_cm_event,
) -> c_int {
    // SAFETY: By the safety requirements of this function.
    let event = unsafe { (*event).event };
    if event != bindings::rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL {
        return 0;
    }
    // The core destroys the id when this returns 1, and waits until somebody else does otherwise.
    c_int::from(forget(id))
}

/// Takes `id` off the list; `false` if it was not there.
fn forget(id: *mut bindings::rdma_cm_id) -> bool {
    let ids = &mut HELD.lock().ids;
    let Some(index) = ids.iter().position(|other| other.0.as_ptr() == id) else {
        return false;
    };
    match ids.remove(index) {
        Ok(id) => {
            core::mem::forget(id);
            true
        }
        Err(_) => false,
    }
}
