// SPDX-License-Identifier: GPL-2.0

//! Pools: what the connections of a device borrow while a Call runs.
//!
//! - *Pages*, sinks of RDMA Reads. They leave with a Call, are exchanged for pages of the nfsd
//!   thread, and those come back. There are at most `read_pages_per_device`.
//! - *Transfers*, room for page references and their mappings, small or large.
//! - *Replies*, each with a send buffer.
//!
//! Completions take what is there and never allocate: a Call that finds too little waits in the `line`
//! of its peer's standing, first come first served, and `refill` makes more. nfsd threads may sleep, so they make
//! what is missing by themselves. Everything goes back to the pool and is used again.

use super::{
    call::Call,
    line::{
        Line,
        Lines,
        Loan, //
    },
    read,
    refill::{
        new_registrations,
        new_replies,
        REPLIES, //
    },
    reply::Reply,
    stats,
    stock::{
        Count,
        Pages,
        Stock,
        Wanted, //
    },
};
use core::pin::Pin;
use kernel::{
    new_spinlock,
    prelude::*,
    sync::{
        Arc,
        SpinLock, //
    },
};
use rdma::{
    device::Pd,
    memory_region::{
        Kind,
        Registration, //
    },
    page_region::{
        SendBuffer,
        Transfer, //
    },
};
use support::{
    page::Effort,
    ring::Refused, //
};
use svcrdma_proto::shares::Standing;

/// The room of a small transfer: 128 KiB, not aligned, and the page of head and tail.
pub(super) const SMALL: usize = 34;

/// The room of a large transfer: the largest payload, 4 MiB, and `nfsd`'s four extra pages.
pub(super) const LARGE: usize = 1028;

/// How many transfers of a size, and how many replies, are kept when nobody needs them.
pub(super) const KEEP: usize = 256;

/// Send contexts that nfsd's replies leave: only they can be made when there is none.
pub(super) const FOR_OTHERS: usize = 32;

/// Send contexts that answers to what cannot be decoded leave to callbacks: whoever makes others wait
/// for theirs is not to be one client.
pub(super) const FOR_CALLBACKS: usize = 16;

/// Registrations of a size that there is room for. More are not needed unless more Calls are read
/// at once.
pub(super) const REGISTRATIONS: usize = 1024;

/// The pools of a device.
pub(super) struct Pools {
    pub(super) inner: Pin<KBox<SpinLock<Stock>>>,
}

impl Pools {
    /// Makes empty pools. May sleep.
    pub(super) fn new() -> Result<Self> {
        let inner = Stock {
            pages: Pages::new(KVVec::new()),
            total: 0,
            spare: 0,
            small: KVec::with_capacity(KEEP, GFP_KERNEL)?,
            large: KVec::with_capacity(KEEP, GFP_KERNEL)?,
            replies: KVec::with_capacity(KEEP, GFP_KERNEL)?,
            lines: Lines::new(),
            no_memory: false,
            told: false,
            serving: false,
            pd: None,
            registers: None,
            small_registrations: KVec::new(),
            large_registrations: KVec::new(),
        };
        Ok(Self {
            inner: KBox::pin_init(new_spinlock!(inner, "svcrdma pools"), GFP_KERNEL)?,
        })
    }

    /// Begins to lend for a device; with `registers`, sinks are registered memory. May sleep.
    pub(super) fn open(&self, pd: &Arc<Pd>, registers: Option<Kind>) -> Result {
        if registers.is_some() {
            self.make_room_for_registrations()?;
        }
        let rooms = [Line::room()?, Line::room()?];
        let replies = new_replies(pd, REPLIES)?;
        let registrations = new_registrations(pd, registers)?;
        self.fill()?;
        {
            let mut inner = self.inner.lock();
            inner.pd = Some(pd.clone());
            inner.registers = registers;
        }
        for (standing, room) in Standing::ALL.into_iter().zip(rooms) {
            // Not under the lock.
            let before = self.inner.lock().lines.of(standing).open(room);
            drop(before);
        }
        self.put_replies(replies);
        for registration in registrations {
            self.put_registration(registration);
        }
        Ok(())
    }

