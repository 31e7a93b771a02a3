// SPDX-License-Identifier: GPL-2.0

//! The memory that the example ULP `rdma_expose` exposes: uses that it allows, and uses that must end
//! their connection and nothing else.

use crate::{
    error::{Error, Result},
    ffi::{Rdma, Region, Remote},
    idle::{holding, wait_for_end},
    message::Answer,
    output::Output,
    peer::{Incoming, Params, Peer, PATIENCE},
    target::Target, //
};

/// Bytes that are exposed. The last page is exposed in part.
const LEN: usize = 5000;

/// The largest part of the memory that a revocation is answered with.
const SHOWN: usize = 4096;

/// Bytes of a small access, which lies in one page on both sides.
const SMALL: usize = 8;

/// Memory that the server exposes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Offer {
    key: u32,
    addr: u64,
    len: usize,
}

impl Offer {
    /// Returns the memory from byte `at` on.
    fn at(self, at: usize) -> Remote {
        Remote {
            key: self.key,
            addr: self.addr.wrapping_add(at as u64),
        }
    }
}

/// A connection that uses exposed memory.
struct User {
    peer: Peer,
    /// Memory of this side, as large as the server's.
    local: Region,
}

/// The memory of the server as it is exposed.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|at| at as u8).collect()
}

/// The bytes that this side writes.
fn own(len: usize) -> Vec<u8> {
    (0..len).map(|at| !(at as u8)).collect()
}

impl User {
    fn connect(to: &Target) -> Result<Self> {
        let params = Params {
            own_reads: 4,
            ..Params::default()
        };
        let peer = Peer::connect(to, params)?;
        let local = peer.region(2 * LEN)?;
        Ok(Self { peer, local })
    }

    /// Sends `message` and returns the bytes of the answer.
    fn ask(&mut self, message: &[u8]) -> Result<Vec<u8>> {
        self.peer.send_bytes(message)?;
        self.answer(message)
    }

    /// Waits for the answer to `message`.
    fn answer(&mut self, message: &[u8]) -> Result<Vec<u8>> {
        match self.peer.receive(PATIENCE)? {
            Incoming::Answer(Answer::Malformed(bytes)) => Ok(bytes),
            other => {
                let message = message.escape_ascii();
                Err(Error::new(format!("{other:?} after \"{message}\"")))
            }
        }
    }

    /// Asks the server to expose `len` bytes: `r` for reading, `w` for writing, `b` for both.
    fn expose(&mut self, access: u8, len: usize) -> Result<Offer> {
        let mut command = b"expose".to_vec();
        command.push(access);
        command.extend((len as u32).to_be_bytes());
        let answer = self.ask(&command)?;
        let offer = offer(&answer).filter(|offer| offer.len == len);
        offer.ok_or_else(|| Error::new(format!("{len} bytes are not exposed: {answer:?}")))
    }

    /// Takes the memory back. Returns the first bytes that it has then.
    fn revoke(&mut self) -> Result<Vec<u8>> {
        self.ask(b"revoke")
    }

    /// Gives the memory back by a Send With Invalidate. Returns the first bytes that it has then.
    fn give_back(&mut self, offer: Offer) -> Result<Vec<u8>> {
        let message = b"done";
        self.peer.send_bytes_invalidating(message, offer.key)?;
        self.answer(message)
    }

    /// Reads `len` bytes from byte `at` of the memory on.
    fn read(&mut self, offer: Offer, at: usize, len: usize) -> Result<Vec<u8>> {
        self.local.write(0, &vec![0; len])?;
        let is_done = self
            .peer
            .rdma(Rdma::Read, &self.local, 0, len, offer.at(at))?;
        succeeded(is_done, "RDMA Read")?;
        self.local.read(0, len)
    }

    /// Writes the bytes of this side from byte `at` of the memory on.
    fn write(&mut self, offer: Offer, at: usize, len: usize) -> Result<()> {
        self.local.write(0, &own(len))?;
        let is_done = self
            .peer
            .rdma(Rdma::Write, &self.local, 0, len, offer.at(at))?;
        succeeded(is_done, "RDMA Write")
    }

    /// Makes an access that the server must refuse, by the end of the connection.
    fn must_be_refused(mut self, rdma: Rdma, remote: Remote) -> Result<()> {
        self.local.write(0, &[0; SMALL])?;
        // On iWARP a Write completes when it is sent.
        if self.peer.rdma(rdma, &self.local, 0, SMALL, remote)? {
            match self.peer.receive(PATIENCE)? {
                Incoming::Closed => {}
                other => return Err(Error::new(format!("allowed: {rdma:?}, then {other:?}"))),
            }
        }
        equal(&self.local.read(0, SMALL)?, &[0; SMALL], "bytes were read")
    }

