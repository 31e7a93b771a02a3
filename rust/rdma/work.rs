// SPDX-License-Identifier: GPL-2.0

//! Work for a send queue: what a [`SendQueue`](super::send_queue::SendQueue) takes, and what it remembers of it.

use crate::{
    chain::Chain,
    memory_region::Claim, //
    progress::Amount,
};

/// The progress of building the work requests of some work.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Built {
    /// The chain has the last work request.
    All,
    /// More work requests follow, in a later chain.
    More,
}

impl From<bool> for Built {
    /// Converts "this is all of it".
    fn from(is_all: bool) -> Self {
        match is_all {
            true => Self::All,
            false => Self::More,
        }
    }
}

/// Work that a `SendQueue` posts.
pub trait Work: Send + 'static {
    /// Data that is needed until the last work request is built, and not by the device. It is dropped
    /// before that is posted, under a lock: this does not sleep, and does not come back here.
    type Source: Send;

    /// Adds work requests to the chain, which may then have at most `room` of them.
    fn build<'m>(&'m self, source: &Self::Source, chain: &mut Chain<'_, 'm>, room: usize) -> Built;

    /// Returns true if something waits for its completion, so that it must not go unsignalled.
    fn holds_resources(&self) -> bool;

    /// How much it moves.
    fn amount(&self) -> Amount;
}

/// Work that waits.
pub(super) struct Job<W: Work> {
    pub(super) work: W,
    /// When its first work request was posted, in seconds of the `SendQueue`.
    pub(super) since: Option<u32>,
    /// Until all is built.
    pub(super) source: Option<W::Source>,
    pub(super) claim: Claim,
}

/// Work that is posted.
pub(super) struct Posted<W> {
    pub(super) work: W,
    pub(super) claim: Claim,
}
