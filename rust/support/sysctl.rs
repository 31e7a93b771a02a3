// SPDX-License-Identifier: GPL-2.0

//! Numbers under `/proc/sys`, for each network namespace.
//!
//! Who reads a file there sees the number of his own namespace.
//!
//! C headers: [`include/linux/sysctl.h`](srctree/include/linux/sysctl.h),
//! [`include/net/net_namespace.h`](srctree/include/net/net_namespace.h)

use core::ptr::NonNull;
use kernel::{
    prelude::*,
    str::CStr,
    sync::{
        atomic::{
            Atomic,
            Relaxed, //
        },
        Arc, //
    },
};

/// A number that the kernel side changes and `/proc/sys` shows.
///
/// # Invariants
///
/// The value is not negative.
pub struct Counter(Atomic<i64>);

impl Default for Counter {
    fn default() -> Self {
        Self::new()
    }
}

impl Counter {
    /// A counter of 0.
    pub const fn new() -> Self {
        // INVARIANT: 0 is not negative.
        Self(Atomic::new(0))
    }

    /// Adds 1.
    pub fn inc(&self) {
        self.add(1);
    }

    /// Adds `n`.
    pub fn add(&self, n: u32) {
        self.0.add(i64::from(n), Relaxed);
    }

    /// Takes 1 off: for counters of what there is now.
    pub fn dec(&self) {
        self.0.add(-1, Relaxed);
    }
}

/// A number that an admin can change at run time within bounds.
///
/// # Invariants
///
/// The value is within the bounds.
pub struct Limit {
    value: Atomic<i64>,
    min: i64,
    max: i64,
}

impl Limit {
    /// A limit of `default` that can be set from `min` to `max`.
    pub const fn new(default: u32, min: u32, max: u32) -> Self {
        assert!(min <= default && default <= max);
        // INVARIANT: As just checked.
        Self {
            value: Atomic::new(default as i64),
            min: min as i64,
            max: max as i64,
        }
    }

    /// The value.
    pub fn get(&self) -> u32 {
        u32::try_from(self.value.load(Relaxed)).unwrap_or(0)
    }
}

/// What a file is about.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// Can be read.
    Counter(&'a Counter),
    /// Can be read and written.
    Limit(&'a Limit),
    /// A limit that can be read here, and is set elsewhere.
    Shown(&'a Limit),
}

/// A file.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    /// Its name.
    pub name: &'static CStr,
    /// What it shows.
    pub value: Value<'a>,
}

// `proc_doulongvec_minmax` works on `unsigned long`.
const _: () = assert!(size_of::<Atomic<i64>>() == size_of::<c_ulong>());
const _: () = assert!(align_of::<Atomic<i64>>() == align_of::<c_ulong>());

impl Entry<'_> {
    /// The kernel's form of it. `proc_doulongvec_minmax` (kernel/sysctl.c) reads and writes `data`
    /// as one `unsigned long`, of an `i64`'s size and alignment on the 64-bit kernels that this
    /// module is for, and keeps it within `extra1` and `extra2`, which it only reads.
    fn table(&self) -> bindings::ctl_table {
        let (data, mode, min, max) = match self.value {
            Value::Counter(c) => (c.0.as_ptr(), 0o444, None, None),
            Value::Limit(l) => (l.value.as_ptr(), 0o644, Some(&l.min), Some(&l.max)),
            Value::Shown(l) => (l.value.as_ptr(), 0o444, None, None),
        };
        let bound = |b: Option<&i64>| {
            b.map_or(core::ptr::null_mut(), |b| {
                core::ptr::from_ref(b).cast_mut().cast()
            })
        };
        bindings::ctl_table {
            procname: self.name.as_char_ptr(),
            data: data.cast(),
            maxlen: size_of::<i64>() as c_int,
            mode,
            proc_handler: Some(bindings::proc_doulongvec_minmax),
            extra1: bound(min),
            extra2: bound(max),
            ..pin_init::zeroed()
        }
    }
}

/// What a folder is about.
pub trait Files: Send + Sync + 'static {
    /// The folder, below `/proc/sys`.
    const PATH: &'static CStr;

    /// The files: static ones, or about what is in `self`.
    fn files(&self) -> Result<KVec<Entry<'_>>>;
}

/// A registered folder; dropping it takes it off.
///
/// # Invariants
///
/// `header` is a memory region of `table`, which stays where it is and names nothing but what is in
/// `files` or static; the `/proc/sys` of its namespace is there.
pub struct Sysctl<F: Files> {
    header: NonNull<bindings::ctl_table_header>,
    _table: KVec<bindings::ctl_table>,
    files: Arc<F>,
}

// SAFETY: A memory region may be taken off on any thread, and `Arc<F>` is `Send`.
unsafe impl<F: Files> Send for Sysctl<F> {}
// SAFETY: A shared `Sysctl` offers nothing but `files`, and `Arc<F>` is `Sync`.
unsafe impl<F: Files> Sync for Sysctl<F> {}

impl<F: Files> Sysctl<F> {
    /// Makes the folder of `net`, with the files of `files`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also when one of the files is there already (the kernel's log says which).
    ///
    /// # Safety
    ///
    /// - `net` is a namespace whose `/proc/sys` is there until this value is dropped.
    pub unsafe fn register(net: *mut bindings::net, files: Arc<F>) -> Result<Self> {
        let mut table = KVec::new();
        for entry in files.files()?.iter() {
            table.push(entry.table(), GFP_KERNEL)?;
        }
        // SAFETY: The path is static. The table, on the heap, and what it points to, static or in
        // the shared `files`, stay until `drop`; so does the namespace by the safety requirements
        // of this function. The handler uses the pointers as `Entry::table` says.
        let header = unsafe {
            bindings::register_net_sysctl_sz(
                net,
                F::PATH.as_char_ptr(),
                table.as_mut_ptr(),
                table.len(),
            )
        };
        // INVARIANT: As just registered.
        Ok(Self {
            header: NonNull::new(header).ok_or(ENOMEM)?,
            _table: table,
            files,
        })
    }

    /// What the folder is about.
    pub fn files(&self) -> &Arc<F> {
        &self.files
    }
}

impl<F: Files> Drop for Sysctl<F> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::unregister_net_sysctl_table(self.header.as_ptr()) };
    }
}
