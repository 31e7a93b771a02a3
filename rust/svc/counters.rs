// SPDX-License-Identifier: GPL-2.0

//! Counters: the read-only files of `/proc/sys/sunrpc/svcrdma`.
//!
//! Each network namespace has its own [`Counters`], which cover its listeners and their
//! connections. Counters of the host cover all namespaces and are shown in the initial namespace
//! only. Counters start at 0 when the module is loaded or the namespace is created; only the
//! numbers of present objects fall again. The files of a namespace include the [`settings`] and the
//! namespace's own [`AcceptFrom`].
//!
//! Counters that change with each Call would be written by all CPUs. So each connection has a
//! [`Tally`] with numbers of these counters, which change under locks that a Call takes in any case.
//! A read of a file adds them up.
//!
//! # Context
//!
//! Any; counters are atomic. The lock of the tallies is taken in process context only.

use crate::svc::{
    accept_from::AcceptFrom,
    latency::Latency,
    recent_peers::RecentPeers,
    settings, //
};
use core::{
    ops::Deref,
    slice::from_ref, //
};
use kernel::{
    new_spinlock,
    prelude::*,
    str::CStr,
    sync::{
        Arc,
        SpinLock, //
    },
};
use support::{
    figure::Figure,
    pernet::{
        Namespace,
        Namespaced, //
    },
    sysctl::{
        Counter,
        Entry,
        Files,
        Value, //
    },
    sysctl_text::TextRef,
};
use svcrdma_proto::histogram::BUCKETS;

/// The files of the latencies, in the order of [`Latency::all`].
const LATENCIES: [&CStr; 3] = [c"latency_server", c"latency_reads", c"latency_sends"];

/// Returns the counters of these files, all 0.
fn latencies() -> Result<KVec<Counter>> {
    let count = LATENCIES.len().saturating_mul(BUCKETS);
    let mut counters = KVec::with_capacity(count, GFP_KERNEL)?;
    for _ in 0..count {
        counters.push(Counter::new(), GFP_KERNEL)?;
    }
    Ok(counters)
}

