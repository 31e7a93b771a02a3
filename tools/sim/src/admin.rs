// SPDX-License-Identifier: GPL-2.0

//! What an administrator does: reads debugfs, moves the address of a listener, and releases the module.

use crate::{manner::Manner, peer::Peer, stand::Stand};
use bindings::{lose_address, set};
use kernel::{bindings::read_debug_file, sim};

/// The files of debugfs show what there is: the listener, and a peer.
pub fn check_files() {
    let read = |name| read_debug_file(name);
    assert!(read(c"listeners").contains("0.0.0.0:20049 listening"));
    assert!(read(c"connections").contains(" established "));
    for name in [c"latency", c"closes"] {
        let text = read(name);
        let mut columns = text.lines().map(|line| line.matches(' ').count());
        let count = columns.next().expect("a heading");
        assert!(columns.all(|column| column >= count), "{text}");
    }
}

/// A listener whose address is lost listens again.
pub fn check_lost_address(stand: &Stand) {
    lose_address();
    // Two looks of the watchdog.
    sim::sleep(4500);
    serve(stand);
}

/// While the module is released it closes all and refuses listeners; afterwards it goes on.
pub fn check_release(stand: &Stand) {
    let peer = Peer::connect(stand.device, 7, Manner::Correct).expect("a peer connects");
    // A look for each of the listeners and the connections, and the time until a listener is complete.
    set("release", 1);
    sim::sleep(7000);
    assert!(peer.link.is_over(), "a release leaves a connection");
    assert!(
        stand.listen().is_err(),
        "a listener is made while the module is released"
    );
    assert!(Peer::connect(stand.device, 8, Manner::Correct).is_none());
    set("release", 0);
    stand.listen().expect("the server listens again");
    serve(stand);
}

fn serve(stand: &Stand) {
    let peer = Peer::connect(stand.device, 9, Manner::Correct);
    let mut peer = peer.expect("a peer connects again");
    assert!(peer.run(4), "a peer is served again");
    peer.close();
}
