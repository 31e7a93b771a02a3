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
    sync::{
        atomic::{
            AtomicFlag,
            Relaxed, //
        },
        Arc, //
    },
};

/// The properties of a device that bound the sizes of its objects (`struct ib_device_attr` and
/// others).
///
/// `max_qp_wr`, `max_cqe` and `max_mr_pages` count entries and pages; `max_send_sge` and
/// `max_sge_rd` count scatter/gather entries of a work request. `iwarp` is true if the sinks of
/// RDMA Reads must be registered memory.
pub type Limits = bindings::svcrdma_limits;

/// A reference to an RDMA device.
///
/// It keeps the memory of the device, and not its registration: the device may have been removed. A
/// [`Pd`] keeps a device registered. Functions may be called in any context.
///
/// # Invariants
///
/// The pointer is to a `struct ib_device` that is or was registered. This value owns a reference to
/// the `struct device` in it.
pub struct IbDevice(NonNull<bindings::ib_device>);

// SAFETY: The reference count is atomic, and belongs to no thread.
unsafe impl Send for IbDevice {}
// SAFETY: A shared `IbDevice` only reads. Attributes do not change after registration.
// `ib_device_rename` overwrites the name in place, where it always ends within its array.
unsafe impl Sync for IbDevice {}

impl IbDevice {
    /// Takes a new reference to `device`.
    ///
    /// # Safety
    ///
    /// `device` is live, and is or was registered.
    pub(super) unsafe fn from_raw(device: NonNull<bindings::ib_device>) -> Self {
        // SAFETY: By the safety requirements of this function.
        unsafe { bindings::device_get(device.as_ptr()) };
        // INVARIANT: The reference was just taken.
        Self(device)
    }

    pub(super) fn as_ptr(&self) -> *mut bindings::ib_device {
        self.0.as_ptr()
    }

    /// Returns true if `other` refers to the same device.
    pub fn same(&self, other: &IbDevice) -> bool {
        self.0 == other.0
    }

    /// Returns the limits of the device.
    pub fn limits(&self) -> Limits {
        let mut limits = pin_init::zeroed();
        // SAFETY: The device is live by the type invariant. Its attributes are set before it is
        // registered.
        unsafe { bindings::device_limits(self.as_ptr(), &mut limits) };
        limits
    }

    /// Returns the current name of the device, which an admin may change.
    pub fn name(&self) -> Name {
        let mut name = [0u8; Name::SIZE];
        // SAFETY: The device is live by the type invariant; `name` is valid for writes of its
        // length.
        unsafe {
            bindings::device_name(self.as_ptr(), name.as_mut_ptr().cast(), name.len());
        }
        Name(name)
    }
}

/// The name of a device, copied. Implements `Display`.
pub struct Name([u8; Self::SIZE]);

impl Name {
    /// Bytes of the longest name, with its terminating zero (`IB_DEVICE_NAME_MAX`).
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
        // SAFETY: The device is live by the type invariant, and is or was registered.
        unsafe { Self::from_raw(self.0) }
    }
}

impl Drop for IbDevice {
    fn drop(&mut self) {
        // SAFETY: The reference is this value's by the type invariant.
        unsafe { bindings::device_put(self.as_ptr()) };
    }
}

/// A device that stays registered until this is dropped.
///
/// # Invariants
///
/// This value owns one reference of `ib_device_try_get`, for which the removal of the device waits.
struct Registered(IbDevice);

impl Registered {
    /// Takes a reference of `ib_device_try_get`.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is being removed.
    fn hold(device: &IbDevice) -> Result<Self> {
        // SAFETY: The device is live by the type invariant of `IbDevice`.
        if !unsafe { bindings::ib_device_try_get(device.as_ptr()) } {
            return Err(ENODEV);
        }
        // INVARIANT: The reference was just taken.
        Ok(Self(device.clone()))
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        // SAFETY: The reference is this value's by the type invariant.
        unsafe { bindings::ib_device_put(self.0.as_ptr()) };
    }
}

