// SPDX-License-Identifier: GPL-2.0

//! Exposures: memory that the peer of one connection may read or write by itself.
//!
//! # Life of an exposure
//!
//! 1. [`Exposure::new`] maps a [`PageRegion`] and gives its memory region new keys and new addresses.
//!    The [segments](Exposure::segments) are known from now on, so that a message can name them.
//! 2. Work that owns the exposure adds the registration with [`Chain::expose`], and mostly the message
//!    that names the segments behind it. The peer may use the memory from now on.
//! 3. The completion gives the work back, with the exposure. The ULP keeps the exposure as long as the
//!    peer may use the memory. Meanwhile there is no access to the pages on this side.
//! 4. Work that owns the exposure adds the invalidation with [`Chain::revoke`]. When it has completed,
//!    [`Exposure::into_region`] returns the page region.
//!
//! Instead of the last step the ULP may drop the exposure at any time, in a context that may sleep.
//! This destroys the memory region before the pages are unmapped and freed.
//!
//! # What a peer can reach
//!
//! - An exposure covers the first `len` bytes of its page region. The device refuses an access
//!   beyond them, and one of the wrong kind ([`Access`]). The driver siw does not check the right to
//!   read: there a peer can also read what it may write.
//! - The keys and the addresses are new for each exposure. Those of an earlier one do not work.
//! - The memory belongs to the protection domain of one queue pair ([`Pd::for_connection`]), so the
//!   device refuses the keys to all other connections, and to everybody once the queue pair is
//!   destroyed. An exposure that the ULP still holds then is out of reach, and its pages stay mapped
//!   until it is dropped.
//! - A peer may invalidate the key with a Send With Invalidate
//!   ([`Handler::invalidated`](crate::handler::Handler::invalidated)). That ends its access, and nothing
//!   here relies on it: the pages come back by a completed local invalidation alone, or by the
//!   destruction of the memory region.
//!
//! rxe and siw only mark the region invalid (`rxe_invalidate_mr()`, `siw_invalidate_stag()`): a packet that
//! has passed the check before may still be copied.
//!
//! A refused access ends the connection that has tried it, on InfiniBand, RoCE and iWARP. No other
//! connection notices.
//!
//! [`Chain::expose`]: crate::send::chain::Chain::expose
//! [`Chain::revoke`]: crate::send::chain::Chain::revoke
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    device::Pd,
    mem::{
        dma::Direction,
        memory_region::MemoryRegion,
        page_region::PageRegion, //
    },
};
use core::{
    cell::Cell,
    fmt,
    marker::PhantomData, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use support::page::PAGE_SIZE;

mod sealed {
    /// Keeps [`Access`](super::Access) to the types of this module.
    pub trait Sealed {}
}

/// The access of a peer to an [`Exposure`]. The three types of this module implement it.
pub trait Access: sealed::Sealed + Send + Unpin + 'static {
    /// The direction that the pages are mapped in.
    const DIRECTION: Direction;
    /// Access rights of the memory region, a set of `IB_ACCESS_...` flags.
    const FLAGS: u32;
}

/// [`Access`]: the peer may read the memory.
#[derive(Debug)]
pub struct RemoteRead;

/// [`Access`]: the peer may write the memory.
#[derive(Debug)]
pub struct RemoteWrite;

/// [`Access`]: the peer may read and write the memory.
#[derive(Debug)]
pub struct RemoteReadWrite;

impl sealed::Sealed for RemoteRead {}
impl sealed::Sealed for RemoteWrite {}
impl sealed::Sealed for RemoteReadWrite {}

impl Access for RemoteRead {
    const DIRECTION: Direction = Direction::ToDevice;
    const FLAGS: u32 = bindings::ib_access_flags_IB_ACCESS_REMOTE_READ;
}

impl Access for RemoteWrite {
    const DIRECTION: Direction = Direction::FromDevice;
    // A device requires the local right for the remote one.
    const FLAGS: u32 = bindings::ib_access_flags_IB_ACCESS_LOCAL_WRITE
        | bindings::ib_access_flags_IB_ACCESS_REMOTE_WRITE;
}

impl Access for RemoteReadWrite {
    const DIRECTION: Direction = Direction::Both;
    const FLAGS: u32 = RemoteRead::FLAGS | RemoteWrite::FLAGS;
}

/// The access of an [`Exposure`] whose type is not known to the code that has it, see [`Exposure::any`].
#[derive(Debug)]
pub struct Any;

/// A part of an exposure, as the peer addresses it. A message that carries it has the byte order of its
/// protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// The key (handle, token, STag).
    pub key: u32,
    /// The address (offset) of the first byte.
    pub addr: u64,
    /// Bytes, at least 1.
    pub len: u32,
}

/// A page region that could not be exposed, and the reason.
///
/// It converts to the [`Error`], for callers that need the page region no more.
pub struct Unexposed {
    /// The page region, which is not mapped.
    pub region: KBox<PageRegion>,
    /// The reason.
    pub error: Error,
}

impl From<Unexposed> for Error {
    fn from(unexposed: Unexposed) -> Self {
        unexposed.error
    }
}

