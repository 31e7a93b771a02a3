// SPDX-License-Identifier: GPL-2.0

//! Safe RDMA verbs and connection management for kernel ULPs (upper layer protocols).
//!
//! The crate covers the passive side of reliable connections (`IB_QPT_RC`, `RDMA_PS_TCP`): a ULP
//! listens, accepts peers, receives messages, posts Sends, RDMA Reads and RDMA Writes, and exposes
//! memory to its peers.
//!
//! # A whole ULP
//!
//! Most ULPs use the layer [`service`]: they implement two traits, [`Service`](service::service::Service) and
//! [`Session`](service::service::Session), and have a [`Server`](service::server::Server) as a field of the
//! module. This one sends each message back. The tests build it as a module, and load it.
//!
#![doc = "```ignore"]
#![doc = include_str!("examples/echo.rs")]
#![doc = "```"]
//!
//! A second one, rust/rdma/examples/expose.rs, exposes memory; `rdma_bulk` (rust/bulk) speaks SMB Direct.
//!
//! A session asks its [`Peer`](service::peer::Peer) for operations on page regions. Each takes the memory
//! over, and [`Session::completed`](service::service::Session::completed) gets it back as a
//! [`Completed`](service::job::Completed):
//!
//! | operation | function | takes | gives back |
//! |---|---|---|---|
//! | send | [`Peer::send`](service::peer::Peer::send) | a `SendBuffer` | the same |
//! | RDMA Read | [`Peer::read`](service::peer::Peer::read) | a `PageRegion` and segments of the peer | the `PageRegion` |
//! | RDMA Write | [`Peer::write`](service::peer::Peer::write) | a `PageRegion` and segments of the peer | the `PageRegion` |
//! | expose | [`Peer::expose`](service::peer::Peer::expose) | an `Exposure` | the same, as `Exposure<Any>` |
//! | revoke | [`Peer::revoke`](service::peer::Peer::revoke) | an `Exposure` | its `PageRegion` |
//!
//! The rest of this page is about the objects below that layer, which svcrdma uses itself.
//!
//! # Objects
//!
//! | object | role | made from |
//! |---|---|---|
//! | [`client::Registration`] | reports devices to the ULP's [`client::Client`] | |
//! | [`device::IbDevice`] | a device: its name and its limits | `Client::add`, `NewId::device` |
//! | [`fatal::FatalErrors`] | notes that a device has reported a fatal error | `IbDevice` |
//! | [`device::Pd`] | a protection domain; keeps the device registered | `IbDevice` |
//! | [`cq::Cq`], [`cq::CqReservation`] | a completion queue, and one connection's entries in it | `Pd` |
//! | [`cm::CmId`] | an id: a listener or one connection | an address, a connect request |
//! | [`recv::pool::ReceivePool`] | the Receive buffers of one connection | `Pd` |
//! | [`recv::receive::Receive`] | a received message in its buffer | a completion |
//! | [`qp::Qp`] | a queue pair on its `CmId` | `CmId`, `Pd`, `ReceivePool`, two `CqReservation`s |
//! | [`send::queue::SendQueue`] | the work of one connection, posted or waiting | takes a `Qp` |
//! | [`send::buffer::SendBuffer`] | a mapped page that Sends start from | `Pd` |
//! | [`mem::page_region::PageRegion`] | pages that work moves, mapped for a `Pd` as needed | |
//! | [`mem::memory_region::MemoryRegion`] | registered memory for RDMA Reads (iWARP) | `Pd` |
//! | [`mem::exposure::Exposure`] | pages that the peer may read or write | `Pd` of one connection, `PageRegion` |
//!
//! A ULP without the layer implements four traits: [`client::Client`] for devices, [`cm::Events`] for ids,
//! [`handler::Handler`] for completions and [`send::work::Work`] for what it posts.
//!
//! # Operations on page regions
//!
//! [`Work::build`](send::work::Work::build) adds work requests to a [`Chain`](send::chain::Chain). Each
//! function borrows the memory from the work, which the `SendQueue` owns until the device has finished.
//! So a completion is the work itself, which [`SendGuard::complete`](send::queue::SendGuard::complete)
//! returns and the ULP must take.
//!
//! | operation | function | region is mapped | errors |
//! |---|---|---|---|
//! | send | [`Chain::send`](send::chain::Chain::send) | `ToDevice` | false: no room, too many entries, not mapped |
//! | RDMA Write | [`Chain::rdma`](send::chain::Chain::rdma) | `ToDevice` | 0: no room, not mapped |
//! | RDMA Read | `Chain::rdma` | `FromDevice` | 0: no room, not mapped, on iWARP not registered |
//! | expose | [`Chain::expose`](send::chain::Chain::expose) | by the `Exposure` | false: no room, other connection, revoked |
//! | revoke | [`Chain::revoke`](send::chain::Chain::revoke) | by the `Exposure` | false: no room, other connection |
//!
//! All of them run under the lock of the `SendQueue` and do not sleep. No room means that the caller adds
//! the rest to a later chain. Errors of the device end the connection: posting returns
//! [`Stop::Failed`](send::queue::Stop::Failed), or a completion has another
//! [status](completion::Status) than success.
//!
//! # Order of creation
//!
//! 1. [`client::Registration::new`] calls `Client::add` for each device. The ULP makes a `Pd` and
//!    completion queues for the device, now or with the first connection.
//! 2. [`cm::CmId::listen`] starts to listen. `Events::connect_request` gets a [`cm::NewId`] for
//!    each peer. The ULP adopts the id and queues it for a thread that may sleep.
//! 3. That thread makes the `ReceivePool` and the `Qp`, and posts Receives with
//!    [`recv::pool::ReceivePool::resize`]. Receives must be posted before the peer is accepted.
//! 4. [`cm::CmId::accept`] accepts the peer. Messages may arrive before it returns.
//! 5. [`send::queue::SendQueue::open`] takes the `Qp`. Work that was posted before can now be
//!    posted.
//!
//! # Order of teardown
//!
//! 1. [`send::queue::SendQueue::shut`] disconnects, drains the queue pair for a limited time, destroys
//!    it, unmaps the Receive buffers and gives all work back to the ULP. It returns the `CmId`.
//! 2. The ULP drops the `CmId`. The id may be kept for a while, so that the connection manager can
//!    repeat a disconnect request that was lost.
//! 3. An [`Exposure`](mem::exposure::Exposure) that the ULP still holds is out of the peer's reach, as
//!    its protection domain has no queue pair any more. Dropping it sleeps.
//! 4. Messages that the ULP still holds as `Receive` stay readable. Their buffers are freed when
//!    the ULP drops them.
//! 5. The ULP drops the completion queues and the `Pd`. `Client::remove` drops those of a device
//!    that is being removed.
//!
//! A `CmId` and a `Qp` hold references to their contexts. If a context contains the `SendQueue`
//! that owns the `Qp`, they form a reference cycle, which `shut` breaks. A ULP calls `shut` for
//! each connection that it has accepted.
//!
//! Objects that are made from a `Pd` hold a reference to it, and the `Pd` keeps its device
//! registered. The connection manager waits for the ids on a device. An object that is dropped too
//! late therefore delays the removal of the device, and never leaves a dangling pointer.
//!
//! # Contexts
//!
//! | code | context |
//! |---|---|
//! | functions whose documentation says "May sleep" | process context |
//! | all other functions | process context, completion handlers included |
//! | `Handler`, but for `failed` | a worker of a completion queue; must not sleep |
//! | `Handler::failed` | any, also with hard interrupts disabled; takes no locks |
//! | `Events` | a worker of the connection manager that holds the lock of the id; may sleep |
//! | `Work` | the owner of a `SendGuard`, under the spinlock; must not sleep |
//! | `Client` | the thread that adds or removes a device; may sleep |
//!
//! C headers: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h),
//! [`include/rdma/rdma_cm.h`](srctree/include/rdma/rdma_cm.h)

