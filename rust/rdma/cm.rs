// SPDX-License-Identifier: GPL-2.0

//! The connection manager: ids, and the events of their connections.
//!
//! Event handlers run on workqueues of the RDMA core with the id's own lock held: they may sleep,
//! and they must not drop the id they are called for.
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

/// How long a peer waits before it sends again what has found no Receive: 0.64 ms, in which there
/// may be more of them.
const RNR_TIMER: u8 = bindings::ib_rnr_timeout_IB_RNR_TIMER_000_64 as u8;

/// The owner of the ids in the output of `rdma resource show cm_id`. The RDMA core keeps the pointer
/// for as long as an id exists. It also destroys the ids of rejected connect requests by itself, possibly
/// after the listening id is gone, so `sunrpc::class::Class` waits
/// for running tasks when the module is unloaded.
const NAME: &CStr = c"svcrdma";

/// Who is told of an id's events, its context.
pub trait Events: Send + Sync + 'static {
    /// A peer wants to connect to this listening id. Unless `new` is adopted the peer is rejected.
    /// The listener's lock is held as well: whoever waits here stops all connecting.
    fn connect_request(_this: ArcBorrow<'_, Self>, _new: NewId<'_>, _request: &Request<'_>) {}

    /// The peer knows that it was accepted. Whether the connection is still wanted: if not it is ended,
    /// as the peer could not be told before.
    fn established(_this: ArcBorrow<'_, Self>) -> bool {
        true
    }

    /// Something has happened to a connection, or to the device of a listening id.
    fn event(this: ArcBorrow<'_, Self>, event: Event);
}

/// What can happen.
#[derive(Clone, Copy)]
pub enum Event {
    /// The connection is over; the number is the core's (`enum rdma_cm_event_type`).
    Gone(u32),
    /// The device has another hardware address, so that nothing gets through; the number as above.
    AddressGone(u32),
    /// The device goes, and waits until the id is destroyed.
    DeviceRemoval,
}

/// What a peer asks for; lives as long as the handler of the request runs.
pub struct Request<'a> {
    /// The peer's private data. Connection managers fill it up with zeroes.
    pub private: &'a [u8],
    /// How many RDMA Reads the peer serves at a time.
    pub reads: u8,
}

impl<'a> Request<'a> {
    /// # Safety
    ///
    /// `param` is of a connect request, valid with its private data for `'a`, and nobody changes
    /// them meanwhile.
    unsafe fn from_raw(param: *const bindings::rdma_conn_param) -> Self {
        // SAFETY: By the safety requirements of this function.
        let (data, len) = unsafe { ((*param).private_data, (*param).private_data_len) };
        let private = match data.is_null() {
            true => &[],
            // SAFETY: As above: there are `len` bytes at `data`.
            false => unsafe { core::slice::from_raw_parts(data.cast::<u8>(), usize::from(len)) },
        };
        Self {
            private,
            // SAFETY: As above.
            reads: unsafe { (*param).initiator_depth },
        }
    }
}

/// The id of a peer that wants to connect.
pub struct NewId<'a> {
    id: NonNull<bindings::rdma_cm_id>,
    adopted: &'a Cell<bool>,
}

impl NewId<'_> {
    /// Takes the id over; `context` is told of its events from now on.
    pub fn adopt<E: Events>(self, context: Arc<E>) -> CmId<E> {
        self.adopted.set(true);
        let id = self.id.as_ptr();
        // SAFETY: The id is live, and its lock is held while the handler runs, so that no event
        // comes in between.
        unsafe {
            (*id).context = Arc::as_ptr(&context).cast_mut().cast();
            (*id).event_handler = Some(handle::<E>);
        }
        // INVARIANT: As just set.
        CmId {
            id: self.id,
            _context: context,
        }
    }

    /// The device that the peer is connected to.
    pub fn device(&self) -> Option<IbDevice> {
        // SAFETY: The id is live.
        let device = NonNull::new(unsafe { (*self.id.as_ptr()).device })?;
        // SAFETY: A device stays until the ids on it are destroyed.
        Some(unsafe { IbDevice::from_raw(device) })
    }

    /// The address of the peer.
    pub fn peer(&self) -> Addr {
        // SAFETY: The id is live.
        unsafe { peer_of(self.id) }
    }
}

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

/// An id; dropping it destroys it, which waits for its handler to end. Sleeps.
///
/// # Invariants
///
/// `id` is live, its context is `_context`, and its handler is [`handle`] of `E`.
pub struct CmId<E: Events> {
    id: NonNull<bindings::rdma_cm_id>,
    _context: Arc<E>,
}

// SAFETY: Ids may be used on any thread, and `Arc<E>` is `Send`.
unsafe impl<E: Events> Send for CmId<E> {}
// SAFETY: As above.
unsafe impl<E: Events> Sync for CmId<E> {}

