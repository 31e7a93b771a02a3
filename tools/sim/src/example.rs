// SPDX-License-Identifier: GPL-2.0

//! A scenario to begin with: a peer vanishes, and another one is served.

use crate::{
    manner::Manner,
    peer::Peer,
    stand::{check_idle, check_last_peer, Stand, DEVICE},
};

pub fn run() {
    let stand = Stand::new(DEVICE, 2);
    let mut peer = Peer::connect(stand.device, 1, Manner::Correct).expect("the peer connects");
    assert!(peer.run(8), "all Calls are answered");
    peer.vanish();
    check_last_peer(&stand, 8);
    stand.server.close_connections();
    check_idle();
    stand.end(true);
}
