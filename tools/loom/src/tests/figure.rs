// SPDX-License-Identifier: GPL-2.0

//! Figures: numbers that one thread at a time changes.

use super::check;
use crate::figure::Figure;
use kernel::sync::{made, SpinLock};
use loom::{sync::Arc, thread};

type Counted = (Figure<u64>, SpinLock<()>);

/// Lets two threads add 1 to the same figure, by `add`, and checks the sum.
fn add_twice(add: fn(&Counted)) {
    check(move || {
        let counted: Arc<Counted> = Arc::new((Figure::new(0), made(SpinLock::new(())).unwrap()));
        let other = counted.clone();
        let other = thread::spawn(move || add(&other));
        add(&counted);
        other.join().unwrap();
        assert_eq!(counted.0.get(), 2, "lost a change");
    });
}

#[test]
fn changes_under_a_lock_are_not_lost() {
    add_twice(|counted| {
        let _guard = counted.1.lock();
        counted.0.add(1);
    });
}

#[test]
#[should_panic(expected = "lost a change")]
fn changes_without_a_lock_are_lost() {
    add_twice(|counted| counted.0.add(1));
}

#[test]
fn a_sum_of_figures_of_one_writer_each_never_falls() {
    check(|| {
        let figures = Arc::new([Figure::<u64>::new(0), Figure::new(0)]);
        let writers = [0, 1].map(|index| {
            let figures = figures.clone();
            thread::spawn(move || figures[index].add(1))
        });
        let sum = || figures.iter().map(|figure| figure.get()).sum::<u64>();
        let before = sum();
        assert!(before <= sum());
        for writer in writers {
            writer.join().unwrap();
        }
        assert_eq!(sum(), 2);
    });
}
