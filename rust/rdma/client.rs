// SPDX-License-Identifier: GPL-2.0

//! Clients: reports of RDMA devices that are added and removed.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::device::IbDevice;
use core::{
    pin::Pin,
    ptr::NonNull, //
};
use kernel::{
    error::to_result,
    ffi::c_void,
    prelude::*,
    str::CStr,
    sync::{
        atomic::{
            Acquire,
            Atomic,
            Full,
            Release, //
        },
        Arc, //
    },
    types::Opaque, //
};
use support::wait_for_tasks;

/// A list of devices that follows the RDMA core's.
///
/// Functions run in process context and may sleep. The RDMA core calls them for one device one
/// after the other, and may call them for several devices at once.
pub trait Client: Send + Sync + 'static {
    /// Takes a device that is registered now, or was before the client.
    ///
    /// # Errors
    ///
    /// Any error. The RDMA core then does not call [`Self::remove`] for this device.
    fn add(&self, device: IbDevice) -> Result;

    /// Gives up a device that is being removed.
    ///
    /// When this returns, the client no longer uses the device, except for objects that hold a
    /// [`Pd`](crate::device::Pd): the RDMA core waits until these are dropped.
    fn remove(&self, device: &IbDevice);
}

/// The address of the registered client's target, or 0. Operations of `struct ib_client` get only
/// the device, so they find the target here.
static CLIENT: Atomic<usize> = Atomic::new(0);

/// The registration of a [`Client`]. There is at most one.
///
/// Dropping it calls [`Client::remove`] for all devices, and sleeps. It is dropped after all CM ids.
///
/// # Invariants
///
/// `client` is registered, and `CLIENT` is the address that `target` points to.
#[pin_data(PinnedDrop)]
pub struct Registration<T: Client> {
    #[pin]
    client: Opaque<bindings::ib_client>,
    target: Arc<T>,
}

// SAFETY: A `Registration` can only be dropped, which may happen on any thread.
unsafe impl<T: Client> Send for Registration<T> {}
// SAFETY: A shared `Registration` has no functions.
unsafe impl<T: Client> Sync for Registration<T> {}

impl<T: Client> Registration<T> {
    /// Registers `target` under `name`. Calls [`Client::add`] for all present devices before it
    /// returns. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` if a client is registered already, or the RDMA core's error.
    pub fn new(name: &'static CStr, target: Arc<T>) -> impl PinInit<Self, Error> {
        let address = Arc::as_ptr(&target) as usize;
        try_pin_init!(Self {
            target,
            client <- Opaque::try_ffi_init(move |slot: *mut bindings::ib_client| {
                // SAFETY: `slot` is valid for writes.
                unsafe {
                    slot.write(bindings::ib_client {
                        name: name.as_char_ptr(),
                        add: Some(Self::add),
                        remove: Some(Self::remove),
                        ..pin_init::zeroed()
                    })
                };
                CLIENT.cmpxchg(0, address, Full).map_err(|_| EBUSY)?;
                // SAFETY: `slot` is initialised, and stays in place until `drop` unregisters it.
                to_result(unsafe { bindings::ib_register_client(slot) })
                    .inspect_err(|_| CLIENT.store(0, Release))
            }),
        })
    }

    /// Returns the target of the registered client.
    ///
    /// # Safety
    ///
    /// A registration of type `T` exists for `'a`.
    unsafe fn target<'a>() -> &'a T {
        // CAST: Only `new` stores an address, and there is one registration at a time.
        // SAFETY: By the safety requirements of this function.
        unsafe { &*(CLIENT.load(Acquire) as *const T) }
    }

    /// Calls [`Client::add`].
    ///
    /// # Safety
    ///
    /// The RDMA core calls this for a device that it has just enabled, while a `Registration<T>`
    /// exists.
    unsafe extern "C" fn add(device: *mut bindings::ib_device) -> c_int {
        // SAFETY: By the safety requirements of this function a `Registration<T>` exists.
        let target = unsafe { Self::target() };
        // SAFETY: By the safety requirements of this function `device` is live and not null.
        let device = unsafe { IbDevice::from_raw(NonNull::new_unchecked(device)) };
        target.add(device).map_or_else(Error::to_errno, |()| 0)
    }

    /// Calls [`Client::remove`].
    ///
    /// # Safety
    ///
    /// The RDMA core calls this for a device that [`Self::add`] has accepted, while a
    /// `Registration<T>` exists.
    unsafe extern "C" fn remove(device: *mut bindings::ib_device, _data: *mut c_void) {
        // SAFETY: By the safety requirements of this function a `Registration<T>` exists.
        let target = unsafe { Self::target() };
        // SAFETY: By the safety requirements of this function `device` is live and not null.
        let device = unsafe { IbDevice::from_raw(NonNull::new_unchecked(device)) };
        target.remove(&device);
    }
}

#[pinned_drop]
impl<T: Client> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: The client is registered by the type invariant. No operation of the client runs
        // after this has returned.
        unsafe { bindings::ib_unregister_client(self.client.get()) };
        CLIENT.store(0, Release);
        // The RDMA core may still be destroying the id of a rejected connect request, which names this
        // module (see `NAME` in cm.rs).
        wait_for_tasks();
    }
}
