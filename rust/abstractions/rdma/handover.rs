// SPDX-License-Identifier: GPL-2.0

//! Ids that outlive this module: `svcrdma_keep.ko` has them until the next one listens.
//!
//! Its C header: [`include/svcrdma_keep.h`](../../../include/svcrdma_keep.h)

use crate::abstractions::bindings;
use kernel::{
    error::to_result,
    prelude::*,
    sync::atomic::{
        Acquire,
        Atomic,
        AtomicFlag,
        Full,
        Release, //
    }, //
};

/// How the peer of a connection learns that it is over.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Parting {
    /// It is told at once.
    Now,
    /// When `svcrdma_keep.ko` is unloaded, which gets the id; at once if it is not loaded. The
    /// device must not be about to be removed.
    Later,
}

/// What [`Caller`] holds: ids show it up to its zero.
type Name = [u8; 8];

/// The address of the [`Name`], or 0.
static CALLER: Atomic<usize> = Atomic::new(0);

/// Whether `svcrdma_keep.ko` has ids that show the name.
static IS_HANDED_OVER: AtomicFlag = AtomicFlag::new(false);

/// Whose the ids are, as `rdma resource show cm_id` says it; needed before there are any, and until
/// there are none. On the heap, as ids may outlive this module, see [`Parting::Later`]; then
/// `svcrdma_keep.ko` gets it too.
pub(crate) struct Caller(());

impl Caller {
    /// Makes the name. The only one, or this fails with `EBUSY`. May sleep.
    pub(crate) fn new() -> Result<Self> {
        let name: KBox<Name> = KBox::new(*b"svcrdma\0", GFP_KERNEL)?;
        let raw = KBox::into_raw(name);
        if CALLER.cmpxchg(0, raw as usize, Full).is_err() {
            // SAFETY: From the box above, and nobody else has it.
            drop(unsafe { KBox::from_raw(raw) });
            return Err(EBUSY);
        }
        Ok(Self(()))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        // CAST: The address that `new` has stored.
        let name = CALLER.xchg(0, Full) as *mut Name;
        let kept = match IS_HANDED_OVER.load(Acquire) {
            // SAFETY: From a box, as there is one `Caller` at a time; not used again if it is kept.
            true => to_result(unsafe { bindings::keep_name(name) }),
            false => Err(ENOENT),
        };
        match kept {
            Ok(()) => {}
            // SAFETY: As above. No id is left that shows it: what was kept has gone with
            // `svcrdma_keep.ko`.
            Err(ENOENT) => drop(unsafe { KBox::from_raw(name) }),
            Err(_) => pr_warn!("8 bytes stay for good: the name of connections that are kept\n"),
        }
    }
}

/// The name for an id; null without a [`Caller`]: then the RDMA core shows the task.
pub(super) fn caller() -> *const c_char {
    // CAST: The address that `Caller::new` has stored, or null.
    CALLER.load(Acquire) as *const c_char
}

/// Hands the id over to `svcrdma_keep.ko`; `false` if that is not loaded, or has no memory.
///
/// # Safety
///
/// `id` is live and made here, has no queue pair, and is not used after this if it returns true.
pub(super) unsafe fn keep(id: *mut bindings::rdma_cm_id) -> bool {
    // SAFETY: By the safety requirements of this function; `Caller` leaves the name alone, as it
    // will find the flag set before it goes with the module.
    let kept = unsafe { bindings::keep(id) };
    if kept {
        IS_HANDED_OVER.store(true, Release);
    }
    kept
}
