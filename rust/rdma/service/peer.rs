// SPDX-License-Identifier: GPL-2.0

//! Peers, as their sessions see them.

use crate::{
    cm::Reads,
    device::Pd,
    mem::{
        exposure::{
            Exposure,
            Segment, //
        },
        page_region::PageRegion, //
    },
    send::buffer::SendBuffer,
    service::{
        job::Job,
        service::Outcome,
        transfer::Transfer, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};
use support::addr::Addr;

/// The peer of a connection: takes jobs.
///
/// A job owns its memory until [`Session::completed`](crate::service::service::Session::completed) gets
/// it back. Jobs are posted in the order in which they are asked for. If the connection ends, the memory
/// is freed, once no device and no peer reaches it any more.
///
/// # Context
///
/// Functions run in process context. They do not sleep, unless a page region has an older mapping (see
/// [`PageRegion::unmap`]) or they return an error.
///
/// # Errors
///
/// All functions that ask for a job fail if the session has asked for more jobs than
/// [`Capacity`](crate::service::service::Capacity) has. The error is a reason to close the connection.
pub struct Peer<T> {
    pd: Arc<Pd>,
    address: Addr,
    reads: Reads,
    /// Jobs that are not posted yet. The capacity is that of all jobs.
    jobs: KVec<Job<T>>,
    /// Jobs that the session may ask for.
    left: usize,
}

impl<T> Peer<T> {
    /// Allocates the peer, which can have `jobs` jobs. May sleep.
    pub(super) fn new(pd: Arc<Pd>, address: Addr, reads: Reads, jobs: usize) -> Result<Self> {
        Ok(Self {
            pd,
            address,
            reads,
            jobs: KVec::with_capacity(jobs, GFP_KERNEL)?,
            left: jobs,
        })
    }

    /// Returns the protection domain of the connection, for buffers, page regions and exposures. The removal
    /// of the device waits until all of these are dropped.
    pub fn pd(&self) -> &Arc<Pd> {
        &self.pd
    }

    /// Returns the address of the peer.
    pub fn address(&self) -> &Addr {
        &self.address
    }

    /// Returns the numbers of RDMA Reads that may be in flight. If `issued` is 0, the peer serves none; if
    /// `served` is 0, it cannot read what is exposed.
    pub fn reads(&self) -> Reads {
        self.reads
    }

    /// Sends the first `len` bytes of `buffer`, at most a page.
    ///
    /// # Errors
    ///
    /// See [`Peer`].
    pub fn send(&mut self, buffer: SendBuffer, len: usize) -> Outcome {
        self.add(Job::Send(buffer, len))
    }

    /// Reads the `segments` of the peer into `region`, from its first byte on, by RDMA Read. The segments
    /// have at least one byte together, and no more bytes than the region. The region has fresh pages and,
    /// on iWARP, a memory region: [`PageRegion::for_exposure`] makes both. Otherwise the connection is
    /// closed.
    ///
    /// A device without addresses for the pages delays the job, and those behind it.
    ///
    /// # Errors
    ///
    /// See [`Peer`]. Also if the peer serves no RDMA Reads.
    pub fn read(&mut self, region: KBox<PageRegion>, segments: KVec<Segment>, tag: T) -> Outcome {
        if self.reads.issued == 0 {
            return Err("the peer serves no RDMA Reads");
        }
        let mut transfer = Transfer::new(region, segments);
        // An error is met again when the job is posted.
        let _ = transfer.map(&self.pd);
        self.add(Job::Read(transfer, tag))
    }

    /// Writes `region`, from its first byte on, to the `segments` of the peer, by RDMA Write. The segments
    /// have at least one byte together, and no more bytes than the region. Otherwise the connection is
    /// closed.
    ///
    /// A device without addresses for the pages delays the job, and those behind it.
    ///
    /// # Errors
    ///
    /// See [`Peer`].
    pub fn write(&mut self, region: KBox<PageRegion>, segments: KVec<Segment>, tag: T) -> Outcome {
        let mut transfer = Transfer::new(region, segments);
        // An error is met again when the job is posted.
        let _ = transfer.map(&self.pd);
        self.add(Job::Write(transfer, tag))
    }

    /// Lets the peer use the memory of `exposure`, a new one of this connection. A message that the session
    /// sends from now on may name its segments.
    ///
    /// # Errors
    ///
    /// See [`Peer`].
    pub fn expose<A>(&mut self, exposure: Exposure<A>, tag: T) -> Outcome {
        self.add(Job::Expose(exposure.any(), tag))
    }

    /// Ends the use of an exposure that a completed job has given back, [`Completed::Exposed`]. Another one
    /// closes the connection.
    ///
    /// [`Completed::Exposed`]: crate::service::job::Completed::Exposed
    ///
    /// # Errors
    ///
    /// See [`Peer`].
    pub fn revoke<A>(&mut self, exposure: Exposure<A>, tag: T) -> Outcome {
        self.add(Job::Revoke(exposure.any(), tag))
    }

    fn add(&mut self, job: Job<T>) -> Outcome {
        let left = self.left.checked_sub(1).ok_or("too many jobs")?;
        self.left = left;
        let added = self.jobs.push_within_capacity(job);
        added.map_err(|_| "too many jobs")
    }

    /// Takes the jobs to post, the oldest first.
    pub(super) fn take_jobs(&mut self) -> impl Iterator<Item = Job<T>> + '_ {
        self.jobs.drain_all()
    }

    /// Notes that a job has completed.
    pub(super) fn on_completed(&mut self) {
        self.left = self.left.saturating_add(1);
    }
}
