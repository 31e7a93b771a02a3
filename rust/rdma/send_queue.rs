// SPDX-License-Identifier: GPL-2.0

//! The work of a connection: what is posted to its send queue, and what waits for room there.
//!
//! RDMA Reads of Calls and replies alike go through one [`SendQueue`], and are posted from its front.
//! What needs more work requests than there is room for is posted piece by piece. The device uses
//! the memory of posted work, so the [`SendQueue`] owns it meanwhile: it stays in the slot of its last
//! work request until a completion for that slot or a later one gives it back (unsignalled work
//! has no completion of its own), or until the queue pair is gone. What a completion means for
//! what was posted before it takes an order that iWARP does not give Reads and Sends: there the
//! last work request of Reads is a fenced, signalled invalidation of memory, without which work is
//! never whole.
//!
//! Memory that was registered for Reads may be used for something else when the device has made it
//! invalid. Only a [`SendQueue`] says so, of the memory region that the completed work was posted with (its
//! [`Claim`]): no function outside takes such a statement from its caller.
//!
//! Contexts: any process context, completions included; only [`SendQueue::shut`] and making one sleep.
//! Closing the gate and posting exclude each other under the lock, as draining a queue pair
//! demands.

use crate::{
    cm::{
        CmId,
        Events, //
    },
    completion::Completion,
    handler::Handler,
    memory_region::Claim,
    progress,
    qp::Qp,
    slots::Slots,
    work::{
        Built,
        Job,
        Posted,
        Work, //
    },
};
use kernel::{
    new_spinlock,
    prelude::*,
    sync::SpinLock, //
};
use support::ring::{
    Refused,
    Ring, //
};
use svcrdma_proto::sq::{
    Signals,
    SqSlots, //
};

/// Seconds after which unsignalled work is made to complete.
const UNSIGNALLED_SECONDS: u32 = 4;

/// How much a [`SendQueue`] can take.
pub struct Size {
    /// Work requests that can be posted at once.
    pub depth: u32,
    /// Work that can wait.
    pub waiting: usize,
}

/// What a step of posting came to.
pub enum Step {
    /// Nothing waits, or nothing can be posted yet, or any more.
    Idle,
    /// What waits needs more room.
    Full,
    /// Work requests were posted.
    Posted {
        /// Their number.
        count: u32,
        /// Bytes of the RDMA Reads among them.
        read: u32,
    },
    /// Posting has failed, and nothing more is posted: the connection is to be closed.
    Failed(Error),
}

/// Whether work can be posted.
enum Gate<H: Handler, E: Events> {
    /// Not yet: the connection is being accepted.
    Opening,
    /// Yes.
    Open(Qp<H, E>),
    /// Not any more, since posting has failed: what follows would be seen without what is missing.
    Broken(Qp<H, E>),
    /// Not any more.
    Closed,
}

/// What the lock protects.
///
/// # Invariants
///
/// Memory that posted work requests name belongs to the work at the front of `waiting` or to work
/// in `slots`, which are neither changed nor taken out before their completion or while `gate` has
/// a queue pair. `gate` is dropped first.
struct Inner<W: Work, H: Handler, E: Events> {
    gate: Gate<H, E>,
    queue: SqSlots,
    signals: Signals,
    slots: Slots<Posted<W>>,
    waiting: Ring<Job<W>>,
    progress: progress::Progress,
    /// Seconds since the connection was made, as far as [`SendQueue::tick`] counts.
    now: u32,
}

/// The work of a connection.
#[pin_data]
pub struct SendQueue<W: Work, H: Handler, E: Events> {
    #[pin]
    inner: SpinLock<Inner<W, H, E>>,
}

impl<W: Work, H: Handler, E: Events> SendQueue<W, H, E> {
    /// Makes one that does not post yet. May sleep.
    pub fn new(size: &Size) -> Result<impl PinInit<Self>> {
        // INVARIANT: Nothing is posted.
        let inner = Inner {
            gate: Gate::Opening,
            queue: SqSlots::new(size.depth),
            signals: Signals::new(),
            slots: Slots::new(size.depth)?,
            waiting: Ring::with_capacity(size.waiting)?,
            progress: progress::Progress::new(),
            now: 0,
        };
        Ok(pin_init!(Self {
            inner <- new_spinlock!(inner, "svcrdma send queue"),
        }))
    }

    /// Opens the gate: what waits can be posted to `qp`, which has the same depth. Once.
    pub fn open(&self, qp: Qp<H, E>) {
        let mut inner = self.inner.lock();
        let fits = qp.depth() == inner.slots.len();
        if let (Gate::Opening, true) = (&inner.gate, fits) {
            inner.gate = Gate::Open(qp);
            return;
        }
        // It is not dropped under the lock.
        drop(inner);
        drop(qp);
    }

