// SPDX-License-Identifier: GPL-2.0

//! Requests to families of generic netlink: the few that svcrdmactl needs.
//!
//! A message is a header of netlink (16 bytes: length, type, flags, sequence number, port), one of
//! generic netlink (4 bytes: command, version) and attributes. An attribute is a length and a type of
//! 16 bits each, and its content, padded to 4 bytes. All numbers are in the byte order of the host.

use rustix::{
    io::Errno,
    net::{
        netlink::{
            SocketAddrNetlink,
            GENERIC, //
        },
        recv,
        sendto,
        socket_with,
        AddressFamily,
        RecvFlags,
        SendFlags,
        SocketFlags,
        SocketType, //
    },
};
use std::os::fd::OwnedFd;

/// Bytes of the header of netlink, and of both headers.
const HEADER: usize = 16;
const HEADERS: usize = HEADER + 4;
/// Types of messages: an error or an acknowledgement, and requests to the family of families.
const ERROR: u16 = 2;
const CONTROL: u16 = 16;
/// The flag of a request.
const REQUEST: u16 = 1;
/// The command that looks up a family, and its attributes.
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// Flag in the type of an attribute that contains attributes.
#[cfg(any(test, feature = "test-root"))]
const NESTED: u16 = 0x8000;
/// The mask that removes such flags.
const TYPE: u16 = 0x3fff;
/// The longest answer: the kernel's are not longer than a few pages.
const LONGEST: usize = 65536;

/// Attributes that are being written.
#[derive(Debug, Default)]
pub(crate) struct Attributes(Vec<u8>);

impl Attributes {
    /// Appends an attribute. One that is too long for its length field is left out.
    pub(crate) fn push(&mut self, kind: u16, content: &[u8]) {
        if let Ok(length) = u16::try_from(content.len() + 4) {
            self.0.extend_from_slice(&length.to_ne_bytes());
            self.0.extend_from_slice(&kind.to_ne_bytes());
            self.0.extend_from_slice(content);
            self.0.resize(self.0.len().next_multiple_of(4), 0);
        }
    }

    /// Appends an attribute with a text.
    pub(crate) fn push_text(&mut self, kind: u16, text: &str) {
        self.push(kind, &[text.as_bytes(), &[0]].concat());
    }

    /// Appends an attribute with attributes.
    #[cfg(any(test, feature = "test-root"))]
    pub(crate) fn push_nested(&mut self, kind: u16, attributes: &Attributes) {
        self.push(kind | NESTED, &attributes.0);
    }

    /// Returns the attributes as bytes.
    #[cfg(any(test, feature = "test-root"))]
    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }

    /// Returns the message to a family with these attributes.
    fn message(&self, family: u16, flags: u16, command: u8) -> Vec<u8> {
        let length = u32::try_from(HEADERS + self.0.len()).unwrap_or(u32::MAX);
        let mut message = length.to_ne_bytes().to_vec();
        message.extend_from_slice(&family.to_ne_bytes());
        message.extend_from_slice(&flags.to_ne_bytes());
        // Sequence number 1; the port is the socket's.
        message.extend_from_slice(&1u32.to_ne_bytes());
        message.extend_from_slice(&0u32.to_ne_bytes());
        message.extend_from_slice(&[command, 1, 0, 0]);
        message.extend_from_slice(&self.0);
        message
    }
}

/// Returns types and contents of attributes. Ends at the first one that is damaged.
pub(crate) fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(number(bytes, 0)?);
        let kind = number(bytes, 2)? & TYPE;
        let content = bytes.get(4..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or(&[]);
        Some((kind, content))
    })
}

/// Returns the number of 16 bits at byte `at`.
pub(crate) fn number(bytes: &[u8], at: usize) -> Option<u16> {
    let bytes = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_ne_bytes(*bytes))
}

/// Returns the attributes of an answer.
///
/// # Errors
///
/// The error of the kernel, or `EBADMSG` if the answer cannot be decoded.
fn answer(message: &[u8]) -> Result<&[u8], Errno> {
    if number(message, 4) != Some(ERROR) {
        let length = message
            .first_chunk()
            .map(|length| u32::from_ne_bytes(*length));
        let length = length.and_then(|length| usize::try_from(length).ok());
        let length = length.ok_or(Errno::BADMSG)?;
        return message.get(HEADERS..length).ok_or(Errno::BADMSG);
    }
    let error = message.get(HEADER..).and_then(<[u8]>::first_chunk);
    match i32::from_ne_bytes(*error.ok_or(Errno::BADMSG)?) {
        0 => Ok(&[]),
        error => Err(Errno::from_raw_os_error(error.saturating_neg())),
    }
}

