// SPDX-License-Identifier: GPL-2.0

//! Files in debugfs, one function each.
//!
//! Not `kernel::debugfs`: its files do not hold the module, so one that is still open when the
//! module goes would be closed through operations that are no more (`full_proxy_release` in
//! fs/debugfs/file.c). Contexts: process; functions of files may sleep.
//!
//! C headers: [`include/linux/debugfs.h`](srctree/include/linux/debugfs.h),
//! [`include/linux/seq_file.h`](srctree/include/linux/seq_file.h)

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

/// A file of a folder.
pub struct File<T> {
    /// Its name.
    pub name: &'static CStr,
    /// Writes its content.
    pub show: fn(&T, &SeqFile),
}

/// What can be looked at.
pub trait Show: Sized + Send + Sync + 'static {
    /// The files.
    const FILES: &'static [File<Self>];
}

/// A file and its data.
struct Entry<T: Show> {
    module: &'static ThisModule,
    data: Arc<T>,
    show: fn(&T, &SeqFile),
}

/// A folder with the files of a `T`; dropping it removes them, and waits for who is reading.
///
/// # Invariants
///
/// `dir` is a folder of debugfs, or an error pointer; its files have `fops`, and elements of
/// `entries`, which neither move nor change, as their private data.
#[pin_data(PinnedDrop)]
pub struct Folder<T: Show> {
    dir: *mut bindings::dentry,
    entries: KVec<Entry<T>>,
    #[pin]
    fops: Opaque<bindings::file_operations>,
}

// SAFETY: Nothing can be done with a `Folder` but drop it, which may happen on any thread.
unsafe impl<T: Show> Send for Folder<T> {}
// SAFETY: As above.
unsafe impl<T: Show> Sync for Folder<T> {}

impl<T: Show> Folder<T> {
    /// Makes `name` at the top of debugfs, with the files of `data`. They hold `module` while they
    /// are open, and cannot be opened before it is loaded. Without debugfs there are none, which is
    /// no error. May sleep.
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
                // SAFETY: The name is a string; no parent means the top.
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

    /// # Safety
    ///
    /// `dir` and `entries` of `this` are initialised, `fops` is filled in, and they stay where they
    /// are until `dir` is removed.
    unsafe fn fill(this: *mut Self, fops: *const bindings::file_operations) {
        // SAFETY: By the safety requirements of this function.
        let (dir, entries) = unsafe { ((*this).dir, &(*this).entries) };
        for (file, entry) in T::FILES.iter().zip(entries) {
            let private = core::ptr::from_ref(entry).cast_mut().cast();
            // The kernel's advice is not to look at errors: `dir` may be one.
            // SAFETY: By the safety requirements of this function.
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

    /// # Safety
    ///
    /// The VFS calls this for a file that [`Self::fill`] has made.
    unsafe extern "C" fn open(
        inode: *mut bindings::inode,
        file: *mut bindings::file,
    ) -> kernel::ffi::c_int {
        // SAFETY: By the safety requirements of this function.
        let private = unsafe { (*inode).i_private };
        // CAST: `fill` has made it of this type.
        // SAFETY: As above; the entry lives until the files are removed, which waits for us.
        let module = unsafe { (*private.cast::<Entry<T>>()).module };
        // Nobody waits for who holds a module that fails to load (do_init_module in
        // kernel/module/main.c).
        // SAFETY: The module is there while its `open` runs; its state may change as we look.
        let state = unsafe { (&raw const (*module.as_ptr()).state).read_volatile() };
        if state != bindings::module_state_MODULE_STATE_LIVE {
            return ENOENT.to_errno();
        }
        // SAFETY: As above; who has the file open holds the module.
        unsafe { bindings::single_open(file, Some(Self::show), private) }
    }

    /// # Safety
    ///
    /// The caller is `seq_read`, for a file that [`Self::open`] has opened.
    unsafe extern "C" fn show(seq: *mut bindings::seq_file, _: *mut c_void) -> kernel::ffi::c_int {
        // SAFETY: By the safety requirements of this function.
        let private = unsafe { (*seq).private };
        // CAST: `fill` has made it of this type.
        // SAFETY: As above.
        let entry = unsafe { &*private.cast::<Entry<T>>().cast_const() };
        // SAFETY: The caller alone uses `seq`.
        let seq = unsafe { SeqFile::from_raw(seq) };
        (entry.show)(&entry.data, seq);
        0
    }
}

#[pinned_drop]
impl<T: Show> PinnedDrop for Folder<T> {
    fn drop(self: Pin<&mut Self>) {
        // SAFETY: By the type invariant; error pointers are let be. No file is used after this.
        unsafe { bindings::debugfs_remove(self.dir) };
    }
}