pub mod client;
pub mod cm;
pub mod completion;
mod connect;
pub mod cq;
pub mod device;
mod drain;
pub mod fatal;
pub mod handler;
pub mod mem;
mod pair;
pub mod qp;
pub mod recv;
pub mod send;
pub mod service;

/// The prefix of log lines, which `kernel::prelude::pr_err!` and its siblings expect.
const __LOG_PREFIX: &[u8] = b"svcrdma\0";

/// A plain C structure for which all-zero bytes are a valid value.
///
/// # Safety
///
/// All fields of the type, unions included, are integers, or pointers that may be null.
unsafe trait Plain {}

// SAFETY: `struct ib_rdma_wr` consists of integers, nullable pointers and unions of these.
unsafe impl Plain for bindings::ib_rdma_wr {}
// SAFETY: `struct ib_reg_wr` consists of integers, nullable pointers and unions of these.
unsafe impl Plain for bindings::ib_reg_wr {}
// SAFETY: `struct ib_recv_wr` consists of integers, nullable pointers and unions of these.
unsafe impl Plain for bindings::ib_recv_wr {}
// SAFETY: `struct ib_qp_attr` consists of integers, nullable pointers and unions of these.
unsafe impl Plain for bindings::ib_qp_attr {}

/// Returns a value of zeros, like a C initializer that names no field.
fn zeroed<T: Plain>() -> T {
    // SAFETY: By the safety requirements of `Plain`, zeros are a valid `T`.
    unsafe { core::mem::zeroed() }
}
