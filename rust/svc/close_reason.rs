// SPDX-License-Identifier: GPL-2.0

//! Causes: why connections end, as the log, the trace event and debugfs say it.

use kernel::fmt;
use rdma::completion::Status;

/// Why a connection ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum CloseReason {
    /// nfsd has closed it: idle, stopped, or asked by a protocol.
    Server,
    /// The peer has disconnected, or the connection manager says that it is gone: its event.
    Peer(u32),
    /// An admin has the module give back all that it has.
    Released,
    /// The device goes.
    DeviceRemoved,
    /// The listener went before the connection was accepted.
    ListenerGone,
    /// It could not be accepted: an errno.
    Accept(i32),
    /// It waited too long to be accepted.
    AcceptTimeout,
    /// It was accepted and made no Call for too long.
    Silent,
    /// Too many wait to be accepted.
    Busy,
    /// The peer has sent more Calls than there can be Receive buffers for.
    CreditOverrun,
    /// A Receive has failed: its status.
    Receive(i32),
    /// The peer has used up a Receive with an RDMA Write with immediate data.
    NoMessage,
    /// A Send, RDMA Read or RDMA Write has failed: its status.
    Send(i32),
    /// Work could not be posted: an errno.
    Post(i32),
    /// The device reports an error of the queue pair.
    QueuePair,
    /// Posted work has not completed for too long.
    Stalled,
    /// We lack memory for a reply that must not get lost.
    NoMemory,
    /// nfsd's results do not lie as they should: an errno.
    Results(i32),
    /// nfsd has dropped a Call that needs an answer: the same one is being worked on, say.
    Dropped,
    /// The device reports that a completion queue of the connection has failed.
    CompletionQueue,
    /// The peer sends too many messages that cost no credit and that nobody waits for.
    Unasked,
    /// The peer has had the device invalidate a memory region.
    Invalidation,
    /// A queue is full, so that a Call or a reply would be lost.
    Overflow(Queue),
    /// The peer does not serve its Reads, and keeps the most pages of those that others wait for.
    PageShortage,
    /// The peer takes what is posted, or serves its Reads, at less than the lowest rate.
    TooSlow,
}

/// The queues that Calls and replies go through. All but the last have room for what credits allow: if
/// one of them is full, a Call or a reply was not counted.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Queue {
    /// Complete Calls that wait for an nfsd thread.
    Inbox,
    /// RDMA Reads and replies that wait to be posted.
    Work,
    /// Calls that wait until others of their connection are read.
    Quota,
    /// Calls of all connections of a device that wait for pages.
    Pages,
}

impl CloseReason {
    /// The number in the trace event, and what belongs to it.
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
        }
    }

    /// Whether somebody wanted it so.
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
                f.write_str("the device reported a failed completion queue")
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
        }
    }
}

impl Queue {
    /// Returns the number in the trace event.
    fn number(self) -> i32 {
        match self {
            Queue::Inbox => 1,
            Queue::Work => 2,
            Queue::Quota => 3,
            Queue::Pages => 4,
        }
    }

    /// Returns what waits in the queue.
    fn name(self) -> &'static str {
        match self {
            Queue::Inbox => "Calls that wait for nfsd",
            Queue::Work => "Reads and Replies to post",
            Queue::Quota => "Calls that wait for the quota of the connection",
            Queue::Pages => "Calls that wait for pages",
        }
    }
}

fn status_name(status: i32) -> &'static str {
    Status::name(status).to_str().unwrap_or("?")
}
