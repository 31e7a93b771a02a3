// SPDX-License-Identifier: GPL-2.0

//! The core of the simulator: a seed, a scheduler, a clock, faults, and what is counted.
//!
//! All tasks are coroutines of shuttle, in one thread of the host. A task runs until a scheduling
//! point: a lock, an atomic, a sleep, or work for another task. Time passes when no task can run.
//! So a seed determines a run.

use shuttle::{
    future::batch_semaphore::{BatchSemaphore, Fairness},
    scheduler::{Schedule, Scheduler, Task, TaskId},
    thread::{self, JoinHandle},
    Config, FailurePersistence, MaxSteps, Runner,
};
use std::{
    cell::RefCell,
    collections::{BTreeMap, HashMap, HashSet, VecDeque},
    fmt,
    sync::Arc,
};

mod bounds;
mod faults;
mod freed;
mod locks;

use bounds::Bounds;
pub use bounds::{allow, closes, note_close, note_dead, within};
use faults::Faults;
pub use faults::{fail_nth, fails, has_failed, set_faults, Fault};
pub use freed::{is_freed, keep_freed, Memory};
pub use locks::{might_sleep, takes_long};
pub(crate) use locks::{note_locked, note_unlocked};

/// The most events that a failure prints.
const EVENTS: usize = 60;
/// The most decisions of the scheduler in a run, after which it counts as one that does not end.
const STEPS: usize = 20_000_000;
/// The task that moves the clock is the first that the main task makes.
const CLOCK: usize = 1;
/// The key that the end of a run waits on.
const SHORT: *const u8 = core::ptr::dangling();

/// A task that waits. `thread::park()` of shuttle would wake by itself.
#[derive(Clone)]
struct Waiter {
    task: usize,
    semaphore: Arc<BatchSemaphore>,
}

impl Waiter {
    fn new() -> Self {
        let semaphore = Arc::new(BatchSemaphore::new(0, Fairness::Unfair));
        let task = me();
        Self { task, semaphore }
    }

    fn wake(&self) {
        self.semaphore.release(1);
    }
}

#[derive(Default)]
struct World {
    seed: u64,
    random: u64,
    now: u64,
    number: u64,
    is_over: bool,
    /// The tasks that nobody waits for.
    short: u64,
    is_tracing: bool,
    parameter: u8,
    sleepers: BTreeMap<(u64, u64), Waiter>,
    waiters: HashMap<usize, Vec<Waiter>>,
    names: HashMap<usize, String>,
    /// The locks that each task has, with true for a spinlock.
    held: HashMap<usize, Vec<(&'static str, bool)>>,
    order: HashMap<&'static str, HashSet<&'static str>>,
    faults: Faults,
    counts: BTreeMap<&'static str, i64>,
    events: VecDeque<String>,
    bounds: Bounds,
}

thread_local! {
    static WORLD: RefCell<World> = RefCell::default();
}

fn world<R>(f: impl FnOnce(&mut World) -> R) -> R {
    WORLD.with(|world| f(&mut world.borrow_mut()))
}

/// Draws a number of the seed.
fn draw(random: &mut u64) -> u64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    random.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 16
}

/// Picks any task that can run; the clock only if no other can.
struct Random {
    random: u64,
    is_used: bool,
}

impl Scheduler for Random {
    fn new_execution(&mut self) -> Option<Schedule> {
        let is_first = !std::mem::replace(&mut self.is_used, true);
        is_first.then(|| Schedule::new(0))
    }

    fn next_task(&mut self, tasks: &[&Task], _: Option<TaskId>, _: bool) -> Option<TaskId> {
        let is_clock = |task: &Task| usize::from(task.id()) == CLOCK;
        let others = tasks.len() - usize::from(tasks.iter().any(|task| is_clock(task)));
        if others == 0 {
            return Some(tasks[0].id());
        }
        let chosen = draw(&mut self.random) as usize % others;
        let mut others = tasks.iter().filter(|task| !is_clock(task));
        others.nth(chosen).map(|task| task.id())
    }

    fn next_u64(&mut self) -> u64 {
        draw(&mut self.random)
    }
}

/// Runs `scenario` under `seed`.
pub fn run(seed: u64, is_tracing: bool, scenario: impl Fn() + Send + Sync + 'static) {
    let random = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    keep_freed(false);
    world(|world| {
        *world = World {
            seed,
            random,
            is_tracing,
            ..World::default()
        }
    });
    let mut config = Config::new();
    config.stack_size = 0x40000;
    config.failure_persistence = FailurePersistence::None;
    config.max_steps = MaxSteps::FailAfter(STEPS);
    config.silence_warnings = true;
    let scheduler = Random {
        random: random.rotate_left(32) | 1,
        is_used: false,
    };
    Runner::new(scheduler, config).run(move || {
        name_task("main");
        let clock = spawn("clock", run_clock);
        scenario();
        world(|world| world.is_over = true);
        clock.join().expect("the clock does not fail");
    });
}

fn run_clock() {
    loop {
        let sleeper = world(|world| {
            if world.is_over {
                return None;
            }
            let ((at, _), sleeper) = world.sleepers.pop_first()?;
            world.now = world.now.max(at);
            Some(sleeper)
        });
        if sleeper.is_none() && !world(|world| world.is_over) {
            let names = world(|world| {
                let tasks = world.waiters.values().flatten().map(|waiter| waiter.task);
                let names = tasks.filter_map(|task| world.names.get(&task).cloned());
                names.collect::<Vec<_>>()
            });
            panic!("no task can run: {names:?} wait");
        }
        match sleeper {
            Some(sleeper) => sleeper.wake(),
            None => return,
        }
        if let Some((what, number)) = world(|world| world.bounds.exceeded(world.now)) {
            panic!("{what} {number} takes too long");
        }
        thread::yield_now();
    }
}

