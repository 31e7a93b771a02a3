// SPDX-License-Identifier: GPL-2.0

//! The threads of nfsd, and a program that checks the arguments of each Call.

use crate::{
    compound::compound_of,
    compound::is_nfs4,
    defer::{release, Deferred},
    get_page, net, page, page_address, put_page, sockaddr,
    svc::*,
    Ptr, PAGE,
};
use kernel::{ffi::c_int, sim};
use std::collections::VecDeque;

/// Returns the byte at `at` of the program's result for a Call with `tag`.
pub fn pattern(tag: u32, at: usize) -> u8 {
    let word = tag.wrapping_mul(0x9e37_79b9).wrapping_add(at as u32 / 4);
    (word.wrapping_mul(0x85eb_ca6b) >> (8 * (at % 4))) as u8
}

/// Returns `len` bytes of the pattern.
pub fn bytes_of(tag: u32, len: usize) -> Vec<u8> {
    (0..len).map(|at| pattern(tag, at)).collect()
}

/// The status with which sunrpc answers a Call that it cannot decode.
pub const GARBAGE_ARGS: u32 = 4;
/// The most bytes that the program returns.
pub(crate) const MAX_RESULT: usize = 1 << 20;

/// A request that was not received is not processed.
pub(crate) struct Request {
    rqst: Ptr<svc_rqst>,
    pages: Vec<*mut page>,
    pub(crate) respages: Vec<*mut page>,
}

impl Ptr<svc_serv> {
    /// Makes a server.
    pub fn server(net: *mut net) -> Self {
        Self::new(svc_serv {
            net,
            xprts: Vec::new(),
            ready: VecDeque::new(),
            is_ending: false,
            deferred: Vec::new(),
            drops: 0,
            defers: 0,
            keeps: 0,
            callbacks: 0,
            called_back: 0,
        })
    }

    /// Makes the listener.
    pub fn listen(self, mut addr: sockaddr) -> Result<(), c_int> {
        let class = CLASS.with(|class| *class.borrow()).ok_or(-97)?;
        let create = unsafe { (*class.get().xcl_ops).xpo_create }.expect("the operation is there");
        let xprt = unsafe { create(self.0, self.get().net, &mut addr, 16, 0) };
        if (-4095..0).contains(&(xprt as isize)) {
            return Err(xprt as isize as c_int);
        }
        self.get().xprts.push(Ptr(xprt));
        unsafe { svc_xprt_received(xprt) };
        Ok(())
    }

    /// Starts a thread.
    pub fn start(self, name: &str) -> shuttle::thread::JoinHandle<()> {
        sim::spawn(name, move || {
            let mut request = Request::new();
            while let Some(xprt) = self.dequeue() {
                request.refill();
                self.handle(xprt, &mut request);
                xprt.put();
            }
            request.end();
        })
    }

    /// Closes all transports; threads end when none is left.
    pub fn stop(self) {
        self.close_all(|_| true);
        self.get().is_ending = true;
        sim::wake(self.0);
    }

    /// Closes the connections that there are, as an administrator may.
    pub fn close_connections(self) {
        self.close_all(|xprt| !xprt.has(XPT_LISTENER));
    }

    fn close_all(self, is_meant: impl Fn(Ptr<svc_xprt>) -> bool) {
        let xprts = self.get().xprts.clone();
        // Another thread may delete one meanwhile.
        xprts.iter().for_each(|xprt| xprt.hold());
        for xprt in xprts {
            if is_meant(xprt) {
                xprt.close();
            }
            xprt.put();
        }
    }

    fn dequeue(self) -> Option<Ptr<svc_xprt>> {
        let mut next = None;
        sim::wait(self.0, || {
            next = self.get().ready.pop_front();
            next.is_some() || (self.get().is_ending && self.get().xprts.is_empty())
        });
        if let Some(xprt) = next {
            xprt.hold();
        }
        next
    }

    fn handle(self, xprt: Ptr<svc_xprt>, request: &mut Request) {
        if xprt.has(XPT_CLOSE) {
            self.delete(xprt);
        } else if xprt.has(XPT_LISTENER) {
            let accept = xprt.ops().xpo_accept.expect("the operation is there");
            let new = unsafe { accept(xprt.0) };
            if !new.is_null() {
                self.get().xprts.push(Ptr(new));
                if self.get().is_ending {
                    Ptr(new).get().flags |= 1 << XPT_CLOSE;
                }
                unsafe { svc_xprt_received(new) };
            }
            unsafe { svc_xprt_received(xprt.0) };
        } else {
            xprt.get().running += 1;
            request.receive(self, xprt);
            sim::point();
            xprt.get().running -= 1;
            unsafe { svc_xprt_enqueue(xprt.0) };
        }
    }