impl<E: Events> CmId<E> {
    /// Listens on `addr` in `net`; `context` is told of connect requests. May sleep.
    ///
    /// # Errors
    ///
    /// The RDMA core's: `EADDRINUSE`, `EADDRNOTAVAIL`, `ENODEV` and others.
    pub fn listen(net: Net<'_>, addr: &Addr, context: Arc<E>) -> Result<Self> {
        let raw = Arc::as_ptr(&context).cast_mut().cast();
        let name = NAME.as_char_ptr();
        // SAFETY: `net` is live, the context lives until the id is destroyed, and the name as long as
        // this module, whose function the handler is.
        let id = unsafe { bindings::rdma_create_id(net.as_ptr(), Some(handle::<E>), raw, name) };
        // INVARIANT: As just made.
        let this = Self {
            id: NonNull::new(from_err_ptr(id)?).ok_or(ENOMEM)?,
            _context: context,
        };
        // IPv4 and IPv6 listeners have the same port.
        // SAFETY: The id is live by the type invariant.
        to_result(unsafe { bindings::rdma_set_afonly(this.as_ptr(), 1) })?;
        // SAFETY: As above; the address is valid and only read.
        to_result(unsafe { bindings::rdma_bind_addr(this.as_ptr(), addr.as_ptr()) })?;
        // SAFETY: As above. The backlog is for iWARP only; we bound what waits ourselves.
        to_result(unsafe { bindings::rdma_listen(this.as_ptr(), 128) })?;
        Ok(this)
    }

    pub(super) fn as_ptr(&self) -> *mut bindings::rdma_cm_id {
        self.id.as_ptr()
    }

    /// Our address.
    pub fn local(&self) -> Addr {
        // SAFETY: The id is live by the type invariant; the address is set when it is bound.
        unsafe {
            let addr = &raw const (*self.as_ptr()).route.addr.src_addr;
            Addr::of_id(addr.cast(), self.as_ptr())
        }
    }

    /// The peer's address.
    pub fn peer(&self) -> Addr {
        // SAFETY: The id is live by the type invariant.
        unsafe { peer_of(self.id) }
    }

    /// Accepts the peer, with up to `reads` RDMA Reads at a time. A peer whose message finds no
    /// Receive tries again without end, [`RNR_TIMER`] later: waiting for a Receive is our
    /// back-pressure. May sleep.
    pub fn accept(&self, private: &[u8], reads: u8) -> Result {
        let mut param: bindings::rdma_conn_param = pin_init::zeroed();
        param.private_data = private.as_ptr().cast();
        param.private_data_len = u8::try_from(private.len()).map_err(|_| EINVAL)?;
        param.initiator_depth = reads;
        param.rnr_retry_count = 7;
        // Without it a peer would wait for 655 ms. For iWARP it means nothing.
        // SAFETY: The id is live by the type invariant, and has a queue pair of type RC.
        to_result(unsafe { bindings::rdma_set_min_rnr_timer(self.as_ptr(), RNR_TIMER) })?;
        // SAFETY: The id is live by the type invariant.
        unsafe { bindings::rdma_lock_handler(self.as_ptr()) };
        // SAFETY: As above; `param` is only read.
        let accepted = to_result(unsafe { bindings::rdma_accept(self.as_ptr(), &mut param) });
        // SAFETY: As locked above.
        unsafe { bindings::rdma_unlock_handler(self.as_ptr()) };
        accepted
    }
}

impl<E: Events> Drop for CmId<E> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant; no handler runs after this has returned.
        unsafe { bindings::rdma_destroy_id(self.as_ptr()) };
    }
}

/// # Safety
///
/// The RDMA core calls this for an id whose context is an `Arc<E>` that lives as long as the id,
/// or for a new id that has inherited both from such a listening id, which lives meanwhile.
unsafe extern "C" fn handle<E: Events>(
    id: *mut bindings::rdma_cm_id,
    event: *mut bindings::rdma_cm_event,
) -> c_int {
    // SAFETY: By the safety requirements of this function.
    let context = unsafe { ArcBorrow::from_raw((*id).context.cast::<E>().cast_const()) };
    // SAFETY: As above.
    let kind = unsafe { (*event).event };
    match kind {
        bindings::rdma_cm_event_type_RDMA_CM_EVENT_CONNECT_REQUEST => {
            let adopted = Cell::new(false);
            let new = NewId {
                // SAFETY: The new id is not null.
                id: unsafe { NonNull::new_unchecked(id) },
                adopted: &adopted,
            };
            // SAFETY: A connect request has these parameters, unchanged, while the handler runs, and
            // `request` goes before that ends.
            let request = unsafe { Request::from_raw(&raw const *(*event).param.conn) };
            E::connect_request(context, new, &request);
            // The core destroys, and so rejects, what nobody has taken.
            c_int::from(!adopted.get())
        }
        bindings::rdma_cm_event_type_RDMA_CM_EVENT_ESTABLISHED => {
            if !E::established(context) {
                // An error would mean that it is over.
                // SAFETY: The id is live while its handler runs, which may call this.
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
