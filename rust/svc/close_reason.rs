// SPDX-License-Identifier: GPL-2.0

//! Close reasons: why a connection was closed, as the log, the trace event and debugfs show it.

use kernel::fmt;
use rdma::completion::Status;

/// The reason why a connection was closed.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// nfsd closed the connection: it was idle, nfsd stopped, or nfsd asked for the close.
    Server,
    /// The peer disconnected, or the connection manager reported the event with this number (`enum
    /// rdma_cm_event_type`).
    Peer(u32),
    /// The administrator set `release`.
    Released,
    /// The device was removed.
    DeviceRemoved,
    /// The listener was closed before the connection was accepted.
    ListenerGone,
    /// Accepting the connection failed with this errno.
    Accept(i32),
    /// No nfsd thread accepted the connection within `pending_seconds`.
    AcceptTimeout,
    /// The peer made no Call within `first_call_seconds` of the accept.
    Silent,
    /// The listener's queue of connections to accept is full or closed.
    Busy,
    /// The peer sent more Calls than its grants allow.
    CreditOverrun,
    /// A Receive completed with this error status (`enum ib_wc_status`).
    Receive(i32),
    /// The peer consumed a Receive by an RDMA Write with immediate data.
    NoMessage,
    /// A Send, RDMA Read or RDMA Write completed with this error status (`enum ib_wc_status`).
    Send(i32),
    /// The driver refused a work request with this errno.
    Post(i32),
    /// The device reported a fatal error of the queue pair.
    QueuePair,
    /// Posted work made no progress within the time that the settings allow.
    Stalled,
    /// The server lacks memory for a Reply or for the mapping of a Call.
    NoMemory,
    /// nfsd's results are not laid out as the transport expects; the errno says where that was
    /// noticed.
    Results(i32),
    /// nfsd dropped a Call that must be answered, for example because it still works on the same
    /// Call.
    Dropped,
    /// A completion queue of the connection has failed, or completes nothing any more.
    CompletionQueue,
    /// The peer sent too many messages that cost no credit and match no waiting callback.
    Unasked,
    /// The peer made the device invalidate a memory region of the server (Send With Invalidate).
    Invalidation,
    /// A queue is full, so that a Call or a Reply would be lost.
    Overflow(Queue),
    /// The peer does not serve its RDMA Reads, and the connection holds the most pages in a
    /// shortage.
    PageShortage,
    /// The peer takes Replies or serves RDMA Reads more slowly than `minimum_rate`.
    TooSlow,
    /// The device reported a fatal error (`IB_EVENT_DEVICE_FATAL`).
    DeviceFatal,
}

/// The queues of a connection that Calls and Replies pass. They have room for all that the credits
/// allow, so if one is full, the transport has failed to count a Call or a Reply.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Complete Calls that wait for an nfsd thread.
    Inbox,
    /// RDMA Reads and Replies that wait to be posted.
    Work,
    /// Calls of the connection that wait for pages.
    Quota,
}

impl CloseReason {
    /// Returns the number in the trace event, and its detail: an event, an errno, a status or 0.
    pub(crate) fn code(self) -> (u32, i32) {
        match self {
            CloseReason::Server => (0, 0),
            CloseReason::Peer(event) => (1, i32::try_from(event).unwrap_or(0)),
            CloseReason::DeviceRemoved => (2, 0),
            CloseReason::ListenerGone => (3, 0),
            CloseReason::Accept(errno) => (4, errno),
            CloseReason::AcceptTimeout => (5, 0),
            CloseReason::Busy => (6, 0),
            CloseReason::CreditOverrun => (7, 0),
            CloseReason::Receive(status) => (8, status),
            CloseReason::Send(status) => (9, status),
            CloseReason::Post(errno) => (10, errno),
            CloseReason::QueuePair => (11, 0),
            CloseReason::Stalled => (12, 0),
            CloseReason::NoMemory => (13, 0),
            CloseReason::Results(errno) => (14, errno),
            CloseReason::Silent => (15, 0),
            CloseReason::Released => (16, 0),
            CloseReason::NoMessage => (17, 0),
            CloseReason::Dropped => (18, 0),
            CloseReason::CompletionQueue => (19, 0),
            CloseReason::Unasked => (20, 0),
            CloseReason::Invalidation => (21, 0),
            CloseReason::Overflow(queue) => (22, queue.number()),
            CloseReason::PageShortage => (23, 0),
            CloseReason::TooSlow => (24, 0),
            CloseReason::DeviceFatal => (25, 0),
        }
    }