    fn make_room_for_registrations(&self) -> Result {
        let small = KVec::with_capacity(REGISTRATIONS, GFP_KERNEL)?;
        let large = KVec::with_capacity(REGISTRATIONS, GFP_KERNEL)?;
        let mut inner = self.inner.lock();
        inner.small_registrations = small;
        inner.large_registrations = large;
        Ok(())
    }

    /// Lends no more, and frees what is the device's; pages and transfers stay until these pools go.
    pub(super) fn close(&self) {
        let pd = self.inner.lock().pd.take();
        drop(pd);
        loop {
            let mut inner = self.inner.lock();
            let call = inner.next_waiting();
            let reply = inner.replies.pop();
            let small = inner.small_registrations.pop();
            let large = inner.large_registrations.pop();
            drop(inner);
            if call.is_none() && reply.is_none() && small.or(large).is_none() {
                return;
            }
        }
    }

    /// The protection domain, until the pools are closed.
    pub(super) fn pd(&self) -> Option<Arc<Pd>> {
        self.inner.lock().pd.clone()
    }

    /// A reply. In an nfsd thread: may sleep.
    pub(super) fn reply(&self) -> Result<KBox<Reply>> {
        if let Some(reply) = self.take_reply(FOR_OTHERS) {
            return Ok(reply);
        }
        stats::POOL_MISSES.inc();
        let pd = self.pd().ok_or(ENODEV)?;
        // nfsd has done what was asked for: a reply that cannot be sent is its work in vain.
        Reply::new(SendBuffer::new(&pd, Effort::Full)?)
    }

    /// A reply for an answer to what cannot be decoded, if there is one. In a completion.
    pub(super) fn answer(&self) -> Option<KBox<Reply>> {
        self.take_reply(FOR_CALLBACKS)
    }

    /// A reply for a Call to a client, if there is one. In any process context.
    pub(super) fn callback(&self) -> Option<KBox<Reply>> {
        self.take_reply(0)
    }

    /// A reply, if there are more than `left`.
    fn take_reply(&self, left: usize) -> Option<KBox<Reply>> {
        let mut inner = self.inner.lock();
        let is_enough = inner.replies.len() > left;
        is_enough.then(|| inner.replies.pop()).flatten()
    }

    /// Takes a reply back.
    pub(super) fn put_reply(&self, mut reply: KBox<Reply>) {
        if let Some(transfer) = reply.clear() {
            self.put_transfer(transfer);
        }
        let mut inner = self.inner.lock();
        let over = match inner.pd.is_some() && inner.replies.len() < KEEP {
            true => inner.replies.push_within_capacity(reply).err().map(|e| e.0),
            false => Some(reply),
        };
        drop(inner);
        drop(over);
    }

    /// Takes new ones.
    pub(super) fn put_replies(&self, replies: KVec<KBox<Reply>>) {
        for reply in replies {
            self.put_reply(reply);
        }
    }

    /// A transfer with room for `pages` pages. In an nfsd thread: may sleep.
    pub(super) fn transfer(&self, pages: usize) -> Result<KBox<Transfer>> {
        let transfer = self.inner.lock().transfers(pages).pop();
        if let Some(transfer) = transfer {
            return Ok(transfer);
        }
        stats::POOL_MISSES.inc();
        new_transfer(pages)
    }

    /// Takes a transfer back; pages that are in it are released. Serves who waits for it. In any
    /// process context.
    pub(super) fn put_transfer(&self, mut transfer: KBox<Transfer>) {
        transfer.stream_mut().clear();
        let mut inner = self.inner.lock();
        let over = inner.keep(transfer);
        let is_wanted = !inner.lines.are_empty();
        drop(inner);
        drop(over);
        if is_wanted {
            self.serve();
        }
    }

    /// Takes back a sink whose pages are free to be used again, and serves who waits for them. In
    /// any process context.
    pub(super) fn put_sink(&self, sink: Loan) {
        self.keep_sink(sink);
        self.serve();
    }

    /// Takes back the registration of `sink`, which nothing reads into any more, if it has one, and
    /// serves who waits for it. Whether others wait, who may have another one in its room. In any
    /// process context.
    pub(super) fn take_registration(&self, sink: &mut Transfer) -> bool {
        let taken = sink.take_registration();
        taken.is_some_and(|registration| self.put_registration(registration))
    }

