// SPDX-License-Identifier: GPL-2.0

//! Connections: their phases, and why they end.
//!
//! A connection has three parts, as three parties let go of it at their own time. [`Xprt`] is
//! nfsd's: it lives as long as the `svc_xprt`. The [`Endpoint`] is the hardware's: queue pair and
//! id, given back soon after the connection begins to close (the id when the peer knows of it).
//! [`Connection`] is what both need.
//!
//! Whoever finds a reason to end a connection calls [`Connection::close`]. The first cause is kept and
//! reported; the rest happens on our workqueue. In any process context, unless said otherwise. The lock
//! is a leaf, also under the Fifo's: nothing is called back under it.

use super::{
    call::Call,
    credits::{
        Balance,
        CreditAccount, //
    },
    endpoint::Endpoint, //
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
    history::seconds_since,
    lane::Lane,
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
        ArcBorrow,
        SpinLock, //
    },
    time::{
        Instant,
        Monotonic, //
    },
    workqueue::Work, //
};
use rdma::cm::{
    CmId,
    Event,
    Events, //
};
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
    ratelimit,
    ring::Refused,
    trace,
    workqueue::OwnedQueue, //
};
use svcrdma_proto::{
    cm::Peer,
    phase::{
        Next,
        Phase, //
    },
    receives::needed, //
};

/// How long a peer is waited for that is to confirm the disconnect, in seconds. The peer is told again
/// after the time that it asked for when it connected: four seconds with Linux (`CMA_CM_RESPONSE_TIMEOUT` in
/// drivers/infiniband/core/cma.c).
const LEAVING_SECONDS: u32 = 10;

/// What the lock protects.
pub(crate) struct State {
    pub(crate) phase: Phase<CmId<Connection>, Arc<Endpoint>>,
    /// Seconds that the peer has waited to be accepted, then that we wait for its first Call.
    pub(crate) waited: u32,
    /// Who awaits replies of the client, while the connection is established.
    pub(crate) channel: Option<Channel>,
    /// Whether the peer was accepted, and has not confirmed yet that it is over.
    pub(crate) has_peer: bool,
    /// Until the queue pair is gone.
    pub(crate) counted: Option<Counted>,
}

/// What nfsd and the hardware share of a connection.
#[pin_data]
pub(crate) struct Connection {
    number: u64,
    peer: Addr,
    since: Instant<Monotonic>,
    /// The most credits that there is room for: those that were set when the peer connected.
    pub(crate) max_credits: u32,
    /// The most Calls: each has a Receive buffer, and these are as many as all credits need.
    pub(crate) max_calls: u32,
    /// Its credits and the Calls that use them.
    pub(crate) credits: Arc<CreditAccount>,
    pub(crate) lane: Arc<Lane<Connection>>,
    /// Those of its network namespace.
    pub(crate) counters: Arc<Counters>,
    /// What the peer has told of itself.
    pub(crate) offer: Offer,
    /// Calls that are complete.
    pub(crate) inbox: Arc<Inbox<Call>>,
    #[pin]
    pub(crate) state: SpinLock<State>,
    is_closing: AtomicFlag,
    pub(crate) is_validated: AtomicFlag,
    pub(crate) queue: Arc<OwnedQueue>,
    #[pin]
    work: Work<Connection>,
}

/// What a peer tells when it connects.
#[derive(Clone, Copy)]
pub(crate) struct Offer {
    /// Thresholds and abilities (RFC 8797).
    pub(crate) peer: Peer,
    /// How many RDMA Reads it serves at a time.
    pub(crate) reads: u8,
}

impl_has_work! {
    impl HasWork<Self> for Connection { self.work }
}

