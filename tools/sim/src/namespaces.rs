// SPDX-License-Identifier: GPL-2.0

//! Two network namespaces, each with a server: the end of one leaves the other alone.

use crate::{
    admin::{check_accept_from, check_lost_address, check_release},
    manner::Manner,
    peer::{Peer, SHORT},
    stand::{check_idle, check_last_peer, Stand, DEVICE},
};
use bindings::{
    address, end_other_net, ib_device, init_net, net, other_net, read_counters, svc_serv, Ptr,
    FRIEND,
};
use kernel::sim;
use shuttle::thread::JoinHandle;

/// The peers of each namespace.
const PEERS: u32 = 2;

/// Runs what the seed draws.
pub fn run() {
    let stand = Stand::new(DEVICE, 2);
    let other = Ptr::<svc_serv>::server(other_net());
    other.listen(address(0, 20049)).expect("the server listens");
    let thread = other.start("nfsd other");
    // Peers of the other namespace may be in the middle of Calls when it ends.
    let theirs = start(Ptr(other_net()), stand.device, 40, |_, _| {});
    let ours = start(Ptr(init_net()), stand.device, 10, |peer, is_done| {
        assert!(is_done, "a peer of the other namespace is closed");
        peer.close();
    });
    sim::sleep(sim::below(30));
    sim::within("end of namespace", 1000, || {
        other.stop();
        thread.join().expect("a thread does not fail");
        end_other_net();
    });
    for peer in ours.into_iter().chain(theirs) {
        peer.join().expect("a peer does not fail");
    }
    check_counters();
    check_last_peer(&stand, 4);
    stand.server.close_connections();
    check_idle();
    check_accept_from(&stand);
    check_lost_address(&stand);
    check_release(&stand);
    stand.end(true);
}

/// Starts peers of a namespace, which make Calls; `end` gets each with true if all are answered.
fn start(
    net: Ptr<net>,
    device: Ptr<ib_device>,
    calls: u32,
    end: fn(&Peer, bool),
) -> Vec<JoinHandle<()>> {
    let start = |host| {
        sim::spawn(&format!("peer {host}"), move || {
            let net = net;
            let peer = Peer::connect_from(net.0, device, host, FRIEND, Manner::Correct);
            if let Some(mut peer) = peer {
                peer.patience = SHORT;
                let is_done = peer.run(calls);
                end(&peer, is_done);
            }
        })
    };
    let first = if net.0 == init_net() { 1 } else { 1 + PEERS };
    (first..first + PEERS).map(start).collect()
}

/// The counters have the peers of their namespace alone.
fn check_counters() {
    let counters = read_counters(init_net());
    let accepted = counters.iter().find(|(name, _)| name == "accepted");
    let accepted = accepted.map(|(_, values)| values[0]);
    assert_eq!(
        accepted,
        Some(PEERS.into()),
        "connections of this namespace"
    );
}