    /// Adds work.
    ///
    /// # Errors
    ///
    /// The work: too much waits, or nothing is posted any more.
    pub fn push(&self, work: W, source: W::Source) -> Result<(), Refused<W>> {
        let mut inner = self.inner.lock();
        let job = Job {
            work,
            since: None,
            source: Some(source),
            claim: Claim::none(),
        };
        let pushed = match inner.gate {
            Gate::Broken(_) | Gate::Closed => Err(Refused::Closed(job)),
            _ => inner.waiting.push(job).map_err(Refused::Full),
        };
        drop(inner);
        // The source is dropped here, not under the lock.
        pushed.map_err(|refused| refused.map(|job| job.work))
    }

    /// Posts a chain for the work at the front of the queue.
    pub fn step(&self) -> Step {
        self.inner.lock().step()
    }

    /// Gives work back that `completion` says is done, one at a time and the oldest first. None
    /// when nothing is left, or when the completion says that work has failed.
    pub fn retire(&self, completion: &Completion) -> Option<W> {
        self.inner.lock().retire(completion)
    }

    /// Shuts the gate, disconnects and destroys the queue pair; then gives all work to `f`, done or not.
    /// Returns the id that is left, if there was a queue pair. Sleeps. A second call does nothing.
    pub fn shut(&self, mut f: impl FnMut(W)) -> Option<CmId<E>> {
        let gate = core::mem::replace(&mut self.inner.lock().gate, Gate::Closed);
        let id = match gate {
            Gate::Closed => return None,
            // Waits until the device is done with all work. From here on none is posted.
            Gate::Open(qp) | Gate::Broken(qp) => Some(qp.end()),
            Gate::Opening => None,
        };
        while let Some((work, source)) = self.take_any() {
            drop(source);
            f(work);
        }
        id
    }

    fn take_any(&self) -> Option<(W, Option<W::Source>)> {
        let mut inner = self.inner.lock();
        if let Some(posted) = inner.slots.take_any() {
            return Some((posted.work, None));
        }
        let job = inner.waiting.pop()?;
        Some((job.work, job.source))
    }

    /// How much there is in it.
    pub fn load(&self) -> progress::Load {
        let inner = self.inner.lock();
        progress::Load {
            posted: inner.queue.outstanding(),
            waiting: inner.waiting.len(),
            oldest: inner.slots.oldest_awaited(inner.now),
            behind: inner.progress.seconds(),
        }
    }

    /// Calls `f` for all work, posted or not, under a lock: it must not come back here. Returns how many
    /// pages completed RDMA Reads have filled so far; that wraps around.
    pub fn survey(&self, mut f: impl FnMut(&W)) -> u32 {
        let inner = self.inner.lock();
        inner.slots.work().for_each(|posted| f(&posted.work));
        inner.waiting.iter().for_each(|job| f(&job.work));
        inner.progress.filled
    }

    /// `seconds` have passed: how long the peer is waited for, of whom `rate` bytes a second are
    /// expected. What waits for room waits for a completion, and unsignalled work has one posted behind
    /// it when it stays for long.
    ///
    /// # Errors
    ///
    /// The driver's: nothing more is posted, and the connection is to be closed.
    pub fn tick(&self, seconds: u32, rate: u32) -> Result<progress::Age> {
        let mut inner = self.inner.lock();
        inner.now = inner.now.wrapping_add(seconds);
        inner.mark()?;
        let is_awaited = inner.slots.is_any_awaited();
        inner.progress.look(rate);
        Ok(if is_awaited {
            inner.age(rate)
        } else {
            progress::Age::default()
        })
    }
}