    fn delete(self, xprt: Ptr<svc_xprt>) {
        if xprt.has(XPT_DEAD) {
            return;
        }
        xprt.get().flags |= 1 << XPT_DEAD;
        let detach = xprt.ops().xpo_detach.expect("the operation is there");
        unsafe { detach(xprt.0) };
        xprt.close_callbacks();
        self.get().xprts.retain(|one| *one != xprt);
        while let Some(call) = self.next_deferred(xprt) {
            call.end();
        }
        sim::wake(self.0);
        xprt.put();
    }
}

impl Request {
    fn new() -> Self {
        let mut pages = vec![core::ptr::null_mut(); MAX_PAGES + 1];
        let mut respages = pages.clone();
        let rqst = Ptr::new(svc_rqst {
            rq_xprt: core::ptr::null_mut(),
            rq_xprt_ctxt: core::ptr::null_mut(),
            rq_vers: 3,
            rq_arg: EMPTY,
            rq_res: EMPTY,
            rq_pages: pages.as_mut_ptr(),
            rq_respages: respages.as_mut_ptr(),
            rq_next_page: respages.as_mut_ptr(),
            rq_maxpages: MAX_PAGES,
        });
        Self {
            rqst,
            pages,
            respages,
        }
    }

    fn refill(&mut self) {
        let slots = self.pages[..MAX_PAGES]
            .iter_mut()
            .chain(&mut self.respages[..MAX_PAGES]);
        for slot in slots.filter(|slot| slot.is_null()) {
            *slot = unsafe { crate::alloc_page(true) };
        }
    }

    fn end(self) {
        let pages = self.pages.iter().chain(&self.respages);
        for page in pages.filter(|page| !page.is_null()) {
            unsafe { put_page(*page) };
        }
    }

    fn receive(&mut self, serv: Ptr<svc_serv>, xprt: Ptr<svc_xprt>) {
        let rqst = self.rqst.get();
        rqst.rq_xprt = xprt.0;
        rqst.rq_next_page = rqst.rq_respages;
        // The arguments of a deferred Call, which have to stay meanwhile.
        let args = match serv.next_deferred(xprt) {
            Some(call) => Some(call.deliver(self.rqst)),
            None => {
                let receive = xprt.ops().xpo_recvfrom.expect("the operation is there");
                if unsafe { receive(self.rqst.0) } <= 0 {
                    return;
                }
                None
            }
        };
        self.work(serv, xprt);
        drop(args);
        let ctxt = core::mem::replace(&mut self.rqst.get().rq_xprt_ctxt, core::ptr::null_mut());
        release(xprt, ctxt);
        self.release_pages();
    }

    fn release_pages(&mut self) {
        let used = self.rqst.get().rq_next_page.addr() - self.rqst.get().rq_respages.addr();
        for slot in &mut self.respages[..used / size_of::<*mut page>()] {
            if !slot.is_null() {
                unsafe { put_page(*slot) };
                *slot = core::ptr::null_mut();
            }
        }
    }

    fn arguments(&self) -> Vec<u8> {
        let arg = &self.rqst.get().rq_arg;
        let head = arg.head[0];
        let mut bytes =
            unsafe { core::slice::from_raw_parts(head.iov_base.cast::<u8>(), head.iov_len) }
                .to_vec();
        let mut left = arg.page_len as usize;
        for i in 0.. {
            if left == 0 {
                break;
            }
            let len = left.min(PAGE);
            let page = unsafe { page_address(*arg.pages.add(i)) };
            bytes.extend_from_slice(unsafe { core::slice::from_raw_parts(page.cast::<u8>(), len) });
            left -= len;
        }
        bytes
    }

    /// Processes a Call: defers it, drops it, or answers it.
    fn work(&mut self, serv: Ptr<svc_serv>, xprt: Ptr<svc_xprt>) {
        let call = self.arguments();
        if sim::chance(serv.get().defers) {
            if let Some(deferred) = Deferred::take(self.rqst, call.clone()) {
                deferred.revisit_later(serv);
                return;
            }
        }
        if sim::chance(serv.get().keeps) {
            let arg = &self.rqst.get().rq_arg;
            if arg.page_len > 0 {
                keep_page(unsafe { *arg.pages });
            }
        }
        if sim::chance(200) {
            sim::sleep(sim::below(5));
        }
        if xprt.is_trusted() {
            xprt.get().flags |= 1 << XPT_PEER_VALID;
        }
        let Some(xid) = word(&call, 0).filter(|_| !sim::chance(serv.get().drops)) else {
            sim::event(format_args!("nfsd: dropped"));
            if is_nfs4(&call) {
                xprt.expect_close();
            }
            return;
        };
        serv.call_back(xprt);
        let version = word(&call, 16).unwrap_or(0);
        self.rqst.get().rq_vers = version;
        match (version, results_for(&call), compound_of(&call)) {
            (4, _, Some((tag, lens))) => self.answer_compound(serv, xid, tag, &lens),
            (3, Some((tag, wanted)), _) => self.answer(serv, xid, tag, wanted),
            _ => self.refuse(xid),
        }
        let send = xprt.ops().xpo_sendto.expect("the operation is there");
        unsafe { send(self.rqst.0) };
    }

