// SPDX-License-Identifier: GPL-2.0

//! Read-only files in debugfs, with one function for each file.
//!
//! `kernel::debugfs` does not fit: its files do not hold the module. A file that is still open when
//! the module is unloaded would be closed through file operations that are gone
//! (`full_proxy_release` in fs/debugfs/file.c).
//!
//! C headers: [`include/linux/debugfs.h`](srctree/include/linux/debugfs.h),
//! [`include/linux/seq_file.h`](srctree/include/linux/seq_file.h)
//!
//! # Context
//!
//! Process context. The functions of files may sleep.

use core::pin::Pin;
use kernel::{
    bindings,
    ffi::c_void,
    prelude::*,
    seq_file::SeqFile,
    str::CStr,
    sync::Arc,
    types::Opaque, //
};

/// A file of a directory.
pub struct File<T> {
    /// The name of the file.
    pub name: &'static CStr,
    /// The function that writes the content of the file.
    pub show: fn(&T, &SeqFile),
}

/// A type whose values can be shown in debugfs.
pub trait Show: Sized + Send + Sync + 'static {
    /// The files of the directory.
    const FILES: &'static [File<Self>];
}

/// The private data of a file.
struct Entry<T: Show> {
    module: &'static ThisModule,
    data: Arc<T>,
    show: fn(&T, &SeqFile),
}

/// A directory at the top of debugfs, with the files of a `T`. Dropping it removes the files and
/// waits for readers.
///
/// # Invariants
///
/// - `dir` is a directory of debugfs, or an error pointer.
/// - The files in `dir` have `fops` as operations, and elements of `entries` as private data, which
///   neither move nor change.
#[pin_data(PinnedDrop)]
pub struct Folder<T: Show> {
    dir: *mut bindings::dentry,
    entries: KVec<Entry<T>>,
    #[pin]
    fops: Opaque<bindings::file_operations>,
}

// SAFETY: A `Folder` can only be dropped, which may happen on any thread.
unsafe impl<T: Show> Send for Folder<T> {}
// SAFETY: A shared `Folder` has no operations.
unsafe impl<T: Show> Sync for Folder<T> {}

impl<T: Show> Folder<T> {
    /// Creates the directory `name` with the files of `data`. May sleep.
    ///
    /// A file holds `module` while the file is open, and cannot be opened before `module` has
    /// finished loading. Without debugfs there are no files, which is not an error.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    pub fn new(
        module: &'static ThisModule,
        name: &'static CStr,
        data: Arc<T>,
    ) -> impl PinInit<Self, Error> {
        pin_init::pin_init_scope(move || {
            let mut entries = KVec::with_capacity(T::FILES.len(), GFP_KERNEL)?;
            for file in T::FILES {
                let data = data.clone();
                let show = file.show;
                let entry = Entry { module, data, show };
                entries.push(entry, GFP_KERNEL)?;
            }
            Ok(try_pin_init!(&this in Self {
                // Without a parent the directory is at the top.
                // SAFETY: The name is a string.
                dir: unsafe {
                    bindings::debugfs_create_dir(name.as_char_ptr(), core::ptr::null_mut())
                },
                entries,
                fops <- Opaque::ffi_init(move |slot: *mut bindings::file_operations| {
                    // SAFETY: `slot` is valid for writes.
                    unsafe {
                        slot.write(bindings::file_operations {
                            owner: module.as_ptr(),
                            open: Some(Self::open),
                            read: Some(bindings::seq_read),
                            llseek: Some(bindings::seq_lseek),
                            release: Some(bindings::single_release),
                            ..pin_init::zeroed()
                        })
                    };
                    // SAFETY: All other fields of `this` are initialised, and it is pinned.
                    unsafe { Self::fill(this.as_ptr(), slot) };
                }),
            }? Error))
        })
    }

    /// Creates the files in `dir`.
    ///
    /// # Safety
    ///
    /// - `dir` and `entries` of `this` are initialised, and `fops` is filled in.
    /// - `entries` and `fops` neither move nor change until `dir` is removed.
    unsafe fn fill(this: *mut Self, fops: *const bindings::file_operations) {
        // SAFETY: By the safety requirements of this function.
        let (dir, entries) = unsafe { ((*this).dir, &(*this).entries) };
        for (file, entry) in T::FILES.iter().zip(entries) {
            let private = core::ptr::from_ref(entry).cast_mut().cast();
            // Errors are ignored, as the documentation of debugfs advises.
            // SAFETY: By the safety requirements of this function; debugfs takes an error pointer
            // as `dir`.
            unsafe {
                bindings::debugfs_create_file_full(
                    file.name.as_char_ptr(),
                    0o400,
                    dir,
                    private,
                    core::ptr::null(),
                    fops,
                )
            };
        }
    }

    /// Opens a file, for the VFS.
    ///
    /// # Safety
    ///
    /// - `inode` and `file` are those of a file that [`Self::fill`] has made.
    unsafe extern "C" fn open(
        inode: *mut bindings::inode,
        file: *mut bindings::file,
    ) -> kernel::ffi::c_int {
        // SAFETY: By the safety requirements of this function.
        let private = unsafe { (*inode).i_private };
        // CAST: `fill` sets the private data to an `Entry<T>`.
        // SAFETY: The entry lives until the files are removed, which waits for this function.
        let module = unsafe { (*private.cast::<Entry<T>>()).module };
        // If a module fails to load, its memory is freed in spite of references (`do_init_module`
        // in kernel/module/main.c). So the file cannot be opened before the module is live.
        // SAFETY: The module is live while its `open` runs. Its state may change at the same time.
        let state = unsafe { (&raw const (*module.as_ptr()).state).read_volatile() };
        if state != bindings::module_state_MODULE_STATE_LIVE {
            return ENOENT.to_errno();
        }
        // SAFETY: By the safety requirements of this function. An open file holds the module, so
        // `show` and the entry stay.
        unsafe { bindings::single_open(file, Some(Self::show), private) }
    }

    /// Writes the content of a file, for `seq_read`.
    ///
    /// # Safety
    ///
    /// - `seq` is that of a file that [`Self::open`] has opened.
    /// - The caller alone uses `seq`.
    unsafe extern "C" fn show(seq: *mut bindings::seq_file, _: *mut c_void) -> kernel::ffi::c_int {
        // SAFETY: By the safety requirements of this function.
        let private = unsafe { (*seq).private };
        // CAST: `fill` sets the private data to an `Entry<T>`.
        // SAFETY: The entry lives until the files are removed, which waits for readers.
        let entry = unsafe { &*private.cast::<Entry<T>>().cast_const() };
        // SAFETY: By the safety requirements of this function.
        let seq = unsafe { SeqFile::from_raw(seq) };
        (entry.show)(&entry.data, seq);
        0
    }
}

#[pinned_drop]
impl<T: Show> PinnedDrop for Folder<T> {
    fn drop(self: Pin<&mut Self>) {
        // Waits for readers.
        // SAFETY: By the type invariant; `debugfs_remove` ignores error pointers.
        unsafe { bindings::debugfs_remove(self.dir) };
    }
}
