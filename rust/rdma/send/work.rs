// SPDX-License-Identifier: GPL-2.0

//! Work: jobs for the send queue of a connection, and the state that a
//! [`SendQueue`](crate::send::queue::SendQueue) keeps of each.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use crate::{
    device::Pd,
    send::{
        chain::Chain,
        claim::Claim,
        progress::Amount, //
    },
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// The result of building work requests of a piece of work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Built {
    /// The chain contains the last work request of the work.
    All,
    /// More work requests follow in a later chain.
    More,
}

impl From<bool> for Built {
    /// Converts the answer to "does the chain contain the last work request?".
    fn from(is_all: bool) -> Self {
        if is_all {
            Self::All
        } else {
            Self::More
        }
    }
}

/// A piece of work of a ULP, such as a Reply: one or several work requests that complete together.
///
/// A [`SendQueue`](crate::send::queue::SendQueue) owns the work from
/// [`post`](crate::send::queue::SendGuard::post) until it gives the work back. So the memory that
/// the work requests name must belong to the work, or must never be freed.
///
/// # Context
///
/// All functions are called by functions of the `SendQueue`, under its spinlock. They must not
/// sleep and must not call the `SendQueue`.
///
/// # Examples
///
/// A reply that writes its result to the peer's memory and then sends a header. It may need several
/// chains, so it remembers how many bytes are written. `Cell` is enough, because the lock of the
/// `SendQueue` protects the work.
///
#[doc = "```ignore"]
#[doc = include_str!("../examples/uses/work.rs")]
#[doc = "```"]
pub trait Work: Send + Unpin + Sized + 'static {
    /// Data of the ULP that the spinlock of the `SendQueue` protects.
    type State: Send + Unpin;

    /// Adds work requests to the empty `chain`, at most `room` of them. They are posted next, and the
    /// peer may see them, so `state` is brought up to date here.
    ///
    /// Called with a new chain until it returns [`Built::All`]. If the first call adds no work request
    /// although `room` is not 0, [`Self::map`] is called, and this again. Any other call must add one:
    /// posting fails with `E2BIG` otherwise, because the work could never be posted.
    fn build<'m>(
        &'m self,
        state: &mut Self::State,
        chain: &mut Chain<'_, 'm>,
        room: usize,
    ) -> Built;

    /// Maps memory of the work for the device of `pd`, if it is not mapped. Returns false if all of
    /// it was mapped already. No work request of the work was posted.
    ///
    /// A ULP maps memory before it posts work, outside of the lock. It posts the work also if that
    /// has failed for lack of memory.
    ///
    /// # Errors
    ///
    /// - `ENOMEM` if the memory cannot be mapped now. The work waits.
    /// - Any other error. Nothing more is posted.
    fn map(&mut self, pd: &Arc<Pd>) -> Result<bool>;

    /// Unmaps all memory of the work. No work request of it was posted. [`Self::map`] maps the memory
    /// again. Must not sleep.
    ///
    /// Called for work that waits behind work whose memory cannot be mapped.
    fn unmap(&mut self);

    /// Returns true if the last work request must be signalled, because the work holds resources that
    /// others may need, or because the time of its completion matters. A few successive pieces of
    /// work that return false may be unsignalled; a later completion gives them back.
    fn awaits_completion(&self) -> bool;

    /// Returns the bytes and pages that the work moves.
    fn amount(&self) -> Amount;
}

/// Work that waits to be posted, or is posted in part.
pub(crate) struct Job<W: Work> {
    pub(crate) work: W,
    /// Time of posting of its first work request, in seconds of the `SendQueue`.
    pub(crate) since: Option<u32>,
    /// True once [`Work::map`] has mapped memory.
    pub(crate) is_mapped: bool,
    pub(crate) claim: Claim,
}

impl<W: Work> Job<W> {
    /// Returns work that is not posted yet.
    #[inline]
    pub(crate) fn new(work: W) -> Self {
        Self {
            work,
            since: None,
            is_mapped: false,
            claim: Claim::none(),
        }
    }
}
