// SPDX-License-Identifier: GPL-2.0

//! The steps of the protocol crate for one RPC, as the transport performs them.
//!
//! Each step of [`Rpc`] calls the same functions as the function of rust/svc that its comment
//! names. The Calls are messages of the Linux client, in NFS version 4.2. [`lists`] has Calls with
//! long chunk lists.

pub mod lists;

use std::hint::black_box;

use svcrdma_proto::credits::{Arrivals, Credits};
use svcrdma_proto::decode::{decode, Received};
use svcrdma_proto::encode;
use svcrdma_proto::header::{Header, View};
use svcrdma_proto::layout::{self, Fill, Layout, ReadCursor};
use svcrdma_proto::reply::{self, Form, Payload, ReplyPlan, WriteCursor};
use svcrdma_proto::sq::{Signals, SqSlots};
use svcrdma_proto::ulb;

/// Bytes of the longest message in either direction.
const THRESHOLD: u32 = 4096;
/// Pages of the largest Call.
const MAX_PAGES: u32 = 1028;
/// Bytes that one work request moves: 32 pages.
const MAX_TAKEN: u32 = 32 * layout::PAGE;
/// The setting `credits`.
const CREDITS: u32 = 128;

/// A Call, and the results that nfsd returns.
#[derive(Clone, Copy, Debug)]
pub struct Operation {
    /// The name in reports.
    pub name: &'static str,
    call: &'static [u8],
    /// Bytes of the reply stream.
    len: u32,
    /// Bytes of data in the reply stream that nfsd has marked.
    data: Option<u32>,
}

/// Returns the operation `$name`, whose Call is in the corpus of the fuzz target `header`.
macro_rules! operation {
    ($name:literal, $len:expr, $data:expr) => {
        Operation {
            name: $name,
            call: include_bytes!(concat!("../../fuzz/corpus/header/nfs42-", $name)),
            len: $len,
            data: $data,
        }
    };
}

/// GETATTR.
pub const GETATTR: Operation = operation!("getattr", 184, None);
/// READ of 4 KiB, with a Write chunk.
pub const READ_4K: Operation = operation!("read-4k", DATA + 4096, Some(4096));
/// WRITE of 4 KiB, with a Read chunk.
pub const WRITE_4K: Operation = operation!("write-4k", 112, None);
/// READ of 1 MiB, with a Write chunk of eight segments.
pub const READ_1M: Operation = operation!("read-1m", DATA + (1 << 20), Some(1 << 20));
/// WRITE of 1 MiB, with a Read chunk of eight segments.
pub const WRITE_1M: Operation = operation!("write-1m", 112, None);
/// All operations.
pub const OPERATIONS: [Operation; 5] = [GETATTR, READ_4K, WRITE_4K, READ_1M, WRITE_1M];

/// Offset of the data in the reply stream of a READ.
const DATA: u32 = 104;

/// A step of an RPC.
pub type Step = fn(&mut Rpc);

/// All steps in their order.
pub const STEPS: [(&str, Step); 10] = [
    ("decode", Rpc::decode),
    ("eligible", Rpc::eligible),
    ("layout", Rpc::layout),
    ("header", Rpc::header),
    ("fill", Rpc::fill),
    ("read", Rpc::read),
    ("plan", Rpc::plan),
    ("encode", Rpc::encode),
    ("write", Rpc::write),
    ("queue", Rpc::queue),
];

/// An RPC in progress: the fields of the Call, the Reply and the connection.
#[derive(Debug)]
pub struct Rpc {
    operation: Operation,
    credits: Credits,
    arrivals: Arrivals,
    queue: SqSlots,
    signals: Signals,
    header: Header,
    layout: Layout,
    needs_answer: bool,
    reads: ReadCursor,
    plan: ReplyPlan,
    invalidate: Option<u32>,
    writes: WriteCursor,
    out: [u8; THRESHOLD as usize],
    /// Work requests of the Reads, and of the Reply.
    requests: [u32; 2],
}

impl Rpc {
    /// Creates an RPC of which nothing is done yet.
    pub fn new(operation: Operation) -> Box<Self> {
        let (credits, arrivals) = Credits::new(CREDITS);
        Box::new(Self {
            operation,
            credits,
            arrivals,
            queue: SqSlots::new(256),
            signals: Signals::new(),
            header: Header::EMPTY,
            layout: Layout::Inline,
            needs_answer: false,
            reads: ReadCursor::default(),
            plan: ReplyPlan::default(),
            invalidate: None,
            writes: WriteCursor::default(),
            out: [0; THRESHOLD as usize],
            requests: [0; 2],
        })
    }

    /// Creates an RPC whose first `done` steps are done.
    pub fn after(operation: Operation, done: usize) -> Box<Self> {
        let mut rpc = Self::new(operation);
        for (_, step) in &STEPS[..done] {
            step(&mut rpc);
        }
        rpc
    }

    /// Does all steps.
    pub fn whole(&mut self) {
        for (_, step) in STEPS {
            step(self);
        }
    }

