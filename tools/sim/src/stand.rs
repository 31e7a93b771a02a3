// SPDX-License-Identifier: GPL-2.0

//! The stand of a run: the loaded module, a device, and a server that listens.

use crate::{
    admin::check_files,
    call::Form,
    callback,
    manner::Manner,
    peer::{Peer, SHORT},
};
use bindings::{
    add_device, address, ib_device, init_net, remove_device, svc_serv, svcrdma_limits, Ptr,
};
use core::{any::Any, ffi::c_int};
use kernel::sim;
use shuttle::thread::JoinHandle;
use std::collections::HashMap;

/// A device with nothing unusual.
pub const DEVICE: svcrdma_limits = svcrdma_limits {
    max_qp_wr: 256,
    max_send_sge: 16,
    max_sge_rd: 16,
    max_cqe: 8192,
    max_qp_init_rd_atom: 16,
    max_qp_rd_atom: 16,
    num_comp_vectors: 1,
    max_mr_pages: 256,
    mem_mgt_extensions: true,
    iwarp: false,
};

/// The milliseconds that a stop of the server, the removal of a device, and the unload may take.
const STOP: u64 = 1000;
const REMOVAL: u64 = 1000;
const UNLOAD: u64 = 1000;

/// The loaded module, which the drop unloads.
type Module = Box<dyn Any>;

pub struct Stand {
    module: Module,
    pub device: Ptr<ib_device>,
    pub server: Ptr<svc_serv>,
    threads: Vec<JoinHandle<()>>,
}

/// Loads the module.
pub fn load() -> kernel::error::Result<Module> {
    bindings::memory::reset();
    bindings::reset_registry();
    Ok(Box::new(svcrdma::load()?))
}

impl Stand {
    pub fn new(limits: svcrdma_limits, threads: u64) -> Self {
        let module = load().expect("the module is loaded");
        let mut stand = Self::of(module, limits);
        stand.listen().expect("the server listens");
        stand.start(threads);
        stand
    }

    /// Makes a stand whose server does not listen yet.
    pub fn of(module: Module, limits: svcrdma_limits) -> Self {
        Self {
            module,
            device: add_device(limits),
            server: Ptr::server(init_net()),
            threads: Vec::new(),
        }
    }

    pub fn listen(&self) -> Result<(), c_int> {
        self.server.listen(address(0, 20049))
    }

    /// Starts threads of nfsd.
    pub fn start(&mut self, threads: u64) {
        let start = |n| self.server.start(&format!("nfsd {n}"));
        self.threads = (0..threads).map(start).collect();
    }

    /// Stops the server, removes the device if it is still there, and unloads the module. Nothing
    /// may be left.
    pub fn end(self, has_device: bool) {
        sim::within("stop of server", STOP, || {
            self.server.stop();
            for thread in self.threads {
                thread.join().expect("a thread does not fail");
            }
        });
        if has_device {
            remove(self.device);
        }
        // Transports hold the module.
        sim::settle();
        sim::within("unload of module", UNLOAD, || drop(self.module));
        sim::check_nothing_left();
    }
}

/// Removes a device, which does not wait for peers.
pub fn remove(device: Ptr<ib_device>) {
    sim::within("removal of device", REMOVAL, || remove_device(device));
}

/// The milliseconds for which the module waits for a queue that completes nothing.
pub const DRAIN: u64 = 16_000;

/// The callbacks that the last peer has to answer: more than sunrpc has slots.
const CALLBACKS: u64 = 20;

/// After the faults, whatever they were, a new peer is served, and answers callbacks. Returns the
/// number of its Calls.
pub fn check_last_peer(stand: &Stand, calls: u32) -> u64 {
    let server = stand.server.get();
    (server.callbacks, server.defers) = (3 * CALLBACKS, 0);
    let before = server.called_back;
    let has_called_back = || stand.server.get().called_back >= before + CALLBACKS;
    let mut peer =
        Peer::connect(stand.device, 99, Manner::Correct).expect("the last peer connects");
    (peer.patience, peer.refuses) = (SHORT, false);
    assert!(
        peer.run(calls),
        "the connection of the last peer was closed"
    );
    check_resumed(&mut peer);
    peer.refuses = true;
    // Each Reply lets the server make more callbacks. After one that is refused it pauses.
    let end = sim::now() + 200_000;
    while !has_called_back() && sim::now() < end {
        peer.make(Form::Inline);
        peer.listen(100, has_called_back);
    }
    assert!(has_called_back(), "callbacks are not answered");
    check_files();
    peer.close();
    peer.answered
}

/// The callbacks that a client gets between two Replies: as many as it has Receives.
const BETWEEN_REPLIES: usize = callback::RECEIVES;

/// After that many callbacks the next one waits for a Reply. It is sent then, and not when the watchdog
/// looks.
fn check_resumed(peer: &mut Peer) {
    peer.make(Form::Inline);
    // The server pauses for up to 50 ms between callbacks.
    peer.listen_until_quiet(SHORT);
    assert!(
        peer.called >= BETWEEN_REPLIES,
        "{} callbacks since a Reply, and no more",
        peer.called
    );
    peer.make(Form::Inline);
    let is_resumed = peer.called > 0 || peer.takes_callback(SHORT);
    assert!(is_resumed, "a Reply does not resume a callback");
}

/// When all peers have left, nothing is charged to anyone.
pub fn check_idle() {
    // Two looks of the watchdog, the time that a peer has to confirm that it has left, and the time for
    // which the module waits for a queue that completes nothing.
    sim::sleep(20_000 + DRAIN);
    let values = figures();
    assert_eq!(
        values["pages"], values["pages_free"],
        "Read pages are charged: {values:?}"
    );
    for name in [
        "connections",
        "leaving",
        "receives",
        "calls_waiting",
        "calls_unanswered",
        "reply_pages",
        "unvalidated_pages",
    ] {
        assert_eq!(values[name], 0, "{name} of an idle device: {values:?}");
    }
}

/// Returns the figures of the device, as debugfs has them.
pub fn figures() -> HashMap<String, i64> {
    let text = kernel::bindings::read_debug_file(c"devices");
    let mut lines = text.lines().map(str::split_whitespace);
    let (names, values) = (lines.next().into_iter(), lines.next().into_iter());
    let pairs = names.flatten().zip(values.flatten());
    let figure = |(name, value): (&str, &str)| Some((name.into(), value.parse().ok()?));
    pairs.filter_map(figure).collect()
}
