// SPDX-License-Identifier: GPL-2.0

//! The lanes of a device.
//!
//! # Context
//!
//! Process context, and may sleep.
//!
//! # Locking
//!
//! A mutex protects the list. It is not taken on the path of a Call.

use super::lane::Lane;
use crate::svc::pages::pool::Pool;
use core::pin::Pin;
use kernel::{
    new_mutex,
    prelude::*,
    sync::{
        Arc,
        Mutex, //
    },
};
use rdma::device::{
    Limits,
    Pd, //
};
use support::online_cpus;
use svcrdma_proto::lanes;

/// The live lanes of a device.
pub(super) struct Lanes(Pin<KBox<Mutex<KVec<Arc<Lane>>>>>);

impl Lanes {
    /// Returns no lanes.
    pub(super) fn new() -> Result<Self> {
        let lanes = new_mutex!(KVec::new(), "svcrdma lanes");
        Ok(Self(KBox::pin_init(lanes, GFP_KERNEL)?))
    }

    /// Returns the lane of a new connection: the one with the least load, or a new one if each has
    /// connections and the device has a completion vector without a lane. A new lane keeps idle sinks
    /// if `keeps_sinks`. Lanes with a failed completion queue do not count: they get no connection.
    ///
    /// # Errors
    ///
    /// Those of creating a lane, if there is none.
    // Out of line, so that scripts/allow-panics can name it.
    #[inline(never)]
    pub(super) fn choose(
        &self,
        pd: &Arc<Pd>,
        limits: &Limits,
        keeps_sinks: bool,
    ) -> Result<Arc<Lane>> {
        let mut list = self.0.lock();
        let sound = || list.iter().filter(|lane| !lane.is_broken());
        let least = sound().min_by_key(|lane| lane.load()).cloned();
        if let Some(lane) = least.as_ref().filter(|lane| lane.load() == 0) {
            return Ok(lane.clone());
        }
        let most = lanes::most(limits.num_comp_vectors, online_cpus());
        let is_free = |index: &u32| sound().all(|lane| lane.index() != *index);
        let free = (0..most).find(is_free);
        let made = free.map(|index| {
            let vector = lanes::vector(index, most, limits.num_comp_vectors);
            let lane = Lane::new(pd, index, most, vector, keeps_sinks)?;
            list.push(lane.clone(), GFP_KERNEL)?;
            Ok(lane)
        });
        match (made, least) {
            (Some(Ok(lane)), _) | (_, Some(lane)) => Ok(lane),
            (Some(Err(e)), None) => Err(e),
            (None, None) => Err(ENODEV),
        }
    }

    /// Calls `f` for each lane.
    pub(super) fn for_each(&self, mut f: impl FnMut(&Lane)) {
        for lane in self.0.lock().iter() {
            f(lane);
        }
    }

    /// Returns what lanes have not used since the last call to `pool`. Calls `retire` for lanes that no
    /// connection uses, which are lanes no more.
    pub(super) fn trim(&self, pool: &Pool, retire: impl Fn(&Lane)) {
        let mut list = self.0.lock();
        list.iter().for_each(|lane| lane.trim(pool));
        retire_all(&mut list, |lane| lane.load() == 0, retire);
    }

    /// Calls `retire` for all lanes, which are lanes no more.
    pub(super) fn close(&self, retire: impl Fn(&Lane)) {
        retire_all(&mut self.0.lock(), |_| true, retire);
    }
}

/// Removes the lanes for which `is_over` returns true from `list`, and calls `retire` for each.
fn retire_all(list: &mut KVec<Arc<Lane>>, is_over: impl Fn(&Lane) -> bool, retire: impl Fn(&Lane)) {
    let mut i: usize = 0;
    while let Some(lane) = list.get(i) {
        if !is_over(lane) {
            i = i.saturating_add(1);
        } else if let Ok(lane) = list.remove(i) {
            retire(&lane);
        }
    }
}