    fn view(&self) -> View<'_> {
        self.header.view(self.operation.call)
    }

    /// `flow::receive::received` up to the credit.
    #[inline(never)]
    pub fn decode(&mut self) {
        match decode(self.operation.call, &mut self.header) {
            Ok(Received::Call(view)) => {
                let allowed = self.credits.allowed();
                let requested = Some(view.header().credits);
                let _ = black_box(self.arrivals.on_call(requested, allowed));
            }
            other => panic!("not a Call: {other:?}"),
        }
    }

    /// `flow::receive::plan`, first check.
    #[inline(never)]
    pub fn eligible(&mut self) {
        ulb::check_inline(&self.view()).expect("an eligible item");
    }

    /// `flow::receive::plan`, layout.
    #[inline(never)]
    pub fn layout(&mut self) {
        self.layout = layout::plan(&self.view(), MAX_PAGES).expect("a layout");
    }

    /// The rest of `flow::receive`: the last check, the trace event, the need for an answer.
    #[inline(never)]
    pub fn header(&mut self) {
        let view = self.header.view(self.operation.call);
        reply::check_header(&view, THRESHOLD).expect("room for the header");
        black_box((
            self.layout.sink_len(),
            view.write_chunks(),
            view.reply().is_some(),
        ));
        self.needs_answer = ulb::needs_answer_inline(&view);
    }

    /// `flow::read::prepare` and `start`.
    #[inline(never)]
    pub fn fill(&mut self) {
        if self.layout == Layout::Inline {
            return;
        }
        let view = self.header.view(self.operation.call);
        layout::fill(&self.layout, &view, |fill| match fill {
            Fill::Copy { from, len, sink } => {
                black_box((from, len, sink));
            }
            Fill::Zero { sink, len } => {
                black_box((sink, len));
            }
        });
        self.reads = ReadCursor::new(&self.layout, &view);
        assert!(self.reads.peek().is_some());
    }

    /// `conn::call::build_reads`.
    #[inline(never)]
    pub fn read(&mut self) {
        if self.layout == Layout::Inline {
            return;
        }
        let view = self.header.view(self.operation.call);
        let mut cursor = self.reads;
        while let Some(op) = cursor.peek() {
            black_box((op.handle, op.remote, op.sink));
            self.requests[0] += 1;
            cursor.advance(&view, op.len.min(MAX_TAKEN));
        }
        self.reads = cursor;
        assert!(self.reads.peek().is_none());
    }

    /// `flow::send::prepare`.
    #[inline(never)]
    pub fn plan(&mut self) {
        let data = self.operation.data;
        let marks = data.map(|len| Payload { offset: DATA, len });
        // The words of the reply stream before the data, of which only the last one matters.
        let word = |at: u32| black_box(Some(if at == DATA - 4 { data.unwrap_or(0) } else { 7 }));
        let payloads = marks
            .iter()
            .filter_map(|mark| reply::payload_at(word, mark.offset, mark.len))
            .filter(|payload| ulb::is_result(4, word, payload));
        let view = self.header.view(self.operation.call);
        self.plan
            .make(&view, self.operation.len, payloads, THRESHOLD);
        assert_ne!(self.plan.form, Form::Refused);
        black_box((self.plan.inline_len(), self.plan.written_len()));
        self.invalidate = view.invalidatable();
    }

    /// `lane::reply::Reply::set_results`.
    #[inline(never)]
    pub fn encode(&mut self) {
        let view = self.header.view(self.operation.call);
        let len = encode::reply(&self.plan, &view, 0, &mut self.out);
        assert!(black_box(len).is_some());
        self.writes = WriteCursor::new(&self.plan, &self.out);
        assert_eq!(self.plan.form, Form::Inline);
        if self.plan.inline_len() <= 1024 {
            for range in self.plan.kept() {
                black_box(range);
            }
        }
        black_box(self.plan.written_len());
    }

    /// `lane::reply::Reply::build`.
    #[inline(never)]
    pub fn write(&mut self) {
        if self.plan.written_len() > 0 {
            let mut cursor = self.writes;
            while let Some(op) = cursor.peek() {
                black_box((op.handle, op.remote, op.src));
                self.requests[1] += 1;
                cursor.advance(&self.plan, &self.out, op.len.min(MAX_TAKEN));
            }
            self.writes = cursor;
            assert!(self.writes.peek().is_none());
        }
        black_box(self.invalidate);
        self.requests[1] += 1;
    }

    /// `conn::sender` and `rdma::send::inner`: granting credits, posting the work requests and retiring
    /// them. Then the credit of the Call returns.
    #[inline(never)]
    pub fn queue(&mut self) {
        let granted = self.credits.on_reply(self.arrivals, CREDITS);
        encode::set_credits(&mut self.out, granted);
        black_box(self.credits.asks_for_more(self.arrivals));
        for count in self.requests {
            assert!(black_box(self.queue.room()) >= count);
            black_box(self.signals.next(count > 1));
            let mut slot = self.queue.post(count).expect("room");
            for _ in 1..count {
                slot = self.queue.next(black_box(slot));
            }
            self.queue.retire(self.queue.up_to(black_box(slot)));
        }
        self.credits.on_posted(granted);
    }
}