    /// Fails unless the connection lives and its memory can be used.
    fn is_alive(&mut self) -> Result<()> {
        let offer = self.expose(b'b', LEN)?;
        equal(&self.read(offer, 0, LEN)?, &pattern(LEN), "read")?;
        equal(&self.revoke()?, &pattern(SHOWN), "revoked")
    }
}

/// Returns the memory that an answer names.
fn offer(answer: &[u8]) -> Option<Offer> {
    let (key, rest) = answer.strip_prefix(b"exposed")?.split_first_chunk()?;
    let (addr, rest) = rest.split_first_chunk()?;
    let len = rest.try_into().ok()?;
    Some(Offer {
        key: u32::from_be_bytes(*key),
        addr: u64::from_be_bytes(*addr),
        len: u32::from_be_bytes(len) as usize,
    })
}

fn succeeded(is_done: bool, what: &str) -> Result<()> {
    if is_done {
        Ok(())
    } else {
        Err(Error::new(format!("{what} has failed")))
    }
}

fn equal(seen: &[u8], expected: &[u8], what: &str) -> Result<()> {
    if seen == expected {
        return Ok(());
    }
    let at = seen.iter().zip(expected).position(|(a, b)| a != b);
    Err(Error::new(format!(
        "{what}: {} bytes instead of {}, which differ from {at:?} on",
        seen.len(),
        expected.len()
    )))
}

/// Makes all allowed uses on one connection.
fn allowed(user: &mut User) -> Result<()> {
    let first = user.expose(b'r', LEN)?;
    equal(&user.read(first, 0, LEN)?, &pattern(LEN), "read")?;
    equal(
        &user.read(first, LEN - SMALL, SMALL)?,
        &pattern(LEN)[LEN - SMALL..],
        "end",
    )?;
    equal(&user.revoke()?, &pattern(SHOWN), "revoked after reading")?;

    let second = user.expose(b'w', LEN)?;
    if second.key == first.key || second.addr == first.addr {
        return Err(Error::new(format!("{first:?} again: {second:?}")));
    }
    user.write(second, 0, LEN)?;
    equal(&user.revoke()?, &own(SHOWN), "revoked after writing")?;

    let third = user.expose(b'b', LEN)?;
    user.write(third, 0, LEN)?;
    equal(
        &user.read(third, 0, LEN)?,
        &own(LEN),
        "read what was written",
    )?;
    equal(&user.give_back(third)?, &own(SHOWN), "given back")?;
    // There is no such memory, or too much is asked for: the command comes back.
    equal(&user.revoke()?, b"revoke", "revoked twice")?;
    let command = [b"exposeb".as_slice(), &u32::MAX.to_be_bytes()].concat();
    equal(&user.ask(&command)?, &command, "exposed too much")?;
    // Memory that is exposed at the end of the connection.
    user.expose(b'b', LEN).map(drop)
}

/// A use that the server must refuse: the access that is exposed, what happens to it, and the access
/// that is tried.
struct Refused {
    name: &'static str,
    access: u8,
    end: End,
    rdma: Rdma,
    remote: fn(Offer) -> Remote,
}

/// The event before the memory is used.
enum End {
    Nothing,
    Revoked,
    GivenBack,
    ExposedAgain,
}

/// All uses that the server must refuse on the connection that has asked for the memory.
const REFUSED: [Refused; 11] = {
    use End::*;
    use Rdma::*;
    const fn refused(
        name: &'static str,
        access: u8,
        end: End,
        rdma: Rdma,
        remote: fn(Offer) -> Remote,
    ) -> Refused {
        Refused {
            name,
            access,
            end,
            rdma,
            remote,
        }
    }
    [
        refused("read beyond the end", b'b', Nothing, Read, |o| o.at(LEN)),
        refused("read across the end", b'b', Nothing, Read, |o| {
            o.at(LEN - SMALL / 2)
        }),
        refused("read before the start", b'b', Nothing, Read, |o| {
            o.at(0usize.wrapping_sub(SMALL))
        }),
        refused("write beyond the end", b'b', Nothing, Write, |o| o.at(LEN)),
        refused("write across the end", b'b', Nothing, Write, |o| {
            o.at(LEN - SMALL / 2)
        }),
        refused("write what is for reading", b'r', Nothing, Write, |o| {
            o.at(0)
        }),
        refused("read what is for writing", b'w', Nothing, Read, |o| o.at(0)),
        refused("read after the revocation", b'b', Revoked, Read, |o| {
            o.at(0)
        }),
        refused("write after the revocation", b'b', Revoked, Write, |o| {
            o.at(0)
        }),
        refused("read after giving back", b'b', GivenBack, Read, |o| o.at(0)),
        refused("read by an old key", b'b', ExposedAgain, Read, |o| o.at(0)),
    ]
};

