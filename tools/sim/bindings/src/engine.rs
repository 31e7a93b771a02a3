// SPDX-License-Identifier: GPL-2.0

//! The device's side of a queue pair: a task of each executes its work requests. They start and
//! complete in their order, but later ones may be executed while an RDMA Read waits for its response.

use crate::{
    cq::Done,
    ib_mr, ib_wc,
    link::Use,
    memory::{for_each_piece, FROM_DEVICE, TO_DEVICE},
    verbs::*,
    Anon, Ptr, PAGE,
};
use core::mem::ManuallyDrop;
use kernel::sim;

/// How a work request ends.
pub(crate) enum End {
    Done,
    /// The peer is gone, or the queue pair is in error before it was executed.
    Flushed,
    Failed(ib_wc_status),
}

impl Ptr<ib_qp> {
    pub fn changed(self) {
        sim::wake(self.0);
        sim::wake(self.get().link.0);
    }

    /// Moves the queue pair to the error state.
    pub fn fail(self) {
        if self.get().stuck.is_some() {
            return;
        }
        self.get().is_broken = true;
        self.changed();
    }

    /// Returns true if a Receive is posted.
    pub fn has_receive(self) -> bool {
        !self.get().receives.is_empty()
    }

    pub(crate) fn run(self) {
        let link = self.get().link;
        loop {
            sim::wait(self.0, || {
                let this = self.get();
                if this.stuck.is_some() {
                    return this.is_destroyed;
                }
                let is_ready = this.is_broken || link.get().is_open();
                let has_receives = this.is_broken && !this.receives.is_empty();
                this.is_destroyed || (is_ready && self.has_send()) || has_receives
            });
            if self.get().is_destroyed {
                return;
            }
            if self.has_send() {
                self.step();
            } else if let Some(receive) = self.get().receives.pop_front() {
                self.end_receive(receive, ib_wc_status_IB_WC_WR_FLUSH_ERR, 0, None);
            }
            sim::point();
        }
    }

    /// Returns the place of the first RDMA Read whose response has not arrived.
    fn pending_read(self) -> Option<usize> {
        let mut started = self.get().started.iter();
        started.position(|(_, end)| end.is_none())
    }

    /// Returns true if the response of an RDMA Read arrives now, or never will.
    fn has_response(self) -> bool {
        let link = self.get().link.get();
        let can_end = self.get().is_broken || link.is_gone() || link.serves_reads;
        can_end && self.pending_read().is_some()
    }

    /// Returns true if the next work request may be started: a fenced one waits for all Reads.
    fn may_start(self) -> bool {
        let fence = ib_send_flags_IB_SEND_FENCE as i32;
        let next = self.get().sends.front();
        next.is_some_and(|next| next.flags & fence == 0 || self.pending_read().is_none())
    }

    fn has_ended(self) -> bool {
        let first = self.get().started.front();
        first.is_some_and(|(_, end)| end.is_some())
    }

    fn has_send(self) -> bool {
        self.has_ended() || self.has_response() || self.may_start()
    }

    /// Starts a work request, ends an RDMA Read, or completes a work request. Those behind a Read
    /// are executed before or after its response arrives, as the seed says; all complete in order.
    fn step(self) {
        let is_first = !self.may_start() || sim::chance(400);
        if self.has_ended() {
            if let Some((send, Some(end))) = self.get().started.pop_front() {
                self.complete(send, end);
            }
        } else if self.has_response() && is_first {
            self.end_read();
        } else if let Some(send) = self.get().sends.pop_front() {
            let is_read = send.opcode == ib_wr_opcode_IB_WR_RDMA_READ;
            let end = (!is_read).then(|| self.execute(&send));
            self.get().started.push_back((send, end));
        }
    }

    fn end_read(self) {
        let Some(at) = self.pending_read() else {
            return;
        };
        let send = self.get().started[at].0.clone();
        let end = self.execute(&send);
        self.get().started[at].1 = Some(end);
    }

    fn execute(self, send: &SendRequest) -> End {
        if self.get().is_broken {
            End::Flushed
        } else {
            self.transfer(send)
        }
    }

