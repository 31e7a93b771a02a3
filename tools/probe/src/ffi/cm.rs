// SPDX-License-Identifier: GPL-2.0

//! A connection identifier of librdmacm with its own event channel.

use super::{bindings, check, check_ptr, wait::wait_readable};
use crate::error::{Error, Result};
use nix::sys::socket::{SockaddrLike, SockaddrStorage};
use std::{
    ffi::c_int,
    net::{IpAddr, SocketAddr},
    os::fd::BorrowedFd,
    ptr::{self, NonNull},
    slice,
    time::Duration, //
};

/// The addresses of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Addresses {
    /// The server's.
    pub(crate) to: SocketAddr,
    /// This side's; without one, the route determines it.
    pub(crate) from: Option<IpAddr>,
}

/// An event of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Event {
    /// The address or the route was resolved.
    Resolved,
    /// The server accepted, and the acknowledgement has yet to be sent. Holds the server's private
    /// data. Occurs only if the CM manages no queue pair.
    Response(Vec<u8>),
    /// The connection is established. Holds the server's private data.
    Established(Vec<u8>),
    /// The server rejected the request. Holds the reason.
    Rejected(i32),
    /// The connection ended.
    Disconnected,
    /// Any other event. Holds its `rdma_cm_event_type` and status.
    Other(u32, i32),
}

/// The contents of a connection request.
pub(crate) struct Offer<'a> {
    /// The private data.
    pub(crate) private_data: &'a [u8],
    /// The number of RDMA Reads that the server may have in flight.
    pub(crate) reads: u8,
    /// The number of RDMA Reads that this side may have in flight.
    pub(crate) own_reads: u8,
    /// The number of times that the server resends when no Receive is posted; 7 means forever.
    pub(crate) rnr_retry: u8,
}

/// A connection identifier.
///
/// # Invariants
///
/// Both pointers are valid until Drop; `id` reports its events to `channel`, and no other id does.
pub(super) struct Id {
    id: NonNull<bindings::rdma_cm_id>,
    channel: NonNull<bindings::rdma_event_channel>,
}

impl Id {
    /// Creates an identifier and its event channel.
    pub(super) fn new() -> Result<Self> {
        // SAFETY: no preconditions.
        let channel = unsafe { bindings::rdma_create_event_channel() };
        let channel = check_ptr("rdma_create_event_channel", channel)?;
        let mut id = ptr::null_mut();
        // SAFETY: `channel` is fresh; `id` lives through the call.
        let result = unsafe {
            bindings::rdma_create_id(
                channel.as_ptr(),
                &mut id,
                ptr::null_mut(),
                bindings::RDMA_PS_TCP,
            )
        };
        match check("rdma_create_id", result).and_then(|()| check_ptr("rdma_create_id", id)) {
            // INVARIANT: both are fresh, and `id` was created on `channel`.
            Ok(id) => Ok(Self { id, channel }),
            Err(error) => {
                // SAFETY: `channel` is ours and has no identifiers.
                unsafe { bindings::rdma_destroy_event_channel(channel.as_ptr()) };
                Err(error)
            }
        }
    }

    /// Returns the raw pointer, which is valid as long as `self`.
    pub(super) fn as_ptr(&self) -> *mut bindings::rdma_cm_id {
        self.id.as_ptr()
    }

