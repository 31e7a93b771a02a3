// SPDX-License-Identifier: GPL-2.0

//! Connections: the state that nfsd's handle and the hardware half of a connection share.
//!
//! Any party that finds a reason to end a connection calls [`Connection::close`]. The first reason
//! is kept and reported. The teardown runs on the workqueue.
//!
//! # Context
//!
//! Any process context; functions that may sleep say so.
//!
//! # Locking
//!
//! The lock of the state is a spinlock and a leaf, also under the lock of the send queue. The
//! transitions of the phase return what to do next, and the caller does that after it has released
//! the lock.

use super::{
    call::Call,
    endpoint::Endpoint,
    offer::Offer,
    sender::CreditState, //
};
use crate::svc::{
    close_reason::{
        CloseReason,
        Queue, //
    },
    counters::{
        Counted,
        Counters, //
    },
    device::device::Device,
    history::seconds_since,
    pages::host::HostRef,
    settings, //
};
use kernel::{
    impl_has_work,
    new_spinlock,
    new_work,
    prelude::*,
    sync::{
        atomic::{
            AtomicFlag,
            Relaxed, //
        },
        Arc,
        SpinLock, //
    },
    time::{
        Instant,
        Monotonic, //
    },
    workqueue::Work, //
};
use rdma::cm::CmId;
use sunrpc::{
    callback::{
        Channel,
        SLOTS, //
    },
    inbox::{
        Flag,
        Inbox, //
    },
};
use support::{
    addr::Addr,
    figure::Figure,
    ring::Refused,
    trace,
    RateLimit, //
};
use svcrdma_proto::{
    phase::{
        Next,
        Phase, //
    },
    receives::needed, //
};

/// The most seconds that a closed connection waits for its peer to confirm the disconnect. The
/// connection manager repeats the request after the time that the peer asked for when it connected:
/// four seconds with Linux (`CMA_CM_RESPONSE_TIMEOUT` in drivers/infiniband/core/cma.c).
const LEAVING_SECONDS: u32 = 10;

/// The data under the lock.
pub(crate) struct State {
    /// The phase, with the id or the hardware half that exists in it.
    pub(crate) phase: Phase<CmId<Connection>, Arc<Endpoint>>,
    /// Seconds in the present phase: until the accept, until the first Call, or until the peer
    /// confirms the disconnect.
    pub(crate) waited: u32,
    /// The sunrpc transport that receives the replies to callbacks. Only established connections
    /// have one.
    pub(crate) channel: Option<Channel>,
    /// True if the peer was told that it is accepted, and has not confirmed the disconnect.
    pub(crate) has_peer: bool,
    /// Counts the connection as present. None once the queue pair is destroyed.
    pub(crate) counted: Option<Counted>,
}

/// The state of a client connection.
///
/// nfsd's handle, the endpoint, the table of the device and the id share it.
#[pin_data]
pub(crate) struct Connection {
    number: u64,
    peer: Addr,
    since: Instant<Monotonic>,
    /// The most credits that the connection has room for: `credits` at the time of the connect
    /// request.
    pub(crate) max_credits: u32,
    /// The most Calls at a time: the Receive buffers that `max_credits` and callbacks need.
    pub(crate) max_calls: u32,
    /// The device of the connection.
    pub(crate) device: Arc<Device>,
    /// The host of the peer.
    pub(crate) host: HostRef,
    /// The counters of the network namespace.
    pub(crate) counters: Arc<Counters>,
    /// The parameters of the peer.
    pub(crate) offer: Offer,
    /// Complete Calls, which wait for an nfsd thread.
    pub(crate) inbox: Arc<Inbox<Call>>,
    #[pin]
    pub(crate) state: SpinLock<State>,
    /// True once the connection is closing. Read without the lock.
    is_closing: AtomicFlag,
    /// True if the peer counts as validated. nfsd threads set it once.
    pub(super) is_validated: Figure<bool>,
    /// True once nfsd has validated the peer on this connection. nfsd threads set it once.
    pub(super) is_confirmed: Figure<bool>,
    #[pin]
    work: Work<Connection>,
}

impl_has_work! {
    impl HasWork<Self> for Connection { self.work }
}

