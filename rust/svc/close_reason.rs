// SPDX-License-Identifier: GPL-2.0

//! Causes: why connections end, as the log, the trace event and debugfs say it.

use kernel::fmt;
use rdma::completion::Status;

/// Why a connection ends.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cause {
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

impl Cause {
    /// The number in the trace event, and what belongs to it.
    pub(crate) fn code(self) -> (u32, i32) {
        match self {
            Cause::Server => (0, 0),
            Cause::Peer(event) => (1, i32::try_from(event).unwrap_or(0)),
            Cause::DeviceRemoved => (2, 0),
            Cause::ListenerGone => (3, 0),
            Cause::Accept(errno) => (4, errno),
            Cause::AcceptTimeout => (5, 0),
            Cause::Busy => (6, 0),
            Cause::CreditOverrun => (7, 0),
            Cause::Receive(status) => (8, status),
            Cause::Send(status) => (9, status),
            Cause::Post(errno) => (10, errno),
            Cause::QueuePair => (11, 0),
            Cause::Stalled => (12, 0),
            Cause::NoMemory => (13, 0),
            Cause::Results(errno) => (14, errno),
            Cause::Silent => (15, 0),
            Cause::Released => (16, 0),
            Cause::NoMessage => (17, 0),
            Cause::Dropped => (18, 0),
            Cause::CompletionQueue => (19, 0),
            Cause::Unasked => (20, 0),
            Cause::Invalidation => (21, 0),
            Cause::Overflow(queue) => (22, queue.number()),
            Cause::PageShortage => (23, 0),
            Cause::TooSlow => (24, 0),
        }
    }

    /// Whether somebody wanted it so.
    pub(crate) fn is_normal(self) -> bool {
        matches!(
            self,
            Cause::Server
                | Cause::Peer(_)
                | Cause::Released
                | Cause::DeviceRemoved
                | Cause::ListenerGone
        )
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Cause::Server => f.write_str("closed by the server"),
            Cause::Peer(event) => write!(f, "closed by the peer (event {event})"),
            Cause::Released => f.write_str("released by an admin"),
            Cause::DeviceRemoved => f.write_str("the device was removed"),
            Cause::ListenerGone => f.write_str("the listener was removed"),
            Cause::Accept(errno) => write!(f, "could not be accepted (error {errno})"),
            Cause::AcceptTimeout => f.write_str("not accepted in time"),
            Cause::Silent => f.write_str("no first Call in time"),
            Cause::Busy => f.write_str("too many connections wait to be accepted"),
            Cause::CreditOverrun => f.write_str("more Calls than credits"),
            Cause::Receive(status) => write!(f, "Receive failed: {}", status_name(*status)),
            Cause::NoMessage => f.write_str("immediate data, and no message"),
            Cause::Send(status) => {
                write!(f, "Send, Read or Write failed: {}", status_name(*status))
            }
            Cause::Post(errno) => write!(f, "work could not be posted (error {errno})"),
            Cause::QueuePair => f.write_str("the device reports an error of the queue pair"),
            Cause::Stalled => f.write_str("the peer takes no replies, or serves no Reads"),
            Cause::NoMemory => f.write_str("no memory for a Call or its reply"),
            Cause::Results(errno) => write!(f, "results cannot be sent (error {errno})"),
            Cause::Dropped => f.write_str("nfsd has dropped a Call"),
            Cause::CompletionQueue => f.write_str("a completion queue has failed"),
            Cause::Unasked => f.write_str("too many messages that nobody waits for"),
            Cause::Invalidation => f.write_str("a registration of the server was invalidated"),
            Cause::Overflow(queue) => write!(f, "queue full: {}", queue.name()),
            Cause::PageShortage => {
                f.write_str("pages are short, and the peer does not serve its Reads")
            }
            Cause::TooSlow => f.write_str("the peer is slower than minimum_rate"),
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
            Queue::Inbox => "Calls for nfsd",
            Queue::Work => "Reads and replies to post",
            Queue::Quota => "Calls of this connection to read",
            Queue::Pages => "Calls that wait for pages",
        }
    }
}

fn status_name(status: i32) -> &'static str {
    Status::name(status).to_str().unwrap_or("?")
}