    fn complete(self, send: SendRequest, end: End) {
        if self.get().is_destroyed {
            return;
        }
        let is_signalled = send.flags & ib_send_flags_IB_SEND_SIGNALED as i32 != 0;
        // siw passes the memory of such work to TCP, which may send it after the completion
        // (drivers/infiniband/sw/siw/siw_qp_tx.c). Pages are not used again meanwhile.
        assert!(
            is_signalled || !send.is_send() || send.len() < 4096,
            "an unsignalled Send of {} bytes",
            send.len()
        );
        let status = match end {
            End::Done if !is_signalled => return,
            End::Done => ib_wc_status_IB_WC_SUCCESS,
            End::Flushed => ib_wc_status_IB_WC_WR_FLUSH_ERR,
            End::Failed(status) => status,
        };
        if status != ib_wc_status_IB_WC_SUCCESS {
            self.fail();
        }
        let wc = ib_wc {
            __bindgen_anon_1: Anon {
                wr_cqe: ManuallyDrop::new(send.cqe),
            },
            status,
            opcode: 0,
            wc_flags: 0,
            byte_len: 0,
            ex: NO_KEY,
        };
        let send = Some((self, send.number));
        self.get().send_cq.push(Done { wc, send });
    }

    /// Waits until `is_ready`. Returns false if the queue pair fails before.
    fn wait_for_peer(self, mut is_ready: impl FnMut() -> bool) -> bool {
        let link = self.get().link;
        sim::wait(link.0, || {
            let this = self.get();
            this.is_destroyed || this.is_broken || link.get().is_gone() || is_ready()
        });
        let this = self.get();
        !(this.is_destroyed || this.is_broken)
    }

    /// Lets the peer take `millis`, unless the connection ends before.
    fn wait_for_peer_at_most(self, millis: u64) {
        let link = self.get().link;
        sim::wait_for(link.0, millis, || {
            let this = self.get();
            this.is_destroyed || this.is_broken || link.get().is_gone()
        });
    }

    fn transfer(self, send: &SendRequest) -> End {
        let link = self.get().link;
        if link.get().is_slow && sim::chance(128) {
            sim::sleep(sim::below(20));
        }
        if link.get().delay > 0 && send.opcode != ib_wr_opcode_IB_WR_LOCAL_INV {
            self.wait_for_peer_at_most(link.get().delay);
        }
        let is_access = !send.entries.is_empty();
        match send.opcode {
            ib_wr_opcode_IB_WR_RDMA_READ => {
                if !self.wait_for_peer(|| link.get().serves_reads) {
                    return End::Flushed;
                }
                self.check_sink(&send.entries);
                let len = send.entries.iter().map(|entry| entry.1).sum();
                let Some(bytes) = link.get().read(send.key, send.addr, len) else {
                    return self.refused();
                };
                self.scatter(&send.entries, &bytes);
            }
            ib_wr_opcode_IB_WR_RDMA_WRITE if is_access => {
                let bytes = self.gather(&send.entries);
                if !link.get().write(send.key, send.addr, &bytes) {
                    return self.refused();
                }
            }
            ib_wr_opcode_IB_WR_SEND | ib_wr_opcode_IB_WR_SEND_WITH_INV => {
                if !self.wait_for_peer(|| link.get().receives > 0) {
                    return End::Flushed;
                }
                if link.get().is_gone() {
                    return self.refused();
                }
                let bytes = self.gather(&send.entries);
                let is_invalidating = send.opcode == ib_wr_opcode_IB_WR_SEND_WITH_INV;
                if !link.get().take(bytes, is_invalidating.then_some(send.key)) {
                    return self.refused();
                }
                sim::wake(link.0);
            }
            ib_wr_opcode_IB_WR_REG_MR => {
                let mr = Ptr(send.mr).get();
                assert!(
                    !mr.is_valid && mr.lkey == send.key,
                    "registration of a valid region"
                );
                mr.is_valid = true;
                mr.access = send.access;
            }
            ib_wr_opcode_IB_WR_LOCAL_INV => {
                let mr = self.region(send.key);
                assert!(mr.is_valid, "invalidation of an invalid region");
                mr.is_valid = false;
            }
            _ => {}
        }
        End::Done
    }

