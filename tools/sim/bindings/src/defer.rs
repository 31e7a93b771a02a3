// SPDX-License-Identifier: GPL-2.0

//! Deferred Calls: sunrpc keeps the arguments and the context of a Call whose thread would have to
//! wait for user space, and handles the Call again later.

use crate::{svc::*, Ptr};
use core::ffi::c_void;
use kernel::sim;

/// A Call that is handled again.
pub(crate) struct Deferred {
    xprt: Ptr<svc_xprt>,
    args: Vec<u8>,
    ctxt: *mut c_void,
}

// SAFETY: All tasks are in one thread of the host.
unsafe impl Send for Deferred {}

impl Deferred {
    /// Takes the Call of `rqst`. Only a Call without pages can be deferred.
    pub(crate) fn take(rqst: Ptr<svc_rqst>, args: Vec<u8>) -> Option<Self> {
        let rqst = rqst.get();
        if rqst.rq_arg.page_len > 0 {
            return None;
        }
        let xprt = Ptr(rqst.rq_xprt);
        xprt.hold();
        let ctxt = core::mem::replace(&mut rqst.rq_xprt_ctxt, core::ptr::null_mut());
        Some(Self { xprt, args, ctxt })
    }

    /// Lets a thread handle the Call after a while, or ends it if the transport was closed.
    pub(crate) fn revisit_later(self, serv: Ptr<svc_serv>) {
        sim::event(format_args!("nfsd: deferred"));
        sim::spawn_short("revisit", move || {
            sim::sleep(sim::below(3000));
            let xprt = self.xprt;
            if xprt.has(XPT_DEAD) || sim::chance(8 * serv.get().drops) {
                if crate::compound::is_nfs4(&self.args) {
                    xprt.expect_close();
                }
                self.end();
                return;
            }
            serv.get().deferred.push(self);
            xprt.hold();
            unsafe {
                xprt_set_flag(xprt.0, XPT_DEFERRED);
                svc_xprt_enqueue(xprt.0);
            }
            xprt.put();
        });
    }

    /// Ends a Call that is not handled again.
    pub(crate) fn end(self) {
        release(self.xprt, self.ctxt);
        self.xprt.put();
    }

    /// Makes this the Call of `rqst`. Returns its arguments, which `rqst` refers to.
    pub(crate) fn deliver(mut self, rqst: Ptr<svc_rqst>) -> Vec<u8> {
        let rqst = rqst.get();
        rqst.rq_xprt_ctxt = self.ctxt;
        rqst.rq_arg = EMPTY;
        rqst.rq_arg.head[0] = kvec {
            iov_base: self.args.as_mut_ptr().cast(),
            iov_len: self.args.len(),
        };
        unsafe { svc_xprt_received(self.xprt.0) };
        self.xprt.put();
        self.args
    }
}

impl Ptr<svc_serv> {
    /// Takes a deferred Call of `xprt`.
    pub(crate) fn next_deferred(self, xprt: Ptr<svc_xprt>) -> Option<Deferred> {
        let deferred = &mut self.get().deferred;
        let at = deferred.iter().position(|call| call.xprt == xprt);
        let next = at.map(|at| deferred.remove(at));
        if next.is_none() {
            unsafe { xprt_clear_flag(xprt.0, XPT_DEFERRED) };
            // Another Call may have been added meanwhile.
            if self.get().deferred.iter().any(|call| call.xprt == xprt) {
                unsafe { xprt_set_flag(xprt.0, XPT_DEFERRED) };
            }
        }
        next
    }
}

/// Releases the context of a Call.
pub(crate) fn release(xprt: Ptr<svc_xprt>, ctxt: *mut c_void) {
    let release = xprt.ops().xpo_release_ctxt.expect("the operation is there");
    unsafe { release(xprt.0, ctxt) };
}
