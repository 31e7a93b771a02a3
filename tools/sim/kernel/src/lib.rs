// SPDX-License-Identifier: GPL-2.0

//! Model of the kernel crate: what the module's crates use of it, on a host.
//!
//! `sim` is the simulator's core: one seed, one scheduler, one clock. Locks and atomics end in its
//! scheduling points. Nothing here depends on the module.

#![feature(coerce_unsized, dispatch_from_dyn, unsize)]
#![allow(clippy::missing_safety_doc, clippy::new_without_default)]

pub mod alloc;
pub mod error;
pub mod macros;
pub mod prelude;
pub mod rbtree;
pub mod seq_file;
pub mod sim;
pub mod str;
pub mod sync;
pub mod time;
pub mod types;
pub mod workqueue;

pub use core::fmt;
pub use error::{Error, Result};

pub mod ffi {
    //! The C types, as the kernel crate defines them.
    #![allow(non_camel_case_types)]
    pub use core::ffi::c_void;
    pub type c_char = u8;
    pub type c_schar = i8;
    pub type c_int = i32;
    pub type c_uint = u32;
    pub type c_long = isize;
    pub type c_ulong = usize;
}

pub mod page {
    pub const PAGE_SIZE: usize = 4096;
}

pub mod jump_label {
    pub use crate::static_branch_unlikely;
}

/// A module, as C knows it.
pub struct ThisModule(pub core::cell::UnsafeCell<bindings::module>);

// SAFETY: The simulator has one thread of the host.
unsafe impl Sync for ThisModule {}

impl ThisModule {
    pub const fn new() -> Self {
        Self(core::cell::UnsafeCell::new(bindings::module { state: 0 }))
    }

    pub fn as_ptr(&self) -> *mut bindings::module {
        self.0.get()
    }
}

/// A module that is made in place.
pub trait InPlaceModule: Sized {
    fn init(module: &'static ThisModule) -> impl pin_init::PinInit<Self, Error>;
}

pub mod bindings {
    //! The items of `kernel::bindings` that the module's crates use.
    #![allow(non_camel_case_types, non_upper_case_globals)]
    use crate::{ffi::c_int, seq_file::SeqFile, sim, workqueue};
    use std::cell::RefCell;

    pub const ENOTCONN: u32 = 107;
    pub const EBADSLT: u32 = 57;
    pub const ENOBUFS: u32 = 105;
    pub const EOPNOTSUPP: u32 = 95;
    pub const module_state_MODULE_STATE_LIVE: u32 = 0;

    #[repr(C)]
    pub struct module {
        pub state: u32,
    }

    pub struct tracepoint;
    pub type workqueue_struct = workqueue::Pool;

    #[repr(C)]
    #[derive(Default)]
    pub struct completion {
        done: u32,
    }

    pub unsafe fn init_completion(this: *mut completion) {
        unsafe { this.write(completion::default()) };
    }

    pub unsafe fn complete(this: *mut completion) {
        sim::point();
        unsafe { (*this).done += 1 };
        sim::wake(this);
    }

    /// Returns 0 after a timeout.
    pub unsafe fn wait_for_completion_timeout(this: *mut completion, jiffies: c_ulong) -> c_ulong {
        let is_done = sim::wait_for(this, jiffies as u64, || unsafe { (*this).done } > 0);
        if is_done {
            unsafe { (*this).done -= 1 };
        }
        is_done.into()
    }

    use crate::ffi::c_ulong;

    pub unsafe fn destroy_workqueue(queue: *mut workqueue_struct) {
        unsafe { workqueue::destroy(queue) };
    }

    pub struct dentry;

    /// A file in debugfs.
    #[derive(Clone, Copy)]
    struct DebugFile {
        name: *const u8,
        private: *mut core::ffi::c_void,
        fops: *const file_operations,
    }

    type Show = unsafe extern "C" fn(*mut seq_file, *mut core::ffi::c_void) -> c_int;

    thread_local! {
        static FILES: RefCell<Vec<DebugFile>> = const { RefCell::new(Vec::new()) };
    }

    /// Returns the text of a file in debugfs.
    pub fn read_debug_file(name: &core::ffi::CStr) -> String {
        let is_it =
            |file: &&DebugFile| unsafe { core::ffi::CStr::from_ptr(file.name.cast()) } == name;
        let file = FILES.with(|files| files.borrow().iter().find(is_it).copied());
        let file = file.expect("the module has the file");
        let mut inode = inode {
            i_private: file.private,
        };
        let mut open_file = file_show { show: None };
        unsafe {
            let open = (*file.fops).open.expect("the file can be opened");
            open(&mut inode, (&raw mut open_file).cast());
        }
        let mut seq = seq_file {
            private: file.private,
            text: SeqFile::default(),
        };
        if let Some(show) = open_file.show {
            unsafe { show(&mut seq, core::ptr::null_mut()) };
        }
        seq.text.text()
    }

    struct file_show {
        show: Option<Show>,
    }

    pub enum file {}
    #[repr(C)]
    pub struct inode {
        pub i_private: *mut core::ffi::c_void,
    }
    #[repr(C)]
    pub struct seq_file {
        pub private: *mut core::ffi::c_void,
        pub text: SeqFile,
    }
    pub type loff_t = i64;
    #[repr(C)]
    pub struct file_operations {
        pub owner: *mut module,
        pub open: Option<unsafe extern "C" fn(*mut inode, *mut file) -> c_int>,
        pub read: Option<unsafe extern "C" fn()>,
        pub llseek: Option<unsafe extern "C" fn()>,
        pub release: Option<unsafe extern "C" fn()>,
    }

    pub unsafe extern "C" fn seq_read() {}
    pub unsafe extern "C" fn seq_lseek() {}
    pub unsafe extern "C" fn single_release() {}
    pub unsafe fn single_open(
        file: *mut file,
        show: Option<Show>,
        _private: *mut core::ffi::c_void,
    ) -> c_int {
        unsafe { (*file.cast::<file_show>()).show = show };
        0
    }
    pub unsafe fn debugfs_create_dir(_: *const u8, _: *mut dentry) -> *mut dentry {
        core::ptr::null_mut()
    }
    pub unsafe fn debugfs_create_file_full(
        name: *const u8,
        _mode: u16,
        _dir: *mut dentry,
        private: *mut core::ffi::c_void,
        _aux: *const core::ffi::c_void,
        fops: *const file_operations,
    ) {
        let file = DebugFile {
            name,
            private,
            fops,
        };
        FILES.with(|files| files.borrow_mut().push(file));
    }

    pub unsafe fn debugfs_remove(_: *mut dentry) {
        FILES.with(|files| files.borrow_mut().clear());
    }
}