impl Refused {
    /// Returns true if only the missing right to read is wrong.
    fn needs_read_right(&self) -> bool {
        self.access == b'w' && self.rdma == Rdma::Read
    }

    fn try_it(&self, to: &Target) -> Result<()> {
        let mut user = User::connect(to)?;
        let offer = user.expose(self.access, LEN)?;
        match self.end {
            End::Nothing => {}
            End::Revoked => user.revoke().map(drop)?,
            End::GivenBack => user.give_back(offer).map(drop)?,
            End::ExposedAgain => {
                user.revoke()?;
                user.expose(self.access, LEN)?;
            }
        }
        user.must_be_refused(self.rdma, (self.remote)(offer))
    }
}

/// Uses other keys than that of the memory.
fn other_keys(to: &Target) -> Result<()> {
    for key in [|key: u32| key ^ 1, |key| key ^ 0x100, |_| 0] {
        let mut user = User::connect(to)?;
        let offer = user.expose(b'b', LEN)?;
        let remote = Remote {
            key: key(offer.key),
            addr: offer.addr,
        };
        user.must_be_refused(Rdma::Read, remote)?;
    }
    Ok(())
}

/// Uses the memory of a connection on others, which ends them, and not the one that it belongs to.
fn other_connections(to: &Target) -> Result<()> {
    let mut owner = User::connect(to)?;
    let offer = owner.expose(b'b', LEN)?;
    for rdma in [Rdma::Read, Rdma::Write] {
        User::connect(to)?.must_be_refused(rdma, offer.at(0))?;
    }
    equal(
        &owner.read(offer, 0, LEN)?,
        &pattern(LEN),
        "read by its owner",
    )?;
    equal(&owner.revoke()?, &pattern(SHOWN), "revoked")?;
    owner.peer.disconnect()
}

/// Makes all uses of exposed memory. After each of those that the server must refuse, a connection that
/// has done nothing wrong must live. If `hold`, that one has memory exposed until standard input ends.
/// If `lax_reads`, the server's driver does not check the right to read.
pub(crate) fn run(to: &Target, lax_reads: bool, hold: bool, output: &mut Output) -> Result<()> {
    let mut other = User::connect(to)?;
    let mut count = 0u32;
    let mut check = |name: &str, result: Result<()>| {
        result.map_err(|error| Error::new(format!("{name}: {error}")))?;
        count += 1;
        let alive = other.is_alive();
        alive.map_err(|error| Error::new(format!("another connection after {name}: {error}")))
    };
    let mut user = User::connect(to)?;
    check("allowed uses", allowed(&mut user))?;
    user.peer.disconnect()?;
    let is_checked = |refused: &&Refused| !(lax_reads && refused.needs_read_right());
    for refused in REFUSED.iter().filter(is_checked) {
        check(refused.name, refused.try_it(to))?;
    }
    check("other keys", other_keys(to))?;
    check("other connections", other_connections(to))?;
    output.set("uses", count);
    if hold {
        other.expose(b'b', LEN).map(drop)?;
        holding(output, 1);
        wait_for_end()?;
    } else {
        output.line(format_args!("{count} kinds of uses were as they must be"));
    }
    other.peer.disconnect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_offer_is_decoded() {
        let mut answer = b"exposed".to_vec();
        answer.extend([0, 0, 1, 2, 0, 0, 0, 3, 0, 0, 0, 4, 0, 0, 0, 9]);
        let expected = Offer {
            key: 0x102,
            addr: 0x3_0000_0004,
            len: 9,
        };
        assert_eq!(offer(&answer), Some(expected));
        assert_eq!(offer(&answer[..answer.len() - 1]), None);
        answer.push(0);
        assert_eq!(offer(&answer), None);
        assert_eq!(offer(b"expose"), None);
    }

    #[test]
    fn an_offset_may_be_before_the_start() {
        let offer = Offer {
            key: 1,
            addr: 0x1000,
            len: LEN,
        };
        assert_eq!(offer.at(0usize.wrapping_sub(8)).addr, 0xff8);
        assert_eq!(offer.at(8).addr, 0x1008);
    }

    #[test]
    fn what_is_written_differs_from_what_was_there() {
        let same = pattern(LEN)
            .into_iter()
            .zip(own(LEN))
            .filter(|(a, b)| a == b);
        assert_eq!(same.count(), 0);
    }
}
