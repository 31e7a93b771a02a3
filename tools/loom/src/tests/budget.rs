// SPDX-License-Identifier: GPL-2.0

//! The budget of Receive buffers.

use super::check;
use crate::recv::budget::Budget;
use kernel::{
    prelude::*,
    sync::{
        atomic::{Atomic, Relaxed},
        Arc,
    },
};
use loom::thread;

#[test]
fn two_pools_never_have_more_buffers_than_the_limit() {
    check(|| {
        let whole = Arc::new(Budget::new(), GFP_KERNEL).unwrap();
        whole.used();
        let budget = Arc::new(Budget::part_of(whole.clone()), GFP_KERNEL).unwrap();
        budget.used();
        let taken = Arc::new(Atomic::new(0), GFP_KERNEL).unwrap();
        taken.load(Relaxed);
        let take = |budget: Arc<Budget>, taken: Arc<Atomic<i32>>| {
            move || {
                if budget.take(Some(1)) {
                    assert_eq!(taken.fetch_add(1, Relaxed), 0, "beyond the limit");
                    taken.add(-1, Relaxed);
                    budget.put();
                    return 1;
                }
                0
            }
        };
        let other = thread::spawn(take(budget.clone(), taken.clone()));
        let count = take(budget.clone(), taken)() + other.join().unwrap();
        assert!(count > 0, "one of them fits");
        assert_eq!((budget.used(), whole.used()), (0, 0));
    });
}
