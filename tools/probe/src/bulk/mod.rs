// SPDX-License-Identifier: GPL-2.0

//! `bulk`: exercises the module rdma_bulk, which serves the bulk protocol over SMB Direct.

pub(crate) mod client;
mod hostile;
pub(crate) mod link;

use self::client::{part, Client, LIMITS};
use crate::{
    error::{Error, Result},
    ffi::Rdma,
    idle::{holding, wait_for_end},
    output::{Format, Output},
    run::Run,
    target::{Server, Target},
};
use clap::value_parser;
use smbdirect::{
    bulk::{Head, Operation, Status, READ, WRITE},
    descriptor::Descriptor,
    session::Limits,
};
use std::time::{Duration, Instant};

/// Exercise the module rdma_bulk
#[derive(Debug, clap::Args)]
pub(crate) struct Bulk {
    #[command(flatten)]
    server: Server,
    /// Rounds of all operations
    #[arg(long, value_name = "N", default_value_t = 3, value_parser = value_parser!(u32).range(1..))]
    count: u32,
    /// Ask for no offers, for which the server registers memory
    #[arg(long)]
    no_offers: bool,
    /// Break each rule on a connection of its own, with another connection beside it
    #[arg(long)]
    hostile: bool,
    /// Stay silent for this number of seconds, answering keep-alives
    #[arg(long, value_name = "SECONDS", default_value_t = 0)]
    quiet: u64,
    /// Wait this number of milliseconds before the first message, which siw may lose otherwise
    #[arg(long, value_name = "MS", default_value_t = 0)]
    pause: u64,
    /// Hold this number of connections until standard input ends
    #[arg(long, value_name = "N", default_value_t = 0)]
    hold: u32,
}

impl Run for Bulk {
    fn format(&self) -> Format {
        self.server.format()
    }

    fn run(&self, output: &mut Output) -> Result {
        let mut target = self.server.target()?;
        target.pause = Duration::from_millis(self.pause);
        if self.hostile {
            return hostile::run(&target, output);
        }
        if self.hold > 0 {
            return hold(&target, self.hold, output);
        }
        let mut client = Client::connect(&target, &LIMITS)?;
        if self.quiet > 0 {
            return quiet(&mut client, self.quiet, output);
        }
        for round in 0..self.count {
            echoes(&mut client)?;
            deep(&mut client)?;
            transfers(&mut client, round)?;
            if !self.no_offers {
                offers(&mut client, round)?;
            }
            refusals(&mut client)?;
        }
        few_credits(&target)?;
        output.set("sent", client.sent);
        output.set("arrived", client.arrived);
        output.line(format_args!("{} rounds of all operations", self.count));
        client.link.disconnect()
    }
}

/// Holds connections that say nothing more.
fn hold(target: &Target, count: u32, output: &mut Output) -> Result {
    let mut clients = Vec::new();
    for _ in 0..count {
        let mut client = Client::connect(target, &LIMITS)?;
        echo(&mut client, 100)?;
        clients.push(client);
    }
    holding(output, clients.len());
    wait_for_end()?;
    clients
        .iter()
        .try_for_each(|client| client.link.disconnect())
}

/// Returns `len` bytes that depend on `seed`.
fn pattern(len: usize, seed: u32) -> Vec<u8> {
    let byte = |at: usize| (at as u32).wrapping_mul(2_654_435_761).wrapping_add(seed) >> 13;
    (0..len).map(|at| byte(at) as u8).collect()
}

/// Fails unless `is_so`.
fn check(is_so: bool, what: &str) -> Result<()> {
    if is_so {
        Ok(())
    } else {
        Err(Error::new(what))
    }
}

/// Sends `len` bytes and checks that they come back.
fn echo(client: &mut Client, len: usize) -> Result<()> {
    let bytes = pattern(len, len as u32);
    let (head, payload) = client.request(Operation::Echo, |_| (), &bytes)?;
    check(head.status() == Some(Status::Ok), "an echo was refused")?;
    check(payload == bytes, "an echo has other bytes")
}

/// Sends messages of all kinds of lengths, whole and in fragments, and checks that they come back.
fn echoes(client: &mut Client) -> Result<()> {
    let most = client.session.max_outgoing() as usize - Head::LEN;
    for len in [0, 1, 4039, 4040, 4041, 8111, 50_000, most] {
        echo(client, len)?;
    }
    Ok(())
}

/// Puts more messages in flight than there are credits.
fn deep(client: &mut Client) -> Result<()> {
    let (mut tags, mut answers) = (Vec::new(), 0);
    for number in 0..100u32 {
        let payload = pattern(number as usize, number);
        tags.push(client.post(Head::request(Operation::Echo, 0), &payload)?);
    }
    for (number, tag) in (0..100u32).zip(&tags) {
        let (head, payload) = client.answer()?;
        let is_so = head.tag == *tag && payload == pattern(number as usize, number);
        check(is_so, "an echo has other bytes")?;
        answers += 1;
    }
    check(answers == 100, "echoes are missing")
}

/// Pulls bytes to a region and pushes them back, in pieces of other lengths.
fn transfers(client: &mut Client, round: u32) -> Result<()> {
    let size = client.response.max_read_write as usize;
    for len in [1, 4096, size / 2 + 1, size] {
        let bytes = pattern(len, round);
        let (from, to) = (client.region(&bytes)?, client.region(&vec![0; len + 1])?);
        let half = len / 2;
        let pieces = [part(&from, 0, half), part(&from, half, len - half)];
        let pulled = client.transfer(Operation::Pull, (1, len), &pieces)?;
        check(pulled == Some(Status::Ok), "a pull was refused")?;
        let third = len / 3;
        let pieces = [part(&to, 0, third), part(&to, third, len + 1 - third)];
        let pushed = client.transfer(Operation::Push, (1, len), &pieces)?;
        check(pushed == Some(Status::Ok), "a push was refused")?;
        let mut expected = bytes;
        expected.push(0);
        let is_so = to.read(0, len + 1)? == expected;
        check(is_so, "a push has other bytes than the pull")?;
    }
    Ok(())
}

