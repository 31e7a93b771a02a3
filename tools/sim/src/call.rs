// SPDX-License-Identifier: GPL-2.0

//! Calls of all forms.

use crate::compound::{self, Compound};
use bindings::{
    bytes_of,
    link::{Link, Region},
    Ptr,
};
use kernel::sim;

/// The form of a Call: where its arguments and results are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// All is inline.
    Inline,
    /// The data of a WRITE are in a Read chunk.
    Write,
    /// The data of a READ are in a Write chunk.
    Read,
    /// The whole results are in a Reply chunk.
    LongReply,
    /// The whole Call is in a Read chunk.
    Long,
    /// The results fit neither inline nor into the Reply chunk.
    Homeless,
    /// A Call of NFS 4 with several results.
    Compound,
    /// The results fill the longest message that the peer takes.
    Full,
}

impl Form {
    pub const ALL: [Self; 8] = [
        Self::Inline,
        Self::Write,
        Self::Read,
        Self::LongReply,
        Self::Long,
        Self::Homeless,
        Self::Compound,
        Self::Full,
    ];

    fn draw() -> Self {
        // Most Calls are WRITEs and READs.
        match sim::below(10) {
            7 => Self::Write,
            8 | 9 => Self::Read,
            n => Self::ALL[n as usize],
        }
    }

    /// Draws the lengths of the data that are sent and that are asked for.
    fn lens(self) -> (usize, usize) {
        // The largest one makes the pool allocate pages if several Calls have it.
        let sizes = [1, 1, 100, 1000, 5000, 20_000, 70_000, 900_000];
        let size = |count: u64| sizes[sim::below(count) as usize];
        match self {
            Self::Inline => (sim::below(900) as usize, sim::below(900) as usize),
            Self::Write => (size(7 + u64::from(sim::chance(256))).max(1024), 0),
            Self::Read => (0, size(7 + u64::from(sim::chance(32)))),
            Self::LongReply | Self::Homeless => (0, size(6).max(5000)),
            Self::Long => (size(6), sim::below(900) as usize),
            Self::Compound | Self::Full => (0, 0),
        }
    }
}

/// A Call that waits for its Reply.
pub struct Call {
    pub tag: u32,
    pub wanted: usize,
    pub since: u64,
    /// Its message is malformed.
    pub is_changed: bool,
    /// Its results fit nowhere, so that it is refused.
    pub is_homeless: bool,
    /// The keys of its Read chunk, its Write chunk and its Reply chunk, and of the Read chunk with the
    /// rest of the Call.
    keys: [Option<u32>; 4],
    pub compound: Option<Compound>,
}

impl Call {
    /// Makes a Call of any form. Returns it with its message.
    pub fn draw(link: Ptr<Link>, xid: u32) -> (Self, Vec<u8>) {
        Self::new(link, xid, Form::draw())
    }

    pub fn new(link: Ptr<Link>, xid: u32, form: Form) -> (Self, Vec<u8>) {
        if form == Form::Compound {
            return compound::draw(link, xid);
        }
        let (sent, mut wanted) = form.lens();
        if form == Form::Full {
            // Without the transport header and what precedes the data.
            wanted = link.get().longest - 28 - 32;
        }
        Self::sized(link, xid, form, sent, wanted)
    }

    /// Makes a Call with `sent` bytes of data that wants `wanted` bytes. Returns it with its message.
    pub fn sized(
        link: Ptr<Link>,
        xid: u32,
        form: Form,
        sent: usize,
        wanted: usize,
    ) -> (Self, Vec<u8>) {
        let tag = xid.wrapping_mul(77);
        let procedure = if form == Form::Write { 7 } else { 6 };
        let mut rpc = Vec::new();
        push(&mut rpc, &[xid, 0, 2, 100_003, 3, procedure, 0, 0, 0, 0]);
        push(&mut rpc, &[tag, wanted as u32, sent as u32]);
        let (position, mut data) = (rpc.len() as u32, bytes_of(tag, sent));
        if form != Form::Write {
            rpc.append(&mut data);
        }
        rpc.resize(padded(rpc.len()), 0);
        let is_long = form == Form::Long;
        let mut message = Vec::new();
        push(&mut message, &[xid, 1, 32, is_long.into()]);
        let rest = is_long.then(|| push_reads(link, &mut message, 0, core::mem::take(&mut rpc)));
        let mut keys = push_lists(link, &mut message, form, position, data, wanted);
        keys[3] = rest;
        message.extend_from_slice(&rpc);
        let mut call = Self::waiting(tag, wanted, keys);
        call.is_homeless = form == Form::Homeless;
        (call, message)
    }

