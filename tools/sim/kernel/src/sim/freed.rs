// SPDX-License-Identifier: GPL-2.0

//! Freed memory: while a completion may come late, it stays and is overwritten, so that a late use is
//! noticed.

use std::{
    alloc::{GlobalAlloc, Layout, System},
    sync::atomic::{AtomicBool, Ordering::Relaxed},
};

static KEEPS: AtomicBool = AtomicBool::new(false);
const POISON: u8 = 0x5a;

/// The allocator of the simulator.
pub struct Memory;

// SAFETY: As the system's, except that memory may stay for ever.
unsafe impl GlobalAlloc for Memory {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        // SAFETY: By the safety requirements of this function.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, memory: *mut u8, layout: Layout) {
        // SAFETY: By the safety requirements of this function.
        unsafe {
            match KEEPS.load(Relaxed) {
                true => memory.write_bytes(POISON, layout.size()),
                false => System.dealloc(memory, layout),
            }
        }
    }
}

/// Keeps freed memory from now on, or frees it again.
pub fn keep_freed(keeps: bool) {
    KEEPS.store(keeps, Relaxed);
}

/// Returns true if `word` was freed while freed memory is kept.
pub fn is_freed(word: usize) -> bool {
    word == usize::from_ne_bytes([POISON; size_of::<usize>()])
}