impl Connection {
    /// Creates the connection of a peer that has sent a connect request. May sleep.
    pub(crate) fn new(
        number: u64,
        peer: Addr,
        offer: Offer,
        device: Arc<Device>,
        counters: Arc<Counters>,
    ) -> Result<Arc<Self>> {
        let limit = settings::CREDITS.get();
        let max_calls = needed(limit, SLOTS);
        let inbox = Inbox::new(max_calls as usize, Flag::Data)?;
        let host = device.hosts.join(offer.origin.source())?;
        let is_recent = counters.recent_peers.has(&offer.origin);
        let state = State {
            phase: Phase::Accepting,
            waited: 0,
            channel: None,
            has_peer: false,
            counted: Some(Counted::new(counters.clone())),
        };
        Arc::pin_init(
            try_pin_init!(Self {
                number,
                peer,
                since: Instant::now(),
                max_credits: limit,
                max_calls,
                device,
                host,
                counters,
                offer,
                inbox,
                state <- new_spinlock!(state, "svcrdma connection"),
                is_closing: AtomicFlag::new(false),
                is_validated: Figure::new(is_recent),
                is_confirmed: Figure::default(),
                work <- new_work!("svcrdma close work"),
            }),
            GFP_KERNEL,
        )
    }

    /// Returns the number of the connection, which no other connection of the module ever has.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Returns a number that only connections of the same host have. Hosts take turns.
    pub(crate) fn host_number(&self) -> u64 {
        // CAST: The object stands for the host as long as a connection of the host exists.
        Arc::as_ptr(&self.host) as usize as u64
    }

    /// Records that `id` waits to be accepted. No other thread may use the connection yet.
    pub(crate) fn set_pending(&self, id: CmId<Connection>) {
        self.state.lock().phase = Phase::Pending(id);
    }

    /// Takes the id in order to accept it. Returns None if the connection is closing.
    pub(crate) fn take_pending(&self) -> Option<CmId<Connection>> {
        self.state.lock().phase.take_pending()
    }

    /// Records that the peer is about to be told that it is accepted, or that telling it has
    /// failed. A peer that was told is expected to confirm the disconnect.
    pub(crate) fn set_has_peer(&self, has_peer: bool) {
        self.state.lock().has_peer = has_peer;
    }

    /// Ends the accept. With `endpoint`, whose send queue is open, the connection is established.
    /// With None the accept has failed and the caller has called [`Self::close`]. Later calls have
    /// no effect.
    pub(crate) fn settle(self: &Arc<Self>, endpoint: Option<&Arc<Endpoint>>) {
        let next = {
            let mut state = self.state.lock();
            state.waited = 0;
            state.phase.settle(endpoint)
        };
        self.follow(next);
    }

    /// Stops waiting for the peer to confirm the disconnect: it has confirmed, or it takes too
    /// long.
    pub(crate) fn hang_up(self: &Arc<Self>) {
        let next = {
            let mut state = self.state.lock();
            state.has_peer = false;
            state.phase.hang_up()
        };
        self.follow(next);
    }

    /// Does what a transition of the phase has asked for.
    fn follow(self: &Arc<Self>, next: Next) {
        if next == Next::TearDown {
            // An error means that the teardown is queued already.
            let _ = self.device.queue.enqueue(self.clone());
        }
    }

    /// Makes `channel` receive the replies to callbacks, until the teardown. Returns false, and drops
    /// the channel, unless the connection is established.
    pub(crate) fn bind(&self, channel: Channel) -> bool {
        let mut state = self.state.lock();
        let is_established = matches!(state.phase, Phase::Established(_));
        let unbound = if is_established {
            state.channel.replace(channel)
        } else {
            Some(channel)
        };
        drop(state);
        drop(unbound);
        is_established
    }

    /// Returns the hardware half, if the connection is established.
    pub(crate) fn endpoint(&self) -> Option<Arc<Endpoint>> {
        self.state.lock().phase.half().cloned()
    }

    /// Returns the transport that receives the replies to callbacks.
    pub(crate) fn channel(&self) -> Option<Channel> {
        self.state.lock().channel.clone()
    }

