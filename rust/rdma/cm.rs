// SPDX-License-Identifier: GPL-2.0

//! The connection manager: ids (`struct rdma_cm_id`) and their events.
//!
//! An id is a listener or one connection. Its context implements [`Events`]. Handlers of events run
//! on workqueues of the RDMA core, which holds the lock of the id meanwhile. They may sleep, and
//! must not drop or accept the id that they are called for.
//!
//! C header: [`include/rdma/rdma_cm.h`](srctree/include/rdma/rdma_cm.h)

use crate::device::IbDevice;
use core::{
    cell::Cell,
    ptr::NonNull, //
};
use kernel::{
    error::{
        from_err_ptr,
        to_result, //
    },
    prelude::*,
    str::CStr,
    sync::{
        Arc,
        ArcBorrow, //
    },
};
use support::addr::{
    Addr,
    Net, //
};
use svcrdma_proto::source::{
    Encapsulation,
    Fabric,
    Origin,
    Path, //
};

pub use crate::connect::{
    Reads,
    Request, //
};

/// The RNR timer (receiver not ready): a peer whose message found no posted Receive sends it again
/// after 655 ms, the longest timer of the InfiniBand specification.
///
/// The ULP posts a Receive for each message that a peer may send, so only a peer that sends more
/// meets the timer. Each of its retries costs this host a packet: the longest timer costs the least.
const RNR_TIMER: u8 = bindings::ib_rnr_timeout_IB_RNR_TIMER_655_36 as u8;

/// The owner of the ids in the output of `rdma resource show cm_id`.
///
/// The RDMA core keeps this pointer as long as an id exists. It destroys the ids of rejected
/// connect requests itself, possibly after the listening id is destroyed. So
/// [`Registration`](super::client::Registration) waits for running tasks when it is dropped, which
/// is after all ids are destroyed.
const NAME: &CStr = c"svcrdma";

/// The context of an id: handles its events.
///
/// # Context
///
/// A workqueue of the RDMA core, with the lock of the id held. Functions may sleep. They must not
/// drop the [`CmId`] or call [`CmId::accept`] on it, as both take that lock.
pub trait Events: Send + Sync + 'static {
    /// Handles a connect request to this listening id. The peer is rejected unless the
    /// implementation adopts `new`.
    ///
    /// The locks of the listening id and of the new id are held: all other connect requests to the
    /// listening id wait until this returns. The default rejects the peer.
    fn connect_request(_this: ArcBorrow<'_, Self>, _new: NewId<'_>, _request: &Request<'_>) {}

    /// Handles the peer's confirmation that it is connected. Returns false to disconnect the peer,
    /// for example because the ULP has closed the connection since it accepted it: a disconnect
    /// request cannot be sent before this event.
    fn established(_this: ArcBorrow<'_, Self>) -> bool {
        true
    }

    /// Handles the end of a connection, or of the device or the address of a connection or a
    /// listener.
    fn event(this: ArcBorrow<'_, Self>, event: Event);
}

/// An event that ends the use of an id.
#[derive(Clone, Copy)]
pub enum Event {
    /// The connection has ended, or was not established. The number is that of the event (`enum
    /// rdma_cm_event_type`).
    Gone(u32),
    /// The hardware address of the device has changed, so packets no longer reach this id. The
    /// number is that of the event (`enum rdma_cm_event_type`).
    AddressGone(u32),
    /// The device is being removed. Its removal waits until the id is destroyed.
    DeviceRemoval,
}

/// The id of a connect request, during its handler.
///
/// # Invariants
///
/// `id` is live, and the RDMA core holds its lock.
pub struct NewId<'a> {
    id: NonNull<bindings::rdma_cm_id>,
    adopted: &'a Cell<bool>,
}