    /// Takes a registration back, and serves who waits for it; whether others wait.
    fn put_registration(&self, registration: KBox<Registration>) -> bool {
        let mut inner = self.inner.lock();
        let over = inner.keep_registration(registration);
        let is_wanted = !inner.lines.are_empty();
        drop(inner);
        drop(over);
        if is_wanted {
            self.serve();
        }
        is_wanted && !self.inner.lock().lines.are_empty()
    }

    /// Drops the registrations that were used for the connection with this number, which has ended.
    /// Whether Calls wait, for whom there may be room now. May sleep.
    pub(super) fn forget(&self, user: u64) -> bool {
        loop {
            let registration = self.inner.lock().next_used(user);
            if registration.is_none() {
                return !self.inner.lock().lines.are_empty();
            }
        }
    }

    fn keep_sink(&self, loan: Loan) {
        let (mut sink, standing, pages) = loan.end();
        if let Some(mut registration) = sink.take_registration() {
            // It was not used for this Call, whose connection may be forgotten already: of one that was
            // used for an earlier one a peer knows the key.
            if !registration.is_known() {
                registration.set_user(None);
                self.put_registration(registration);
            }
        }
        // Not under the lock.
        sink.unmap();
        let (mut inner, mut over) = (self.inner.lock(), None);
        inner.lines.of(standing).put(pages);
        while let Some(page) = sink.stream_mut().pop() {
            if let Err(page) = inner.pages.push(page) {
                inner.total = inner.total.saturating_sub(1);
                over = Some(page);
                break;
            }
        }
        let lost = sink.stream_mut().pages().len();
        inner.total = inner.total.saturating_sub(lost);
        let rest = match lost {
            0 => inner.keep(sink),
            _ => Some(sink),
        };
        drop(inner);
        drop((over, rest));
    }

    /// Says that `pages` pages which were lent will not come back.
    pub(super) fn lost_pages(&self, pages: usize) {
        let mut inner = self.inner.lock();
        inner.total = inner.total.saturating_sub(pages);
    }

    /// A sink for `call`, or the Call waits for one. Returns the Call when it cannot even wait.
    pub(super) fn sink(&self, call: Call) -> Sink {
        let mut inner = self.inner.lock();
        if inner.pd.is_none() {
            return Sink::Refused(Refused::Closed(call));
        }
        let standing = call.standing();
        if inner.is_first(standing, call.sink_pages()) {
            if let Some(sink) = inner.lend(standing, Wanted::by(&call)) {
                return Sink::Ready(call, sink);
            }
        }
        match inner.lines.of(standing).wait(call) {
            Ok(()) => Sink::Waits,
            Err(call) => Sink::Refused(Refused::Full(call)),
        }
    }

    /// Starts the Reads of Calls that waited, as long as there are pages for the first that may have some.
    pub(super) fn serve(&self) {
        if core::mem::replace(&mut self.inner.lock().serving, true) {
            return;
        }
        while let Some(served) = self.next_served() {
            match served {
                (call, Some(sink)) => {
                    if let Some(sink) = read::start(call, sink) {
                        self.keep_sink(sink);
                    }
                }
                (call, None) => read::give_up(call),
            }
        }
    }

    /// The next Call with its sink, or without one if its connection closes.
    fn next_served(&self) -> Option<(Call, Option<Loan>)> {
        let mut inner = self.inner.lock();
        let served = inner.take_served();
        // Under the lock that found nothing more to serve: whoever comes now serves by himself.
        inner.serving = served.is_some();
        served
    }

    /// What is in them.
    pub(super) fn count(&self) -> Count {
        self.inner.lock().count()
    }
}

/// What became of a request for a sink.
pub(super) enum Sink {
    /// There is one.
    Ready(Call, Loan),
    /// The Call waits and will be started.
    Waits,
    /// Too many wait, or the device is gone and all its connections close.
    Refused(Refused<Call>),
}

/// An empty transfer with room for `pages` pages. May sleep.
pub(super) fn new_transfer(pages: usize) -> Result<KBox<Transfer>> {
    Transfer::with_capacity(room_for(pages))
}

/// The room of a transfer for `pages` pages.
pub(super) fn room_for(pages: usize) -> usize {
    match pages <= SMALL {
        true => SMALL,
        false => LARGE.max(pages),
    }
}
