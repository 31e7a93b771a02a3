// SPDX-License-Identifier: GPL-2.0

//! Jobs: the operations on page regions that a session asks for, as [`Work`] of a send queue.

use crate::{
    device::Pd,
    mem::{
        exposure::{
            Any,
            Exposure, //
        },
        page_region::PageRegion, //
    },
    send::{
        buffer::SendBuffer,
        chain::{
            Chain,
            Message, //
        },
        progress::Amount,
        work::{
            Built,
            Work, //
        },
    },
    service::transfer::{
        FromPeer,
        ToPeer,
        Transfer, //
    },
};
use core::{
    iter::Empty,
    ops::Range, //
};
use kernel::{
    prelude::*,
    sync::Arc, //
};

/// A job that the device has done, with the memory that it had.
#[must_use = "the memory of the job is lost"]
pub enum Completed<T> {
    /// The message is sent.
    Sent(SendBuffer),
    /// The bytes of the peer are in the page region, which is not mapped any more.
    Read(KBox<PageRegion>, T),
    /// The device needs the page region no more, which is not mapped any more. A message that is sent from
    /// now on arrives after the bytes.
    Written(KBox<PageRegion>, T),
    /// The peer may use the memory, and may have been doing so.
    Exposed(Exposure<Any>, T),
    /// The peer cannot use the page region any more, which is not mapped any more.
    Revoked(KBox<PageRegion>, T),
}

/// A job.
pub(super) enum Job<T> {
    /// Sends the first bytes of a buffer.
    Send(SendBuffer, usize),
    Read(Transfer<FromPeer>, T),
    Write(Transfer<ToPeer>, T),
    Expose(Exposure<Any>, T),
    Revoke(Exposure<Any>, T),
}

impl<T> Job<T> {
    /// Returns what the session gets when the device has done the job.
    ///
    /// # Errors
    ///
    /// The reason for which the connection is closed, if the peer may reach revoked memory.
    pub(super) fn complete(self) -> Result<Completed<T>, &'static str> {
        Ok(match self {
            Self::Send(buffer, _) => Completed::Sent(buffer),
            Self::Read(transfer, tag) => Completed::Read(transfer.into_region(), tag),
            Self::Write(transfer, tag) => Completed::Written(transfer.into_region(), tag),
            Self::Expose(exposure, tag) => Completed::Exposed(exposure, tag),
            Self::Revoke(exposure, tag) => match exposure.into_region() {
                Ok(region) => Completed::Revoked(region, tag),
                Err(_) => return Err("memory is not revoked"),
            },
        })
    }
}

impl<T: Send + Unpin + 'static> Work for Job<T> {
    type State = ();

    fn build<'m>(&'m self, (): &mut (), chain: &mut Chain<'_, 'm>, room: usize) -> Built {
        Built::from(match self {
            Self::Send(buffer, len) => {
                room > 0
                    && chain.send(Message {
                        buffer,
                        len: *len,
                        rest: None::<(&PageRegion, Empty<Range<usize>>)>,
                        invalidate: None,
                    })
            }
            Self::Read(transfer, _) => transfer.build(chain, room),
            Self::Write(transfer, _) => transfer.build(chain, room),
            Self::Expose(exposure, _) => chain.expose(exposure, room),
            Self::Revoke(exposure, _) => chain.revoke(exposure, room),
        })
    }

    fn map(&mut self, pd: &Arc<Pd>) -> Result<bool> {
        match self {
            Self::Read(transfer, _) => transfer.map(pd),
            Self::Write(transfer, _) => transfer.map(pd),
            // Send buffers and exposures are always mapped.
            Self::Send(..) | Self::Expose(..) | Self::Revoke(..) => Ok(false),
        }
    }

    fn unmap(&mut self) {
        match self {
            Self::Read(transfer, _) => transfer.unmap(),
            Self::Write(transfer, _) => transfer.unmap(),
            Self::Send(..) | Self::Expose(..) | Self::Revoke(..) => {}
        }
    }

    fn awaits_completion(&self) -> bool {
        true // The session waits for the memory.
    }

    fn amount(&self) -> Amount {
        let bytes = match self {
            // CAST: At most a page.
            Self::Send(_, len) => *len as u32,
            Self::Read(transfer, _) => transfer.bytes(),
            Self::Write(transfer, _) => transfer.bytes(),
            Self::Expose(..) | Self::Revoke(..) => 0,
        };
        Amount { bytes, filled: 0 }
    }
}