macro_rules! counters {
    (
        tallied {$($(#[$total_doc:meta])* $total:ident = $total_file:literal;)*}
        others {$($(#[$doc:meta])* $name:ident = $file:literal;)*}
    ) => {
        /// The counters of one network namespace.
        pub(crate) struct Counters {
            /// The namespace.
            pub(crate) namespace: Namespace,
            /// The setting `accept_from`.
            pub(crate) accept_from: AcceptFrom,
            /// The peers that were validated recently.
            pub(crate) recent_peers: RecentPeers,
            /// The numbers of its connections.
            tallies: Pin<KBox<SpinLock<Tallies>>>,
            $($(#[$total_doc])* $total: Counter,)*
            $($(#[$doc])* pub(crate) $name: Counter,)*
            /// The latencies: [`BUCKETS`] for each of [`LATENCIES`].
            latency: KVec<Counter>,
        }

        /// The numbers of one connection, which change with each Call. Threads that the connection
        /// serialises change them, each number by one thread at a time.
        #[derive(Default)]
        pub(crate) struct Tally {
            $($(#[$total_doc])* pub(crate) $total: Figure<u64>,)*
            /// How long Calls take.
            pub(crate) latency: Latency,
        }

        impl Tally {
            /// Sets the numbers to those of `other`.
            fn set(&self, other: &Self) {
                $(self.$total.set(other.$total.get());)*
                self.latency.set(&other.latency);
            }

            /// Adds the numbers of `other`.
            fn add(&self, other: &Self) {
                $(self.$total.add(other.$total.get());)*
                self.latency.add(&other.latency);
            }
        }

        impl Counters {
            /// Returns an initialiser of the counters of `namespace`, all 0.
            fn of(namespace: Namespace) -> Result<impl Init<Self>> {
                let tallies = new_spinlock!(Tallies::new()?, "svcrdma tallies");
                let tallies = KBox::pin_init(tallies, GFP_KERNEL)?;
                let accept_from = AcceptFrom::new()?;
                let recent_peers = RecentPeers::new()?;
                let latency = latencies()?;
                Ok(init!(Self {
                    namespace,
                    accept_from,
                    recent_peers,
                    tallies,
                    $($total: Counter::new(),)*
                    $($name: Counter::new(),)*
                    latency,
                }))
            }

            /// Sets the counters of all connections to the sums of their numbers.
            fn add_up(&self) {
                // The counters are set under the lock, so that none of them goes back.
                let tallies = self.tallies.lock();
                let sum = tallies.sum();
                $(self.$total.set(sum.$total.get());)*
                let all = sum.latency.all();
                let counts = all.iter().flat_map(|(_, histogram)| histogram.counts());
                for (counter, count) in self.latency.iter().zip(counts) {
                    counter.set(count);
                }
            }

            /// Appends the files of these counters to `files`.
            fn add_to<'a>(&'a self, files: &mut KVec<Entry<'a>>) -> Result {
                $(
                    let value = Value::Refreshed(from_ref(&self.$total));
                    files.push(Entry { name: $total_file, value }, GFP_KERNEL)?;
                )*
                $(
                    let value = Value::Counter(&self.$name);
                    files.push(Entry { name: $file, value }, GFP_KERNEL)?;
                )*
                let mut latency = self.latency.as_slice();
                for name in LATENCIES {
                    let Some((row, rest)) = latency.split_at_checked(BUCKETS) else {
                        break;
                    };
                    latency = rest;
                    let value = Value::Refreshed(row);
                    files.push(Entry { name, value }, GFP_KERNEL)?;
                }
                Ok(())
            }
        }
    };
}

macro_rules! host_counters {
    ($($(#[$doc:meta])* $name:ident = $file:literal;)*) => {
        $($(#[$doc])* pub(crate) static $name: Counter = Counter::new();)*
        static HOST_COUNTERS: &[Entry<'_>] =
            &[$(Entry { name: $file, value: Value::Counter(&$name) }),*];
    };
}

counters! {
    tallied {
        /// Received Calls whose transport header could be decoded.
        calls = c"calls";
        /// Replies that were submitted for sending, error Replies included.
        replies = c"replies";
        /// Bytes of Calls that were read by RDMA Read.
        read_bytes = c"read_bytes";
        /// Bytes of Replies that were written by RDMA Write.
        write_bytes = c"write_bytes";
        /// Bytes of Calls that arrived inline, with their transport headers.
        inline_received_bytes = c"inline_received_bytes";
        /// Bytes of Replies and callbacks that go inline, with their transport headers.
        inline_sent_bytes = c"inline_sent_bytes";
        /// Work requests that were posted to send queues.
        work_requests = c"work_requests";
    }
    others {
        /// Present connections, from the connect request until the queue pair is destroyed.
        connections = c"connections";
        /// Present listeners.
        listeners = c"listeners";
        /// Accepted connections.
        accepted = c"accepted";
        /// Rejected connect requests, without those in `rejected_by_address`.
        rejected = c"rejected";
        /// Connect requests that were rejected because `accept_from` does not have their address.
        rejected_by_address = c"rejected_by_address";
        /// Connections that were closed for an abnormal reason, see
        /// [`CloseReason::is_normal`](super::close_reason::CloseReason::is_normal).
        closed_abnormally = c"closed_abnormally";
        /// Calls that were dropped without a Reply, because nfsd dropped the request, the connection
        /// closed, or the Reply could not be built.
        calls_dropped = c"calls_dropped";
        /// Messages that could not be decoded or served. Some of them are answered.
        malformed = c"malformed";
        /// Messages that need no answer and match no waiting callback: replies, RDMA_ERRORs, RDMA_DONE.
        ignored = c"ignored";
        /// Error Replies that were submitted for sending.
        error_replies = c"error_replies";
        /// Callbacks that were submitted for sending.
        callbacks = c"callbacks";
        /// Callbacks that were not sent because they exceed the client's inline threshold.
        callbacks_too_large = c"callbacks_too_large";
        /// Attempts to send a callback without a credit of the client.
        callbacks_without_credit = c"callbacks_without_credit";
        /// Callbacks that a client has answered with RDMA_ERROR and that were reported to sunrpc as
        /// failed.
        callbacks_refused = c"callbacks_refused";
        /// Replies to callbacks that were passed to sunrpc.
        callback_replies = c"callback_replies";
        /// Times that a Reply or an RDMA Read found its send queue full.
        send_queue_waits = c"send_queue_waits";
        /// Times that Reads or Replies of a connection waited because memory could not be mapped.
        mapping_waits = c"mapping_waits";
        /// Calls that waited for pages for their Read chunks.
        page_waits = c"page_waits";
        /// Times that nfsd left the Calls of a connection in the inbox because Replies held too many
        /// pages.
        reply_waits = c"reply_waits";
    }
}

host_counters! {
    /// Present connections of all network namespaces.
    HOST_CONNECTIONS = c"host_connections";
    /// Present listeners of all network namespaces.
    HOST_LISTENERS = c"host_listeners";
    /// Allocations by nfsd threads for Replies, because the pool was empty or down to its reserve.
    POOL_MISSES = c"pool_misses";
}

impl Namespaced for Counters {
    fn new(namespace: Namespace) -> Result<Arc<Self>> {
        Arc::pin_init(Self::of(namespace)?, GFP_KERNEL)
    }
}

impl Files for Counters {
    const PATH: &'static CStr = c"sunrpc/svcrdma";

    fn files(&self) -> Result<KVec<Entry<'_>>> {
        let mut files = KVec::new();
        self.add_to(&mut files)?;
        let (counters, limits) = if self.namespace.is_initial {
            (HOST_COUNTERS, settings::LIMITS)
        } else {
            (&[] as &[_], settings::SHOWN_LIMITS)
        };
        for entry in [counters, limits].iter().copied().flatten() {
            files.push(*entry, GFP_KERNEL)?;
        }
        let name = c"accept_from";
        let value = Value::Text(TextRef::new(&self.accept_from));
        files.push(Entry { name, value }, GFP_KERNEL)?;
        Ok(files)
    }

    fn refresh(&self) {
        self.add_up();
    }
}

/// The numbers of the connections of a namespace. A spinlock protects them, a leaf.
struct Tallies {
    /// The numbers of the connections that exist.
    present: KVec<Arc<Tally>>,
    /// The sums of the numbers of all others.
    past: KBox<Tally>,
    /// The sums of all numbers, when they were last asked for.
    sum: KBox<Tally>,
}

impl Tallies {
    fn new() -> Result<Self> {
        Ok(Self {
            present: KVec::new(),
            past: KBox::new(Tally::default(), GFP_KERNEL)?,
            sum: KBox::new(Tally::default(), GFP_KERNEL)?,
        })
    }

    /// Returns the sums of the numbers of all connections.
    fn sum(&self) -> &Tally {
        self.sum.set(&self.past);
        self.present.iter().for_each(|tally| self.sum.add(tally));
        &self.sum
    }

    /// Adds the numbers of a new connection. Returns false if there is no room.
    fn add(&mut self, tally: &Arc<Tally>) -> bool {
        self.present.push_within_capacity(tally.clone()).is_ok()
    }

    /// Moves the numbers to `larger`, if that has more room. Returns the memory that is left.
    fn grow(&mut self, mut larger: KVec<Arc<Tally>>) -> KVec<Arc<Tally>> {
        if larger.capacity() > self.present.capacity() {
            while let Some(tally) = self.present.pop() {
                // There is room, as was checked.
                let _ = larger.push_within_capacity(tally);
            }
            core::mem::swap(&mut self.present, &mut larger);
        }
        larger
    }

    /// Removes the numbers of a connection, which do not change any more, and keeps their sums.
    fn end(&mut self, tally: &Arc<Tally>) {
        let place = self.present.iter().position(|one| Arc::ptr_eq(one, tally));
        let last = self.present.len().saturating_sub(1);
        if let Some(place) = place {
            self.present.swap(place, last);
            self.past.add(tally);
            self.present.pop();
        }
    }
}

/// The numbers of a connection, as part of the counters of its namespace. Dropping it keeps their
/// sums there. The numbers live as long as the threads that change them.
pub(crate) struct Enrolled {
    tally: Arc<Tally>,
    counters: Arc<Counters>,
}

impl Enrolled {
    /// Adds the numbers of a new connection to `counters`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub(crate) fn new(counters: Arc<Counters>) -> Result<Self> {
        let tally = Arc::new(Tally::default(), GFP_KERNEL)?;
        loop {
            let room = {
                let mut tallies = counters.tallies.lock();
                if tallies.add(&tally) {
                    break;
                }
                tallies.present.capacity()
            };
            let larger = KVec::with_capacity(room.saturating_mul(2).max(16), GFP_KERNEL)?;
            let left = counters.tallies.lock().grow(larger);
            drop(left);
        }
        Ok(Self { tally, counters })
    }
}

impl Deref for Enrolled {
    type Target = Tally;

    #[inline]
    fn deref(&self) -> &Tally {
        &self.tally
    }
}

impl Drop for Enrolled {
    fn drop(&mut self) {
        self.counters.tallies.lock().end(&self.tally);
    }
}

/// A guard that counts one connection as present until it is dropped.
pub(crate) struct Counted(Arc<Counters>);

impl Counted {
    /// Counts a connection in `counters` and in the counters of the host.
    pub(crate) fn new(counters: Arc<Counters>) -> Self {
        counters.connections.inc();
        HOST_CONNECTIONS.inc();
        Self(counters)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.connections.dec();
        HOST_CONNECTIONS.dec();
    }
}
