// SPDX-License-Identifier: GPL-2.0

//! Pages and their DMA mappings. The device reaches memory through mappings alone.

use crate::{ib_device, ib_pd, ib_sge};
use kernel::{
    ffi::{c_int, c_void},
    sim::{self, Fault},
};
use std::{cell::RefCell, collections::HashMap};

pub const PAGE: usize = 4096;

#[repr(C)]
pub struct page {
    data: [u8; PAGE],
    pub refs: u32,
    mapped: u32,
}

#[repr(C)]
pub struct scatterlist {
    addr: u64,
    pages: u64,
}

struct Mapping {
    page: *mut page,
    direction: c_int,
}

/// Directions of `enum dma_data_direction`.
pub const TO_DEVICE: c_int = 1;
pub const FROM_DEVICE: c_int = 2;

thread_local! {
    static MAPPINGS: RefCell<(u64, HashMap<u64, Mapping>)> = RefCell::default();
}

/// Forgets the mappings of the run before.
pub fn reset() {
    MAPPINGS.with(|mappings| *mappings.borrow_mut() = (1 << 32, HashMap::new()));
}

pub unsafe fn alloc_page(retry: bool) -> *mut page {
    sim::might_sleep("page allocation");
    if !retry && sim::fails(Fault::Memory) {
        return core::ptr::null_mut();
    }
    sim::count("page", 1);
    Box::into_raw(Box::new(page {
        data: [0xa5; PAGE],
        refs: 1,
        mapped: 0,
    }))
}

pub unsafe fn get_page(page: *mut page) {
    unsafe { (*page).refs += 1 };
}

pub unsafe fn put_page(page: *mut page) {
    let refs = unsafe { (*page).refs };
    assert!(refs > 0 && refs < 1000, "a page is put too often");
    unsafe { (*page).refs -= 1 };
    if refs == 1 {
        assert_eq!(
            unsafe { (*page).mapped },
            0,
            "a page is freed while it is mapped"
        );
        sim::count("page", -1);
        unsafe { (*page).data.fill(0x5a) };
        drop(unsafe { Box::from_raw(page) });
    }
}

pub unsafe fn put_pages(pages: *mut *mut page, count: c_int) {
    for i in 0..count as usize {
        unsafe { put_page(*pages.add(i)) };
    }
}

pub unsafe fn page_address(page: *mut page) -> *mut c_void {
    page.cast()
}

pub unsafe fn private_pages(pages: *const *mut page, count: u32) -> u32 {
    let is_shared = |i: &u32| unsafe { (**pages.add(*i as usize)).refs } != 1;
    (0..count).find(is_shared).unwrap_or(count)
}

pub unsafe fn exchange_pages(pages: *mut *mut page, slots: *mut *mut page, count: u32) -> bool {
    let mut are_private = true;
    for i in 0..count as usize {
        unsafe {
            assert_eq!(
                (**pages.add(i)).mapped,
                0,
                "nfsd gets a page that is mapped"
            );
            core::ptr::swap(pages.add(i), slots.add(i));
            are_private &= (**pages.add(i)).refs == 1;
        }
    }
    are_private
}

fn map(page: *mut page, direction: c_int) -> u64 {
    unsafe { (*page).mapped += 1 };
    if direction == FROM_DEVICE {
        // Bytes that the processor has written before may be lost.
        unsafe { (*page).data.fill(0xc3) };
    }
    sim::count("mapping", 1);
    MAPPINGS.with(|mappings| {
        let (next, mappings) = &mut *mappings.borrow_mut();
        let addr = *next;
        *next += PAGE as u64;
        mappings.insert(addr, Mapping { page, direction });
        addr
    })
}

fn unmap(addr: u64, direction: c_int) {
    let mapping = MAPPINGS.with(|mappings| mappings.borrow_mut().1.remove(&addr));
    let mapping = mapping.expect("what is not mapped is unmapped");
    assert_eq!(
        mapping.direction, direction,
        "unmapped for another direction"
    );
    unsafe { (*mapping.page).mapped -= 1 };
    sim::count("mapping", -1);
}

