// SPDX-License-Identifier: GPL-2.0

//! An administrator reads debugfs, moves the address of a listener, allows some addresses
//! alone, and releases the module.

use crate::{manner::Manner, peer::Peer, stand::Stand};
use bindings::{lose_address, read_text, set, write_text};
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

/// The server accepts peers from some addresses alone. A text that is none leaves the list as it is.
pub fn check_accept_from(stand: &Stand) {
    let setting = "accept_from";
    assert!(write_text(setting, "10.0.0.0/24 192.0.2.1\n"));
    assert!(!write_text(setting, "10.0.0.0/33"));
    assert_eq!(read_text(setting), "10.0.0.0/24 192.0.2.1");
    let connect = |host| Peer::connect(stand.device, host, Manner::Correct);
    // Even hosts have an IPv6 address.
    assert!(connect(12).is_none(), "a peer of another network connects");
    connect(11).expect("a peer of the network connects").close();
    assert!(write_text(setting, "any"));
    connect(12).expect("any peer connects").close();
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
