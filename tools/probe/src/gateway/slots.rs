// SPDX-License-Identifier: GPL-2.0

//! The memory for the chunks of Calls in flight.

use crate::{
    error::{Error, Result},
    ffi::Region,
    message::{procedure, Message, Reply},
    peer::Peer,
    scenario::whole, //
};
use std::collections::HashMap;
use svcrdma_proto::chunk::ReadSegment;

/// The chunks of one Call.
struct Slot {
    /// The Reply chunk.
    reply: Region,
    /// The position-zero Read chunk of the longest Call so far.
    call: Option<Region>,
}

/// The chunks of Calls in flight, and of Calls that were.
#[derive(Default)]
pub(super) struct Slots {
    in_flight: HashMap<u32, Slot>,
    idle: Vec<Slot>,
}

impl Slots {
    /// Returns the number of Calls in flight.
    pub(super) fn in_flight(&self) -> usize {
        self.in_flight.len()
    }

    /// Returns true if the Call `xid` is in flight.
    pub(super) fn has(&self, xid: u32) -> bool {
        self.in_flight.contains_key(&xid)
    }

    /// Builds the message for the Call `xid`, which offers a Reply chunk of `largest` bytes. A Call
    /// whose message would have more than `threshold` bytes becomes a position-zero Read chunk.
    pub(super) fn message(
        &mut self,
        peer: &Peer,
        xid: u32,
        call: Vec<u8>,
        limits: Sizes,
    ) -> Result<Message> {
        let mut slot = match self.idle.pop() {
            Some(slot) => slot,
            None => Slot {
                reply: peer.region(limits.largest)?,
                call: None,
            },
        };
        let mut message = Message::inline(xid, call);
        message.reply = Some(vec![whole(&slot.reply)]);
        if message.encode().len() > limits.threshold {
            slot.move_body(peer, &mut message)?;
        }
        self.in_flight.insert(xid, slot);
        Ok(message)
    }

    /// Returns the RPC message of `reply`, which may be in the Reply chunk. The Call is no longer in
    /// flight.
    pub(super) fn take_reply(&mut self, reply: Reply) -> Result<Vec<u8>> {
        let slot = self.take(reply.xid)?;
        let message = match (reply.procedure, reply.reply.as_deref()) {
            (procedure::MSG, _) => Ok(reply.body),
            (_, Some([segment])) => slot.reply.read(0, segment.length as usize),
            (_, other) => Err(Error::new(format!("a Reply chunk returned as {other:?}"))),
        };
        self.idle.push(slot);
        message
    }

    /// Ends a Call that has no reply.
    pub(super) fn give_up(&mut self, xid: u32) -> Result {
        let slot = self.take(xid)?;
        self.idle.push(slot);
        Ok(())
    }

    /// Takes the chunks of a Call in flight.
    fn take(&mut self, xid: u32) -> Result<Slot> {
        let slot = self.in_flight.remove(&xid);
        slot.ok_or_else(|| Error::new(format!("the server answers {xid:#x}, which is no Call")))
    }
}

impl Slot {
    /// Moves the body of `message` to a position-zero Read chunk (RFC 8166, section 3.5.5).
    fn move_body(&mut self, peer: &Peer, message: &mut Message) -> Result {
        let body = std::mem::take(&mut message.body);
        let has_room = |region: &Region| region.len() >= body.len();
        let region = match self.call.take().filter(has_room) {
            Some(region) => region,
            None => peer.region(body.len())?,
        };
        region.write(0, &body)?;
        let mut segment = whole(&region);
        // CAST: a record has at most 31 bits of bytes.
        segment.length = body.len() as u32;
        message.procedure = procedure::NOMSG;
        message.reads = vec![ReadSegment {
            position: 0,
            segment,
        }];
        self.call = Some(region);
        Ok(())
    }
}

/// The sizes of messages, in bytes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// The inline threshold of Calls.
    pub(super) threshold: usize,
    /// The largest RPC message.
    pub(super) largest: usize,
}