    /// iWARP places the response of a Read like a remote Write: into memory registered for that.
    fn check_sink(self, entries: &[(u64, usize, u32)]) {
        let pd = self.get().pd.get();
        if !Ptr(pd.device).get().limits.iwarp {
            return;
        }
        let needed =
            (ib_access_flags_IB_ACCESS_LOCAL_WRITE | ib_access_flags_IB_ACCESS_REMOTE_WRITE) as i32;
        let is_registered =
            |key| key != pd.local_dma_lkey && self.region(key).access & needed == needed;
        assert!(
            entries.iter().all(|entry| is_registered(entry.2)),
            "an iWARP Read into memory that is not registered for it"
        );
    }

    fn refused(self) -> End {
        // The peer's device retries before it reports that the peer is gone.
        if self.get().link.get().is_gone() {
            sim::sleep(20);
            End::Failed(RETRIES_EXCEEDED)
        } else {
            End::Failed(REMOTE_ACCESS_ERROR)
        }
    }

    fn region(self, key: u32) -> &'static mut ib_mr {
        let regions = &self.get().pd.get().regions;
        let region = regions.iter().map(|mr| mr.get()).find(|mr| mr.lkey == key);
        // SAFETY: Regions stay, see `Ptr::new()`.
        unsafe { &mut *core::ptr::from_mut(region.expect("a key that no region has")) }
    }

    /// Returns the DMA addresses of an entry.
    fn pieces(self, (addr, len, key): (u64, usize, u32)) -> Vec<(u64, usize)> {
        if key == self.get().pd.get().local_dma_lkey {
            return vec![(addr, len)];
        }
        let mr = self.region(key);
        assert!(mr.is_valid, "the device uses a region that is not valid");
        let mut at = (addr - mr.iova) as usize;
        let (end, mut pieces) = (at + len, Vec::new());
        while at < end {
            let piece = (PAGE - at % PAGE).min(end - at);
            let page = mr
                .pages
                .get(at / PAGE)
                .expect("an access beyond the region");
            pieces.push((page + (at % PAGE) as u64, piece));
            at += piece;
        }
        pieces
    }

    fn gather(self, entries: &[(u64, usize, u32)]) -> Vec<u8> {
        let mut bytes = Vec::new();
        for (addr, len) in entries.iter().flat_map(|entry| self.pieces(*entry)) {
            for_each_piece(addr, len, TO_DEVICE, |piece| bytes.extend_from_slice(piece));
        }
        bytes
    }

    fn scatter(self, entries: &[(u64, usize, u32)], bytes: &[u8]) {
        let mut rest = bytes;
        for (addr, len) in entries.iter().flat_map(|entry| self.pieces(*entry)) {
            for_each_piece(addr, len, FROM_DEVICE, |piece| {
                let (now, later) = rest.split_at(piece.len().min(rest.len()));
                piece[..now.len()].copy_from_slice(now);
                rest = later;
            });
        }
    }

    fn end_receive(
        self,
        receive: ReceiveRequest,
        status: ib_wc_status,
        len: usize,
        what: Option<Use>,
    ) {
        let (opcode, wc_flags) = match what {
            None => (IB_WC_RECV, 0),
            Some(Use::Immediate) => (ib_wc_opcode_IB_WC_RECV_RDMA_WITH_IMM, 0),
            Some(Use::Invalidation) => (IB_WC_RECV, ib_wc_flags_IB_WC_WITH_INVALIDATE as i32),
        };
        let wc = ib_wc {
            __bindgen_anon_1: Anon {
                wr_cqe: ManuallyDrop::new(receive.cqe),
            },
            status,
            opcode,
            wc_flags,
            byte_len: len as u32,
            ex: NO_KEY,
        };
        self.get().recv_cq.push(Done { wc, send: None });
    }

    /// Delivers a message of the peer to a Receive, or what else uses it.
    pub fn deliver(self, bytes: &[u8], what: Option<Use>) {
        let receive = self
            .get()
            .receives
            .pop_front()
            .expect("a Receive is posted");
        self.scatter(&receive.entries, bytes);
        self.end_receive(receive, ib_wc_status_IB_WC_SUCCESS, bytes.len(), what);
    }
}
