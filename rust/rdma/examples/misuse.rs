// SPDX-License-Identifier: GPL-2.0

//! Uses of the crate `rdma` that must not compile, for scripts/check-misuse.
//!
//! The script compiles each case alone, behind this part of the file. A case begins with a line that
//! has its name and the error that rustc must report, and no other one. The first case compiles.

#![deny(unused_must_use)]
#![allow(dead_code, missing_docs, unused_imports, unreachable_pub)]

use kernel::{prelude::*, sync::Arc};
use rdma::{
    cm::Events,
    completion::{Completion, Status},
    device::Pd,
    handler::Handler,
    mem::{
        dma::Direction,
        exposure::{
            Access, Any, Exposure, RemoteRead, RemoteReadWrite, RemoteWrite, Segment, Unexposed,
        },
        page_region::PageRegion,
    },
    send::{
        buffer::SendBuffer,
        chain::{Chain, Rdma, Remote},
        queue::SendGuard,
        work::Work,
    },
    service::{
        job::Completed,
        peer::Peer,
        service::{Outcome, Session},
    },
};

//# right use: none
fn expose(pd: &Arc<Pd>, region: KBox<PageRegion>) -> Result<Exposure<RemoteRead>, Unexposed> {
    Exposure::new(pd, region, 1)
}
fn build<'m>(exposure: &'m Exposure<RemoteRead>, chain: &mut Chain<'_, 'm>) -> bool {
    chain.expose(exposure, 1) && chain.revoke(exposure, 1)
}
fn take<A: Access>(exposure: Exposure<A>) -> Option<KBox<PageRegion>> {
    exposure.into_region().ok()
}
fn peer_writes(exposure: &Exposure<RemoteWrite>) -> usize {
    exposure.len()
}
fn complete<W: Work, H: Handler, E: Events>(
    queue: &mut SendGuard<'_, W, H, E>,
    completion: &Completion,
) -> Option<W> {
    queue.complete(completion)
}
fn read(peer: &mut Peer<u8>, region: KBox<PageRegion>, from: KVec<Segment>) -> Outcome {
    peer.read(region, from, 1)
}
fn completed(job: Completed<u8>) -> Option<KBox<PageRegion>> {
    match job {
        Completed::Read(region, 1) => Some(region),
        _ => None,
    }
}

//# memory to read where the peer writes: E0308
fn peer_writes(exposure: &Exposure<RemoteWrite>) -> usize {
    exposure.len()
}
fn misuse(exposure: &Exposure<RemoteRead>) -> usize {
    peer_writes(exposure)
}

//# an access of the ULP: E0277
struct Anything;
impl Access for Anything {
    const DIRECTION: Direction = Direction::Both;
    const FLAGS: u32 = !0;
}

//# the pages while they are exposed: E0599
fn misuse(exposure: &mut Exposure<RemoteWrite>) -> usize {
    exposure.stream_mut().len()
}

//# the page region after it was exposed: E0382
fn misuse(pd: &Arc<Pd>, region: KBox<PageRegion>) -> usize {
    let _exposed = Exposure::<RemoteRead>::new(pd, region, 1);
    region.pages()
}

//# the exposure after its pages were taken back: E0382
fn misuse<'m>(exposure: Exposure<RemoteRead>) -> usize {
    let _region = exposure.into_region();
    exposure.len()
}

//# memory that the work does not own: E0597
fn misuse<'m>(exposure: Exposure<RemoteRead>, chain: &mut Chain<'_, 'm>) -> bool {
    let exposed = exposure;
    chain.expose(&exposed, 1)
}

//# revoked memory that the work does not own: E0597
fn misuse<'m>(exposure: Exposure<RemoteRead>, chain: &mut Chain<'_, 'm>) -> bool {
    let exposed = exposure;
    chain.revoke(&exposed, 1)
}

//# a registration without a look at the result: unused return value
fn misuse<'m>(exposure: &'m Exposure<RemoteRead>, chain: &mut Chain<'_, 'm>) {
    chain.expose(exposure, 1);
}

//# pages that are lost when they are taken back: unused `Result`
fn misuse(exposure: Exposure<RemoteRead>) {
    exposure.into_region();
}

//# work that has completed and is not taken: unused return value
fn misuse<W: Work, H: Handler, E: Events>(
    queue: &mut SendGuard<'_, W, H, E>,
    completion: &Completion,
) {
    queue.complete(completion);
}

//# a completion that no device reports: E0423
fn misuse() -> Completion {
    Completion(0)
}

//# exposed memory as the sink of a Read: E0308
fn misuse<'m>(exposure: &'m Exposure<RemoteWrite>, chain: &mut Chain<'_, 'm>) -> usize {
    chain.rdma(Rdma::Read, Remote { key: 0, addr: 0 }, exposure, 0, 1)
}

//# an exposure that two threads share: E0277
fn share<T: Sync>(_: &T) {}
fn misuse(exposure: &Exposure<RemoteReadWrite>) {
    share(exposure)
}

//# the page region while the device writes it: E0382
fn misuse(peer: &mut Peer<u8>, region: KBox<PageRegion>, from: KVec<Segment>) -> usize {
    let _asked = peer.read(region, from, 1);
    region.pages()
}

//# a message that changes while it is sent: E0382
fn misuse(peer: &mut Peer<()>, mut buffer: SendBuffer) {
    let _asked = peer.send(buffer, 1);
    buffer.bytes_mut().fill(0);
}

//# a job without a look at the result: unused `Result`
fn misuse(peer: &mut Peer<()>, buffer: SendBuffer) {
    peer.send(buffer, 1);
}

//# exposed memory as the source of a Write: E0308
fn misuse(peer: &mut Peer<u8>, exposure: Exposure<RemoteRead>, to: KVec<Segment>) -> Outcome {
    peer.write(exposure, to, 1)
}

//# an exposure of an access that is not known: E0599
fn misuse(pd: &Arc<Pd>, region: KBox<PageRegion>) -> Result<Exposure<Any>, Unexposed> {
    Exposure::<Any>::new(pd, region, 1)
}

//# a session that runs on one thread only: E0277
struct Local(*mut u8);
impl Session for Local {
    type Tag = ();
    fn received(&mut self, _message: &[u8], _peer: &mut Peer<()>) -> Outcome {
        Ok(())
    }
    fn completed(&mut self, _job: Completed<()>, _peer: &mut Peer<()>) -> Outcome {
        Ok(())
    }
}