fn me() -> usize {
    shuttle::current::get_current_task().map_or(usize::MAX, usize::from)
}

fn name_task(name: &str) {
    let me = me();
    world(|world| world.names.insert(me, name.into()));
}

/// Starts a task.
pub fn spawn(name: &str, f: impl FnOnce() + Send + 'static) -> JoinHandle<()> {
    let name = name.to_string();
    let named = name.clone();
    let builder = thread::Builder::new().name(name);
    let task = builder.spawn(move || {
        name_task(&named);
        f();
    });
    task.expect("shuttle makes the task")
}

/// Starts a task that nobody waits for, but the end of the run.
pub fn spawn_short(name: &str, f: impl FnOnce() + Send + 'static) {
    world(|world| world.short += 1);
    drop(spawn(name, || {
        f();
        world(|world| world.short -= 1);
        wake(SHORT);
    }));
}

/// Waits for the tasks that nobody waits for.
pub fn settle() {
    wait(SHORT, || world(|world| world.short) == 0);
}

/// A point at which another task may run.
pub fn point() {
    if world(|world| !world.is_over && draw(&mut world.random) % 4 == 0) {
        thread::yield_now();
    }
}

/// Returns a number below `limit`, by seed.
pub fn below(limit: u64) -> u64 {
    world(|world| draw(&mut world.random)) % limit.max(1)
}

/// Returns true in `n` of 1024 cases, by seed.
pub fn chance(n: u64) -> bool {
    below(1024) < n
}

/// Returns the time, in milliseconds.
pub fn now() -> u64 {
    world(|world| world.now)
}

pub fn sleep(millis: u64) {
    wait_for(core::ptr::null::<u8>(), millis, || false);
}

fn park(key: usize, deadline: Option<u64>) {
    let waiter = Waiter::new();
    let place = world(|world| {
        world.number += 1;
        let place = deadline.map(|deadline| (deadline, world.number));
        if let Some(place) = place {
            world.sleepers.insert(place, waiter.clone());
        }
        world.waiters.entry(key).or_default().push(waiter.clone());
        place
    });
    waiter
        .semaphore
        .acquire_blocking(1)
        .expect("the semaphore stays open");
    world(|world| {
        if let Some(place) = place {
            world.sleepers.remove(&place);
        }
        if let Some(waiters) = world.waiters.get_mut(&key) {
            waiters.retain(|one| one.task != waiter.task);
        }
    });
}

/// Waits until `is_met`; `wake()` of the same object looks again.
pub fn wait<T>(object: *const T, mut is_met: impl FnMut() -> bool) {
    might_sleep("wait");
    point();
    while !is_met() {
        park(object.addr(), None);
    }
}

/// Waits for at most `millis`. Returns true if `is_met`.
pub fn wait_for<T>(object: *const T, millis: u64, mut is_met: impl FnMut() -> bool) -> bool {
    might_sleep("wait");
    point();
    let deadline = now() + millis;
    while !is_met() {
        if now() >= deadline {
            return false;
        }
        park(object.addr(), Some(deadline));
    }
    true
}

/// Wakes all that wait with `object`.
pub fn wake<T>(object: *const T) {
    let waiters = world(|world| world.waiters.remove(&object.addr()));
    for waiter in waiters.into_iter().flatten() {
        waiter.wake();
    }
}

/// Sets the module's parameter.
pub fn set_parameter(value: u8) {
    world(|world| world.parameter = value);
}

pub fn parameter() -> u8 {
    world(|world| world.parameter)
}

/// Counts objects: what there is too many of at the end has leaked.
pub fn count(what: &'static str, n: i64) {
    let now = world(|world| {
        let count = world.counts.entry(what).or_default();
        *count += n;
        *count
    });
    assert!(now >= 0, "{what}: more ended than were made");
}

/// Returns the number of objects.
pub fn counted(what: &str) -> i64 {
    world(|world| world.counts.get(what).copied().unwrap_or(0))
}

/// Fails if objects are left.
pub fn check_nothing_left() {
    settle();
    let left: Vec<_> = world(|world| {
        let counts = world.counts.iter().filter(|(_, count)| **count != 0);
        counts.map(|(what, count)| (*what, *count)).collect()
    });
    assert!(left.is_empty(), "left at the end: {left:?}");
}

/// Trace events are always on: they make the time line.
pub fn is_tracing() -> bool {
    true
}

/// Adds an event to the time line.
pub fn event(what: fmt::Arguments<'_>) {
    let (me, what) = (me(), what.to_string());
    world(|world| {
        let name = world.names.get(&me).map_or("-", String::as_str);
        let (seconds, millis) = (world.now / 1000, world.now % 1000);
        let line = format!("{seconds:>4}.{millis:03} {name:<12} {what}");
        if world.is_tracing {
            println!("{line}");
        }
        if world.events.len() == EVENTS {
            world.events.pop_front();
        }
        world.events.push_back(line);
    });
}

pub fn print(level: &str, what: fmt::Arguments<'_>) {
    let what = what.to_string();
    event(format_args!("{level}: {}", what.trim_end()));
}

/// Returns the seed and the last events.
pub fn story() -> (u64, Vec<String>) {
    WORLD.with(|world| match world.try_borrow() {
        Ok(world) => (world.seed, world.events.iter().cloned().collect()),
        Err(_) => (0, Vec::new()),
    })
}
