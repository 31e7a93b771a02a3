// SPDX-License-Identifier: GPL-2.0

//! Free lists: small sets of boxes that any thread puts to and takes from without a lock.
//!
//! There is no C header: the kernel's lists without locks (`llist.h`) give all items at once.

use core::{
    marker::PhantomData,
    ptr::null_mut,
    sync::atomic::{
        AtomicPtr,
        Ordering::{
            Acquire,
            Relaxed,
            Release, //
        },
    },
};
use kernel::prelude::*;

use crate::figure::Figure;

/// A set of up to `N` boxes.
///
/// Putting and taking usually cost one atomic exchange. The box that was put last is usually taken
/// first, as its memory is most likely in a cache; threads that meet may change the order. All
/// functions may be called in any context.
///
/// # Invariants
///
/// Each place is null, or a pointer from [`KBox::into_raw`] that the free list owns.
pub struct FreeList<T, const N: usize> {
    places: [AtomicPtr<T>; N],
    /// The first place that probably has a box. Threads that meet may leave any number here.
    first: Figure<u32>,
    _boxes: PhantomData<KBox<T>>,
}

// SAFETY: A shared free list only moves boxes between threads.
unsafe impl<T: Send, const N: usize> Sync for FreeList<T, N> {}

impl<T, const N: usize> Default for FreeList<T, N> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T, const N: usize> FreeList<T, N> {
    /// Creates an empty free list.
    pub fn new() -> Self {
        // INVARIANT: All places are null.
        Self {
            places: [const { AtomicPtr::new(null_mut()) }; N],
            first: Figure::default(),
            _boxes: PhantomData,
        }
    }

    /// Takes a box, if there is one.
    #[inline]
    pub fn take(&self) -> Option<KBox<T>> {
        self.take_at(self.first.get()).or_else(|| self.take_any())
    }

    // Out of line: rarely needed.
    #[inline(never)]
    fn take_any(&self) -> Option<KBox<T>> {
        Self::indices().find_map(|index| self.take_at(index))
    }

    /// Takes the box at a place, if there is one.
    #[inline]
    fn take_at(&self, index: u32) -> Option<KBox<T>> {
        let place = self.places.get(index as usize)?;
        if place.load(Relaxed).is_null() {
            return None;
        }
        // INVARIANT: The free list gives up the box.
        // Acquire pairs with the Release of `put_at`: what was written to the box is visible.
        let item = place.swap(null_mut(), Acquire);
        if item.is_null() {
            return None;
        }
        self.first.set(index.wrapping_add(1));
        // SAFETY: By the type invariant. The place was cleared, so the box is taken once.
        Some(unsafe { KBox::from_raw(item) })
    }

    /// Puts a box. Returns it if the free list is full.
    #[inline]
    pub fn put(&self, item: KBox<T>) -> Option<KBox<T>> {
        let item = KBox::into_raw(item);
        let is_put = self.put_at(self.first.get().wrapping_sub(1), item) || self.put_any(item);
        // SAFETY: `item` comes from `into_raw` above, and the free list has not taken it.
        (!is_put).then(|| unsafe { KBox::from_raw(item) })
    }

    // Out of line: rarely needed.
    #[inline(never)]
    fn put_any(&self, item: *mut T) -> bool {
        Self::indices().any(|index| self.put_at(index, item))
    }

    /// Puts `item`, which comes from [`KBox::into_raw`], to a place. Returns false if there is no
    /// such place, or if it has a box.
    #[inline]
    fn put_at(&self, index: u32, item: *mut T) -> bool {
        let Some(place) = self.places.get(index as usize) else {
            return false;
        };
        // INVARIANT: The free list owns the box if the exchange succeeds.
        let is_put = place.load(Relaxed).is_null()
            && place
                .compare_exchange(null_mut(), item, Release, Relaxed)
                .is_ok();
        if is_put {
            self.first.set(index);
        }
        is_put
    }

    /// Returns the indices of all places.
    fn indices() -> core::ops::Range<u32> {
        // CAST: A free list is small.
        0..N as u32
    }

    /// Returns the number of boxes, which other threads may change at any time.
    pub fn count(&self) -> usize {
        let full = |place: &&AtomicPtr<T>| !place.load(Relaxed).is_null();
        let full = self.places.iter().filter(full);
        full.fold(0, |count: usize, _| count.saturating_add(1))
    }
}

impl<T, const N: usize> Drop for FreeList<T, N> {
    fn drop(&mut self) {
        while let Some(item) = self.take() {
            drop(item);
        }
    }
}
