// SPDX-License-Identifier: GPL-2.0

//! The quota of a connection, and its waiting Calls.

use super::check;
use crate::svc::conn::{call::Call, quota::Quota};
use kernel::sync::made;
use loom::{sync::Arc, thread};

/// The most pages of the connection.
fn share() -> usize {
    1
}

/// Returns a quota of which a page is taken.
fn quota() -> Arc<Quota> {
    let quota = made(Quota::new(2).unwrap()).unwrap();
    assert!(quota.take(1, share));
    Arc::new(quota)
}

/// Admits the waiting Calls that have room. Returns their number.
fn admit(quota: &Quota) -> u32 {
    let mut count = 0;
    while quota.next(share).is_some() {
        assert!(quota.pop().is_some());
        count += 1;
    }
    count
}

/// Releases a page. Returns the number of Calls that were admitted for it.
fn put(quota: &Quota) -> u32 {
    if quota.put(1) {
        admit(quota)
    } else {
        0
    }
}

/// Takes a page, or waits. Returns the number of Calls that were admitted.
fn take(quota: &Quota) -> u32 {
    if quota.take(1, share) {
        return 1;
    }
    if quota.wait(Call(1)).is_ok_and(|must_admit| must_admit) {
        admit(quota)
    } else {
        0
    }
}

#[test]
fn a_call_that_waits_gets_the_pages_that_are_released() {
    check(|| {
        let quota = quota();
        let other = quota.clone();
        let other = thread::spawn(move || put(&other));
        let admitted = take(&quota) + other.join().unwrap();
        assert_eq!(admitted, 1, "a Call waits for pages that nobody has");
        assert_eq!(quota.used(), 1);
    });
}

#[test]
fn of_two_calls_one_gets_the_page() {
    check(|| {
        let quota = quota();
        let others = [put, take].map(|act| {
            let quota = quota.clone();
            thread::spawn(move || act(&quota))
        });
        let mut admitted = take(&quota);
        for other in others {
            admitted += other.join().unwrap();
        }
        assert_eq!((admitted, quota.used()), (1, 1));
        // The page of that Call is for the other one.
        assert_eq!((put(&quota), quota.used()), (1, 1));
    });
}
