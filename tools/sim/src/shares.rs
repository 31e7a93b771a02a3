// SPDX-License-Identifier: GPL-2.0

//! Shares: peers of one class, or of one host, take all that they may. Others are served meanwhile
//! as if they were alone.

use crate::{
    call::{Call, Form},
    manner::Manner,
    peer::{Peer, SHORT},
    stand::{check_idle, check_last_peer, figures, remove, Stand, DEVICE},
};
use bindings::{
    init_net,
    link::{Link, Region},
    svcrdma_limits, words, Ptr, FRIEND, STRANGER,
};
use kernel::sim;

/// The pages that Replies of the device may hold, and its Receive buffers.
const REPLY_PAGES: i64 = 2048;
const RECEIVES: i64 = 512;
/// The host of the peers that take too much.
const GREEDY: u32 = 50;

/// The resource that the greedy peers take.
#[derive(Clone, Copy, Debug)]
enum Greed {
    /// Pages for Read chunks, which they do not serve; the server has not validated them.
    Strangers,
    /// Pages for Read chunks, which they do not serve, from several hosts.
    Friends,
    /// Pages of Replies, which they do not take, from one host.
    Replies,
    /// Receive buffers for large grants, from one host.
    Receives,
}

impl Greed {
    const ALL: [Self; 4] = [
        Self::Strangers,
        Self::Friends,
        Self::Replies,
        Self::Receives,
    ];
}

/// Runs what the seed draws.
pub fn run() {
    let greed = Greed::ALL[sim::below(4) as usize];
    sim::event(format_args!("{greed:?}"));
    let limits = svcrdma_limits {
        iwarp: sim::chance(256),
        ..DEVICE
    };
    let stand = Stand::new(limits, 1 + sim::below(3));
    let receives = match greed {
        Greed::Receives => RECEIVES,
        _ => 16_384,
    };
    for (name, value) in [
        ("credits", 32),
        ("read_pages_per_device", 4224),
        ("read_pages_per_connection", 400),
        ("reply_pages_per_device", REPLY_PAGES),
        ("reply_pages_per_connection", 2112),
        ("receive_buffers_per_device", receives),
        ("stall_seconds", 60),
        ("release", 0),
    ] {
        bindings::set(name, value);
    }
    let greedy = hoard(&stand, greed);
    check_shares(greed);
    if sim::chance(256) {
        return remove_meanwhile(stand, &greedy);
    }
    // One peer with an IPv4 address and one with an IPv6 address.
    for host in [1, 2] {
        serve(&stand, host, greed);
    }
    greedy.iter().for_each(Peer::vanish);
    stand.server.close_connections();
    sim::sleep(15_000);
    check_last_peer(&stand, 4);
    stand.server.close_connections();
    check_idle();
    stand.end(true);
}

/// Removes the device while the greedy peers' Calls wait for pages. Some peers have vanished before, so
/// that the server waits for the end of their connections.
fn remove_meanwhile(stand: Stand, greedy: &[Peer]) {
    // Calls are late after three looks.
    for _ in 0..20 {
        if sim::counted("shortage") == 0 {
            sim::sleep(100);
        }
    }
    if sim::chance(512) {
        greedy.iter().for_each(Peer::vanish);
        stand.server.close_connections();
    }
    sim::sleep(sim::below(100));
    remove(stand.device);
    stand.end(false);
}

/// Connects peers that take all that they may.
fn hoard(stand: &Stand, greed: Greed) -> Vec<Peer> {
    let connect = |host, port| {
        let peer = Peer::connect_from(init_net(), stand.device, host, port, Manner::Correct);
        peer.expect("the peer connects")
    };
    let count = match greed {
        Greed::Receives => 14,
        _ => 8,
    };
    let count = count + sim::below(3) as u32;
    let mut peers: Vec<_> = (0..count)
        .map(|n| match greed {
            Greed::Strangers => connect(GREEDY + n, STRANGER),
            Greed::Friends => connect(GREEDY + n, FRIEND),
            Greed::Replies | Greed::Receives => connect(GREEDY, FRIEND),
        })
        .collect();
    for peer in &mut peers {
        match greed {
            Greed::Strangers => want_pages(peer.link),
            Greed::Friends => {
                // The first Call validates the peer.
                peer.make(Form::Inline);
                want_pages(peer.link);
            }
            Greed::Replies => {
                peer.run(60);
                for n in 0..peer.credits as u32 {
                    want_reply(peer.link, n);
                }
            }
            Greed::Receives => drop(peer.run(40)),
        }
    }
    sim::sleep(1000);
    peers
}

/// Makes WRITEs of a peer that serves no Reads, as many as it has credits.
fn want_pages(link: Ptr<Link>) {
    link.get().serves_reads = false;
    for xid in 1..8 {
        let (addr, len) = (0x9000, 700_000);
        let key = link.get().register(Region {
            addr,
            bytes: Vec::new(),
            is_sink: false,
        });
        let head = [xid, 1, 32, 0, 1, 52, key, len, 0, addr as u32, 0, 0, 0];
        let call = [xid, 0, 2, 100_003, 3, 7, 0, 0, 0, 0, 0, 0, len];
        link.send(&words(&[head, call].concat()));
    }
}

/// Makes a READ of a peer that takes no Replies.
fn want_reply(link: Ptr<Link>, n: u32) {
    link.get().receives = 0;
    link.send(&Call::sized(link, n, Form::Read, 0, 70_000).1);
}

/// Checks that the greedy peers have no more than their share.
fn check_shares(greed: Greed) {
    let figures = figures();
    sim::event(format_args!("{figures:?}"));
    match greed {
        // An eighth of the pages, and at least those of the largest Call.
        Greed::Strangers => {
            let pages = figures["unvalidated_pages"];
            assert!((1..=1028).contains(&pages), "{figures:?}");
        }
        Greed::Friends => {}
        // Three quarters, and for each connection a Reply and what it draws at once.
        Greed::Replies => assert!(figures["reply_pages"] <= REPLY_PAGES, "{figures:?}"),
        // Three quarters, and what each connection begins with.
        Greed::Receives => assert!(figures["receives"] <= RECEIVES, "{figures:?}"),
    }
}

/// A correct peer of another host is served as if it were alone.
fn serve(stand: &Stand, host: u32, greed: Greed) {
    let peer = Peer::connect_from(init_net(), stand.device, host, FRIEND, Manner::Correct);
    let mut peer = peer.expect("a correct peer connects");
    peer.patience = SHORT;
    // The first Call validates the peer, and needs no pages of the others' class.
    assert!(
        peer.make(Form::Inline) && peer.run(40),
        "a correct peer is closed"
    );
    let has_grown = peer.credits > 8;
    assert!(has_grown, "{greed:?}: {} credits", peer.credits);
    peer.close();
}