    /// Returns true if the peer, nfsd or the administrator wanted the close.
    pub(crate) fn is_normal(self) -> bool {
        matches!(
            self,
            CloseReason::Server
                | CloseReason::Peer(_)
                | CloseReason::Released
                | CloseReason::DeviceRemoved
                | CloseReason::ListenerGone
        )
    }
}

impl fmt::Display for CloseReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            CloseReason::Server => f.write_str("closed by the server"),
            CloseReason::Peer(event) => write!(f, "closed by the peer (event {event})"),
            CloseReason::Released => f.write_str("release was set to 1"),
            CloseReason::DeviceRemoved => f.write_str("the device was removed"),
            CloseReason::ListenerGone => f.write_str("the listener was removed"),
            CloseReason::Accept(errno) => write!(f, "could not be accepted (error {errno})"),
            CloseReason::AcceptTimeout => {
                f.write_str("no nfsd thread accepted it within pending_seconds")
            }
            CloseReason::Silent => f.write_str("the peer made no Call within first_call_seconds"),
            CloseReason::Busy => f.write_str("too many connections wait to be accepted"),
            CloseReason::CreditOverrun => {
                f.write_str("the peer sent more Calls than it has credits")
            }
            CloseReason::Receive(status) => write!(f, "Receive failed: {}", status_name(*status)),
            CloseReason::NoMessage => {
                f.write_str("the peer sent an RDMA Write with immediate data")
            }
            CloseReason::Send(status) => {
                write!(f, "Send, Read or Write failed: {}", status_name(*status))
            }
            CloseReason::Post(errno) => write!(f, "posting of work failed (error {errno})"),
            CloseReason::QueuePair => f.write_str("the device reported a failed queue pair"),
            CloseReason::Stalled => f.write_str("the peer takes no Replies or serves no Reads"),
            CloseReason::NoMemory => f.write_str("no memory for a Call or its Reply"),
            CloseReason::Results(errno) => write!(f, "results cannot be sent (error {errno})"),
            CloseReason::Dropped => f.write_str("nfsd dropped a Call that needs an answer"),
            CloseReason::CompletionQueue => {
                f.write_str("its completion queue has failed or stopped")
            }
            CloseReason::Unasked => f.write_str("the peer sent too many unsolicited messages"),
            CloseReason::Invalidation => {
                f.write_str("the peer invalidated a memory region of the server")
            }
            CloseReason::Overflow(queue) => write!(f, "queue full: {}", queue.name()),
            CloseReason::PageShortage => {
                f.write_str("the peer does not serve its Reads while pages are short")
            }
            CloseReason::TooSlow => f.write_str("the peer is slower than minimum_rate"),
            CloseReason::DeviceFatal => f.write_str("the device reported a fatal error"),
        }
    }
}

impl Queue {
    /// Returns the detail in the trace event.
    fn number(self) -> i32 {
        match self {
            Queue::Inbox => 1,
            Queue::Work => 2,
            Queue::Quota => 3,
        }
    }

    /// Returns a description of the items in the queue.
    fn name(self) -> &'static str {
        match self {
            Queue::Inbox => "Calls that wait for nfsd",
            Queue::Work => "Reads and Replies to post",
            Queue::Quota => "Calls of the connection that wait for pages",
        }
    }
}

fn status_name(status: i32) -> &'static str {
    Status::name(status).to_str().unwrap_or("?")
}
