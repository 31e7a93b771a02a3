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
        exposure::{Access, Exposure, RemoteRead, RemoteReadWrite, RemoteWrite, Unexposed},
        page_region::PageRegion,
    },
    send::{
        chain::{Chain, Rdma, Remote},
        queue::SendGuard,
        work::Work,
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