/// A family of generic netlink.
#[derive(Debug)]
pub(crate) struct Family {
    socket: OwnedFd,
    id: u16,
}

impl Family {
    /// Looks a family up by its name.
    ///
    /// # Errors
    ///
    /// `ENOENT` if the kernel has no such family.
    pub(crate) fn find(name: &str) -> Result<Self, Errno> {
        let socket = socket_with(
            AddressFamily::NETLINK,
            SocketType::RAW,
            SocketFlags::CLOEXEC,
            Some(GENERIC),
        )?;
        let mut control = Self {
            socket,
            id: CONTROL,
        };
        let mut name_of = Attributes::default();
        name_of.push_text(FAMILY_NAME, name);
        let answer = control.get(GET_FAMILY, &name_of)?;
        let id = attributes(&answer).find(|(kind, _)| *kind == FAMILY_ID);
        control.id = id.and_then(|(_, id)| number(id, 0)).ok_or(Errno::BADMSG)?;
        Ok(control)
    }

    /// Runs a command that is answered with attributes.
    pub(crate) fn get(&self, command: u8, attributes: &Attributes) -> Result<Vec<u8>, Errno> {
        self.exchange(&attributes.message(self.id, REQUEST, command))
    }

    /// Sends a message, and returns the attributes of the answer.
    fn exchange(&self, message: &[u8]) -> Result<Vec<u8>, Errno> {
        let kernel = SocketAddrNetlink::new(0, 0);
        sendto(&self.socket, message, SendFlags::empty(), &kernel)?;
        let mut bytes = vec![0; LONGEST];
        let (length, _) = recv(&self.socket, &mut bytes[..], RecvFlags::empty())?;
        answer(bytes.get(..length).unwrap_or(&[])).map(<[u8]>::to_vec)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_have_headers_and_padded_attributes() {
        let mut inner = Attributes::default();
        inner.push_text(2, "rdma");
        let mut outer = Attributes::default();
        outer.push_nested(1, &inner);
        let message = outer.message(0x1c, REQUEST, 6);
        let little: &[u8] = &[
            36, 0, 0, 0, 0x1c, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 6, 1, 0, 0, // headers
            16, 0, 1, 0x80, 9, 0, 2, 0, b'r', b'd', b'm', b'a', 0, 0, 0, 0,
        ];
        if cfg!(target_endian = "little") {
            assert_eq!(message, little);
        }
        let content = answer(&message).expect("attributes");
        let (kind, nested) = attributes(content).next().expect("an attribute");
        assert_eq!(kind, 1);
        assert_eq!(attributes(nested).next(), Some((2, &b"rdma\0"[..])));
        assert_eq!(attributes(nested).count(), 1);
    }

    #[test]
    fn damaged_attributes_end_the_list() {
        let list = |bytes: &[u8]| attributes(bytes).count();
        assert_eq!(list(&[]), 0);
        assert_eq!(list(&[4, 0, 1]), 0);
        assert_eq!(list(&[3, 0, 1, 0]), 0);
        assert_eq!(list(&[9, 0, 1, 0, 1, 2]), 0);
        assert_eq!(list(&[5, 0, 1, 0, 7]), 1);
    }

    #[test]
    fn answers_are_attributes_or_errors() {
        let error = |errno: i32| {
            let mut message = vec![0; HEADER];
            message[4] = 2;
            message.extend_from_slice(&errno.to_ne_bytes());
            answer(&message).map(<[u8]>::len)
        };
        assert_eq!(error(0), Ok(0));
        assert_eq!(error(-16), Err(Errno::BUSY));
        assert_eq!(answer(&[0; 3]), Err(Errno::BADMSG));
        assert_eq!(answer(&[255; 20]), Err(Errno::BADMSG));
        assert_eq!(answer(&[2, 0, 0, 0, 2, 0]), Err(Errno::BADMSG));
    }
}
