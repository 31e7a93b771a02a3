// SPDX-License-Identifier: GPL-2.0

//! Texts below `/proc/sys`: files with one line that an administrator can write.
//!
//! A text is written as a whole, with one `write()`. If it is refused, the old one stays. The kernel
//! does not say whether a `write()` has the whole text, so a [`Text`] refuses texts that common
//! programs write in pieces.
//!
//! C header: [`include/linux/sysctl.h`](srctree/include/linux/sysctl.h)
//!
//! # Context
//!
//! Process context; may sleep.

use core::marker::PhantomData;
use kernel::{
    error::to_result,
    ffi::c_void,
    prelude::*,
    str::{
        CStr,
        CString, //
    },
};

/// A value that a file shows and changes as a text.
pub trait Text: Send + Sync + 'static {
    /// Returns the text, without a newline at its end.
    ///
    /// # Errors
    ///
    /// `ENOMEM`.
    fn show(&self) -> Result<CString>;

    /// Changes the value to `text`, which may end with a newline. Calls may overlap.
    ///
    /// # Errors
    ///
    /// `EINVAL` if `text` is invalid, or `ENOMEM`. The value stays as it was.
    fn store(&self, text: &str) -> Result;
}

/// A reference to a [`Text`].
///
/// # Invariants
///
/// `data` is a shared reference to a value for whose type `handler` is [`handle`], valid for `'a`.
#[derive(Clone, Copy)]
pub struct TextRef<'a> {
    data: *const c_void,
    handler: Handler,
    _value: PhantomData<&'a ()>,
}

/// The type of `proc_handler` in `struct ctl_table`.
type Handler = unsafe extern "C" fn(
    *const bindings::ctl_table,
    c_int,
    *mut c_void,
    *mut usize,
    *mut bindings::loff_t,
) -> c_int;

// SAFETY: This is a shared reference to a `Text`, which is `Sync`.
unsafe impl Send for TextRef<'_> {}
// SAFETY: As above.
unsafe impl Sync for TextRef<'_> {}

impl<'a> TextRef<'a> {
    /// Refers to `value`.
    pub fn new<T: Text>(value: &'a T) -> Self {
        // INVARIANT: `handler` is that of `T`.
        Self {
            data: core::ptr::from_ref(value).cast(),
            handler: handle::<T>,
            _value: PhantomData,
        }
    }

    /// Returns the C structure of a file that shows the value. The value must live as long as the
    /// file.
    pub(super) fn table(&self, name: &'static CStr) -> bindings::ctl_table {
        bindings::ctl_table {
            procname: name.as_char_ptr(),
            data: self.data.cast_mut(),
            mode: 0o644,
            proc_handler: Some(self.handler),
            ..pin_init::zeroed()
        }
    }
}

/// Reads or writes the file of a `T`.
///
/// # Safety
///
/// The kernel calls this for a file that [`TextRef::table`] describes, whose value is a `T`. `buffer`
/// is memory of the kernel with `*lenp` bytes (`proc_sys_call_handler` in fs/proc/proc_sysctl.c).
unsafe extern "C" fn handle<T: Text>(
    table: *const bindings::ctl_table,
    write: c_int,
    buffer: *mut c_void,
    lenp: *mut usize,
    ppos: *mut bindings::loff_t,
) -> c_int {
    // SAFETY: `data` is a reference to a `T`, which lives until the file is removed.
    let value = unsafe { &*(*table).data.cast::<T>() };
    let done = match write {
        // SAFETY: By the safety requirements of this function.
        0 => unsafe { show(value, buffer, lenp, ppos) },
        // SAFETY: By the safety requirements of this function.
        _ => unsafe { store(value, buffer, lenp, ppos) },
    };
    done.map_or_else(|e| e.to_errno(), |()| 0)
}

/// Copies the text of `value` from byte `*ppos` on to `buffer`.
///
/// # Safety
///
/// As for [`handle`].
unsafe fn show<T: Text>(
    value: &T,
    buffer: *mut c_void,
    lenp: *mut usize,
    ppos: *mut bindings::loff_t,
) -> Result {
    let text = value.show()?;
    let plain = bindings::ctl_table {
        data: text.as_char_ptr().cast_mut().cast(),
        maxlen: c_int::try_from(text.to_bytes_with_nul().len())?,
        ..pin_init::zeroed()
    };
    // SAFETY: `data` is a string of less than `maxlen` bytes, which is only read. The rest is what
    // the kernel has passed.
    to_result(unsafe { bindings::proc_dostring(&plain, 0, buffer, lenp, ppos) })
}

/// Changes `value` to the text in `buffer`.
///
/// # Errors
///
/// `EINVAL` if the text does not begin at the start of the file or is not UTF-8, and those of
/// [`Text::store`].
///
/// # Safety
///
/// As for [`handle`].
unsafe fn store<T: Text>(
    value: &T,
    buffer: *mut c_void,
    lenp: *mut usize,
    ppos: *mut bindings::loff_t,
) -> Result {
    // SAFETY: By the safety requirements of this function.
    let (len, at) = unsafe { (*lenp, *ppos) };
    if at != 0 {
        return Err(EINVAL);
    }
    // SAFETY: By the safety requirements of this function `buffer` has `len` bytes, which nothing
    // else uses while the handler runs.
    let bytes = unsafe { core::slice::from_raw_parts(buffer.cast::<u8>(), len) };
    value.store(core::str::from_utf8(bytes).map_err(|_| EINVAL)?)?;
    // CAST: The kernel has allocated the buffer, so the length is below 2^63.
    // SAFETY: By the safety requirements of this function.
    unsafe { *ppos = len as bindings::loff_t };
    Ok(())
}
