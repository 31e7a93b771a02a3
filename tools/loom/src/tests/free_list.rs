// SPDX-License-Identifier: GPL-2.0

//! Free lists of boxes.

use super::{check, Content};
use crate::free_list::FreeList;
use kernel::prelude::*;
use loom::{sync::Arc, thread};

/// A box with a number, and the number of its users so far.
struct Item {
    number: u32,
    uses: Content,
}

fn item(number: u32) -> KBox<Item> {
    let uses = Content::new(0);
    KBox::new(Item { number, uses }, GFP_KERNEL).unwrap()
}

/// Changes the contents, as an owner may.
fn make_use_of(item: &Item) {
    item.uses.set(item.uses.get() + 1);
}

fn list<const N: usize>() -> Arc<FreeList<Item, N>> {
    let list = FreeList::new();
    assert!(list.take().is_none());
    Arc::new(list)
}

/// Takes a box, changes its contents, and puts it again. Returns the number of boxes that were taken,
/// and the box if the list seemed to be full.
fn use_one<const N: usize>(list: &FreeList<Item, N>) -> (u32, Option<KBox<Item>>) {
    match list.take() {
        Some(item) => {
            make_use_of(&item);
            (1, list.put(item))
        }
        None => (0, None),
    }
}

#[test]
fn a_box_that_another_cpu_takes_has_its_contents() {
    check(|| {
        let list = list::<1>();
        let other = list.clone();
        let other = thread::spawn(move || {
            let item = item(1);
            make_use_of(&item);
            assert!(other.put(item).is_none());
        });
        if let Some(item) = list.take() {
            assert_eq!(item.uses.get(), 1);
        }
        other.join().unwrap();
    });
}

#[test]
fn no_box_is_lost_or_doubled() {
    check(|| {
        let list = list::<2>();
        assert!(list.put(item(1)).is_none());
        let putter = list.clone();
        let putter = thread::spawn(move || putter.put(item(2)));
        let user = list.clone();
        let user = thread::spawn(move || use_one(&user));
        let (uses, ours) = use_one(&list);
        let (other_uses, theirs) = user.join().unwrap();
        let over = [putter.join().unwrap(), ours, theirs];
        let left = core::iter::from_fn(|| list.take());
        let items: Vec<_> = left.chain(over.into_iter().flatten()).collect();
        let mut numbers: Vec<_> = items.iter().map(|item| item.number).collect();
        numbers.sort_unstable();
        assert_eq!(numbers, [1, 2]);
        let seen: u32 = items.iter().map(|item| item.uses.get()).sum();
        assert_eq!(seen, uses + other_uses);
    });
}

#[test]
fn a_full_list_gives_one_of_two_boxes_back() {
    check(|| {
        let list = list::<1>();
        let other = list.clone();
        let other = thread::spawn(move || other.put(item(1)).is_none());
        let is_put = list.put(item(2)).is_none();
        assert_ne!(is_put, other.join().unwrap());
        assert_eq!(list.count(), 1);
    });
}
