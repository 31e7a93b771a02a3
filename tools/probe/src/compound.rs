// SPDX-License-Identifier: GPL-2.0

//! Builds COMPOUNDs of NFS version 4 (RFC 7530, RFC 8881) whose data is moved to chunks, and parses
//! their results.
//!
//! READ and WRITE use the special stateids of RFC 7530, section 9.1.4.3, so they need no client ID.

use crate::{
    rpc,
    xdr::{Words, Xdr},
};

/// Operation numbers (RFC 7531).
pub(crate) mod operation {
    pub(crate) const CREATE: u32 = 6;
    pub(crate) const GETATTR: u32 = 9;
    pub(crate) const GETFH: u32 = 10;
    pub(crate) const LOOKUP: u32 = 15;
    pub(crate) const PUTROOTFH: u32 = 24;
    pub(crate) const READ: u32 = 25;
    pub(crate) const READLINK: u32 = 27;
    pub(crate) const REMOVE: u32 = 28;
    pub(crate) const WRITE: u32 = 38;
}

/// The file type of a regular file.
const NF4REG: u32 = 1;

/// The file type of a symbolic link.
const NF4LNK: u32 = 5;

/// The attribute bitmap of FATTR4_TYPE: a count of one word, and the word.
const TYPE: [u32; 2] = [1, 1 << 1];

/// A Call whose data is moved to Read chunks.
pub(crate) struct Call {
    /// The RPC message without the data.
    pub(crate) inline: Vec<u8>,
    /// The XDR position of each piece of data, ascending.
    pub(crate) positions: Vec<u32>,
}

/// A COMPOUND under construction.
pub(crate) struct Compound {
    message: Xdr,
    /// The offset of the operation count in `message`.
    count_at: usize,
    count: u32,
    positions: Vec<u32>,
    /// The bytes that were left out of `message`, XDR padding included.
    left_out: usize,
}

impl Compound {
    /// Starts a COMPOUND of this minor version, which has no operation yet.
    pub(crate) fn new(xid: u32, minor: u32) -> Self {
        // No tag.
        let message = rpc::compound_call(xid).words(&[0, minor]);
        Self {
            count_at: message.len(),
            message: message.word(0),
            count: 0,
            positions: Vec::new(),
            left_out: 0,
        }
    }

    /// Starts a COMPOUND of minor version 0 with PUTROOTFH.
    pub(crate) fn at_root(xid: u32) -> Self {
        Self::new(xid, 0).root()
    }

    /// Starts a COMPOUND of minor version 0 with the operations that look up `path`.
    pub(crate) fn at(xid: u32, path: &str) -> Self {
        Self::at_root(xid).lookup(path)
    }

    /// Adds a PUTROOTFH.
    pub(crate) fn root(self) -> Self {
        self.operation(operation::PUTROOTFH, |xdr| xdr)
    }

    /// Adds a LOOKUP for each component of `path`.
    pub(crate) fn lookup(self, path: &str) -> Self {
        components(path).fold(self, |compound, name| {
            compound.operation(operation::LOOKUP, |xdr| xdr.opaque(name.as_bytes()))
        })
    }

    /// Adds a READ with the stateid that bypasses locks and grace periods.
    pub(crate) fn read(self, offset: u64, count: u32) -> Self {
        self.operation(operation::READ, |xdr| {
            xdr.words(&[u32::MAX; 4]).hyper(offset).word(count)
        })
    }

    /// Adds a FILE_SYNC WRITE of `len` bytes, which are left out.
    pub(crate) fn write(self, offset: u64, len: u32) -> Self {
        // An all-zero stateid; FILE_SYNC.
        self.operation(operation::WRITE, |xdr| {
            xdr.words(&[0; 4]).hyper(offset).words(&[2, len])
        })
        .leave_out(len)
    }

    /// Adds a CREATE of the symbolic link `name`, whose text of `len` bytes is left out.
    pub(crate) fn create_link(self, name: &str, len: u32) -> Self {
        let mut compound = self
            .operation(operation::CREATE, |xdr| xdr.words(&[NF4LNK, len]))
            .leave_out(len);
        // No attributes.
        compound.message = compound.message.opaque(name.as_bytes()).words(&[0, 0]);
        compound
    }

