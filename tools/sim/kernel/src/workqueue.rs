// SPDX-License-Identifier: GPL-2.0

//! Workqueues: tasks that run what is queued, each work item in one task at a time.

use crate::{sim, sync::Arc};
use core::{cell::Cell, marker::PhantomData};
use pin_init::PinInit;
use std::cell::RefCell;

/// The workers at first. [`Pool::hire`] adds more.
const WORKERS: usize = 6;

struct Item {
    id: usize,
    number: u64,
    run: Box<dyn FnOnce()>,
}

#[derive(Default)]
struct Inner {
    queued: Vec<Item>,
    running: Vec<(usize, u64)>,
    /// Delayed items: when, and what.
    delayed: Vec<(u64, Item)>,
    disabled: Vec<usize>,
    number: u64,
    is_ending: bool,
    tasks: Vec<shuttle::thread::JoinHandle<()>>,
}

impl Inner {
    /// Returns true if no worker runs this item.
    fn is_free(&self, item: &Item) -> bool {
        self.running.iter().all(|(id, _)| *id != item.id)
    }
}

/// A workqueue.
#[derive(Default)]
pub struct Pool {
    inner: RefCell<Inner>,
}

struct Ptr(*mut Pool);
// SAFETY: All tasks are in one thread of the host.
unsafe impl Send for Ptr {}

impl Ptr {
    fn get<'a>(&self) -> &'a Pool {
        // SAFETY: The pool waits for its tasks before it ends.
        unsafe { &*self.0 }
    }
}

/// Makes a workqueue.
pub fn create() -> *mut Pool {
    sim::count("workqueue", 1);
    let pool = Box::into_raw(Box::<Pool>::default());
    let tasks = (0..=WORKERS).map(|n| {
        let ptr = Ptr(pool);
        sim::spawn(&format!("worker {n}"), move || match n {
            WORKERS => ptr.get().wait_for_delayed(),
            _ => ptr.get().work(),
        })
    });
    let tasks = tasks.collect();
    Ptr(pool).get().inner.borrow_mut().tasks = tasks;
    pool
}

/// Runs what is queued and ends the workqueue.
///
/// # Safety
///
/// `pool` is of `create()`, and nobody uses it any more.
pub unsafe fn destroy(pool: *mut Pool) {
    let this = Ptr(pool).get();
    this.flush();
    this.inner.borrow_mut().is_ending = true;
    this.changed();
    let tasks = std::mem::take(&mut this.inner.borrow_mut().tasks);
    for task in tasks {
        task.join().expect("a worker does not fail");
    }
    sim::count("workqueue", -1);
    // SAFETY: It is of `create()`, and its tasks have ended.
    drop(unsafe { Box::from_raw(pool) });
}

impl Pool {
    fn changed(&self) {
        sim::wake(self);
    }

    /// Queues `run`, now or after a time.
    pub fn queue(&self, id: usize, delay: u64, run: Box<dyn FnOnce()>) {
        sim::point();
        let mut inner = self.inner.borrow_mut();
        if inner.disabled.contains(&id) {
            return;
        }
        inner.number += 1;
        let number = inner.number;
        let item = Item { id, number, run };
        match delay {
            0 => inner.queued.push(item),
            _ => inner.delayed.push((sim::now() + delay, item)),
        }
        drop(inner);
        self.hire();
        self.changed();
    }

    /// Adds a worker if an item waits for those that run others. The kernel does so up to 1024 workers.
    fn hire(&self) {
        let workers = {
            let inner = self.inner.borrow();
            let workers = inner.tasks.len().saturating_sub(1);
            let is_free = |item| inner.is_free(item);
            if inner.running.len() < workers || !inner.queued.iter().any(is_free) {
                return;
            }
            workers
        };
        let ptr = Ptr(core::ptr::from_ref(self).cast_mut());
        let name = format!("worker {}", workers + 1);
        let task = sim::spawn(&name, move || ptr.get().work());
        self.inner.borrow_mut().tasks.push(task);
    }

    /// Waits for all that is queued now, but not for what is delayed.
    pub fn flush(&self) {
        let number = self.inner.borrow().number;
        sim::wait(self, || {
            let inner = self.inner.borrow();
            let queued = inner.queued.iter().map(|item| item.number);
            let mut all = queued.chain(inner.running.iter().map(|(_, number)| *number));
            all.all(|one| one > number)
        });
    }

