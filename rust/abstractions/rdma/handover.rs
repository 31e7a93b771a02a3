// SPDX-License-Identifier: GPL-2.0

//! Ids that outlive this module: `svcrdma_keep.ko` has them until the next one listens.
//!
//! Its C header: [`include/svcrdma_keep.h`](../../../include/svcrdma_keep.h)

use crate::abstractions::{
    addr::Net,
    bindings,
    wait_for_tasks, //
};
use kernel::{
    prelude::*,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full, //
        },
        Arc,
        ArcBorrow, //
    },
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

/// What ids show up to its zero, as whose they are.
type Name = [u8; 8];

/// The [`Name`] of an `Arc`, or 0.
static CALLER: Atomic<usize> = Atomic::new(0);

/// Whose the ids are, as `rdma resource show cm_id` says it; needed before there are any, and until
/// there are none but those of `svcrdma_keep.ko`. As they outlive this module, see
/// [`Parting::Later`], each of those has a reference to the name. Those of connect requests that were
/// rejected are the RDMA core's, which may destroy them after their listener is gone, without sleeping
/// before: dropping this waits for that. It is the last that the module drops, so that whoever puts the
/// module in one of its own functions (`Carrier::discard`) has left that by then as well. Sleeps.
pub(crate) struct Caller(());

impl Caller {
    /// Makes the name. The only one, or this fails with `EBUSY`. May sleep.
    pub(crate) fn new() -> Result<Self> {
        let name: Arc<Name> = Arc::new(*b"svcrdma\0", GFP_KERNEL)?;
        let raw = Arc::into_raw(name);
        if CALLER.cmpxchg(0, raw as usize, Full).is_err() {
            // SAFETY: From `into_raw` above, and nobody else has it.
            drop(unsafe { Arc::from_raw(raw) });
            return Err(EBUSY);
        }
        Ok(Self(()))
    }
}

impl Drop for Caller {
    fn drop(&mut self) {
        wait_for_tasks();
        // CAST: The address that `new` has stored.
        let name = CALLER.xchg(0, Full) as *const Name;
        // SAFETY: From `into_raw` in `new`, as there is one `Caller` at a time.
        drop(unsafe { Arc::from_raw(name) });
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
    // CAST: The address that `Caller::new` has stored, or null.
    let name = CALLER.load(Acquire) as *const Name;
    if name.is_null() {
        return false;
    }
    // SAFETY: From `into_raw` in `Caller::new`; the `Caller` stays as long as we have ids, as it is
    // the last field of `Module` to be dropped.
    let name: Arc<Name> = unsafe { ArcBorrow::from_raw(name) }.into();
    let raw = Arc::into_raw(name);
    // SAFETY: By the safety requirements of this function; `raw` is the name that the id shows.
    let kept = unsafe { bindings::keep_id(id, raw) };
    if !kept {
        // SAFETY: From `into_raw` above, and not taken over.
        drop(unsafe { Arc::from_raw(raw) });
    }
    kept
}

/// Has `svcrdma_keep.ko`, if that is loaded, listen on a port where we do not any more: who asks for a
/// connection is held until it is unloaded. If another listener of the port is left it does nothing.
/// Sleeps.
pub(super) fn listen(net: Net<'_>, port: u16) {
    // SAFETY: `net` is live.
    unsafe { bindings::keep_listen(net.as_ptr(), port) };
}

/// Has `svcrdma_keep.ko`, if that is loaded, listen nowhere, as we are going to. Sleeps.
pub(super) fn take_over() {
    // SAFETY: The function has no preconditions but that it may sleep.
    unsafe { bindings::keep_make_way() };
}
