// SPDX-License-Identifier: GPL-2.0

//! A run: the module is loaded, peers make Calls under the faults that the seed draws, and all is
//! torn down. At the end nothing may be left.

use crate::{
    counters::Counters,
    manner::Manner,
    peer::{Peer, LONG, SHORT},
    stand::{check_idle, check_last_peer, remove, Stand, DRAIN},
};
use bindings::{
    cq, ib_device, ib_event_type_IB_EVENT_DEVICE_FATAL, link::Link, report, svc_serv,
    svcrdma_limits, Ptr,
};
use kernel::sim;
use std::sync::{
    atomic::{AtomicU64, Ordering::Relaxed},
    Arc,
};

/// The Calls that peers have seen answered, in all runs.
pub static ANSWERED: AtomicU64 = AtomicU64::new(0);

/// How a run ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Ending {
    /// The peers leave, then the server stops.
    Peaceful,
    /// The device is removed while peers make Calls.
    Removal,
    /// The server stops while peers make Calls.
    Stop,
    /// The device reports a fatal error, and recovers.
    Fatal,
}

impl Ending {
    const ALL: [Self; 4] = [Self::Peaceful, Self::Removal, Self::Stop, Self::Fatal];
}

/// The parameters of a run, which the seed draws.
#[derive(Debug)]
struct Plan {
    manners: Vec<Manner>,
    calls: u32,
    threads: u64,
    is_iwarp: bool,
    depth: u32,
    memory: u64,
    map: u64,
    post: u64,
    keeps: u64,
    defers: u64,
    drops: u64,
    callbacks: u64,
    /// An administrator closes connections, and queues of the device fail.
    is_restless: bool,
    /// The device loses completions, or does not signal them.
    loses: u64,
    misses: u64,
    /// Completion queues stop.
    stops: bool,
    ending: Ending,
}

impl Plan {
    fn draw() -> Self {
        let is_quiet = sim::chance(512);
        let is_unmapped = is_quiet && sim::chance(128);
        let count = 1 + sim::below(4);
        let manner = |_| match is_quiet || sim::chance(400) {
            true => Manner::Correct,
            false => Manner::ALL[sim::below(Manner::ALL.len() as u64) as usize],
        };
        let fault = |rates: [u64; 3]| match is_quiet || sim::chance(600) {
            true => 0,
            false => rates[sim::below(3) as usize],
        };
        Self {
            manners: (0..count).map(manner).collect(),
            calls: 5 + sim::below(30) as u32,
            threads: 1 + sim::below(3),
            is_iwarp: sim::chance(256),
            depth: [64, 64, 256, 33][sim::below(4) as usize],
            memory: fault([2, 10, 100]),
            map: match is_unmapped {
                true => 400,
                false => fault([5, 100, 400]),
            },
            post: fault([0, 1, 5]),
            keeps: sim::below(2) * 300,
            defers: fault([20, 200, 600]),
            drops: fault([0, 20, 100]),
            callbacks: [0, 0, 5, 20][sim::below(4) as usize],
            is_restless: fault([0, 1, 1]) > 0,
            loses: fault([0, 0, 5]),
            misses: fault([0, 0, 40]),
            stops: fault([0, 0, 1]) > 0,
            ending: Ending::ALL[sim::below(4) as usize],
        }
    }

    /// Returns true if nothing but mappings fails, all peers behave, and no Call waits for user space.
    fn is_quiet(&self) -> bool {
        let all_correct = self.manners.iter().all(|manner| *manner == Manner::Correct);
        all_correct && !self.has_other_faults() && self.defers == 0
    }

    /// Returns the patience of the peers.
    fn patience(&self) -> u64 {
        match self.is_quiet() && self.ending == Ending::Peaceful {
            true if self.map == 0 => SHORT,
            true => UNMAPPED,
            false => LONG,
        }
    }

    fn has_faults(&self) -> bool {
        self.map > 0 || self.has_other_faults()
    }

    /// Returns true if something but mappings fails.
    fn has_other_faults(&self) -> bool {
        let rates = self.memory + self.post + self.drops;
        rates > 0 || self.is_restless || self.keeps_completions()
    }

    /// Returns true if completions may not arrive.
    fn keeps_completions(&self) -> bool {
        self.loses + self.misses > 0 || self.stops
    }

    /// Returns true if a Call may stay without an answer, so that its peer gives up.
    fn may_lose(&self) -> bool {
        self.drops > 0 || self.keeps_completions()
    }