/// A page region whose first bytes a peer may use as `A` says, between the work that registers it and
/// the work that invalidates it.
///
/// The ULP or its [`Work`](crate::send::work::Work) owns it. There is no access to the pages: they are
/// those of the peer until [`Self::into_region`]. It has no lock and is not `Sync`; while its work is
/// in a [`SendQueue`](crate::send::queue::SendQueue), the lock of that protects it.
///
/// Dropping it sleeps, and revokes what is still exposed.
///
/// # Examples
///
/// Work that exposes memory and tells the peer. The message, which was written before, has the
/// [segments](Self::segments).
///
#[doc = "```ignore"]
#[doc = include_str!("../examples/uses/exposure.rs")]
#[doc = "```"]
///
/// # Invariants
///
/// - `region` is mapped in `direction`, and has a memory region that its first `len` bytes are mapped into.
/// - `direction` and `flags` are those of the access that the exposure was made with: `A`, or any if `A` is
///   [`Any`].
/// - If `is_ending`, no registration is built any more. Otherwise no invalidation was built.
#[must_use = "dropping an exposure revokes it, and sleeps"]
pub struct Exposure<A> {
    region: KBox<PageRegion>,
    len: usize,
    direction: Direction,
    flags: u32,
    is_ending: Cell<bool>,
    access: PhantomData<A>,
}

impl<A> fmt::Debug for Exposure<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Exposure of {} bytes", self.len)
    }
}

impl<A: Access> Exposure<A> {
    /// Maps `region` to expose its first `len` bytes on the connection with the protection domain
    /// `pd`. The bytes count from the first page on, whatever the layout of the stream is. Nothing is
    /// exposed yet.
    ///
    /// A peer that may read gets the bytes that the pages have, also where the ULP has written none:
    /// [`PageRegion::for_exposure`] returns zeroed pages.
    ///
    /// # Context
    ///
    /// Process context. Does not sleep unless `region` has an older mapping, see
    /// [`PageRegion::unmap`], or the driver sleeps in `ib_map_mr_sg`, as that of hns may.
    ///
    /// # Errors
    ///
    /// - `ENOMEM` if a page cannot be mapped, for example because the IOMMU has no address left.
    /// - `EINVAL` if `pd` is not [for one connection](Pd::for_connection), if `len` is 0 or more than
    ///   the pages or the memory region have, if there is no memory region of `pd`, or if the peer is to
    ///   write pages that have other owners (they are not fresh).
    pub fn new(pd: &Arc<Pd>, mut region: KBox<PageRegion>, len: usize) -> Result<Self, Unexposed> {
        let mapped = if pd.is_for_connection() {
            region.map_exposed(pd, A::DIRECTION, len)
        } else {
            Err(EINVAL)
        };
        match mapped {
            // INVARIANT: The region was just mapped. Nothing was built for it.
            Ok(()) => Ok(Self {
                region,
                len,
                direction: A::DIRECTION,
                flags: A::FLAGS,
                is_ending: Cell::new(false),
                access: PhantomData,
            }),
            Err(error) => Err(Unexposed { region, error }),
        }
    }
}

impl<A> Exposure<A> {
    /// Forgets the type of the access, and not the access.
    pub fn any(self) -> Exposure<Any> {
        // INVARIANT: Only the type changes.
        Exposure {
            region: self.region,
            len: self.len,
            direction: self.direction,
            flags: self.flags,
            is_ending: self.is_ending,
            access: PhantomData,
        }
    }

    /// Returns the number of exposed bytes.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns false: an exposure has at least one byte.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Iterates over the segments, in the order of the bytes. There is one for each MiB, or more if
    /// the device registers less at a time.
    pub fn segments(&self) -> impl Iterator<Item = Segment> + '_ {
        let memory_region = self.region.memory_region_for_exposure();
        memory_region
            .into_iter()
            .flat_map(|memory_region| memory_region.segments(self.len))
            .map(|(addr, len, key)| Segment { key, addr, len })
    }

    /// Returns true if `key` is the key of a segment, for example the one that a peer has
    /// [invalidated](crate::handler::Handler::invalidated).
    #[must_use]
    pub fn has_key(&self, key: u32) -> bool {
        self.segments().any(|segment| segment.key == key)
    }

    /// Returns the page region, unmapped and with its memory region, if no peer can reach it: after a
    /// completed revocation, or if it was never exposed. In any process context; does not sleep.
    ///
    /// # Errors
    ///
    /// Returns the exposure if a peer may reach it.
    pub fn into_region(mut self) -> Result<KBox<PageRegion>, Self> {
        let memory_region = self.region.memory_region_for_exposure();
        if !memory_region.is_some_and(MemoryRegion::is_idle) {
            return Err(self);
        }
        self.region.unmap();
        Ok(self.region)
    }

    /// Returns the memory region, if it can be registered or invalidated on a queue pair of `pd`.
    pub(crate) fn memory_region(&self, pd: &Arc<Pd>) -> Option<&MemoryRegion> {
        self.region.exposed(pd, self.direction)
    }

    /// Returns the access rights of the memory region.
    pub(crate) fn flags(&self) -> u32 {
        self.flags
    }

    /// Returns the number of exposed pages; the last one may be exposed in part.
    pub(crate) fn pages(&self) -> usize {
        self.len.div_ceil(PAGE_SIZE)
    }

    /// Returns true once the revocation has begun.
    pub(crate) fn is_ending(&self) -> bool {
        self.is_ending.get()
    }

    /// Notes that the revocation begins.
    pub(crate) fn end(&self) {
        // INVARIANT: `Chain::expose` builds no registration any more.
        self.is_ending.set(true);
    }
}
