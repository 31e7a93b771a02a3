// SPDX-License-Identifier: GPL-2.0

//! Queue pairs that fail and no event says so, and those that the device does not take to the error
//! state or does not empty, beside a connection that lasts.

use crate::{
    call::Form,
    manner::Manner,
    peer::Peer,
    stand::{check_idle, check_last_peer, figures, Stand, DEVICE, DRAIN},
};
use kernel::sim;

/// The connections that end.
const COUNT: u32 = 6;
/// The results of `ib_modify_qp` with which a device leaves a queue pair as it is: `EIO`, and success.
const RESULTS: [i32; 2] = [-5, 0];

/// The milliseconds after which the second look of the watchdog at a failed queue pair is over.
const LOOKS: u64 = 4500;

/// Runs what the seed draws.
pub fn run() {
    let stand = Stand::new(DEVICE, 2);
    bindings::set("credits", 8);
    bindings::set("release", 0);
    // A teardown waits for the queue pair.
    sim::allow(DRAIN);
    let mut lasting = connect(&stand, 1);
    let of_one = figures()["receives"];
    fail_silently(&stand);
    for host in 2..2 + COUNT {
        let peer = connect(&stand, host);
        let qp = peer.link.get().qp.expect("a queue pair");
        qp.get().stuck = Some(RESULTS[sim::below(2) as usize]);
        peer.close();
        // The other connection has work all the time, so its queues work.
        for _ in 0..(2 * DRAIN) / 1000 {
            assert!(lasting.make(Form::Inline), "another connection is closed");
            sim::sleep(1000);
        }
    }
    // One may have to stay until the queue that it shares with the other connection is freed.
    let receives = figures()["receives"];
    assert!(receives <= 2 * of_one, "{receives} Receives are kept");
    lasting.close();
    check_last_peer(&stand, 4);
    stand.server.close_connections();
    check_idle();
    stand.end(true);
}

/// A queue pair flushes its work. Neither the device nor the peer says anything.
fn fail_silently(stand: &Stand) {
    let link = connect(stand, 90).link;
    link.lose();
    link.get().qp.expect("a queue pair").fail();
    let has_ended = sim::wait_for(link.0, LOOKS, || link.is_over());
    assert!(has_ended, "a connection outlives its queue pair");
}

/// Connects a peer that has made a Call.
fn connect(stand: &Stand, host: u32) -> Peer {
    let peer = Peer::connect(stand.device, host, Manner::Correct);
    let mut peer = peer.expect("the peer connects");
    assert!(peer.make(Form::Inline), "the connection is closed");
    peer
}
