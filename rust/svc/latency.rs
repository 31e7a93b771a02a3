// SPDX-License-Identifier: GPL-2.0

//! Latency: how long the Calls of a connection, their RDMA Reads and their Replies take.
//!
//! One in [`PERIOD`] Calls is timed, because reading the clock costs as much as a few steps of a
//! Call. The period is a prime number, so that it does not follow the pattern of a client that
//! repeats a sequence of Calls.
//!
//! | latency | from | to |
//! |---|---|---|
//! | [`server`](Latency::server) | the Call was received | its Reply is posted |
//! | [`reads`](Latency::reads) | the first RDMA Read of the Call is posted | the last one has completed |
//! | [`sends`](Latency::sends) | the Reply is posted | its Send has completed |
//!
//! # Context
//!
//! Any; takes no lock. Each histogram is changed by one thread at a time.

use kernel::time::{
    Instant,
    Monotonic, //
};
use support::figure::Figure;
use svcrdma_proto::histogram::{
    bucket,
    BUCKETS, //
};

/// One in this number of Calls of a connection is timed.
pub(crate) const PERIOD: u32 = 61;

/// The time of an event of a timed Call; None if the Call is not timed.
pub(crate) type Stamp = Option<Instant<Monotonic>>;

/// A histogram of times, see [`bucket`].
#[derive(Default)]
pub(crate) struct Histogram([Figure<u64>; BUCKETS]);

impl Histogram {
    /// Counts the time since `since`. Does nothing for a Call that is not timed.
    #[inline]
    pub(crate) fn count(&self, since: Stamp) {
        if let Some(since) = since {
            self.count_from(since);
        }
    }

    /// Counts the time since `since`.
    #[cold]
    #[inline(never)]
    fn count_from(&self, since: Instant<Monotonic>) {
        let nanos = u64::try_from(since.elapsed().as_nanos()).unwrap_or(0);
        if let Some(count) = self.0.get(bucket(nanos / 1000)) {
            count.add(1);
        }
    }

    /// Returns the numbers of times in all buckets.
    pub(crate) fn counts(&self) -> impl Iterator<Item = u64> + '_ {
        self.0.iter().map(Figure::get)
    }

    /// Sets the numbers to those of `other`.
    fn set(&self, other: &Self) {
        for (mine, theirs) in self.0.iter().zip(other.counts()) {
            mine.set(theirs);
        }
    }

    /// Adds the numbers of `other`.
    fn add(&self, other: &Self) {
        for (mine, theirs) in self.0.iter().zip(other.counts()) {
            mine.add(theirs);
        }
    }
}

/// The latencies of a connection, or the sums of several connections.
#[derive(Default)]
pub(crate) struct Latency {
    /// Changed under the lock of the send queue.
    pub(crate) server: Histogram,
    /// Changed by the worker of the Send completion queue.
    pub(crate) reads: Histogram,
    /// Changed under the lock of the send queue.
    pub(crate) sends: Histogram,
}

impl Latency {
    /// Returns the histograms with their names.
    pub(crate) fn all(&self) -> [(&'static str, &Histogram); 3] {
        [
            ("server", &self.server),
            ("reads", &self.reads),
            ("sends", &self.sends),
        ]
    }

    /// Sets the numbers to those of `other`.
    pub(crate) fn set(&self, other: &Self) {
        for ((_, mine), (_, theirs)) in self.all().iter().zip(other.all()) {
            mine.set(theirs);
        }
    }

    /// Adds the numbers of `other`.
    pub(crate) fn add(&self, other: &Self) {
        for ((_, mine), (_, theirs)) in self.all().iter().zip(other.all()) {
            mine.add(theirs);
        }
    }
}