impl<W: Work, H: Handler, E: Events> Inner<W, H, E> {
    fn step(&mut self) -> Step {
        let Gate::Open(qp) = &mut self.gate else {
            return Step::Idle;
        };
        let Some(job) = self.waiting.front_mut() else {
            return Step::Idle;
        };
        let room = self.queue.room() as usize;
        let mut chain = qp.begin(&mut job.claim);
        let built = match &job.source {
            Some(source) => job.work.build(source, &mut chain, room),
            None => Built::All,
        };
        let count = chain.len() as u32;
        let read = chain.bytes_read();
        let whole = built == Built::All && job.claim.is_ended();
        match (count, room) {
            (0, 0) => return Step::Full,
            // It never fits: a work request of more pieces than the device takes.
            (0, _) => return self.fail(E2BIG),
            _ => {}
        }
        // A peer that lets it go on piece by piece does not get the time of each.
        let since = *job.since.get_or_insert(self.now);
        let signal = !whole || self.signals.next(job.work.holds_resources());
        if whole {
            // A Receive buffer is posted again before the peer may send another message.
            job.source = None;
        }
        let Some(first) = self.queue.post(count) else {
            return self.fail(EINVAL);
        };
        // The lock is held, so the completion finds the work in its slot.
        // SAFETY: By the type invariant; `build` could name nothing but what `work` has, or what is
        // never freed.
        let posted = unsafe { qp.post(self.queue.slot(first), signal) };
        for i in 0..count {
            let seq = first.wrapping_add(i);
            let is_signalled = signal && i == count.wrapping_sub(1);
            let slot = self.queue.slot(seq);
            self.slots.fill(slot, seq, since, is_signalled);
        }
        self.progress.set_awaited(self.slots.is_any_awaited());
        if whole {
            self.retain(first.wrapping_add(count.wrapping_sub(1)));
        }
        match posted {
            Err(e) => self.fail(e),
            Ok(()) => Step::Posted { count, read },
        }
    }

    /// Asks for a completion of unsignalled work that nothing has followed for some time: its
    /// memory comes back, or it is known that the peer does not take it.
    // Out of line: rarely needed, and its frame is large.
    #[inline(never)]
    fn mark(&mut self) -> Result {
        let Gate::Open(qp) = &mut self.gate else {
            return Ok(());
        };
        let Some(oldest) = self.queue.oldest() else {
            return Ok(());
        };
        let age = self.slots.age(self.queue.slot(oldest), self.now);
        if self.slots.is_any_awaited()
            || age < UNSIGNALLED_SECONDS
            || !qp.begin(&mut Claim::none()).mark()
        {
            return Ok(());
        }
        let Some(seq) = self.queue.post(1) else {
            return Ok(());
        };
        let index = self.queue.slot(seq);
        // SAFETY: The chain names no memory.
        let marked = unsafe { qp.post(index, true) };
        self.slots.fill(index, seq, self.now, true);
        self.progress.set_awaited(true);
        marked.inspect_err(|e| {
            self.fail(*e);
        })
    }

    fn age(&self, rate: u32) -> progress::Age {
        let posted = self.slots.work().map(|posted| posted.work.amount().bytes);
        // The one at the front may be posted in part.
        let waiting = self.waiting.iter().map(|job| job.work.amount().bytes);
        let largest = posted.max().max(waiting.max()).unwrap_or(0);
        progress::Age {
            oldest: self.slots.oldest_awaited(self.now),
            behind: self.progress.behind(largest, rate),
        }
    }

    /// Lets nothing more be posted.
    // Out of line: rarely needed, and its frame is large.
    #[cold]
    #[inline(never)]
    fn fail(&mut self, error: Error) -> Step {
        self.gate = match core::mem::replace(&mut self.gate, Gate::Closed) {
            Gate::Open(qp) => Gate::Broken(qp),
            other => other,
        };
        Step::Failed(error)
    }

    /// Moves the work at the front of the queue to the slot of its last work request.
    fn retain(&mut self, last: u32) {
        let Some(Job { work, claim, .. }) = self.waiting.pop() else {
            return;
        };
        self.slots
            .retain(self.queue.slot(last), Posted { work, claim });
    }

    fn retire(&mut self, completion: &Completion) -> Option<W> {
        let (Gate::Open(qp) | Gate::Broken(qp)) = &self.gate else {
            // It goes: `shut` gives all work back.
            return None;
        };
        if !completion.status().is_success() {
            return None;
        }
        let last = self.slots.seq(completion.slot_of(qp.as_ptr())?)?;
        while !completion.is_spent() {
            let oldest = self.queue.oldest()?;
            // Behind `last`: it was retired already.
            if last.wrapping_sub(oldest) > u32::MAX / 2 {
                return None;
            }
            // From the last one on its slot may be taken by new work.
            if oldest == last {
                completion.spend();
            }
            // Its slot is known only as long as it is outstanding.
            let index = self.queue.slot(oldest);
            self.queue.retire(oldest);
            // INVARIANT: Work requests complete in the order of posting, and this one's has.
            let posted = self.slots.clear(index);
            self.progress.set_awaited(self.slots.is_any_awaited());
            if let Some(Posted { work, claim }) = posted {
                // SAFETY: The last work request of `work` has completed, and with it all before it.
                // `work` is as it was by the type invariant, and is still here.
                unsafe { claim.complete() };
                self.progress.count(work.amount());
                return Some(work);
            }
        }
        None
    }
}
