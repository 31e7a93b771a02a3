// SPDX-License-Identifier: GPL-2.0

//! The checks of lockdep and might_sleep().

use super::{me, world, World};

/// Fails if this task has a spinlock.
pub fn might_sleep(what: &str) {
    if let Some(name) = spinlock() {
        panic!("{what} may sleep, under the spinlock {name:?}");
    }
}

/// Fails if this task has a spinlock: `what` takes too long for others to wait.
pub fn takes_long(what: &str) {
    if let Some(name) = spinlock() {
        panic!("{what} under the spinlock {name:?}");
    }
}

/// Returns the name of a spinlock that this task has.
fn spinlock() -> Option<&'static str> {
    let me = me();
    world(|world| {
        let mut held = world.held.get(&me).into_iter().flatten();
        held.find(|(_, is_spin)| *is_spin).map(|(name, _)| *name)
    })
}

/// Notes a lock of this task, and fails if locks are taken in this order and in another one.
pub(crate) fn note_locked(name: &'static str, is_spin: bool) {
    let me = me();
    let crossed = world(|world| {
        let held = world.held.entry(me).or_default();
        let before: Vec<_> = held.iter().map(|(name, _)| *name).collect();
        held.push((name, is_spin));
        before.into_iter().find(|before| {
            world.order.entry(before).or_default().insert(name) && world.leads(name, before)
        })
    });
    if let Some(before) = crossed {
        panic!("locks {before:?} and {name:?} are taken in both orders");
    }
}

pub(crate) fn note_unlocked(name: &'static str) {
    let me = me();
    world(|world| {
        let held = world.held.entry(me).or_default();
        if let Some(at) = held.iter().rposition(|(held, _)| *held == name) {
            held.remove(at);
        }
    });
}

impl World {
    fn leads(&self, from: &str, to: &str) -> bool {
        from == to
            || self
                .order
                .get(from)
                .into_iter()
                .flatten()
                .any(|next| self.leads(next, to))
    }
}
