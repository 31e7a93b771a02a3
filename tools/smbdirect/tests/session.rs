// SPDX-License-Identifier: GPL-2.0

//! Two sides of a connection: messages of any size arrive whole and in order, whatever the sides have
//! declared and in whatever order they get to run, and no side breaks a rule.

mod common;

use common::*;
use proptest::prelude::*;
use smbdirect::{
    reassembly::Outgoing,
    session::{
        Incoming,
        Limits,
        Session, //
    },
};
use std::collections::VecDeque;

fn limits(least: u16) -> impl Strategy<Value = Limits> {
    let credits = prop_oneof![least..4u16, least..300u16];
    (128..5000u32, 128..5000u32, credits).prop_map(|(send, receive, credits)| Limits {
        send,
        receive,
        credits,
        ..LIMITS
    })
}

/// A side, and the messages on their way to it.
struct Side {
    session: Session,
    wire: VecDeque<Vec<u8>>,
    to_send: VecDeque<Vec<u8>>,
    outgoing: Outgoing,
    arrived: Vec<Vec<u8>>,
    partial: Vec<u8>,
    credits: u16,
}

impl Side {
    fn new(session: Session, to_send: &[Vec<u8>], credits: u16) -> Self {
        let to_send: VecDeque<_> = to_send.iter().cloned().collect();
        let outgoing = Outgoing::new(to_send.front().map_or(0, Vec::len) as u32);
        Self {
            session,
            wire: VecDeque::new(),
            to_send,
            outgoing,
            arrived: Vec::new(),
            partial: Vec::new(),
            credits,
        }
    }

    /// Sends one message. Returns false if there is none.
    fn send(&mut self, peer: &mut Self) -> bool {
        let Some(next) = self.session.next(Some(&mut self.outgoing)) else {
            return false;
        };
        let data = match self.to_send.front() {
            Some(whole) => &whole[next.range],
            None => &[],
        };
        peer.wire.push_back(message(&next.header, data));
        assert!(
            peer.wire.len() <= usize::from(peer.credits),
            "more messages than Receives"
        );
        if self.outgoing.is_done() && !data.is_empty() {
            self.to_send.pop_front();
            self.outgoing = Outgoing::new(self.to_send.front().map_or(0, Vec::len) as u32);
        }
        true
    }

    /// Takes one message. Returns false if there is none.
    fn receive(&mut self) -> bool {
        let Some(message) = self.wire.pop_front() else {
            return false;
        };
        match self.session.receive(&message) {
            Ok(Incoming::Data(place, data)) => {
                assert_eq!(place.at as usize, self.partial.len());
                self.partial.extend(data);
                if place.is_last {
                    self.arrived.push(std::mem::take(&mut self.partial));
                }
            }
            Ok(Incoming::Empty) => (),
            other => panic!("{other:?}"),
        }
        true
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 512,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn messages_arrive_whole_and_in_order(
        server in limits(2),
        client in limits(1),
        sizes in prop::array::uniform2(prop::collection::vec(
            prop_oneof![1..200usize, 1..20_000usize, Just(128 * 1024)], 0..6)),
        turns in prop::collection::vec(0..4usize, 1..64),
    ) {
        // A side sends no more than the other receives, or it could not take the response.
        let server = Limits { send: server.send.min(client.receive), ..server };
        let messages = sizes.map(|sizes| -> Vec<Vec<u8>> {
            sizes.iter().enumerate().map(|(n, len)| (0..*len).map(|at| (at + n) as u8).collect()).collect()
        });
        let (responder, requester) = negotiated(server, client);
        let mut a = Side::new(responder, &messages[0], server.credits);
        let mut b = Side::new(requester, &messages[1], client.credits);
        let mut turns = turns.iter().copied().chain(0..4).cycle();
        let mut idle = 0;
        let mut steps = 0;
        while idle < 200 {
            let moved = match turns.next().expect("endless") {
                0 => a.send(&mut b),
                1 => b.send(&mut a),
                2 => a.receive(),
                _ => b.receive(),
            };
            idle = if moved { 0 } else { idle + 1 };
            steps += 1;
            prop_assert!(steps < 200_000, "the sides never stop");
        }
        prop_assert_eq!(&a.arrived, &messages[1]);
        prop_assert_eq!(&b.arrived, &messages[0]);
    }
}