    /// Answers a Call whose arguments are garbage.
    fn refuse(&mut self, xid: u32) {
        sim::event(format_args!("nfsd: garbage in Call {xid:#x}"));
        let bytes = words(&[xid, 1, 0, 0, 0, GARBAGE_ARGS]);
        let (len, rqst) = (bytes.len(), self.rqst.get());
        rqst.rq_next_page = rqst.rq_respages.wrapping_add(1);
        rqst.rq_res = EMPTY;
        rqst.rq_res.head[0] = self.head(&bytes);
        rqst.rq_res.len = len as u32;
    }

    /// Copies `bytes` to the first page of the results.
    pub(crate) fn head(&self, bytes: &[u8]) -> kvec {
        let head = unsafe { page_address(self.respages[0]).cast::<u8>() };
        unsafe { core::ptr::copy_nonoverlapping(bytes.as_ptr(), head, bytes.len()) };
        kvec {
            iov_base: head.cast(),
            iov_len: bytes.len(),
        }
    }

    fn answer(&mut self, serv: Ptr<svc_serv>, xid: u32, tag: u32, len: usize) {
        let head = self.head(&words(&[xid, 1, 0, 0, 0, 0, tag, len as u32]));
        let base = sim::below(PAGE as u64 / 4) as usize * 4;
        let used = 1 + (len > 0).then(|| (base + len).div_ceil(PAGE)).unwrap_or(0);
        self.fill(base, &bytes_of(tag, len));
        if sim::chance(serv.get().keeps) {
            // Spliced pages stay in the page cache.
            self.respages[1..used].iter().copied().for_each(keep_page);
        }
        self.set_results(head, base, len, &[0; 3][..len.wrapping_neg() % 4]);
        if len > 0 {
            self.mark(head.iov_len, len);
        }
    }

    /// Copies `bytes` to the pages of the results, from `base` on.
    pub(crate) fn fill(&mut self, base: usize, bytes: &[u8]) {
        for (i, byte) in bytes.iter().enumerate() {
            let at = base + i;
            let page = unsafe { page_address(self.respages[1 + at / PAGE]).cast::<u8>() };
            unsafe { *page.add(at % PAGE) = *byte };
        }
    }

    /// Marks a result that may be reduced.
    pub(crate) fn mark(&self, at: usize, len: usize) {
        let xprt = Ptr(self.rqst.get().rq_xprt);
        let mark = xprt.ops().xpo_result_payload;
        let mark = mark.expect("the operation is there");
        unsafe { mark(self.rqst.0, at as u32, len as u32) };
    }

    /// Sets the results: the head, `len` bytes of the pages from `base` on, and the tail.
    pub(crate) fn set_results(&mut self, head: kvec, base: usize, len: usize, tail: &[u8]) {
        let rqst = self.rqst.get();
        let used = 1 + (len > 0).then(|| (base + len).div_ceil(PAGE)).unwrap_or(0);
        // The tail is in the page of the head.
        let end = head.iov_base.cast::<u8>().wrapping_add(head.iov_len);
        unsafe { core::ptr::copy_nonoverlapping(tail.as_ptr(), end, tail.len()) };
        rqst.rq_next_page = rqst.rq_respages.wrapping_add(used);
        rqst.rq_res = xdr_buf {
            head: [head],
            tail: [kvec {
                iov_base: end.cast(),
                iov_len: tail.len(),
            }],
            pages: rqst.rq_respages.wrapping_add(1),
            page_base: base as u32,
            page_len: len as u32,
            buflen: PAGE as u32,
            len: (head.iov_len + len + tail.len()) as u32,
        };
    }
}

/// Keeps a page for a while, as the page cache does. Nobody may write to it.
pub(crate) fn keep_page(page: *mut page) {
    let page = Ptr(page);
    unsafe { get_page(page.0) };
    let before = Box::new(bytes_in(page));
    sim::spawn_short("cache", move || {
        sim::sleep(sim::below(30));
        assert!(
            bytes_in(page) == *before,
            "a page of the page cache has changed"
        );
        unsafe { put_page(page.get()) };
    });
}

fn bytes_in(page: Ptr<page>) -> [u8; PAGE] {
    unsafe { *page_address(page.0).cast() }
}

pub(crate) fn word(bytes: &[u8], at: usize) -> Option<u32> {
    let word = bytes.get(at..)?.first_chunk::<4>()?;
    Some(u32::from_be_bytes(*word))
}

/// Returns words as they are sent.
pub fn words(words: &[u32]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_be_bytes()).collect()
}

/// Checks the data of a Call. Returns the tag and the length of the results that it asks for, or
/// None if anything is wrong.
fn results_for(call: &[u8]) -> Option<(u32, usize)> {
    let (tag, wanted, len) = (word(call, 40)?, word(call, 44)?, word(call, 48)?);
    let data = call.get(52..)?.get(..len as usize)?;
    let wanted = wanted as usize;
    (data == bytes_of(tag, data.len()) && wanted <= MAX_RESULT).then_some((tag, wanted))
}
