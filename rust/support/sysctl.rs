// SPDX-License-Identifier: GPL-2.0

//! Files below `/proc/sys`, for each network namespace: numbers, and the texts of [`sysctl_text`].
//!
//! A task that reads a file sees the value of its own network namespace.
//!
//! [`sysctl_text`]: super::sysctl_text
//!
//! C headers: [`include/linux/sysctl.h`](srctree/include/linux/sysctl.h),
//! [`include/net/net_namespace.h`](srctree/include/net/net_namespace.h)

use super::sysctl_text::TextRef;
use core::{
    ptr::NonNull,
    sync::atomic::{
        AtomicI64,
        Ordering, //
    },
};
use kernel::{
    ffi::c_void,
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

/// A number that the module changes and `/proc/sys` shows. Its functions may be called in any
/// context.
///
/// # Invariants
///
/// The value is not negative.
#[repr(transparent)]
pub struct Counter(Atomic<i64>);

impl Default for Counter {
    fn default() -> Self {
        Self::new()
    }
}

impl Counter {
    /// Creates a counter with the value 0.
    pub const fn new() -> Self {
        // INVARIANT: 0 is not negative.
        Self(Atomic::new(0))
    }

    /// Adds 1.
    #[inline]
    pub fn inc(&self) {
        self.add(1);
    }

    /// Adds `n`.
    #[inline]
    pub fn add(&self, n: u32) {
        self.0.add(i64::from(n), Relaxed);
    }

    /// Subtracts 1 from a counter that shows a current number rather than a total.
    #[inline]
    pub fn dec(&self) {
        self.0.add(-1, Relaxed);
    }

    /// Sets the value of a counter that [`Files::refresh`] keeps.
    pub fn set(&self, value: u64) {
        // INVARIANT: Not negative.
        self.0
            .store(i64::try_from(value).unwrap_or(i64::MAX), Relaxed);
    }
}

/// A number that an administrator can change at run time, within bounds.
///
/// # Invariants
///
/// The value is within the bounds.
pub struct Limit {
    value: AtomicI64,
    min: i64,
    max: i64,
}

impl Limit {
    /// Creates a limit of `default`, which can be set to values from `min` to `max`.
    ///
    /// # Panics
    ///
    /// Panics, at compile time in a constant, if `default` is out of bounds.
    pub const fn new(default: u32, min: u32, max: u32) -> Self {
        assert!(min <= default && default <= max);
        // INVARIANT: `default` was checked above.
        Self {
            value: AtomicI64::new(default as i64),
            min: min as i64,
            max: max as i64,
        }
    }

    /// Returns the value. Any context.
    #[inline]
    pub fn get(&self) -> u32 {
        // As a `Figure`: a plain load, because the path of a Call reads several limits.
        // CAST: Within the bounds by the type invariant.
        self.value.load(Ordering::Relaxed) as u32
    }
}

/// The value that a file shows.
#[derive(Clone, Copy)]
pub enum Value<'a> {
    /// A counter; the file is read-only.
    Counter(&'a Counter),
    /// Counters that [`Files::refresh`] sets before each read; the file is read-only.
    Refreshed(&'a [Counter]),
    /// A limit; the file can be written.
    Limit(&'a Limit),
    /// A limit that is set elsewhere; the file is read-only.
    Shown(&'a Limit),
    /// A text; the file can be written.
    Text(TextRef<'a>),
}

/// A file of a directory.
#[derive(Clone, Copy)]
pub struct Entry<'a> {
    /// The name of the file.
    pub name: &'static CStr,
    /// The value that the file shows.
    pub value: Value<'a>,
}

// `proc_doulongvec_minmax` works on `unsigned long`.
const _: () = assert!(size_of::<Counter>() == size_of::<c_ulong>());
const _: () = assert!(size_of::<Atomic<i64>>() == size_of::<c_ulong>());
const _: () = assert!(align_of::<Atomic<i64>>() == align_of::<c_ulong>());
const _: () = assert!(size_of::<AtomicI64>() == size_of::<c_ulong>());
const _: () = assert!(align_of::<AtomicI64>() == align_of::<c_ulong>());

impl Entry<'_> {
    /// Returns the C structure of the file.
    ///
    /// `proc_doulongvec_minmax` (kernel/sysctl.c) reads and writes `data` as `unsigned long`s.
    /// On the 64-bit kernels that this module supports, that has the size and the alignment of an
    /// `i64`. The handler keeps the value between `extra1` and `extra2`, which it only reads.
    ///
    /// `files` is the owner of the files.
    fn table<F: Files>(&self, files: &Arc<F>) -> bindings::ctl_table {
        let (data, mode, min, max) = match self.value {
            Value::Refreshed(c) => {
                return bindings::ctl_table {
                    procname: self.name.as_char_ptr(),
                    data: c.as_ptr().cast_mut().cast(),
                    // CAST: A few numbers.
                    maxlen: size_of_val(c) as c_int,
                    mode: 0o444,
                    proc_handler: Some(refreshed::<F>),
                    extra1: Arc::as_ptr(files).cast_mut().cast(),
                    ..pin_init::zeroed()
                };
            }
            Value::Text(text) => return text.table(self.name),
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

/// Reads a file of [`Value::Refreshed`].
///
/// # Safety
///
/// The kernel calls this with an entry that [`Entry::table`] has made for an `F`, and with a buffer
/// of `*lenp` bytes.
unsafe extern "C" fn refreshed<F: Files>(
    table: *const bindings::ctl_table,
    write: c_int,
    buffer: *mut c_void,
    lenp: *mut usize,
    ppos: *mut bindings::loff_t,
) -> c_int {
    // SAFETY: `extra1` is the owner of the files, which lives until the directory is removed.
    unsafe { &*(*table).extra1.cast::<F>() }.refresh();
    let plain = bindings::ctl_table {
        // SAFETY: By the safety requirements of this function.
        data: unsafe { (*table).data },
        // SAFETY: By the safety requirements of this function.
        maxlen: unsafe { (*table).maxlen },
        mode: 0o444,
        ..pin_init::zeroed()
    };
    // SAFETY: `data` are numbers of the owner of the files. The rest is what the kernel has passed.
    unsafe { bindings::proc_doulongvec_minmax(&plain, write, buffer, lenp, ppos) }
}

/// A type whose values are shown in a directory below `/proc/sys`.
pub trait Files: Send + Sync + 'static {
    /// The path of the directory, below `/proc/sys`.
    const PATH: &'static CStr;

    /// Returns the files. Their values are in `self` or static. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn files(&self) -> Result<KVec<Entry<'_>>>;

    /// Sets the counters of [`Value::Refreshed`]. Called before each read of such a file, in process
    /// context. Calls may overlap.
    fn refresh(&self) {}
}

/// A registered directory below `/proc/sys`. Dropping it removes the directory and waits for
/// readers and writers.
///
/// # Invariants
///
/// - `header` is the registration of `_table`, which does not move.
/// - `_table` points only to values in `files` and to static ones.
/// - `/proc/sys` of the namespace of `header` exists.
pub struct Sysctl<F: Files> {
    header: NonNull<bindings::ctl_table_header>,
    _table: KVec<bindings::ctl_table>,
    files: Arc<F>,
}

// SAFETY: A directory may be unregistered on any thread, and `Arc<F>` is `Send`.
unsafe impl<F: Files> Send for Sysctl<F> {}
// SAFETY: A shared `Sysctl` only gives `files`, and `Arc<F>` is `Sync`.
unsafe impl<F: Files> Sync for Sysctl<F> {}

impl<F: Files> Sysctl<F> {
    /// Creates the directory of `net`, with the files of `files`. May sleep.
    ///
    /// # Errors
    ///
    /// `ENOMEM`, also if one of the files exists already; the kernel then logs its name.
    ///
    /// # Safety
    ///
    /// - `net` is a namespace whose `/proc/sys` exists until the result is dropped.
    pub unsafe fn register(net: *mut bindings::net, files: Arc<F>) -> Result<Self> {
        let mut table = KVec::new();
        for entry in files.files()?.iter() {
            table.push(entry.table(&files), GFP_KERNEL)?;
        }
        // SAFETY: The path is static. The table is on the heap, and its values are static or in
        // the shared `files`, so all of them stay until `drop`. So does `net`, by the safety
        // requirements of this function. The handler uses the pointers as described at
        // `Entry::table`.
        let header = unsafe {
            bindings::register_net_sysctl_sz(
                net,
                F::PATH.as_char_ptr(),
                table.as_mut_ptr(),
                table.len(),
            )
        };
        // INVARIANT: The directory was registered above.
        Ok(Self {
            header: NonNull::new(header).ok_or(ENOMEM)?,
            _table: table,
            files,
        })
    }

    /// Returns the value whose numbers the directory shows.
    #[inline]
    pub fn files(&self) -> &Arc<F> {
        &self.files
    }
}

impl<F: Files> Drop for Sysctl<F> {
    fn drop(&mut self) {
        // SAFETY: By the type invariant `header` is registered.
        unsafe { bindings::unregister_net_sysctl_table(self.header.as_ptr()) };
    }
}
