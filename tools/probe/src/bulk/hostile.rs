// SPDX-License-Identifier: GPL-2.0

//! Peers that break a rule: the server ends their connection, and no other.

use super::{
    check,
    client::{negotiate, part, Client, LIMITS},
    echo,
    link::Link,
    offer, withdraw,
};
use crate::{
    error::{Error, Result},
    ffi::Rdma,
    output::Output,
    peer::PATIENCE,
    target::Target,
};
use smbdirect::{
    bulk::{Head, Operation},
    data::{Header, DATA_OFFSET},
    descriptor::Descriptor,
    negotiate::{Response, MIN_REASSEMBLED, NOT_SUPPORTED},
};

/// A case: a name, and what is done. It returns the connection, which must end.
type Case = (&'static str, fn(&Target) -> Result<Link>);

/// The cases.
const CASES: &[Case] = &[
    ("short negotiation", |to| begin(to, &[0; 19])),
    ("no credits requested", |to| {
        begin(to, &negotiate(&LIMITS, |r| r.credits_requested = 0))
    }),
    ("small messages", |to| {
        begin(to, &negotiate(&LIMITS, |r| r.max_receive = 127))
    }),
    ("few reassembled bytes", |to| {
        begin(
            to,
            &negotiate(&LIMITS, |r| r.max_reassembled = MIN_REASSEMBLED - 1),
        )
    }),
    ("wrong version", wrong_version),
    ("short message", |to| send(to, &[0; 19])),
    ("data beyond the end", |to| {
        send(to, &data(100, 0, &[0; 99]))
    }),
    ("message longer than negotiated", long_message),
    ("too much reassembled", |to| {
        send(to, &data(4, MIN_REASSEMBLED, &[0; 4]))
    }),
    ("fragments without an end", endless),
    ("more messages than credits", |to| {
        let mut link = negotiated(to)?;
        for _ in 0..40 {
            link.send(&data(0, 0, &[]))?;
        }
        Ok(link)
    }),
    ("too many credits granted", |to| {
        let mut link = negotiated(to)?;
        for _ in 0..2 {
            link.send(&message(
                &Header {
                    credits_granted: u16::MAX,
                    ..Header::default()
                },
                &[],
            ))?;
        }
        Ok(link)
    }),
    ("no bulk message", |to| send(to, &data(64, 0, &[0xfe; 64]))),
    ("answer instead of a request", |to| {
        let mut bytes = [0; Head::LEN];
        let head = Head::request(Operation::Echo, 1);
        head.answer(smbdirect::bulk::Status::Ok).encode(&mut bytes);
        send(to, &data(32, 0, &bytes))
    }),
    ("answers not taken", not_taken),
    ("pull of memory that is not there", |to| {
        transfer(to, Operation::Pull)
    }),
    ("push to memory that is not there", |to| {
        transfer(to, Operation::Push)
    }),
    ("write beyond an offer", |to| {
        reach(to, Rdma::Write, |piece| piece.length += 1)
    }),
    ("read before an offer", |to| {
        reach(to, Rdma::Read, |piece| piece.offset -= 1)
    }),
    ("read with another key", |to| {
        reach(to, Rdma::Read, |piece| piece.token ^= 0x1000)
    }),
    ("write to an offer that has ended", |to| {
        let mut client = Client::connect(to, &LIMITS)?;
        let piece = offer(&mut client, 0, 4096)?.remove(0);
        withdraw(&mut client, 0)?;
        out_of_reach(client, Rdma::Write, &piece)
    }),
    ("write to an offer of another connection", |to| {
        let mut owner = Client::connect(to, &LIMITS)?;
        let piece = offer(&mut owner, 0, 4096)?.remove(0);
        let link = out_of_reach(Client::connect(to, &LIMITS)?, Rdma::Write, &piece)?;
        echo(&mut owner, 10)?;
        owner.link.disconnect()?;
        Ok(link)
    }),
];

/// Runs all cases, with a connection beside them that must not notice.
pub(super) fn run(to: &Target, output: &mut Output) -> Result {
    let mut bystander = Client::connect(to, &LIMITS)?;
    for (name, case) in CASES {
        let ends = case(to).and_then(|mut link| link.ends(PATIENCE));
        let ends = ends.map_err(|error| Error::new(format!("{name}: {error}")))?;
        check(ends, &format!("{name}: the connection goes on"))?;
        let beside = echo(&mut bystander, 5000);
        beside.map_err(|error| Error::new(format!("beside {name}: {error}")))?;
        output.line(format_args!("{name}: closed"));
    }
    output.set("cases", CASES.len());
    bystander.link.disconnect()
}

/// Connects, and sends the first message.
fn begin(to: &Target, message: &[u8]) -> Result<Link> {
    let mut link = Link::connect(to)?;
    link.send(message)?;
    Ok(link)
}

/// Connects and negotiates.
fn negotiated(to: &Target) -> Result<Link> {
    Ok(Client::connect(to, &LIMITS)?.link)
}

/// Connects, negotiates, and sends a message.
fn send(to: &Target, message: &[u8]) -> Result<Link> {
    let mut link = negotiated(to)?;
    link.send(message)?;
    Ok(link)
}

/// Returns a Data Transfer message.
fn message(header: &Header, data: &[u8]) -> Vec<u8> {
    let mut out = [0; DATA_OFFSET];
    let len = header.encode(&mut out).unwrap_or(0);
    [&out[..len], data].concat()
}

/// Returns a Data Transfer message that says that `len` bytes are here, and `remaining` follow.
fn data(len: u32, remaining: u32, data: &[u8]) -> Vec<u8> {
    let header = Header {
        credits_requested: 1,
        len,
        remaining,
        ..Header::default()
    };
    message(&header, data)
}

/// Asks for a version that does not exist. The server says so before it closes.
fn wrong_version(to: &Target) -> Result<Link> {
    let versions = negotiate(&LIMITS, |r| {
        (r.min_version, r.max_version) = (0x0200, 0x0300)
    });
    let mut link = begin(to, &versions)?;
    let answer = link.receive(PATIENCE)?;
    let response = answer.as_deref().and_then(Response::decode);
    let says_so = response.is_some_and(|response| response.status == NOT_SUPPORTED);
    check(says_so, &format!("no refusal: {answer:?}"))?;
    Ok(link)
}

/// Sends more bytes than this side has said it would send.
fn long_message(to: &Target) -> Result<Link> {
    let mut link = begin(to, &negotiate(&LIMITS, |r| r.preferred_send = 512))?;
    link.receive(PATIENCE)?;
    link.send(&data(1000, 0, &[0; 1000]))?;
    Ok(link)
}

/// Sends fragments that do not add up.
fn endless(to: &Target) -> Result<Link> {
    let mut link = negotiated(to)?;
    link.send(&data(4, 100, &[0; 4]))?;
    link.send(&data(4, 100, &[0; 4]))?;
    Ok(link)
}

/// Makes all requests that it has credits for, and grants a single credit for their answers, again and
/// again.
fn not_taken(to: &Target) -> Result<Link> {
    let mut head = [0; Head::LEN];
    Head::request(Operation::Echo, 1).encode(&mut head);
    let bytes = [&head[..], &[7; 4000]].concat();
    let client = Client::connect(to, &LIMITS)?;
    let (mut link, mut credits) = (client.link, client.response.credits_granted);
    for _ in 0..10 {
        for left in (0..credits).rev() {
            let header = Header {
                credits_requested: LIMITS.credits,
                credits_granted: u16::from(left == 0),
                len: bytes.len() as u32,
                ..Header::default()
            };
            link.send(&message(&header, &bytes))?;
        }
        let Some(answer) = link.receive(PATIENCE)? else {
            break;
        };
        credits = Header::decode(&answer).map_or(0, |(header, _)| header.credits_granted);
    }
    Ok(link)
}

/// Requests a transfer with memory that was never registered.
fn transfer(to: &Target, operation: Operation) -> Result<Link> {
    let mut client = Client::connect(to, &LIMITS)?;
    let memory = client.region(&[0; 100])?;
    let piece = Descriptor {
        token: part(&memory, 0, 100).token ^ 0x5500,
        ..part(&memory, 0, 100)
    };
    match client.transfer(operation, (0, 100), &[piece]) {
        Err(_) => Ok(client.link),
        Ok(status) => Err(Error::new(format!("{status:?}"))),
    }
}

/// Reaches for memory that is not offered, with the descriptor of an offer that `change` has changed.
fn reach(to: &Target, rdma: Rdma, change: fn(&mut Descriptor)) -> Result<Link> {
    let mut client = Client::connect(to, &LIMITS)?;
    let mut piece = offer(&mut client, 0, 5000)?.remove(0);
    change(&mut piece);
    out_of_reach(client, rdma, &piece)
}

/// Checks that memory is out of reach.
fn out_of_reach(mut client: Client, rdma: Rdma, piece: &Descriptor) -> Result<Link> {
    let memory = client.region(&vec![0; piece.length as usize])?;
    let reached = client.link.rdma(rdma, &memory, 0, piece)?;
    // On iWARP a Write completes before the peer has looked at it.
    let is_known = rdma == Rdma::Read;
    check(
        !(reached && is_known),
        "memory that is not offered is within reach",
    )?;
    Ok(client.link)
}