    /// Adds a READLINK.
    pub(crate) fn readlink(self) -> Self {
        self.operation(operation::READLINK, |xdr| xdr)
    }

    /// Adds a REMOVE.
    pub(crate) fn remove(self, name: &str) -> Self {
        self.operation(operation::REMOVE, |xdr| xdr.opaque(name.as_bytes()))
    }

    /// Adds a GETFH.
    pub(crate) fn handle(self) -> Self {
        self.operation(operation::GETFH, |xdr| xdr)
    }

    /// Adds a GETATTR of the file type.
    pub(crate) fn getattr(self) -> Self {
        self.operation(operation::GETATTR, |xdr| xdr.words(&TYPE))
    }

    /// Fills in the operation count and returns the Call.
    pub(crate) fn finish(self) -> Call {
        let mut inline = self.message.into_bytes();
        inline[self.count_at..self.count_at + 4].copy_from_slice(&self.count.to_be_bytes());
        Call {
            inline,
            positions: self.positions,
        }
    }

    /// Adds an operation.
    pub(crate) fn operation(mut self, number: u32, arguments: impl FnOnce(Xdr) -> Xdr) -> Self {
        self.message = arguments(self.message.word(number));
        self.count += 1;
        self
    }

    /// Records that `len` bytes are left out at the current end of the message.
    fn leave_out(mut self, len: u32) -> Self {
        let position = self.message.len() + self.left_out;
        self.positions.push(position as u32);
        self.left_out += (len as usize).next_multiple_of(4);
        self
    }
}

/// Builds a COMPOUND that READs `count` bytes of the file at `path`.
pub(crate) fn read(xid: u32, path: &str, count: u32) -> Vec<u8> {
    Compound::at(xid, path).read(0, count).finish().inline
}

/// Builds a COMPOUND that GETATTRs the type of the root.
pub(crate) fn getattr(xid: u32) -> Vec<u8> {
    Compound::at_root(xid).getattr().finish().inline
}

/// Returns the components of `path`.
pub(crate) fn components(path: &str) -> impl Iterator<Item = &str> {
    path.split('/').filter(|name| !name.is_empty())
}

/// A reader of a COMPOUND's results, which takes one operation at a time.
///
/// All methods return `None` if the results are not the expected ones.
#[derive(Clone)]
pub(crate) struct Results<'a> {
    words: Words<'a>,
    status: u32,
}

impl<'a> Results<'a> {
    /// Creates a reader that starts behind the headers of `body`, the reply to the Call `xid`.
    pub(crate) fn new(xid: u32, body: &'a [u8]) -> Option<Self> {
        let mut words = rpc::results(xid, body)?;
        let status = words.word()?;
        words.opaque()?;
        // The operations themselves show how many there are.
        let _count = words.word()?;
        Some(Self { words, status })
    }