    /// Returns a Call with these keys, which waits from now on.
    pub fn waiting(tag: u32, wanted: usize, keys: [Option<u32>; 4]) -> Self {
        Self {
            tag,
            wanted,
            since: sim::now(),
            is_changed: false,
            is_homeless: false,
            keys,
            compound: None,
        }
    }

    /// Returns the memory of the chunks, which is not valid any more.
    pub fn take_regions(self, link: &mut Link) -> [Option<Region>; 4] {
        self.keys.map(|key| key.map(|key| link.invalidate(key)))
    }

    pub fn invalidate(self, link: &mut Link) {
        if let Some(compound) = &self.compound {
            compound.take_regions(link);
        }
        drop(self.take_regions(link));
    }
}

pub fn padded(len: usize) -> usize {
    len.next_multiple_of(4)
}

pub fn push(message: &mut Vec<u8>, words: &[u32]) {
    message.extend(bindings::words(words));
}

/// Adds the three lists of chunks, behind a Read chunk at position zero if there is one. Returns the keys
/// of the chunks.
fn push_lists(
    link: Ptr<Link>,
    message: &mut Vec<u8>,
    form: Form,
    position: u32,
    data: Vec<u8>,
    wanted: usize,
) -> [Option<u32>; 4] {
    let mut keys = [None; 4];
    match form {
        Form::Inline | Form::Long | Form::Compound | Form::Full => push(message, &[0, 0, 0]),
        Form::Write => {
            keys[0] = Some(push_reads(link, message, position, data));
            push(message, &[0, 0, 0]);
        }
        Form::Read => {
            push(message, &[0, 1]);
            keys[1] = Some(push_chunk(link, message, padded(wanted)));
            push(message, &[0, 0]);
        }
        Form::LongReply => {
            push(message, &[0, 0, 1]);
            keys[2] = Some(push_chunk(link, message, padded(wanted) + 100));
        }
        Form::Homeless => {
            push(message, &[0, 0, 1]);
            keys[2] = Some(push_chunk(link, message, wanted / 2));
        }
    }
    keys
}

/// Adds a Read chunk, in some segments of one region.
pub fn push_reads(link: Ptr<Link>, message: &mut Vec<u8>, position: u32, bytes: Vec<u8>) -> u32 {
    let addr = 0x7000 + sim::below(5000);
    let (len, mut at) = (bytes.len(), 0);
    let key = link.get().register(Region {
        addr,
        bytes,
        is_sink: false,
    });
    while at < len {
        let part = match sim::below(3) {
            0 => (len - at).div_ceil(2),
            _ => len - at,
        };
        let remote = addr + at as u64;
        push(message, &[1, position, key, part as u32]);
        push(message, &[(remote >> 32) as u32, remote as u32]);
        at += part;
    }
    key
}

/// Adds a chunk that the server writes to, in up to two segments.
pub fn push_chunk(link: Ptr<Link>, message: &mut Vec<u8>, len: usize) -> u32 {
    let addr = 0x9000 + sim::below(5000);
    let key = link.get().register(Region {
        addr,
        bytes: vec![0xee; len],
        is_sink: true,
    });
    let first = match len > 1 && sim::chance(400) {
        true => len / 2,
        false => len,
    };
    let parts = [(0, first), (first, len - first)];
    let parts = parts.iter().filter(|part| part.1 > 0);
    push(message, &[parts.clone().count() as u32]);
    for (at, part) in parts {
        let remote = addr + *at as u64;
        push(
            message,
            &[key, *part as u32, (remote >> 32) as u32, remote as u32],
        );
    }
    key
}