/// Returns the memory of an offer of `len` bytes of a region.
pub(crate) fn offer(client: &mut Client, region: u32, len: usize) -> Result<Vec<Descriptor>> {
    let fill = |head: &mut Head| {
        (head.region, head.length, head.access) = (region, len as u32, READ | WRITE);
    };
    let (head, payload) = client.request(Operation::Offer, fill, &[])?;
    check(head.status() == Some(Status::Ok), "an offer was refused")?;
    let list = payload
        .chunks_exact(Descriptor::LEN)
        .filter_map(Descriptor::decode);
    let list: Vec<_> = list.collect();
    let room: u32 = list.iter().map(|piece| piece.length).sum();
    let is_so = list.len() == usize::from(head.count) && room as usize == len;
    check(is_so, "an offer has other bytes")?;
    Ok(list)
}

/// Ends an offer.
pub(crate) fn withdraw(client: &mut Client, region: u32) -> Result<Option<Status>> {
    let fill = |head: &mut Head| head.region = region;
    Ok(client.request(Operation::Withdraw, fill, &[])?.0.status())
}

/// Writes to an offered region and reads it, then pushes it after the offer has ended.
fn offers(client: &mut Client, round: u32) -> Result<()> {
    let size = client.response.max_read_write as usize;
    for len in [1, 5000, size] {
        let bytes = pattern(len, round ^ 0x55);
        let (from, to) = (client.region(&bytes)?, client.region(&vec![0; len])?);
        let pieces = offer(client, 2, len)?;
        let busy = client.transfer(Operation::Push, (2, len), &[part(&to, 0, len)])?;
        check(busy == Some(Status::Busy), "an offered region is pushed")?;
        for (rdma, region) in [(Rdma::Write, &from), (Rdma::Read, &to)] {
            let mut at = 0;
            for piece in &pieces {
                let is_so = client.link.rdma(rdma, region, at, piece)?;
                check(is_so, "an offered region is out of reach")?;
                at += piece.length as usize;
            }
        }
        check(
            to.read(0, len)? == bytes,
            "an offered region has other bytes",
        )?;
        check(
            withdraw(client, 2)? == Some(Status::Ok),
            "an offer does not end",
        )?;
        check(
            withdraw(client, 2)? == Some(Status::Busy),
            "an offer ends twice",
        )?;
        to.write(0, &vec![0; len])?;
        let pushed = client.transfer(Operation::Push, (2, len), &[part(&to, 0, len)])?;
        check(pushed == Some(Status::Ok), "a push was refused")?;
        check(
            to.read(0, len)? == bytes,
            "a push has other bytes than were written",
        )?;
    }
    Ok(())
}

/// Makes requests that are refused, and leave the connection as it is.
fn refusals(client: &mut Client) -> Result<()> {
    let size = client.response.max_read_write as usize;
    let memory = client.region(&[0; 100])?;
    let all = part(&memory, 0, 100);
    for (region, len, pieces, expected) in [
        (99, 1, vec![all], Status::NoRegion),
        (0, 101, vec![all], Status::TooLong),
        (0, size + 1, vec![all; 16], Status::TooLong),
        (0, 1, vec![], Status::TooLong),
        (0, 1, vec![all; 17], Status::TooLong),
        (0, 0, vec![all], Status::Ok),
    ] {
        for operation in [Operation::Pull, Operation::Push] {
            let status = client.transfer(operation, (region, len), &pieces)?;
            let what = format!("{operation:?} of {len} bytes: {status:?}");
            check(status == Some(expected), &what)?;
        }
    }
    let fill = |head: &mut Head| (head.length, head.access) = (size as u32 + 1, READ | WRITE);
    let (head, _) = client.request(Operation::Offer, fill, &[])?;
    check(
        head.status() == Some(Status::TooLong),
        "a long offer is not refused",
    )?;
    let fill = |head: &mut Head| (head.length, head.access) = (1, 0);
    let (head, _) = client.request(Operation::Offer, fill, &[])?;
    check(
        head.status() == Some(Status::Unable),
        "an offer of nothing is not refused",
    )?;
    echo(client, 10)
}

/// Exercises fragments and credits on a connection with few credits and small messages.
fn few_credits(target: &Target) -> Result<()> {
    let ours = Limits {
        send: 200,
        receive: 256,
        credits: 2,
        ..LIMITS
    };
    let mut client = Client::connect(target, &ours)?;
    for len in [0, 100, 5000, 100_000] {
        echo(&mut client, len)?;
    }
    check(client.sent > 500, "messages are longer than negotiated")?;
    client.link.disconnect()
}

/// Sends nothing but what the server asks for.
fn quiet(client: &mut Client, seconds: u64, output: &mut Output) -> Result<()> {
    echo(client, 10)?;
    let (end, before) = (Instant::now() + Duration::from_secs(seconds), client.sent);
    while Instant::now() < end {
        client.take(end.saturating_duration_since(Instant::now()))?;
        client.flush()?;
    }
    let answered = client.sent - before;
    output.set("answered", answered);
    output.line(format_args!("{answered} keep-alives answered"));
    echo(client, 10)?;
    client.link.disconnect()
}