    /// Cancels a delayed item, waits for it, and lets it not be queued again.
    pub fn disable(&self, id: usize) {
        {
            let mut inner = self.inner.borrow_mut();
            inner.disabled.push(id);
            inner.delayed.retain(|(_, item)| item.id != id);
            inner.queued.retain(|item| item.id != id);
        }
        self.changed();
        sim::wait(self, || {
            let inner = self.inner.borrow();
            inner.running.iter().all(|(running, _)| *running != id)
        });
        self.inner.borrow_mut().disabled.retain(|one| *one != id);
    }

    fn take(&self) -> Option<Item> {
        let mut inner = self.inner.borrow_mut();
        let at = inner.queued.iter().position(|item| inner.is_free(item))?;
        let item = inner.queued.remove(at);
        inner.running.push((item.id, item.number));
        Some(item)
    }

    fn work(&self) {
        loop {
            let mut next = None;
            sim::wait(self, || {
                next = self.take();
                next.is_some() || self.inner.borrow().is_ending
            });
            let Some(Item { number, run, .. }) = next else {
                return;
            };
            run();
            self.inner
                .borrow_mut()
                .running
                .retain(|(_, one)| *one != number);
            self.changed();
        }
    }

    fn wait_for_delayed(&self) {
        loop {
            let (number, left) = {
                let inner = self.inner.borrow();
                if inner.is_ending {
                    return;
                }
                let first = inner.delayed.iter().map(|(at, _)| *at).min();
                (inner.number, first.map(|at| at.saturating_sub(sim::now())))
            };
            let is_changed = || {
                let inner = self.inner.borrow();
                inner.number != number || inner.is_ending
            };
            match left {
                Some(left) => sim::wait_for(self, left, is_changed),
                None => {
                    sim::wait(self, is_changed);
                    true
                }
            };
            self.queue_due();
        }
    }

    fn queue_due(&self) {
        let mut inner = self.inner.borrow_mut();
        let now = sim::now();
        let (due, later) = inner.delayed.drain(..).partition(|(at, _)| *at <= now);
        inner.delayed = later;
        let due: Vec<(u64, Item)> = due;
        inner.queued.extend(due.into_iter().map(|(_, item)| item));
        drop(inner);
        self.hire();
        self.changed();
    }
}

/// A work item, in what it belongs to.
pub struct Work<T> {
    is_queued: Cell<bool>,
    _of: PhantomData<fn(T)>,
}

// SAFETY: All tasks are in one thread of the host.
unsafe impl<T> Sync for Work<T> {}

impl<T> Work<T> {
    pub fn new(_: &'static str) -> impl PinInit<Self> {
        let make = |slot: *mut Self| {
            let this = Self {
                is_queued: Cell::new(false),
                _of: PhantomData,
            };
            // SAFETY: The slot is valid for writes.
            unsafe { slot.write(this) };
            Ok(())
        };
        // SAFETY: The closure fills the slot.
        unsafe { pin_init::pin_init_from_closure(make) }
    }
}

/// # Safety
///
/// None here: the trait is unsafe in the kernel crate.
pub unsafe trait HasWork: Sized {
    fn work(&self) -> &Work<Self>;
}

pub trait WorkItem {
    type Pointer;
    fn run(this: Self::Pointer);
}

/// # Safety
///
/// None here, as above.
pub unsafe trait RawWorkItem<const ID: u64> {
    type EnqueueOutput;
    fn enqueue_on(self, pool: &Pool) -> Self::EnqueueOutput;
}

// SAFETY: See the trait.
unsafe impl<T: HasWork + WorkItem<Pointer = Arc<T>> + 'static> RawWorkItem<0> for Arc<T> {
    type EnqueueOutput = Result<(), Self>;

    fn enqueue_on(self, pool: &Pool) -> Result<(), Self> {
        sim::point();
        if self.work().is_queued.replace(true) {
            return Err(self);
        }
        let id = Arc::as_ptr(&self).addr();
        let run = move || {
            self.work().is_queued.set(false);
            T::run(self);
        };
        pool.queue(id, 0, Box::new(run));
        Ok(())
    }
}

#[repr(transparent)]
pub struct Queue(Pool);

impl Queue {
    pub unsafe fn from_raw<'a>(ptr: *const crate::bindings::workqueue_struct) -> &'a Self {
        // SAFETY: `Queue` is transparent.
        unsafe { &*ptr.cast() }
    }

    pub fn enqueue<W: RawWorkItem<ID>, const ID: u64>(&self, work: W) -> W::EnqueueOutput {
        work.enqueue_on(&self.0)
    }
}
