// SPDX-License-Identifier: GPL-2.0

//! Fatal errors of whole devices (`IB_EVENT_DEVICE_FATAL`).
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::device::IbDevice;
use kernel::{
    prelude::*,
    sync::atomic::{
        AtomicFlag,
        Relaxed, //
    },
    types::Opaque, //
};

/// Notes fatal errors that a device reports.
///
/// After such an error, queue pairs of the device may complete nothing any more. The driver may remove
/// the device.
///
/// # Invariants
///
/// `handler` is registered for `device`.
#[repr(C)]
#[pin_data(PinnedDrop)]
pub struct FatalErrors {
    /// The first field, so that a pointer to it points to this value.
    #[pin]
    handler: Opaque<bindings::ib_event_handler>,
    /// True if an error was reported since the last call of [`Self::take`].
    is_reported: AtomicFlag,
    /// Keeps the memory of the device.
    device: IbDevice,
}

// SAFETY: A handler may be unregistered on any thread.
unsafe impl Send for FatalErrors {}
// SAFETY: A shared `FatalErrors` gives access to the flag alone.
unsafe impl Sync for FatalErrors {}

impl FatalErrors {
    /// Begins to note errors of `device`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn of(device: &IbDevice) -> Result<Pin<KBox<Self>>> {
        let raw = device.as_ptr();
        // The handler is registered last, because it may be called at once.
        let this = pin_init!(Self {
            is_reported: AtomicFlag::new(false),
            device: device.clone(),
            handler <- Opaque::ffi_init(move |slot: *mut bindings::ib_event_handler| {
                // SAFETY: `slot` is valid for writes, and stays in place until `drop` has
                // unregistered the handler. The value keeps a reference to the device.
                unsafe { bindings::register_event_handler(slot, raw, Some(Self::event)) }
            }),
        });
        KBox::pin_init(this, GFP_KERNEL)
    }

    /// Returns true once after an error was reported. In any context.
    pub fn take(&self) -> bool {
        self.is_reported.load(Relaxed) && self.is_reported.xchg(false, Relaxed)
    }

    /// Notes a fatal error. In process context.
    ///
    /// # Safety
    ///
    /// The RDMA core calls this with a handler that [`Self::of`] has registered.
    unsafe extern "C" fn event(
        handler: *mut bindings::ib_event_handler,
        event: *mut bindings::ib_event,
    ) {
        // SAFETY: By the safety requirements of this function.
        if unsafe { (*event).event } == bindings::ib_event_type_IB_EVENT_DEVICE_FATAL {
            // CAST: `handler` is the first field of a `repr(C)` `FatalErrors`.
            // SAFETY: The handler is registered, so the value is live and its other fields were
            // initialised, see `of`.
            unsafe { (*handler.cast::<Self>()).is_reported.store(true, Relaxed) };
        }
    }
}

#[pinned_drop]
impl PinnedDrop for FatalErrors {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The handler is registered by the type invariant. It is not running any more, and
        // is not called again, when this returns.
        unsafe { bindings::ib_unregister_event_handler(self.handler.get()) };
    }
}