impl NewId<'_> {
    /// Takes the id over. From now on `context` handles its events.
    pub fn adopt<E: Events>(self, context: Arc<E>) -> CmId<E> {
        self.adopted.set(true);
        let id = self.id.as_ptr();
        // SAFETY: By the type invariant the id is live and its lock is held, so no event is handled
        // between the two stores.
        unsafe {
            (*id).context = Arc::as_ptr(&context).cast_mut().cast();
            (*id).event_handler = Some(handle::<E>);
        }
        // INVARIANT: The id is live by the type invariant; context and handler were just set.
        CmId {
            id: self.id,
            _context: context,
        }
    }

    /// Returns the device that the request has arrived on.
    pub fn device(&self) -> Option<IbDevice> {
        // SAFETY: The id is live by the type invariant.
        let device = NonNull::new(unsafe { (*self.id.as_ptr()).device })?;
        // SAFETY: The removal of a device waits until the ids on it are destroyed.
        Some(unsafe { IbDevice::from_raw(device) })
    }

    /// Returns the address of the peer.
    pub fn peer(&self) -> Addr {
        // SAFETY: The id is live by the type invariant.
        unsafe { peer_of(self.id) }
    }

    /// Returns the origin of the request.
    pub fn origin(&self) -> Origin {
        Origin {
            address: self.peer().ip(),
            fabric: self.fabric(),
        }
    }

    /// Returns the network that the request has arrived over, with the GID of the peer's port.
    fn fabric(&self) -> Fabric {
        let id = self.id.as_ptr();
        // SAFETY: The id is live by the type invariant.
        let path = unsafe { (*id).route.path_rec };
        // The RDMA core gives each id of a connect request a path, except on iWARP
        // (`cma_ib_new_conn_id` and `iw_conn_req_handler` in drivers/infiniband/core/cma.c).
        if path.is_null() {
            return Fabric::Iwarp;
        }
        // SAFETY: The path is the id's, which does not change it any more. Each variant of the
        // union is 16 bytes, all of which are initialised.
        let gid = unsafe { (&raw const (*path).dgid).cast::<[u8; 16]>().read() };
        // SAFETY: The id is live by the type invariant. It was bound to its device before the
        // handler was called (`cma_ib_acquire_dev`), and the removal of a device waits until the
        // ids on it are destroyed.
        match unsafe { bindings::rdma_id_is_roce(id) } {
            true => Fabric::Roce(gid),
            false => Fabric::InfiniBand(gid),
        }
    }

    /// Returns the path that the peer has chosen, or None on iWARP.
    pub fn path(&self) -> Option<Path> {
        // SAFETY: The id is live by the type invariant.
        let path = unsafe { (*self.id.as_ptr()).route.path_rec };
        // SAFETY: Unless it is null, the path is the id's, which does not change it any more.
        let path = unsafe { path.as_ref() }?;
        let encapsulation = match path.rec_type {
            bindings::sa_path_rec_type_SA_PATH_REC_TYPE_ROCE_V1 => Encapsulation::RoceV1,
            bindings::sa_path_rec_type_SA_PATH_REC_TYPE_ROCE_V2 => Encapsulation::RoceV2,
            _ => Encapsulation::InfiniBand,
        };
        Some(Path::new(path.mtu, path.traffic_class, encapsulation))
    }
}

/// Returns the address of the peer of an id.
///
/// # Safety
///
/// `id` is live.
unsafe fn peer_of(id: NonNull<bindings::rdma_cm_id>) -> Addr {
    // SAFETY: By the safety requirements of this function.
    unsafe {
        let addr = &raw const (*id.as_ptr()).route.addr.dst_addr;
        Addr::of_id(addr.cast(), id.as_ptr())
    }
}

/// An id: a listener, or one connection.
///
/// The owner is the ULP, or the [`Qp`](crate::qp::Qp) that was made on the id. The id holds a
/// reference to its context. Dropping the id destroys it: this sleeps, and waits until no handler
/// of the id runs. It must not be dropped in one of its handlers, or with a lock held that its
/// handlers take.
///
/// # Invariants
///
/// - `id` is live.
/// - Its context is `_context`, and its handler is `handle` of `E`.
pub struct CmId<E: Events> {
    id: NonNull<bindings::rdma_cm_id>,
    _context: Arc<E>,
}

// SAFETY: Ids may be used on any thread, and `Arc<E>` is `Send`.
unsafe impl<E: Events> Send for CmId<E> {}
// SAFETY: The RDMA core locks an id, and a shared `CmId` gives no access to its context.
unsafe impl<E: Events> Sync for CmId<E> {}

impl<E: Events> CmId<E> {
    /// Listens on `addr` in the network namespace `net`. `context` handles connect requests. May
    /// sleep.
    ///
    /// # Errors
    ///
    /// The RDMA core's error: `EADDRINUSE`, `EADDRNOTAVAIL`, `ENODEV` and others.
    pub fn listen(net: Net<'_>, addr: &Addr, context: Arc<E>) -> Result<Self> {
        let raw = Arc::as_ptr(&context).cast_mut().cast();
        let name = NAME.as_char_ptr();
        // SAFETY: `net` is live. The context lives until `drop` destroys the id. Handler and name
        // live as long as the module.
        let id = unsafe { bindings::rdma_create_id(net.as_ptr(), Some(handle::<E>), raw, name) };
        // INVARIANT: The id was just created with this context and handler.
        let this = Self {
            id: NonNull::new(from_err_ptr(id)?).ok_or(ENOMEM)?,
            _context: context,
        };
        // An IPv6 listener leaves the port free for an IPv4 listener.
        // SAFETY: The id is live by the type invariant.
        to_result(unsafe { bindings::rdma_set_afonly(this.as_ptr(), 1) })?;
        // SAFETY: The id is live by the type invariant; the address is valid and only read.
        to_result(unsafe { bindings::rdma_bind_addr(this.as_ptr(), addr.as_ptr()) })?;
        // The backlog limits iWARP only. The ULP bounds the connections that wait to be accepted.
        // SAFETY: The id is live by the type invariant.
        to_result(unsafe { bindings::rdma_listen(this.as_ptr(), 128) })?;
        Ok(this)
    }

    pub(super) fn as_ptr(&self) -> *mut bindings::rdma_cm_id {
        self.id.as_ptr()
    }

    /// Returns the local address.
    pub fn local(&self) -> Addr {
        // SAFETY: The id is live by the type invariant; the address is set when it is bound.
        unsafe {
            let addr = &raw const (*self.as_ptr()).route.addr.src_addr;
            Addr::of_id(addr.cast(), self.as_ptr())
        }
    }