    fn instruct(&self, server: Ptr<svc_serv>) {
        let server = server.get();
        (server.keeps, server.defers) = (self.keeps, self.defers);
        (server.drops, server.callbacks) = (self.drops, self.callbacks);
    }

    fn limits(&self) -> svcrdma_limits {
        svcrdma_limits {
            max_qp_wr: self.depth,
            max_send_sge: 3 + sim::below(30) as u32,
            max_sge_rd: 1 + sim::below(30) as u32,
            max_cqe: 8192,
            max_qp_init_rd_atom: 16,
            max_qp_rd_atom: 16,
            num_comp_vectors: 1 + sim::below(2) as u32,
            max_mr_pages: 16 + sim::below(300) as u32,
            mem_mgt_extensions: true,
            iwarp: self.is_iwarp,
        }
    }
}

/// Runs what the seed draws.
pub fn run() {
    let plan = Plan::draw();
    sim::event(format_args!("{plan:?}"));
    sim::set_parameter(sim::below(2) as u8);
    let stand = Stand::new(plan.limits(), plan.threads);
    let (device, server) = (stand.device, stand.server);
    draw_settings();
    plan.instruct(server);
    if plan.keeps_completions() {
        sim::allow(DRAIN);
    }

    let is_ending = Arc::new(AtomicU64::new(0));
    let peers = start_peers(&plan, device, &is_ending);
    let faults = start_faults(&plan, device, server, &is_ending);
    if plan.ending != Ending::Peaceful {
        sim::sleep(sim::below(100));
        end_early(&plan, device, server, &is_ending);
    }
    for peer in peers {
        peer.join().expect("a peer does not fail");
    }
    is_ending.fetch_add(1, Relaxed);
    faults.join().expect("faults do not fail");
    if matches!(plan.ending, Ending::Peaceful | Ending::Fatal) {
        // The watchdog notices a fatal error when it looks, and closes all connections then.
        sim::sleep(3000);
        let answered = check_last_peer(&stand, plan.calls.min(8));
        ANSWERED.fetch_add(answered, Relaxed);
        // A peer that vanished with nothing in flight is not missed.
        server.close_connections();
        check_idle();
    }
    check_closes(&plan);
    stand.end(plan.ending != Ending::Removal);
}

/// The patience of a peer while nothing but mappings fails, some of them several times: less than a tick
/// of the watchdog.
const UNMAPPED: u64 = 1000;

/// Small budgets let peers wait for each other.
fn draw_settings() {
    let credits = [128, 128, 4, 32][sim::below(4) as usize];
    bindings::set("credits", credits);
    let pages = [16384, 16384, 4224][sim::below(3) as usize];
    bindings::set("read_pages_per_device", pages);
    bindings::set(
        "read_pages_per_connection",
        [2112, 20, 200][sim::below(3) as usize],
    );
    bindings::set(
        "reply_pages_per_connection",
        [2112, 2, 40][sim::below(3) as usize],
    );
    bindings::set("stall_seconds", 60);
    bindings::set("release", 0);
}

/// Lets faults happen now and then, until the peers are done.
fn start_faults(
    plan: &Plan,
    device: Ptr<ib_device>,
    server: Ptr<svc_serv>,
    is_ending: &Arc<AtomicU64>,
) -> shuttle::thread::JoinHandle<()> {
    let (rates, is_restless) = ([plan.memory, plan.map, plan.post], plan.is_restless);
    let (loses, misses, stops) = (plan.loses, plan.misses, plan.stops);
    let is_ending = is_ending.clone();
    sim::spawn("faults", move || {
        let mut counters = Counters::default();
        while is_ending.load(Relaxed) == 0 {
            sim::set_faults([0; 3]);
            (device.get().loses, device.get().misses) = (0, 0);
            pause();
            counters.check();
            sim::set_faults(rates);
            (device.get().loses, device.get().misses) = (loses, misses);
            pause();
            if let Some(cq) = any(&device.get().cqs).filter(|_| stops && sim::chance(300)) {
                cq.stop(sim::below(60_000));
            }
            if is_restless && sim::chance(600) {
                disturb(device, server);
            }
        }
        sim::set_faults([0; 3]);
        (device.get().loses, device.get().misses) = (0, 0);
        device.get().cqs.iter().for_each(|cq| cq.resume());
        server.get().drops = 0;
    })
}