impl Connection {
    /// Makes one for a peer that wants to connect. May sleep.
    pub(crate) fn new(
        number: u64,
        peer: Addr,
        offer: Offer,
        lane: Arc<Lane<Connection>>,
        counters: Arc<Counters>,
        queue: Arc<OwnedQueue>,
    ) -> Result<Arc<Self>> {
        let limit = settings::CREDITS.get();
        let max_calls = needed(limit, SLOTS);
        let inbox = Inbox::new(max_calls as usize, Flag::Data)?;
        let credits = CreditAccount::new(limit, max_calls)?;
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
                credits,
                lane,
                counters,
                offer,
                inbox,
                state <- new_spinlock!(state, "svcrdma connection"),
                is_closing: AtomicFlag::new(false),
                is_validated: AtomicFlag::new(false),
                queue,
                work <- new_work!("svcrdma close"),
            }),
            GFP_KERNEL,
        )
    }

    /// Its number, which no other connection had or will have.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The id waits to be accepted. Nobody else knows the connection yet.
    pub(crate) fn set_pending(&self, id: CmId<Connection>) {
        self.state.lock().phase = Phase::Pending(id);
    }

    /// Takes the id to accept it; none if the connection is closing.
    pub(crate) fn take_pending(&self) -> Option<CmId<Connection>> {
        self.state.lock().phase.take_pending()
    }

    /// Whether the peer is told now that it is accepted, which takes a confirmation of the end.
    pub(crate) fn set_has_peer(&self, has_peer: bool) {
        self.state.lock().has_peer = has_peer;
    }

    /// Accepting is over: with an endpoint, which is posted to, the connection is established; with
    /// none it has failed, and [`Self::close`] was called. Later calls do nothing.
    pub(crate) fn settle(self: &Arc<Self>, endpoint: Option<&Arc<Endpoint>>) {
        let next = {
            let mut state = self.state.lock();
            state.waited = 0;
            state.phase.settle(endpoint)
        };
        self.follow(next);
    }

    /// Stops waiting for the peer to confirm the disconnect, because it has, or takes too long. In any
    /// process context.
    pub(crate) fn hang_up(self: &Arc<Self>) {
        let next = {
            let mut state = self.state.lock();
            state.has_peer = false;
            state.phase.hang_up()
        };
        self.follow(next);
    }

    /// Does what a transition of the phase asks for.
    fn follow(self: &Arc<Self>, next: Next) {
        if next == Next::TearDown {
            // An error means that the work is queued already.
            let _ = self.queue.enqueue(self.clone());
        }
    }

    /// Replies of the client are for `channel`, until the connection is taken down.
    pub(crate) fn bind(&self, channel: Channel) {
        let mut state = self.state.lock();
        let unbound = match state.phase {
            Phase::Established(_) => state.channel.replace(channel),
            _ => Some(channel),
        };
        drop(state);
        drop(unbound);
    }

    /// Who awaits replies of the client.
    pub(crate) fn channel(&self) -> Option<Channel> {
        self.state.lock().channel.clone()
    }

    /// Begins to close, for this cause if it is the first. While an nfsd thread accepts the
    /// connection it is that which has it taken down, by [`Self::settle`].
    pub(crate) fn close(self: &Arc<Self>, reason: CloseReason) {
        let next = {
            let mut state = self.state.lock();
            let Some(next) = state.phase.close() else {
                return;
            };
            // Under the lock, so that whoever comes too late to close it sees that it is closing.
            self.is_closing.store(true, Relaxed);
            next
        };
        self.report(reason);
        self.inbox.close();
        self.follow(next);
    }

    /// Counts a message that costs no credit and that nobody waits for. Too many of them close the
    /// connection.
    pub(crate) fn count_unasked(self: &Arc<Self>) {
        if self.credits.on_unasked().is_err() {
            self.close(CloseReason::Unasked);
        }
    }

    /// Takes an item back that a queue has refused. A full queue closes the connection: a Call or reply
    /// that is dropped while the connection stays leaves the client waiting for ever.
    pub(crate) fn take_back<T>(self: &Arc<Self>, refused: Refused<T>, queue: Queue) -> T {
        match refused {
            Refused::Full(item) => {
                self.close(CloseReason::Overflow(queue));
                item
            }
            Refused::Closed(item) => item,
        }
    }

    /// Whether it begins to close, or has: nothing is worth starting for it any more.
    pub(crate) fn is_closing(&self) -> bool {
        self.is_closing.load(Relaxed)
    }

    fn report(&self, reason: CloseReason) {
        let (number, peer, (code, detail)) = (self.number, &self.peer, reason.code());
        trace::close(number, code, detail);
        self.lane.history.add(number, peer, reason);
        if reason.is_normal() {
            return;
        }
        self.counters.closed_abnormally.inc();
        if ratelimit() {
            pr_warn!("connection {} of {}: closed: {}\n", number, peer, reason);
        }
    }

    /// Looks after the connection; `seconds` have passed since the last time.
    pub(crate) fn tick(self: &Arc<Self>, seconds: u32) {
        let calls = self.credits.balance().calls;
        let (late, endpoint) = {
            let mut state = self.state.lock();
            state.waited = state.waited.saturating_add(seconds);
            let waited = state.waited;
            match &state.phase {
                Phase::Established(endpoint) => {
                    let is_silent = calls == 0 && waited > settings::FIRST_CALL_SECONDS.get();
                    let late = is_silent.then_some(CloseReason::Silent);
                    (late, Some(endpoint.clone()))
                }
                Phase::Pending(_) => {
                    let is_late = waited > settings::PENDING_SECONDS.get();
                    (is_late.then_some(CloseReason::AcceptTimeout), None)
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
            (None, Some(endpoint)) => endpoint.tick(seconds),
            (None, None) => {}
        }
    }

    /// Returns true if only its id is left, which waits for the peer to confirm the disconnect.
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
            balance: self.credits.balance(),
            endpoint,
        }
    }

    /// Seconds since the peer has asked to connect.
    pub(crate) fn age(&self) -> i64 {
        seconds_since(self.since)
    }

    /// The peer's address.
    pub(crate) fn peer(&self) -> &Addr {
        &self.peer
    }
}

/// The state of a connection at some moment.
pub(crate) struct Snapshot {
    /// The name of the phase.
    pub(crate) phase: &'static str,
    /// The state of the credits.
    pub(crate) balance: Balance,
    /// The hardware half of an established connection.
    pub(crate) endpoint: Option<Arc<Endpoint>>,
}

impl Events for Connection {
    fn established(this: ArcBorrow<'_, Self>) -> bool {
        !this.is_closing()
    }

    fn event(this: ArcBorrow<'_, Self>, event: Event) {
        let connection: Arc<Connection> = this.into();
        match event {
            Event::Gone(event) => {
                connection.hang_up();
                connection.close(CloseReason::Peer(event));
            }
            // The peer does not know of that.
            Event::AddressGone(event) => connection.close(CloseReason::Peer(event)),
            Event::DeviceRemoval => connection.close(CloseReason::DeviceRemoved),
        }
    }
}
