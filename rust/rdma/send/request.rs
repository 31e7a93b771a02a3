// SPDX-License-Identifier: GPL-2.0

//! Work requests of a send queue.
//!
//! C header: [`include/rdma/ib_verbs.h`](srctree/include/rdma/ib_verbs.h)

use core::mem::ManuallyDrop;

/// A work request of any kind. All kinds begin with a `struct ib_send_wr`.
#[repr(C)]
pub(crate) union Request {
    wr: ManuallyDrop<bindings::ib_send_wr>,
    rdma: ManuallyDrop<bindings::ib_rdma_wr>,
    reg: ManuallyDrop<bindings::ib_reg_wr>,
}

impl Request {
    /// Creates a work request that has no fields beside those of `struct ib_send_wr`.
    #[inline]
    pub(crate) fn new(opcode: bindings::ib_wr_opcode) -> Self {
        Self {
            wr: ManuallyDrop::new(Self::plain(opcode)),
        }
    }

    /// Creates an RDMA Read or an RDMA Write.
    #[inline]
    pub(crate) fn rdma(opcode: bindings::ib_wr_opcode, remote_addr: u64, rkey: u32) -> Self {
        let wr = Self::plain(opcode);
        Self {
            rdma: ManuallyDrop::new(bindings::ib_rdma_wr {
                wr,
                remote_addr,
                rkey,
            }),
        }
    }

    /// Returns a `struct ib_send_wr` with zeros in all other fields. It names them one by one,
    /// because zeroing the whole union first costs as much as the rest of a chain.
    #[inline]
    fn plain(opcode: bindings::ib_wr_opcode) -> bindings::ib_send_wr {
        bindings::ib_send_wr {
            next: core::ptr::null_mut(),
            __bindgen_anon_1: bindings::ib_send_wr__bindgen_ty_1 {
                wr_cqe: ManuallyDrop::new(core::ptr::null_mut()),
            },
            sg_list: core::ptr::null_mut(),
            num_sge: 0,
            opcode,
            send_flags: 0,
            ex: bindings::ib_send_wr__bindgen_ty_2 {
                invalidate_rkey: ManuallyDrop::new(0),
            },
        }
    }

    /// Creates a registration of memory.
    pub(crate) fn reg(wr: bindings::ib_reg_wr) -> Self {
        Self {
            reg: ManuallyDrop::new(wr),
        }
    }

    /// Returns the part that all kinds begin with.
    #[inline]
    pub(crate) fn common(&mut self) -> &mut bindings::ib_send_wr {
        // SAFETY: Each variant of the `repr(C)` union begins with a `struct ib_send_wr`.
        unsafe { &mut self.wr }
    }
}
