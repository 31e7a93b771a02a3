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

/// An id without a queue pair, or what one has left behind that the RDMA core destroys; dropping it
/// destroys the id.
///
/// # Invariants
///
/// `raw` is live, and nobody else destroys it. It shows no other name than `_name`.
struct Id {
    raw: Option<NonNull<bindings::rdma_cm_id>>,
    /// Dropped when nobody sees the id any more.
    _name: Arc<Name>,
}

// SAFETY: Ids may be used on any thread, and `Arc<Name>` is `Send`.
unsafe impl Send for Id {}

impl Id {
    /// Destroys it, which disconnects the peer. Sleeps.
    fn destroy(&mut self) {
        if let Some(raw) = self.raw.take() {
            // SAFETY: By the type invariant; no handler runs after this has returned.
            unsafe { bindings::rdma_destroy_id(raw.as_ptr()) };
        }
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        self.destroy();
    }
}

extern "C" {
    /// Waits until each task has slept, or was in user space: none is in a function of this module
    /// any more that it was in before, not even preempted. Sleeps (rust/keep/export.c).
    fn svcrdma_keep_wait_for_tasks();
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
        // Not destroyed under the lock, which handlers take.
        let mut ids = core::mem::take(&mut *IDS.lock());
        let live = ids.iter().filter(|id| id.raw.is_some()).count();
        pr_info!("disconnecting {} connections that were kept\n", live);
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
            _name: name,
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

/// What happens to an id that is kept is nothing to us, but for the removal of its device.
///
/// # Safety
///
/// The RDMA core calls this for an id of [`IDS`], or for one that [`Kept`] is about to destroy.
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

/// Leaves `id` to the RDMA core; `false` if it is not on the list.
fn forget(id: *mut bindings::rdma_cm_id) -> bool {
    let mut ids = IDS.lock();
    let is_it = |kept: &&mut Id| kept.raw.is_some_and(|raw| raw.as_ptr() == id);
    // Its name stays on the list.
    let raw = ids.iter_mut().find(is_it).and_then(|kept| kept.raw.take());
    raw.is_some()
}