/// A protection domain.
///
/// Everything that the hardware may access belongs to a protection domain: queue pairs, memory
/// regions and DMA mappings. Their owners hold an `Arc<Pd>`. A `Pd` keeps its device registered, so
/// the removal of the device waits until the `Pd` is dropped.
///
/// Mapping memory takes a reference to the `Pd`. CPUs that map memory at the same time had better
/// count in different places: [`Pd::handle`] makes another value for the same protection domain,
/// with a reference count of its own.
///
/// All connections of a protection domain reach each other's registered memory, if their peers know
/// key and address. So memory is [exposed](crate::mem::exposure::Exposure) only in a protection domain
/// that has one connection, which [`Pd::for_connection`] makes.
///
/// # Invariants
///
/// `pd` is a live protection domain of `device`. It belongs to `owner`, or to this value if that is
/// `None`. If there is a `claim`, at most one queue pair was made in it.
pub struct Pd {
    pd: NonNull<bindings::ib_pd>,
    device: Registered,
    owner: Option<Arc<Pd>>,
    /// For a protection domain of one connection: true once a queue pair was made. Its owner's counts.
    claim: Option<AtomicFlag>,
}

// SAFETY: Verbs may be called on any thread.
unsafe impl Send for Pd {}
// SAFETY: Verbs may be called on several threads at once.
unsafe impl Sync for Pd {}

impl Pd {
    /// Allocates a protection domain. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is being removed, `ENOMEM`, or the driver's error.
    pub fn new(device: &IbDevice) -> Result<Arc<Self>> {
        Self::with_claim(device, None)
    }

    /// Allocates a protection domain in which one queue pair can be made, and memory can be
    /// [exposed](crate::mem::exposure::Exposure). Contexts and errors are those of [`Self::new`].
    pub fn for_connection(device: &IbDevice) -> Result<Arc<Self>> {
        Self::with_claim(device, Some(AtomicFlag::new(false)))
    }

    fn with_claim(device: &IbDevice, claim: Option<AtomicFlag>) -> Result<Arc<Self>> {
        let device = Registered::hold(device)?;
        // SAFETY: `device` keeps the device registered.
        let pd = from_err_ptr(unsafe { bindings::ib_alloc_pd(device.0.as_ptr()) })?;
        // INVARIANT: `pd` was just allocated for `device`.
        let pd = Self {
            pd: NonNull::new(pd).ok_or(ENOMEM)?,
            device,
            owner: None,
            claim,
        };
        Ok(Arc::new(pd, GFP_KERNEL)?)
    }

    /// Returns another handle of the protection domain, which is equivalent to `self`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENODEV` if the device is being removed, or `ENOMEM`.
    pub fn handle(self: &Arc<Self>) -> Result<Arc<Self>> {
        // INVARIANT: The protection domain belongs to `owner`, which is live as long as this value.
        let handle = Self {
            pd: self.pd,
            device: Registered::hold(&self.device.0)?,
            owner: Some(self.owner.as_ref().unwrap_or(self).clone()),
            claim: None,
        };
        Ok(Arc::new(handle, GFP_KERNEL)?)
    }

    /// Returns the claim of a protection domain of one connection.
    fn claim(&self) -> Option<&AtomicFlag> {
        self.owner.as_deref().unwrap_or(self).claim.as_ref()
    }

    /// Returns true if the protection domain is for one connection.
    pub(super) fn is_for_connection(&self) -> bool {
        self.claim().is_some()
    }

    /// Returns true if a queue pair may be made. If the protection domain is for one connection, it is
    /// true once.
    pub(super) fn claim_for_queue_pair(&self) -> bool {
        self.claim().is_none_or(|claim| !claim.xchg(true, Relaxed))
    }

    /// Returns true if `other` is a handle of the same protection domain.
    #[inline]
    pub(super) fn is(&self, other: &Pd) -> bool {
        self.pd == other.pd
    }

    pub(super) fn as_ptr(&self) -> *mut bindings::ib_pd {
        self.pd.as_ptr()
    }

    /// Returns the device.
    pub(super) fn device(&self) -> &IbDevice {
        &self.device.0
    }

    pub(super) fn device_ptr(&self) -> *mut bindings::ib_device {
        self.device.0.as_ptr()
    }

    /// Returns true if the device takes only registered memory as the sink of an RDMA Read (iWARP).
    pub(super) fn needs_registration(&self) -> bool {
        self.device.0.limits().iwarp
    }

    /// Returns the local key of all memory that is mapped for the device.
    pub(super) fn local_key(&self) -> u32 {
        // SAFETY: `pd` is live by the type invariant, and its key does not change.
        unsafe { (*self.as_ptr()).local_dma_lkey }
    }
}

impl Drop for Pd {
    fn drop(&mut self) {
        if self.owner.is_some() {
            return;
        }
        // SAFETY: `pd` is live by the type invariant, and belongs to this value. All objects that
        // were made from it held a reference to this value or to another handle, which held one, so
        // none is left.
        unsafe { bindings::ib_dealloc_pd(self.as_ptr()) };
    }
}