/// Closes all connections, as an administrator may, or lets a queue of the device fail.
fn disturb(device: Ptr<ib_device>, server: Ptr<svc_serv>) {
    sim::event(format_args!("disturbed"));
    let qps = device.qps();
    match sim::below(3) {
        0 => server.close_connections(),
        1 => {
            if let Some(qp) = any(&qps) {
                expect_end(vec![qp.link()]);
                qp.report();
            }
        }
        _ => {
            if let Some(cq) = any(&device.get().cqs) {
                let qps = qps.iter().filter(|qp| qp.uses(*cq));
                expect_end(qps.map(|qp| qp.link()).collect());
                cq.fail();
            }
        }
    }
}

/// Returns any item, by seed.
fn any<T>(items: &[T]) -> Option<&T> {
    items.get(sim::below(items.len() as u64) as usize)
}

/// The milliseconds within which a connection is closed whose hardware has failed: a look of the
/// watchdog, and some time to act.
const FAILURE: u64 = 2500;

/// Connections whose hardware has failed are closed soon. Those that end already may have to wait while
/// others use all workers to wait for a queue.
fn expect_end(links: Vec<Ptr<Link>>) {
    sim::spawn_short("expectation", move || {
        for link in links {
            let ends_within = |millis| sim::wait_for(link.0, millis, || link.is_over());
            let is_closed = ends_within(FAILURE) || cq::stopped_until() > 0 && ends_within(DRAIN);
            assert!(is_closed, "a connection outlives its hardware");
        }
    });
}

/// Lets other tasks run for a while.
fn pause() {
    for _ in 0..sim::below(300) {
        sim::point();
    }
    // Not each millisecond, while a peer waits for minutes.
    sim::sleep(sim::below(1 << sim::below(12)));
}

fn start_peers(
    plan: &Plan,
    device: Ptr<ib_device>,
    is_ending: &Arc<AtomicU64>,
) -> Vec<shuttle::thread::JoinHandle<()>> {
    let start = |(host, manner): (usize, &Manner)| {
        let (manner, calls, host) = (*manner, plan.calls, host as u32 + 1);
        let (is_ending, may_fail) = (is_ending.clone(), plan.has_faults());
        let (may_lose, patience) = (plan.may_lose(), plan.patience());
        sim::spawn(&format!("peer {host}"), move || {
            for _ in 0..3 {
                let is_over = || is_ending.load(Relaxed) > 0;
                let Some(mut peer) = Peer::connect(device, host, manner) else {
                    let may_be_refused = may_fail || is_over() || !manner.is_correct();
                    assert!(may_be_refused, "peer {host} was refused");
                    continue;
                };
                (peer.may_lose, peer.patience) = (may_lose, patience);
                let is_done = peer.run(calls);
                ANSWERED.fetch_add(peer.answered, Relaxed);
                if is_done {
                    peer.close();
                    return;
                }
                let may_close = may_fail || is_over() || !manner.is_correct();
                assert!(may_close, "the connection of a correct peer was closed");
            }
        })
    };
    plan.manners.iter().enumerate().map(start).collect()
}

fn end_early(
    plan: &Plan,
    device: Ptr<ib_device>,
    server: Ptr<svc_serv>,
    is_ending: &Arc<AtomicU64>,
) {
    is_ending.store(1, Relaxed);
    sim::event(format_args!("{:?}", plan.ending));
    match plan.ending {
        Ending::Removal => remove(device),
        Ending::Fatal => {
            expect_end(device.qps().iter().map(|qp| qp.link()).collect());
            report(device, ib_event_type_IB_EVENT_DEVICE_FATAL);
        }
        Ending::Stop | Ending::Peaceful => server.stop(),
    }
}

/// No connection of a correct peer is closed for what other peers do. While a queue is stopped, all seem to do
/// nothing.
fn check_closes(plan: &Plan) {
    // Overrun, stall, silence, drop, unasked, overflow, page shortage, too slow.
    let faults_of_peers = [7, 12, 15, 18, 20, 22, 23, 24];
    let are_correct =
        cq::stopped_until() == 0 && plan.manners.iter().all(|manner| manner.is_correct());
    let closed = sim::closes()
        .into_iter()
        .find(|reason| faults_of_peers.contains(reason) && (*reason != 18 || plan.drops == 0));
    assert!(
        !are_correct || closed.is_none(),
        "a correct peer is closed for {closed:?}"
    );
}
