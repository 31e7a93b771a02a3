// SPDX-License-Identifier: GPL-2.0

//! `call`: makes the RPC Call that it reads from standard input, and prints the reply and where it
//! arrived.

use crate::{
    error::{Error, Result},
    ffi::Region,
    message::{procedure, Answer, Message, Reply},
    output::{Format, Output},
    peer::{Incoming, Params, Peer},
    run::Run,
    target::Server,
    xdr::Words, //
};
use std::io::{self, Read};
use svcrdma_proto::{chunk::Segment, cm};

/// Make the RPC Call from standard input, and print the reply and where it arrived
///
/// Prints JSON in every format. Its fields are the bytes of the reply, in hexadecimal, and where they
/// arrived: inline or in the Reply chunk, and in the Write chunk.
#[derive(Debug, clap::Args)]
pub(crate) struct Call {
    #[command(flatten)]
    server: Server,
    /// Bytes of a Write chunk to offer; 0: none
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    write: u32,
    /// Bytes of a Reply chunk to offer; 0: none
    #[arg(long, value_name = "BYTES", default_value_t = 0)]
    reply: u32,
}

impl Run for Call {
    /// Returns JSON, as the results have no other form.
    fn format(&self) -> Format {
        Format::Json
    }

    fn run(&self, output: &mut Output) -> Result {
        let mut call = Vec::new();
        io::stdin()
            .read_to_end(&mut call)
            .map_err(|error| Error::os("standard input", error))?;
        let xid = Words::new(&call)
            .word()
            .ok_or_else(|| Error::unavailable("no Call on standard input"))?;
        let mut peer = Peer::connect(&self.server.target()?, Params::default())?;
        let write = Chunk::new(&peer, self.write)?;
        let reply = Chunk::new(&peer, self.reply)?;
        let mut message = Message::inline(xid, call);
        message.writes.extend(write.as_ref().map(Chunk::segments));
        message.reply = reply.as_ref().map(Chunk::segments);
        fits(&peer, &message)?;
        match peer.exchange(&message)? {
            Incoming::Answer(Answer::Reply(answer)) => {
                print(output, &answer, write.as_ref(), reply.as_ref())?;
            }
            other => return Err(Error::new(format!("answered with {other:?}"))),
        }
        peer.disconnect()
    }
}

/// Returns an error if `message` is longer than the server accepts.
fn fits(peer: &Peer, message: &Message) -> Result<()> {
    let (len, most) = (
        message.encode().len(),
        cm::Peer::parse(peer.private_data()).receive as usize,
    );
    if len <= most {
        Ok(())
    } else {
        Err(Error::unavailable(format!(
            "the message has {len} bytes, but the server accepts only {most}"
        )))
    }
}

/// Prints the answer, with bytes in hexadecimal.
fn print(
    output: &mut Output,
    answer: &Reply,
    write: Option<&Chunk>,
    reply: Option<&Chunk>,
) -> Result {
    let written = write.map(|chunk| chunk.content(answer.writes.first()));
    let is_whole = answer.procedure == procedure::MSG;
    let body = match reply {
        Some(chunk) if !is_whole => chunk.content(answer.reply.as_ref())?,
        _ => answer.body.clone(),
    };
    output.set("inline", is_whole);
    output.set("reply", hex::encode(&body));
    output.set("written", written.transpose()?.map(hex::encode));
    Ok(())
}

/// A chunk of one segment.
struct Chunk(Region);

impl Chunk {
    /// Allocates a chunk of `len` bytes; returns `None` if `len` is 0.
    fn new(peer: &Peer, len: u32) -> Result<Option<Self>> {
        match len {
            0 => Ok(None),
            _ => peer.region(len as usize).map(|region| Some(Self(region))),
        }
    }

    fn segments(&self) -> Vec<Segment> {
        vec![Segment {
            handle: self.0.rkey(),
            // CAST: `new` takes the length as a `u32`.
            length: self.0.len() as u32,
            offset: self.0.address(),
        }]
    }

    /// Returns the bytes that the server has written, according to the segments in its reply.
    fn content(&self, used: Option<&Vec<Segment>>) -> Result<Vec<u8>> {
        match used.map(Vec::as_slice) {
            Some([segment]) => self.0.read(0, segment.length as usize),
            other => Err(Error::new(format!("a chunk was returned as {other:?}"))),
        }
    }
}
