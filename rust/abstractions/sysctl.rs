// SPDX-License-Identifier: GPL-2.0

//! Numbers under `/proc/sys`.
//!
//! C header: [`include/linux/sysctl.h`](srctree/include/linux/sysctl.h)

use core::{
    ptr::NonNull, //
};
use kernel::{
    bindings,
    prelude::*,
    str::CStr,
    sync::atomic::{
        Atomic,
        Relaxed, //
    },
};

/// A number that the kernel side changes and `/proc/sys` shows.
///
/// # Invariants
///
/// The value is not negative.
pub(crate) struct Counter(Atomic<i64>);

impl Counter {
    /// A counter of 0.
    pub(crate) const fn new() -> Self {
        // INVARIANT: 0 is not negative.
        Self(Atomic::new(0))
    }

    /// Adds 1.
    pub(crate) fn inc(&self) {
        self.add(1);
    }

    /// Adds `n`.
    pub(crate) fn add(&self, n: u32) {
        self.0.add(i64::from(n), Relaxed);
    }

    /// Takes 1 off: for counters of what there is now.
    pub(crate) fn dec(&self) {
        self.0.add(-1, Relaxed);
    }
}

/// A number that an admin can change at run time within bounds.
///
/// # Invariants
///
/// The value is within the bounds.
pub(crate) struct Limit {
    value: Atomic<i64>,
    min: i64,
    max: i64,
}

impl Limit {
    /// A limit of `default` that can be set from `min` to `max`.
    pub(crate) const fn new(default: u32, min: u32, max: u32) -> Self {
        assert!(min <= default && default <= max);
        // INVARIANT: As just checked.
        Self {
            value: Atomic::new(default as i64),
            min: min as i64,
            max: max as i64,
        }
    }

    /// The value.
    pub(crate) fn get(&self) -> u32 {
        u32::try_from(self.value.load(Relaxed)).unwrap_or(0)
    }
}

/// What a file is about.
pub(crate) enum Value {
    /// Can be read.
    Counter(&'static Counter),
    /// Can be read and written.
    Limit(&'static Limit),
}

/// A file.
pub(crate) struct Entry {
    /// Its name.
    pub(crate) name: &'static CStr,
    /// What it shows.
    pub(crate) value: Value,
}

impl Entry {
    fn table(&self) -> bindings::ctl_table {
        let (data, mode, min, max) = match self.value {
            Value::Counter(c) => (c.0.as_ptr(), 0o444, None, None),
            Value::Limit(l) => (l.value.as_ptr(), 0o644, Some(&l.min), Some(&l.max)),
        };
        let bound = |b: Option<&'static i64>| {
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

/// A registered folder; dropping it takes it off.
///
/// # Invariants
///
/// `header` is a registration of `table`, which stays where it is.
pub(crate) struct Sysctl {
    header: NonNull<bindings::ctl_table_header>,
    _table: KVec<bindings::ctl_table>,
}

// SAFETY: A registration may be taken off on any thread.
unsafe impl Send for Sysctl {}
// SAFETY: A shared `Sysctl` offers nothing.
unsafe impl Sync for Sysctl {}

impl Sysctl {
    /// Makes the folder `path` with a file for each of the entries. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also when one of the files is there already (the kernel's log says which).
    pub(crate) fn register(path: &'static CStr, entries: &[&[Entry]]) -> Result<Self> {
        let mut table = KVec::new();
        for entry in entries.iter().copied().flatten() {
            table.push(entry.table(), GFP_KERNEL)?;
        }
        // SAFETY: `path` and what the table points to are static; the table itself stays on the
        // heap until `drop` has taken the registration off. `proc_doulongvec_minmax` reads and
        // writes `data` as one `unsigned long`, which is an `i64`'s size and alignment on the
        // 64-bit kernels this module is for, and keeps it within `extra1` and `extra2`.
        let header = unsafe {
            bindings::register_sysctl_sz(path.as_char_ptr(), table.as_mut_ptr(), table.len())
        };
        // INVARIANT: As just registered.
        Ok(Self {
            header: NonNull::new(header).ok_or(ENOMEM)?,
            _table: table,
        })
    }
}

impl Drop for Sysctl {
    fn drop(&mut self) {
        // SAFETY: By the type invariant.
        unsafe { bindings::unregister_sysctl_table(self.header.as_ptr()) };
    }
}
