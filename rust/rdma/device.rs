// SPDX-License-Identifier: GPL-2.0

//! RDMA devices and protection domains.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use core::ptr::NonNull;
use kernel::{
    error::from_err_ptr,
    fmt,
    prelude::*,
    str::CStr,
    sync::Arc, //
};

/// What a device can do.
pub type Limits = bindings::svcrdma_limits;

/// A reference to a device's memory, which the device may have left.
///
/// # Invariants
///
/// The pointer is to a `struct ib_device` that was registered once, and this value owns a
/// reference to its embedded `struct device`.
pub struct IbDevice(NonNull<bindings::ib_device>);

// SAFETY: The reference count is atomic, and what is read never changes but for the name, which
// `ib_device_rename` writes over in place: it always ends within its array.
unsafe impl Send for IbDevice {}
// SAFETY: As above.
unsafe impl Sync for IbDevice {}

impl IbDevice {
    /// Takes a reference.
    ///
    /// # Safety
    ///
    /// `device` is a live device that is or was registered.
    pub(super) unsafe fn from_raw(device: NonNull<bindings::ib_device>) -> Self {
        // SAFETY: By the safety requirements of this function.
        unsafe { bindings::device_get(device.as_ptr()) };
        // INVARIANT: As just taken.
        Self(device)
    }

    pub(super) fn as_ptr(&self) -> *mut bindings::ib_device {
        self.0.as_ptr()
    }

    /// Whether both are the same device.
    pub fn same(&self, other: &IbDevice) -> bool {
        self.0 == other.0
    }

    /// What it can do.
    pub fn limits(&self) -> Limits {
        let mut limits = pin_init::zeroed();
        // SAFETY: By the type invariant; attributes are set before a device is registered.
        unsafe { bindings::device_limits(self.as_ptr(), &mut limits) };
        limits
    }

    /// Its name, as it is now.
    pub fn name(&self) -> Name {
        let mut name = [0u8; Name::SIZE];
        // SAFETY: By the type invariant; `name` is valid for writes of its length.
        unsafe {
            bindings::device_name(self.as_ptr(), name.as_mut_ptr().cast(), name.len());
        }
        Name(name)
    }
}

/// The name of a device.
pub struct Name([u8; Self::SIZE]);

impl Name {
    /// The longest there is, and its end (`IB_DEVICE_NAME_MAX`).
    const SIZE: usize = 64;
}

const _: () = assert!(Name::SIZE == bindings::IB_DEVICE_NAME_MAX as usize);

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = CStr::from_bytes_until_nul(&self.0).map(CStr::to_str);
        f.write_str(name.unwrap_or(Ok("?")).unwrap_or("?"))
    }
}

impl Clone for IbDevice {
    fn clone(&self) -> Self {
        // SAFETY: By the type invariant.
        unsafe { Self::from_raw(self.0) }
    }
}

impl Drop for IbDevice {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::device_put(self.as_ptr()) };
    }
}

/// A device that stays registered while this lives.
///
/// # Invariants
///
/// This value owns one reference to the device's memory region.
struct Registered(IbDevice);

impl Registered {
    fn hold(device: &IbDevice) -> Result<Self> {
        // SAFETY: By the invariant of `IbDevice`.
        if !unsafe { bindings::ib_device_try_get(device.as_ptr()) } {
            return Err(ENODEV);
        }
        // INVARIANT: As just taken.
        Ok(Self(device.clone()))
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::ib_device_put(self.0.as_ptr()) };
    }
}

/// A protection domain, which also keeps its device registered: everything that the hardware may
/// touch hangs on one.
///
/// # Invariants
///
/// `pd` is a live protection domain of `device`.
pub struct Pd {
    pd: NonNull<bindings::ib_pd>,
    device: Registered,
}

// SAFETY: Verbs may be called on any thread.
unsafe impl Send for Pd {}
// SAFETY: As above.
unsafe impl Sync for Pd {}

impl Pd {
    /// Makes one. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` when the device is being removed, otherwise the driver's.
    pub fn new(device: &IbDevice) -> Result<Arc<Self>> {
        let device = Registered::hold(device)?;
        // SAFETY: The device is registered, as was just made sure.
        let pd = from_err_ptr(unsafe { bindings::ib_alloc_pd(device.0.as_ptr()) })?;
        // INVARIANT: `pd` was just made of `device`, which is held.
        let pd = Self {
            pd: NonNull::new(pd).ok_or(ENOMEM)?,
            device,
        };
        Ok(Arc::new(pd, GFP_KERNEL)?)
    }

    pub(super) fn as_ptr(&self) -> *mut bindings::ib_pd {
        self.pd.as_ptr()
    }

    pub(super) fn device_ptr(&self) -> *mut bindings::ib_device {
        self.device.0.as_ptr()
    }

    /// Returns true if the device writes what it reads from peers to registered memory only (iWARP).
    pub(super) fn needs_registration(&self) -> bool {
        self.device.0.limits().iwarp
    }

    /// The key of all memory that is mapped for the device.
    pub(super) fn local_key(&self) -> u32 {
        // SAFETY: By the type invariant.
        unsafe { (*self.as_ptr()).local_dma_lkey }
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; whatever was made of it held it until now.
        unsafe { bindings::ib_dealloc_pd(self.as_ptr()) };
    }
}