    /// Returns the file descriptor that becomes readable when an event is pending.
    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        // SAFETY: valid by the invariant.
        let fd = unsafe { self.channel.as_ref() }.fd;
        // SAFETY: the channel, which lives as long as `self`, closes the descriptor.
        unsafe { BorrowedFd::borrow_raw(fd) }
    }

    /// Returns the device context, which is open as long as `self`; NULL before the address is
    /// resolved.
    pub(super) fn verbs(&self) -> *mut bindings::ibv_context {
        // SAFETY: valid by the invariant.
        unsafe { self.id.as_ref() }.verbs
    }

    /// Sets the time after which a message that is not acknowledged is sent again, in both
    /// directions: 4.096 us times 2 to the power of `timeout`. Must precede [`Self::resolve`].
    pub(super) fn set_ack_timeout(&self, mut timeout: u8) -> Result<()> {
        // SAFETY: valid by the invariant; the option is one byte, which lives through the call.
        let result = unsafe {
            bindings::rdma_set_option(
                self.as_ptr(),
                bindings::RDMA_OPTION_ID as c_int,
                bindings::RDMA_OPTION_ID_ACK_TIMEOUT as c_int,
                ptr::from_mut(&mut timeout).cast(),
                1,
            )
        };
        check("rdma_set_option", result)
    }

    /// Resolves the device and the route between `addresses`.
    pub(super) fn resolve(&self, addresses: Addresses, timeout: Duration) -> Result<()> {
        let ms = c_int::try_from(timeout.as_millis()).unwrap_or(c_int::MAX);
        let to = SockaddrStorage::from(addresses.to);
        let from = addresses.from;
        let from = from.map(|from| SockaddrStorage::from(SocketAddr::new(from, 0)));
        let from = from.as_ref().map_or(ptr::null(), SockaddrLike::as_ptr);
        // SAFETY: valid by the invariant; both addresses live through the call, which only reads
        // them, and the source may be NULL.
        let result = unsafe {
            bindings::rdma_resolve_addr(
                self.as_ptr(),
                from.cast_mut().cast(),
                to.as_ptr().cast_mut().cast(),
                ms,
            )
        };
        check("rdma_resolve_addr", result)?;
        self.expect_resolved("address", timeout)?;
        // SAFETY: valid by the invariant; the address is resolved.
        let result = unsafe { bindings::rdma_resolve_route(self.as_ptr(), ms) };
        check("rdma_resolve_route", result)?;
        self.expect_resolved("route", timeout)
    }

    /// Waits for the resolution of `what`.
    fn expect_resolved(&self, what: &str, timeout: Duration) -> Result<()> {
        match self.next(timeout)? {
            Some(Event::Resolved) => Ok(()),
            Some(event) => Err(Error::unavailable(format!(
                "no {what} of an RDMA device: {event:?}"
            ))),
            None => Err(Error::unavailable(format!("no {what}: timed out"))),
        }
    }

    /// Sends the connection request. `qp_num` is used only if the CM manages no queue pair.
    pub(super) fn connect(&self, offer: &Offer<'_>, qp_num: u32) -> Result<()> {
        let len = u8::try_from(offer.private_data.len())
            .map_err(|_| Error::unavailable("too much private data"))?;
        let mut param = bindings::rdma_conn_param {
            private_data: offer.private_data.as_ptr().cast(),
            private_data_len: len,
            responder_resources: offer.reads,
            initiator_depth: offer.own_reads,
            flow_control: 1,
            retry_count: 7,
            rnr_retry_count: offer.rnr_retry,
            srq: 0,
            qp_num,
        };
        // SAFETY: valid by the invariant; `param` and its data live through the call.
        let result = unsafe { bindings::rdma_connect(self.as_ptr(), &mut param) };
        check("rdma_connect", result)
    }

    /// Starts an orderly disconnect.
    pub(super) fn disconnect(&self) -> Result<()> {
        // SAFETY: valid by the invariant.
        check("rdma_disconnect", unsafe {
            bindings::rdma_disconnect(self.as_ptr())
        })
    }

    /// Takes the next event; returns `None` on timeout.
    pub(super) fn next(&self, timeout: Duration) -> Result<Option<Event>> {
        if wait_readable([self.fd()], timeout)? == [false] {
            return Ok(None);
        }
        let mut raw = ptr::null_mut();
        // SAFETY: valid by the invariant; `raw` lives through the call.
        let result = unsafe { bindings::rdma_get_cm_event(self.channel.as_ptr(), &mut raw) };
        check("rdma_get_cm_event", result)?;
        // SAFETY: a successful call gives an event that is valid until it is acknowledged.
        let event = translate(unsafe { &*raw });
        // SAFETY: as above; `raw` is not used again.
        check("rdma_ack_cm_event", unsafe {
            bindings::rdma_ack_cm_event(raw)
        })?;
        match event {
            Event::Other(bindings::RDMA_CM_EVENT_DEVICE_REMOVAL, _) => {
                Err(Error::unavailable("the RDMA device was removed"))
            }
            event => Ok(Some(event)),
        }
    }
}

impl Drop for Id {
    fn drop(&mut self) {
        // SAFETY: valid by the invariant; what uses it holds its `Pd` and is gone, and all events taken
        // were acknowledged.
        unsafe { bindings::rdma_destroy_id(self.id.as_ptr()) };
        // SAFETY: valid by the invariant, and its only identifier is gone.
        unsafe { bindings::rdma_destroy_event_channel(self.channel.as_ptr()) };
    }
}

/// Converts `event`.
fn translate(event: &bindings::rdma_cm_event) -> Event {
    match event.event {
        bindings::RDMA_CM_EVENT_ADDR_RESOLVED | bindings::RDMA_CM_EVENT_ROUTE_RESOLVED => {
            Event::Resolved
        }
        bindings::RDMA_CM_EVENT_CONNECT_RESPONSE => Event::Response(private_data(event)),
        bindings::RDMA_CM_EVENT_ESTABLISHED => Event::Established(private_data(event)),
        bindings::RDMA_CM_EVENT_REJECTED => Event::Rejected(event.status),
        bindings::RDMA_CM_EVENT_DISCONNECTED => Event::Disconnected,
        other => Event::Other(other, event.status),
    }
}

/// Copies the private data of a connection event.
fn private_data(event: &bindings::rdma_cm_event) -> Vec<u8> {
    // SAFETY: callers pass events of connections, for which the union holds `conn`.
    let conn = unsafe { event.param.conn };
    if conn.private_data.is_null() {
        return Vec::new();
    }
    // SAFETY: librdmacm gives pointer and length of the same buffer, which lives until the event is
    // acknowledged.
    let bytes = unsafe {
        slice::from_raw_parts(
            conn.private_data.cast::<u8>(),
            usize::from(conn.private_data_len),
        )
    };
    bytes.to_vec()
}
