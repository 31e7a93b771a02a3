// SPDX-License-Identifier: GPL-2.0

//! The model of the kernel's orderings: known litmus tests.

use super::{check, Content};
use kernel::sync::atomic::{Acquire, AtomicFlag, Full, OfLoad, OfStore, Order, Relaxed, Release};
use loom::{sync::Arc, thread};

/// A message that one thread writes, and the flag that announces it.
fn pass_message<S: OfStore + 'static, L: OfLoad + 'static>(store: fn() -> S, load: fn() -> L) {
    check(move || {
        let pair = Arc::new((AtomicFlag::new(false), Content::new(0)));
        pair.0.load(Relaxed);
        let writer = pair.clone();
        let writer = thread::spawn(move || {
            writer.1.set(1);
            writer.0.store(true, store());
        });
        if pair.0.load(load()) {
            assert_eq!(pair.1.get(), 1);
        }
        writer.join().unwrap();
    });
}

#[test]
fn release_and_acquire_pass_a_message() {
    pass_message(|| Release, || Acquire);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_relaxed_store_passes_no_message() {
    pass_message(|| Relaxed, || Acquire);
}

#[test]
#[should_panic(expected = "Causality violation")]
fn a_relaxed_load_passes_no_message() {
    pass_message(|| Release, || Relaxed);
}

/// Two threads that each set a flag and look at the flag of the other.
fn meet<O: Order + 'static>(order: fn() -> O) {
    check(move || {
        let flags = Arc::new([AtomicFlag::new(false), AtomicFlag::new(false)]);
        flags.each_ref().map(|flag| flag.load(Relaxed));
        let other = flags.clone();
        let other = thread::spawn(move || {
            other[1].xchg(true, order());
            other[0].load(Relaxed)
        });
        flags[0].xchg(true, order());
        let saw = flags[1].load(Relaxed);
        assert!(other.join().unwrap() || saw, "missed each other");
    });
}

#[test]
fn full_barriers_let_two_threads_meet() {
    meet(|| Full);
}

#[test]
#[should_panic(expected = "missed each other")]
fn release_lets_two_threads_miss_each_other() {
    meet(|| Release);
}

#[test]
#[should_panic(expected = "missed each other")]
fn a_cmpxchg_that_fails_orders_nothing() {
    check(|| {
        let flags = Arc::new([AtomicFlag::new(false), AtomicFlag::new(false)]);
        flags.each_ref().map(|flag| flag.load(Relaxed));
        let other = flags.clone();
        let other = thread::spawn(move || {
            other[1].xchg(true, Full);
            other[0].load(Relaxed)
        });
        flags[0].store(true, Relaxed);
        let saw = flags[1].cmpxchg(true, true, Full).is_ok();
        assert!(other.join().unwrap() || saw, "missed each other");
    });
}