    /// Returns the words of the current operation's result.
    pub(crate) fn words(&mut self) -> &mut Words<'a> {
        &mut self.words
    }

    /// Returns the status of the COMPOUND, which is that of its last operation.
    pub(crate) fn last_status(&self) -> u32 {
        self.status
    }

    /// Takes the head of the next operation's result, which must be that of operation `number`.
    /// Returns its status.
    pub(crate) fn status(&mut self, number: u32) -> Option<u32> {
        (self.words.word()? == number).then_some(())?;
        self.words.word()
    }

    /// Takes the head of the next operation's result, which must be successful.
    pub(crate) fn good(&mut self, number: u32) -> Option<()> {
        (self.status(number)? == 0).then_some(())
    }

    /// Takes the results of PUTROOTFH and of LOOKUPs for `path`.
    pub(crate) fn at(&mut self, path: &str) -> Option<()> {
        self.good(operation::PUTROOTFH)?;
        components(path).try_for_each(|_| self.good(operation::LOOKUP))
    }

    /// Takes the results of a READ; returns its data.
    pub(crate) fn read(&mut self) -> Option<&'a [u8]> {
        self.good(operation::READ)?;
        let _end_of_file = self.words.word()?;
        self.words.opaque()
    }

    /// Takes the results of a READ of `len` bytes whose data is in a chunk.
    pub(crate) fn read_elsewhere(&mut self, len: u32) -> Option<()> {
        self.good(operation::READ)?;
        let _end_of_file = self.words.word()?;
        (self.words.word()? == len).then_some(())
    }

    /// Takes the results of a READLINK whose text of `len` bytes is in a chunk.
    pub(crate) fn link_elsewhere(&mut self, len: u32) -> Option<()> {
        self.good(operation::READLINK)?;
        (self.words.word()? == len).then_some(())
    }

    /// Takes the results of a GETFH; returns the file handle.
    pub(crate) fn handle(&mut self) -> Option<&'a [u8]> {
        self.good(operation::GETFH)?;
        self.words.opaque()
    }

    /// Takes the end of the results: that of a GETATTR of a regular file if all operations
    /// succeeded, nothing otherwise. No further results may follow.
    pub(crate) fn end(&mut self) -> Option<()> {
        if self.status == 0 {
            self.good(operation::GETATTR)?;
            let attributes = [TYPE[0], TYPE[1], 4, NF4REG];
            for word in attributes {
                (self.words.word()? == word).then_some(())?;
            }
        }
        self.words.word().is_none().then_some(())
    }

    /// Takes the results of a WRITE; returns the count.
    pub(crate) fn write(&mut self) -> Option<u32> {
        self.good(operation::WRITE)?;
        let count = self.words.word()?;
        // Stability level and verifier.
        self.words.skip(3)?;
        Some(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_out_counts_with_its_pad() {
        let call = Compound::at(7, "/a/b").write(0, 5).write(8, 4).finish();
        // The operation number, stateid, offset, stability level and count of the second WRITE.
        let between = 4 + 16 + 8 + 4 + 4;
        assert_eq!(call.positions[1] - call.positions[0], 8 + between);
        assert_eq!(call.positions[0] + between, call.inline.len() as u32);
    }

    #[test]
    fn a_link_has_its_name_behind_its_text() {
        let call = Compound::at_root(7).create_link("l", 3).finish();
        let end = Xdr::new().opaque(b"l").words(&[0, 0]).into_bytes();
        assert!(call.inline.ends_with(&end));
        assert_eq!(call.positions, [(call.inline.len() - end.len()) as u32]);
    }

    #[test]
    fn getattr_ends_with_its_operations() {
        let ends = Xdr::new().words(&[2, 24, 9, 1, 2]).into_bytes();
        assert!(getattr(1).ends_with(&ends));
    }

    #[test]
    fn operations_are_counted() {
        let call = Compound::at(7, "a").read(0, 1).getattr().finish();
        let head = rpc::compound_call(7).words(&[0, 0, 4, 24]).into_bytes();
        assert!(call.inline.starts_with(&head));
    }

    #[test]
    fn results_end_with_a_type() {
        let end = |status: u32, words: &[u32]| {
            let body = Xdr::new().words(&[7, 1, 0, 0, 0, 0, status, 0, 1]);
            let body = body.words(words).into_bytes();
            Results::new(7, &body).unwrap().end()
        };
        assert_eq!(end(0, &[9, 0, 1, 2, 4, 1]), Some(()));
        assert_eq!(end(0, &[9, 0, 1, 2, 4, 2]), None);
        assert_eq!(end(0, &[0, 9, 0, 1, 2, 4, 1]), None);
        assert_eq!(end(0, &[9, 0, 1, 2, 4, 1, 0]), None);
        assert_eq!(end(0, &[]), None);
        assert_eq!(end(22, &[]), Some(()));
        assert_eq!(end(22, &[0]), None);
    }

    #[test]
    fn results_are_read_in_order() {
        let body = Xdr::new()
            // Accepted, no verifier, success; status, no tag, three operations.
            .words(&[7, 1, 0, 0, 0, 0, 0, 0, 3])
            .words(&[24, 0, 25, 0, 1])
            .opaque(b"abc")
            .words(&[25, 0, 1, 9])
            .into_bytes();
        let mut results = Results::new(7, &body).unwrap();
        assert_eq!(results.at(""), Some(()));
        assert_eq!(results.read(), Some(&b"abc"[..]));
        let mut other = results.clone();
        assert_eq!(other.read_elsewhere(8), None);
        assert_eq!(results.read_elsewhere(9), Some(()));
        assert_eq!(results.read(), None);
        assert!(Results::new(8, &body).is_none());
    }
}
