// SPDX-License-Identifier: GPL-2.0

//! A Call with Write chunks and a Reply chunk, and checks of their contents after the reply.

use super::{
    bench::{begin, expect_quiet, reply_to, require, Bench},
    memory::Memory,
    replies::expected,
};
use crate::{
    compound::{Compound, Results},
    error::{Error, Result},
    message::{procedure, Message, Reply},
    peer::Peer, //
};
use svcrdma_proto::chunk::Segment;

/// A Call and its reply.
pub(super) struct Tried<'a> {
    file: &'a str,
    memory: Memory,
    message: Message,
    reply: Reply,
    /// The connection, which would otherwise end when the memory goes.
    _peer: Peer,
}

impl<'a> Tried<'a> {
    /// Makes a Call of `operations` on the file, followed by a GETATTR, with Write chunks and a
    /// Reply chunk of segments of these lengths.
    pub(super) fn new(
        bench: &'a Bench<'_>,
        writes: &[&[u32]],
        reply: Option<&[u32]>,
        operations: impl FnOnce(Compound) -> Compound,
    ) -> Result<Self> {
        let mut peer = bench.peer()?;
        let mut memory = Memory::of(&peer)?;
        let xid = peer.xid();
        let call = operations(Compound::at(xid, bench.file()))
            .getattr()
            .finish();
        let mut message = Message::inline(xid, call.inline);
        message.writes = writes
            .iter()
            .map(|lengths| memory.segments(lengths))
            .collect();
        message.reply = reply.map(|lengths| memory.segments(lengths));
        let reply = reply_to(&mut peer, &message)?;
        expect_quiet(&mut peer)?;
        Ok(Self {
            file: bench.file(),
            memory,
            message,
            reply,
            _peer: peer,
        })
    }

    /// Checks that the Write list was returned with these lengths and that nothing was written
    /// behind them.
    pub(super) fn written(&self, lengths: &[&[u32]]) -> Result {
        let offered = self.message.writes.iter().zip(lengths);
        let expected: Vec<Vec<Segment>> = offered
            .map(|(chunk, lengths)| with_lengths(chunk, lengths))
            .collect();
        require(
            self.reply.writes == expected,
            format!("the Write list was returned as {:?}", self.reply.writes),
        )?;
        for (chunk, lengths) in self.message.writes.iter().zip(lengths) {
            for (segment, &length) in chunk.iter().zip(*lengths) {
                let untouched = self.memory.is_untouched_behind(segment, length)?;
                require(untouched, "more bytes were written than reported")?;
            }
        }
        Ok(())
    }

    /// Checks that one Write chunk was returned and that it has no segments.
    pub(super) fn has_empty_write_chunk(&self) -> Result {
        require(
            self.reply.writes == [[]],
            format!("the Write list was returned as {:?}", self.reply.writes),
        )
    }

    /// Checks that Write chunk number `nth` holds `len` bytes of the file at `offset`.
    pub(super) fn holds(&self, nth: usize, offset: usize, len: usize) -> Result {
        self.holds_bytes(nth, &expected(offset, len))
    }

    /// Checks that Write chunk number `nth` holds `bytes`.
    pub(super) fn holds_bytes(&self, nth: usize, bytes: &[u8]) -> Result {
        let segments = self.reply.writes.get(nth).map_or(&[][..], Vec::as_slice);
        require(
            self.memory.content(segments)? == bytes,
            format!("wrong data in Write chunk {nth}"),
        )
    }

    /// Checks that the Reply chunk was returned empty.
    pub(super) fn reply_chunk_is_unused(&self) -> Result {
        let offered = self.message.reply.as_deref().unwrap_or_default();
        require(
            self.reply.reply == Some(with_lengths(offered, &vec![0; offered.len()])),
            format!("the Reply chunk was returned as {:?}", self.reply.reply),
        )
    }

    /// Returns the RPC message in the Reply chunk. Returns an error unless the reply is an
    /// RDMA_NOMSG whose chunk is filled in order.
    pub(super) fn reply_chunk(&self) -> Result<Vec<u8>> {
        let Some(written) = &self.reply.reply else {
            return Err(Error::new("the Reply chunk was not returned"));
        };
        let nomsg = self.reply.procedure == procedure::NOMSG && self.reply.body.is_empty();
        require(nomsg, "the reply is not an RDMA_NOMSG")?;
        let offered = self.message.reply.as_deref().unwrap_or_default();
        let lengths: Vec<u32> = written.iter().map(|segment| segment.length).collect();
        let in_order = fill(offered, lengths.iter().sum());
        require(
            *written == with_lengths(offered, &in_order),
            format!("the Reply chunk was returned as {written:?}"),
        )?;
        self.memory.content(written)
    }

    /// Checks the results of the reply: after the lookup of the file, those that `check` takes,
    /// then that of the GETATTR if there was no error, and nothing more.
    pub(super) fn results<T>(&self, check: impl FnOnce(&mut Results<'_>) -> Option<T>) -> Result {
        require(
            self.reply.procedure == procedure::MSG,
            "the reply is not an RDMA_MSG",
        )?;
        self.results_in(&self.reply.body, check)
    }

    /// Checks the results in the RPC message `body` like [`Self::results`].
    pub(super) fn results_in<T>(
        &self,
        body: &[u8],
        check: impl FnOnce(&mut Results<'_>) -> Option<T>,
    ) -> Result {
        let read = || {
            let mut results = Results::new(self.message.xid, body)?;
            results.at(self.file)?;
            check(&mut results)?;
            results.end()
        };
        require(read().is_some(), format!("wrong results: {}", begin(body)))
    }
}

/// Returns `segments` with these lengths.
fn with_lengths(segments: &[Segment], lengths: &[u32]) -> Vec<Segment> {
    let pairs = segments.iter().zip(lengths);
    pairs
        .map(|(&segment, &length)| Segment { length, ..segment })
        .collect()
}

/// Returns the number of bytes in each of `segments` when `total` bytes fill them in order.
fn fill(segments: &[Segment], total: u32) -> Vec<u32> {
    let mut rest = total;
    let take = |segment: &Segment| {
        let taken = segment.length.min(rest);
        rest -= taken;
        taken
    };
    segments.iter().map(take).collect()
}
