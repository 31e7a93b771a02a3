// SPDX-License-Identifier: GPL-2.0

//! Completion queues: a task of each calls the handlers.

use crate::{
    ib_device, ib_event, ib_event_type_IB_EVENT_CQ_ERR, ib_qp, ib_send_wr__bindgen_ty_2,
    ib_wc_opcode, ib_wc_status, Ptr,
};
use core::{cell::Cell, mem::ManuallyDrop};
use kernel::{
    ffi::{c_char, c_int, c_void},
    sim::{self, Fault},
};
use shuttle::thread::JoinHandle;
use std::collections::VecDeque;

#[repr(C)]
pub struct ib_cqe {
    pub done: Option<unsafe extern "C" fn(*mut ib_cq, *mut ib_wc)>,
}

#[repr(C)]
pub struct Anon {
    pub wr_cqe: ManuallyDrop<*mut ib_cqe>,
}

pub type ib_send_wr__bindgen_ty_1 = Anon;

#[repr(C)]
pub struct ib_wc {
    pub __bindgen_anon_1: Anon,
    pub status: ib_wc_status,
    pub opcode: ib_wc_opcode,
    pub wc_flags: c_int,
    pub byte_len: u32,
    pub ex: ib_send_wr__bindgen_ty_2,
}

/// A completion; of a Send, with its number in the queue.
pub(crate) struct Done {
    pub(crate) wc: ib_wc,
    pub(crate) send: Option<(Ptr<ib_qp>, u64)>,
}

pub struct ib_cq {
    pub device: *mut ib_device,
    pub cq_context: *mut c_void,
    handler: Option<unsafe extern "C" fn(*mut ib_event, *mut c_void)>,
    entries: usize,
    queue: VecDeque<Done>,
    /// The worker was told of completions and has not seen all of them.
    is_signalled: bool,
    /// The worker handles nothing.
    is_stopped: bool,
    is_busy: bool,
    is_ending: bool,
    task: Option<JoinHandle<()>>,
}

pub unsafe fn ib_alloc_cq(
    device: *mut ib_device,
    context: *mut c_void,
    handler: Option<unsafe extern "C" fn(*mut ib_event, *mut c_void)>,
    entries: u32,
    _vector: u32,
) -> *mut ib_cq {
    sim::might_sleep("ib_alloc_cq");
    if sim::fails(Fault::Memory) {
        return kernel::error::code::ENOMEM.to_ptr();
    }
    if entries > Ptr(device).get().limits.max_cqe {
        return kernel::error::code::EINVAL.to_ptr();
    }
    sim::count("completion queue", 1);
    let cq = Ptr::new(ib_cq {
        device,
        cq_context: context,
        handler,
        entries: entries as usize,
        queue: VecDeque::new(),
        is_signalled: false,
        is_stopped: false,
        is_busy: false,
        is_ending: false,
        task: None,
    });
    Ptr(device).get().cqs.push(cq);
    cq.get().task = Some(sim::spawn("cq", move || cq.run()));
    cq.0
}

thread_local! {
    static STOPPED_UNTIL: Cell<u64> = const { Cell::new(0) };
}

/// Returns the time until which a queue is stopped, or was; 0 if none has ever been.
pub fn stopped_until() -> u64 {
    STOPPED_UNTIL.get()
}

impl Ptr<ib_cq> {
    fn run(self) {
        loop {
            sim::wait(self.0, || self.get().is_ending || self.has_work());
            // A completion may be late.
            if sim::chance(32) {
                sim::sleep(1 + sim::below(8));
            }
            // All are handled before the queue is freed, unless it has stopped.
            let is_over = self.get().is_ending && self.get().is_stopped;
            self.get().is_busy = true;
            let next = self.get().queue.pop_front().filter(|_| !is_over);
            let Some(mut done) = next else {
                return;
            };
            self.get().is_signalled = !self.get().queue.is_empty();
            if let Some((qp, number)) = done.send {
                qp.get().retired = number;
            }
            let cqe = *done.wc.__bindgen_anon_1.wr_cqe;
            let f = unsafe { (*cqe).done }.expect("a work request has a handler");
            assert!(
                !sim::is_freed(f as usize),
                "a completion names memory that is freed"
            );
            unsafe { f(self.0, &mut done.wc) };
            self.get().is_busy = false;
            sim::wake(self.0);
        }
    }

    fn has_work(self) -> bool {
        let cq = self.get();
        cq.is_signalled && !cq.is_stopped && !cq.queue.is_empty()
    }

    /// Returns true if the device has signalled no completion of those that wait.
    pub(crate) fn is_silent(self) -> bool {
        !self.get().is_signalled && !self.get().queue.is_empty()
    }

    pub(crate) fn push(self, done: Done) {
        let cq = self.get();
        let device = Ptr(cq.device).get();
        if sim::chance(device.loses) {
            sim::event(format_args!("a completion is lost"));
            return;
        }
        assert!(
            !cq.is_ending,
            "a completion for a completion queue that has ended"
        );
        assert!(cq.queue.len() < cq.entries, "a completion queue overflows");
        cq.queue.push_back(done);
        if sim::chance(device.misses) {
            sim::event(format_args!("a completion is not signalled"));
            return;
        }
        self.signal();
    }

    fn signal(self) {
        self.get().is_signalled = true;
        sim::wake(self.0);
    }

    /// Stops the worker for `millis`. The module is not told, and cannot tell such a queue from a peer
    /// that does nothing.
    pub fn stop(self, millis: u64) {
        if self.get().is_stopped {
            return;
        }
        sim::event(format_args!("a completion queue stops for {millis} ms"));
        self.get().is_stopped = true;
        STOPPED_UNTIL.set(STOPPED_UNTIL.get().max(sim::now() + millis));
        sim::keep_freed(true);
        sim::spawn_short("cq", move || {
            sim::sleep(millis);
            self.resume();
        });
    }

    /// Lets the worker go on.
    pub fn resume(self) {
        self.get().is_stopped = false;
        sim::wake(self.0);
    }

    /// Reports that the completion queue has failed.
    pub fn fail(self) {
        let mut event = ib_event {
            event: ib_event_type_IB_EVENT_CQ_ERR,
        };
        if let Some(handler) = self.get().handler {
            unsafe { handler(&mut event, self.get().cq_context) };
        }
    }
}

pub unsafe fn poll_cq(cq: *mut ib_cq) {
    Ptr(cq).signal();
}

/// Waits for what is polled now.
pub unsafe fn flush_cq(cq: *mut ib_cq) {
    let cq = Ptr(cq);
    sim::wait(cq.0, || !(cq.get().is_busy || cq.has_work()));
}

pub unsafe fn ib_free_cq(cq: *mut ib_cq) {
    let cq = Ptr(cq);
    sim::might_sleep("ib_free_cq");
    cq.get().is_ending = true;
    Ptr(cq.get().device).get().cqs.retain(|one| *one != cq);
    sim::wake(cq.0);
    if let Some(task) = cq.get().task.take() {
        task.join().expect("handlers do not fail");
    }
    sim::count("completion queue", -1);
}

pub unsafe fn ib_wc_status_msg(_: ib_wc_status) -> *const c_char {
    c"status".as_ptr().cast()
}