    /// Begins to close the connection. Has no effect if it is closing already. While an nfsd thread
    /// accepts the connection, the teardown waits for [`Self::settle`].
    pub(crate) fn close(self: &Arc<Self>, reason: CloseReason) {
        let next = {
            let mut state = self.state.lock();
            let Some(next) = state.phase.close() else {
                return;
            };
            // Under the lock, so that a caller which finds the connection closed also finds the
            // flag set.
            self.is_closing.store(true, Relaxed);
            next
        };
        if self.is_confirmed.get() {
            self.counters.recent_peers.note(self.offer.origin);
        }
        self.report(reason);
        self.inbox.close();
        self.follow(next);
    }

    /// Returns the item that a queue has refused. Closes the connection if the queue is full: a
    /// client would wait forever for the Reply to a Call that is dropped on an open connection.
    pub(crate) fn take_back<T>(self: &Arc<Self>, refused: Refused<T>, queue: Queue) -> T {
        match refused {
            Refused::Full(item) => {
                self.close(CloseReason::Overflow(queue));
                item
            }
            Refused::Closed(item) => item,
        }
    }

    /// Returns true if the connection is closing or closed, so that no work should be started for
    /// it.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Relaxed)
    }

    /// Records the close reason in the trace, the history and the log.
    fn report(&self, reason: CloseReason) {
        let (number, peer, (code, detail)) = (self.number, &self.peer, reason.code());
        trace::close(number, code, detail, peer);
        self.device.history.add(number, peer, reason);
        if reason.is_normal() {
            return;
        }
        self.counters.closed_abnormally.inc();
        if RateLimit::Closes.allows() {
            pr_warn!("connection {} of {}: closed: {}\n", number, peer, reason);
        }
    }

    /// Checks the time limits of the connection and its endpoint, `seconds` after the last tick.
    /// The watchdog calls this. May sleep.
    pub(crate) fn tick(self: &Arc<Self>, seconds: u32) {
        let (late, endpoint, waited) = {
            let mut state = self.state.lock();
            state.waited = state.waited.saturating_add(seconds);
            let waited = state.waited;
            match &state.phase {
                Phase::Established(endpoint) => (None, Some(endpoint.clone()), waited),
                Phase::Pending(_) => {
                    let is_late = waited > settings::PENDING_SECONDS.get();
                    (is_late.then_some(CloseReason::AcceptTimeout), None, waited)
                }
                Phase::Leaving(_) => {
                    drop(state);
                    if waited > LEAVING_SECONDS {
                        self.hang_up();
                    }
                    return;
                }
                _ => return,
            }
        };
        match (late, endpoint) {
            (Some(reason), _) => self.close(reason),
            (None, Some(endpoint)) => {
                let is_silent = endpoint.published.calls() == 0;
                if is_silent && waited > settings::FIRST_CALL_SECONDS.get() {
                    self.close(CloseReason::Silent)
                } else {
                    endpoint.tick(seconds)
                }
            }
            (None, None) => {}
        }
    }

    /// Returns true if only the id is left, which waits for the peer to confirm the disconnect.
    pub(crate) fn is_leaving(&self) -> bool {
        matches!(self.state.lock().phase, Phase::Leaving(_))
    }

    /// Returns the present state, for debugfs and the watchdog.
    pub(crate) fn snapshot(&self) -> Snapshot {
        let (phase, endpoint) = {
            let state = self.state.lock();
            (state.phase.name(), state.phase.half().cloned())
        };
        Snapshot {
            phase,
            credit_state: endpoint
                .as_ref()
                .map_or_else(CreditState::default, |endpoint| endpoint.credit_state()),
            endpoint,
        }
    }

    /// Returns the seconds since the connect request.
    pub(crate) fn age(&self) -> i64 {
        seconds_since(self.since)
    }

    /// Returns the peer's address.
    pub(crate) fn peer(&self) -> &Addr {
        &self.peer
    }
}

/// The state of a connection at a point in time.
pub(crate) struct Snapshot {
    /// The name of the phase.
    pub(crate) phase: &'static str,
    /// The state of the credits.
    pub(crate) credit_state: CreditState,
    /// The hardware half, if the connection is established.
    pub(crate) endpoint: Option<Arc<Endpoint>>,
}
