// SPDX-License-Identifier: GPL-2.0

//! Single failures: in each stage of a connection, each allocation, each mapping and each post
//! fails alone. A mapping fails once, or twice: then the work waits for it. A post of Receives fails
//! once or twice, at accept alone: later a grant could exceed what is posted.

use crate::{
    call::Form,
    manner::Manner,
    peer::{Peer, SHORT},
    stand::{check_idle, check_last_peer, load, Stand, DEVICE},
};
use bindings::svcrdma_limits;
use kernel::sim::{self, Fault};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

/// A stage in which something fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Stage {
    Load,
    Device,
    Listen,
    Accept,
    Call(Form),
    Callback,
    Teardown,
}

impl Stage {
    fn all() -> impl Iterator<Item = Self> {
        let before = [Self::Load, Self::Device, Self::Listen, Self::Accept];
        let calls = Form::ALL.map(Self::Call);
        let after = [Self::Callback, Self::Teardown];
        before.into_iter().chain(calls).chain(after)
    }

    /// Returns the times that each attempt fails: some are tried again at once.
    fn times(fault: Fault) -> impl Iterator<Item = u64> {
        1..=1 + u64::from(matches!(fault, Fault::Map | Fault::Receive))
    }

    /// Returns true if `fault` happens in this stage.
    fn has(self, fault: Fault) -> bool {
        fault != Fault::Receive || self == Self::Accept
    }

    /// Returns true if iWARP differs in this stage.
    fn uses_registrations(self) -> bool {
        matches!(self, Self::Call(Form::Write) | Self::Teardown)
    }
}

/// A stage, what fails in it, which attempt, and how often.
#[derive(Clone, Copy, Debug)]
struct Case {
    stage: Stage,
    fault: Fault,
    n: u64,
    times: u64,
    is_iwarp: bool,
}

static HAS_FAILED: AtomicBool = AtomicBool::new(false);
static RUNS: AtomicU64 = AtomicU64::new(0);

/// Runs all cases. Returns their number.
pub fn run_all() -> u64 {
    for stage in Stage::all() {
        for fault in Fault::ALL.into_iter().filter(|fault| stage.has(*fault)) {
            for times in Stage::times(fault) {
                run_each(stage, fault, times, false);
                if stage.uses_registrations() {
                    run_each(stage, fault, times, true);
                }
            }
        }
    }
    RUNS.load(Relaxed)
}

/// Lets each attempt fail, from the first to the last that there is.
fn run_each(stage: Stage, fault: Fault, times: u64, is_iwarp: bool) {
    for n in 1.. {
        let case = Case {
            stage,
            fault,
            n,
            times,
            is_iwarp,
        };
        RUNS.fetch_add(1, Relaxed);
        sim::run(n, false, move || case.run());
        if !HAS_FAILED.load(Relaxed) {
            return;
        }
    }
}

impl Case {
    fn run(self) {
        sim::event(format_args!("{self:?}"));
        let module = match self.during(Stage::Load, load) {
            Ok(module) => module,
            Err(_) => return sim::check_nothing_left(),
        };
        let limits = svcrdma_limits {
            iwarp: self.is_iwarp,
            // As siw.
            max_send_sge: if self.is_iwarp {
                6
            } else {
                DEVICE.max_send_sge
            },
            ..DEVICE
        };
        let mut stand = self.during(Stage::Device, || Stand::of(module, limits));
        if !stand.device.get().has_client {
            return stand.end(true);
        }
        if self.during(Stage::Listen, || stand.listen()).is_err() {
            stand.listen().expect("the server listens at last");
        }
        stand.start(2);
        self.serve(&stand);
        check_last_peer(&stand, 4);
        stand.server.close_connections();
        check_idle();
        stand.end(true);
    }

    /// Connects a peer, which makes a Call and leaves. What fails may end its connection.
    fn serve(self, stand: &Stand) {
        stand.server.get().callbacks = u64::from(self.stage == Stage::Callback);
        let device = stand.device;
        let peer = self.during(Stage::Accept, || Peer::connect(device, 1, Manner::Correct));
        if let Some(mut peer) = peer {
            if self.fault == Fault::Map {
                // The mapping is tried again soon, and not when the watchdog looks.
                peer.patience = SHORT;
            }
            for form in Form::ALL {
                self.during(Stage::Call(form), || peer.make(form));
            }
            self.during(Stage::Callback, || peer.listen(10_000, || false));
            self.during(Stage::Teardown, || {
                peer.close();
                sim::sleep(5000);
            });
        }
        // The watchdog repeats what has failed.
        sim::sleep(5000);
    }

    /// Runs a stage, in which something fails if it is the one of the case.
    fn during<R>(self, stage: Stage, f: impl FnOnce() -> R) -> R {
        if stage != self.stage {
            return f();
        }
        sim::fail_nth(self.fault, self.n, self.times);
        let result = f();
        HAS_FAILED.store(sim::has_failed(), Relaxed);
        result
    }
}
