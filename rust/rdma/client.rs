// SPDX-License-Identifier: GPL-2.0

//! Devices that come and go.
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

/// Who is told about devices.
pub trait Client: Send + Sync + 'static {
    /// A device is there. May sleep.
    ///
    /// # Errors
    ///
    /// Any: the device is left alone then.
    fn add(&self, device: IbDevice) -> Result;

    /// A device goes: when this returns nothing of ours uses it but what holds a
    /// [`Pd`](super::device::Pd), which the RDMA core waits for. May sleep.
    fn remove(&self, device: &IbDevice);
}

/// The registered client, as `ib_client` operations are told nothing but the device.
static CLIENT: Atomic<usize> = Atomic::new(0);

/// A registration; dropping it removes all devices.
///
/// # Invariants
///
/// `client` is registered, and [`CLIENT`] is the address of what `target` is.
#[pin_data(PinnedDrop)]
pub struct Registration<T: Client> {
    #[pin]
    client: Opaque<bindings::ib_client>,
    target: Arc<T>,
}

// SAFETY: Nothing can be done with a `Registration` but drop it, which may happen on any thread.
unsafe impl<T: Client> Send for Registration<T> {}
// SAFETY: As above.
unsafe impl<T: Client> Sync for Registration<T> {}

impl<T: Client> Registration<T> {
    /// Registers `target` under `name`; it is told of the devices that are there before this
    /// returns. May sleep.
    ///
    /// # Errors
    ///
    /// `EBUSY` for a second registration, otherwise the RDMA core's.
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
                // SAFETY: `slot` is filled in and stays where it is until `drop`.
                to_result(unsafe { bindings::ib_register_client(slot) })
                    .inspect_err(|_| CLIENT.store(0, Release))
            }),
        })
    }

    /// # Safety
    ///
    /// A registration of type `T` lives for `'a`.
    unsafe fn target<'a>() -> &'a T {
        // CAST: Only `new` stores here, and there is one registration at a time.
        // SAFETY: By the safety requirements of this function.
        unsafe { &*(CLIENT.load(Acquire) as *const T) }
    }

    /// # Safety
    ///
    /// The RDMA core calls this, for a device that it has just enabled.
    unsafe extern "C" fn add(device: *mut bindings::ib_device) -> c_int {
        // SAFETY: By the safety requirements of this function the client is registered.
        let target = unsafe { Self::target() };
        // SAFETY: By the safety requirements of this function.
        let device = unsafe { IbDevice::from_raw(NonNull::new_unchecked(device)) };
        target.add(device).map_or_else(Error::to_errno, |()| 0)
    }

    /// # Safety
    ///
    /// The RDMA core calls this, for a device that [`Self::add`] has accepted.
    unsafe extern "C" fn remove(device: *mut bindings::ib_device, _data: *mut c_void) {
        // SAFETY: By the safety requirements of this function the client is registered.
        let target = unsafe { Self::target() };
        // SAFETY: By the safety requirements of this function.
        let device = unsafe { IbDevice::from_raw(NonNull::new_unchecked(device)) };
        target.remove(&device);
    }
}

#[pinned_drop]
impl<T: Client> PinnedDrop for Registration<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant. It calls `remove` for all devices, and no operation runs
        // after it has returned.
        unsafe { bindings::ib_unregister_client(self.client.get()) };
        CLIENT.store(0, Release);
    }
}