    /// Returns the address of the peer.
    pub fn peer(&self) -> Addr {
        // SAFETY: The id is live by the type invariant.
        unsafe { peer_of(self.id) }
    }

    /// Accepts the peer, with `private` as private data. `reads` bounds the RDMA Reads in flight: the
    /// number that this host issues or, for a ULP that exposes memory, [`Reads`]. The id must have a queue
    /// pair. Messages of the peer may arrive before this returns. May sleep; must not be called in a
    /// handler of this id.
    ///
    /// A peer whose message finds no posted Receive repeats it after 655 ms, as often as the peer has
    /// chosen. On iWARP such a message ends the connection.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `private` is too long, or the RDMA core's error.
    pub fn accept(&self, private: &[u8], reads: impl Into<Reads>) -> Result {
        let reads = reads.into();
        let mut param: bindings::rdma_conn_param = pin_init::zeroed();
        param.private_data = private.as_ptr().cast();
        param.private_data_len = u8::try_from(private.len()).map_err(|_| EINVAL)?;
        param.initiator_depth = reads.issued;
        param.responder_resources = reads.served;
        param.rnr_retry_count = 7;
        // iWARP has no such timer.
        // SAFETY: The id is live by the type invariant; its queue pair type is RC.
        to_result(unsafe { bindings::rdma_set_min_rnr_timer(self.as_ptr(), RNR_TIMER) })?;
        // SAFETY: The id is live by the type invariant.
        unsafe { bindings::rdma_lock_handler(self.as_ptr()) };
        // SAFETY: The id is live by the type invariant and locked; `param` is only read.
        let accepted = to_result(unsafe { bindings::rdma_accept(self.as_ptr(), &mut param) });
        // SAFETY: The id was locked above.
        unsafe { bindings::rdma_unlock_handler(self.as_ptr()) };
        accepted
    }
}

impl<E: Events> Drop for CmId<E> {
    fn drop(&mut self) {
        // SAFETY: The id is live by the type invariant. No handler runs after this has returned, so
        // the context may be dropped.
        unsafe { bindings::rdma_destroy_id(self.as_ptr()) };
    }
}

/// Calls the function of `E` for an event. A result other than 0 makes the RDMA core destroy the
/// id.
///
/// # Safety
///
/// The RDMA core calls this for one of:
///
/// - an id whose context is an `Arc<E>` that lives as long as the id,
/// - a new id with a connect request, which has inherited handler and context from such a listening
///   id. The listening id lives until this returns.
unsafe extern "C" fn handle<E: Events>(
    id: *mut bindings::rdma_cm_id,
    event: *mut bindings::rdma_cm_event,
) -> c_int {
    // SAFETY: By the safety requirements of this function.
    let context = unsafe { ArcBorrow::from_raw((*id).context.cast::<E>().cast_const()) };
    // SAFETY: The RDMA core passes a valid event.
    let kind = unsafe { (*event).event };
    match kind {
        bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_REQUEST => {
            // SAFETY: By the safety requirements of this function; the event is a connect request.
            unsafe { connect_request(context, id, event) }
        }
        bindings::rdma_cm_event_type_RDMA_CM_EVENT_ESTABLISHED => {
            if !E::established(context) {
                // An error means that the connection has ended already.
                // SAFETY: The id is live while its handler runs, and a handler may disconnect its
                // id.
                let _ = unsafe { bindings::rdma_disconnect(id) };
            }
            0
        }
        bindings::rdma_cm_event_type_RDMA_CM_EVENT_TIMEWAIT_EXIT => 0,
        bindings::rdma_cm_event_type_RDMA_CM_EVENT_DEVICE_REMOVAL => {
            E::event(context, Event::DeviceRemoval);
            0
        }
        bindings::rdma_cm_event_type_RDMA_CM_EVENT_ADDR_CHANGE => {
            E::event(context, Event::AddressGone(kind));
            0
        }
        other => {
            E::event(context, Event::Gone(other));
            0
        }
    }
}

/// Calls [`Events::connect_request`]. Returns 0 if the new id was adopted; otherwise the RDMA core
/// destroys the id, which rejects the peer.
///
/// # Safety
///
/// The RDMA core calls [`handle`] with the new id `id` and the connect request `event`.
unsafe fn connect_request<E: Events>(
    context: ArcBorrow<'_, E>,
    id: *mut bindings::rdma_cm_id,
    event: *mut bindings::rdma_cm_event,
) -> c_int {
    let adopted = Cell::new(false);
    // INVARIANT: The RDMA core holds the lock of the new id while its handler runs.
    let new = NewId {
        // SAFETY: By the safety requirements of this function the id is live, so it is not null.
        id: unsafe { NonNull::new_unchecked(id) },
        adopted: &adopted,
    };
    // SAFETY: The event is valid and has these parameters, unchanged, while the handler runs.
    // `request` is dropped when this function returns.
    let request = unsafe { Request::from_raw(&raw const *(*event).param.conn) };
    E::connect_request(context, new, &request);
    c_int::from(!adopted.get())
}
