// SPDX-License-Identifier: GPL-2.0

//! A crowd: more peers ask for a connection than may wait for it, and more leave than the server waits
//! for.

use crate::stand::{check_idle, check_last_peer, figures, load, Stand, DEVICE};
use bindings::{address, init_net, link::Link, request, svcrdma_limits, Ptr};
use kernel::sim;

/// The peers that may wait to be accepted, and those of one host.
const PLACES: u32 = 128;
const OF_A_HOST: u32 = 16;
/// The connections that may wait for a word of their peer.
const LEAVING: i64 = 64;
/// The entries of a completion queue with which a device is just good enough.
const SMALLEST: u32 = 32;
/// The address of the host that takes too many places, and of the first of the others.
const FLOOD: u32 = 0x0b00_0000;
const OTHERS: u32 = 0x0c00_0000;

/// Runs what the seed draws.
pub fn run() {
    let module = load().expect("the module is loaded");
    let limits = svcrdma_limits {
        max_cqe: SMALLEST,
        ..DEVICE
    };
    let mut stand = Stand::of(module, limits);
    stand.listen().expect("the server listens");
    // Not much memory for each.
    bindings::set("credits", 4);
    bindings::set("release", 0);
    // No thread accepts anyone yet.
    let waiting = gather(&stand);
    match sim::below(3) {
        0 => {
            // 30 seconds, and two looks of the watchdog.
            sim::sleep(34_500);
            let is_closed = waiting.iter().all(|link| link.get().is_closed);
            assert!(is_closed, "a peer waits for too long");
            assert!(ask(&stand, FLOOD).is_some(), "the dead keep their places");
            stand.start(2);
        }
        1 => {
            stand.server.stop();
            stand.start(1);
            return stand.end(true);
        }
        _ => {
            stand.start(2);
            leave(&stand, &waiting);
        }
    }
    check_last_peer(&stand, 4);
    stand.server.close_connections();
    check_idle();
    stand.end(true);
}

/// Asks for a connection of `host`. Returns None if it is refused at once.
fn ask(stand: &Stand, host: u32) -> Option<Ptr<Link>> {
    request(init_net(), stand.device, address(host, 1024), &[], |_| {})
}

/// Asks for connections, of one host and of many others, until no place is left. Returns those that
/// wait.
fn gather(stand: &Stand) -> Vec<Ptr<Link>> {
    let ask = |host| ask(stand, host);
    let flood: Vec<_> = (0..OF_A_HOST).filter_map(|_| ask(FLOOD)).collect();
    assert_eq!(flood.len(), OF_A_HOST as usize, "a host has its places");
    assert!(ask(FLOOD).is_none(), "a host has more places than its own");
    // All of the flood but one give way in the end.
    let others = PLACES - 1;
    let mut waiting: Vec<_> = (0..others).filter_map(|n| ask(OTHERS + n)).collect();
    assert_eq!(waiting.len(), others as usize, "another host has no place");
    assert!(ask(OTHERS + others).is_none(), "there are more places");
    // The ids of those that gave way are destroyed by the workqueue.
    sim::sleep(1000);
    waiting.extend(flood.into_iter().filter(|link| !link.get().is_closed));
    assert_eq!(waiting.len(), PLACES as usize, "one of the flood is left");
    waiting
}

/// All are accepted, and vanish. The server waits for some of them.
fn leave(stand: &Stand, waiting: &[Ptr<Link>]) {
    for link in waiting {
        let is_accepted = sim::wait_for(link.0, 10_000, || link.get().is_accepted);
        assert!(is_accepted, "a peer is not accepted");
    }
    waiting.iter().for_each(|link| link.lose());
    stand.server.close_connections();
    sim::sleep(1000);
    let leaving = figures()["leaving"];
    assert!((1..=LEAVING).contains(&leaving), "{leaving} are leaving");
    sim::sleep(15_000);
}