/// Leaves a gap, so that a transfer cannot run from one mapping into the next.
fn leave_gap() {
    MAPPINGS.with(|mappings| mappings.borrow_mut().0 += PAGE as u64);
}

pub unsafe fn ib_dma_map_page(_: *mut ib_device, page: *mut page, direction: c_int) -> u64 {
    if sim::fails(Fault::Map) {
        return u64::MAX;
    }
    leave_gap();
    map(page, direction)
}

pub unsafe fn ib_dma_mapping_error(_: *mut ib_device, addr: u64) -> c_int {
    if addr == u64::MAX {
        -12
    } else {
        0
    }
}

pub unsafe fn ib_dma_unmap_page(_: *mut ib_device, addr: u64, direction: c_int) {
    sim::takes_long("a buffer is unmapped");
    unmap(addr, direction);
}

pub unsafe fn ib_dma_unmap_page_as_is(_: *mut ib_device, addr: u64) {
    unmap(addr, FROM_DEVICE);
}

/// Maps pages: those that follow each other by seed make a segment.
pub unsafe fn ib_dma_map_pages(
    pd: *mut ib_pd,
    pages: *const *mut page,
    count: u32,
    direction: c_int,
    segments: *mut ib_sge,
    list: *mut scatterlist,
    entries: *mut u32,
) -> u32 {
    if sim::fails(Fault::Map) {
        unsafe { *entries = 0 };
        return 0;
    }
    let is_merging = sim::chance(512);
    let mut used = 0usize;
    for i in 0..count as usize {
        let page = unsafe { *pages.add(i) };
        let follows = used > 0 && is_merging && sim::chance(700);
        if !follows {
            leave_gap();
        }
        let addr = map(page, direction);
        unsafe {
            if follows {
                (*segments.add(used - 1)).length += PAGE as u32;
                (*list.add(used - 1)).pages += 1;
                continue;
            }
            segments.add(used).write(ib_sge {
                addr,
                length: PAGE as u32,
                lkey: (*pd).local_dma_lkey,
            });
            list.add(used).write(scatterlist { addr, pages: 1 });
        }
        used += 1;
    }
    unsafe { *entries = used as u32 };
    used as u32
}

pub unsafe fn ib_dma_unmap_pages(
    _: *mut ib_pd,
    list: *mut scatterlist,
    entries: u32,
    direction: c_int,
) {
    for i in 0..entries as usize {
        let (addr, pages) = unsafe { ((*list.add(i)).addr, (*list.add(i)).pages) };
        for page in 0..pages {
            unmap(addr + page * PAGE as u64, direction);
        }
    }
}

pub unsafe fn ib_dma_sync_receive(_: *mut ib_device, _: u64, _to_device: bool) {}

pub unsafe fn ib_dma_sync_for_device(_: *mut ib_device, _: u64, _: usize) {}

/// Calls `f` for each piece of memory that the device reaches at `addr`. Fails if that is not
/// mapped, or for another direction.
pub fn for_each_piece(addr: u64, len: usize, direction: c_int, mut f: impl FnMut(&mut [u8])) {
    let mut at = addr;
    while at < addr + len as u64 {
        let start = at & !(PAGE as u64 - 1);
        let piece = (start + PAGE as u64 - at).min(addr + len as u64 - at) as usize;
        let (page, mapped_for) = MAPPINGS.with(|mappings| {
            let mappings = &mappings.borrow().1;
            let mapping = mappings.get(&start);
            let mapping = mapping.expect("the device accesses memory that is not mapped");
            (mapping.page, mapping.direction)
        });
        assert_eq!(
            mapped_for, direction,
            "the device accesses memory in the other direction"
        );
        let offset = (at - start) as usize;
        f(unsafe { &mut (&mut (*page).data)[offset..offset + piece] });
        at += piece as u64;
    }
}
