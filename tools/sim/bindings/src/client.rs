// SPDX-License-Identifier: GPL-2.0

//! The RPC clients that nfsd makes for callbacks, as far as their transports notice.

use crate::{
    callback::*,
    kvec,
    svc::{svc_serv, svc_xprt, EMPTY},
    words, Ptr,
};
use kernel::{ffi::c_int, sim};

const NOT_CONNECTED: c_int = -107;
const NO_BUFFERS: c_int = -105;
const AGAIN: c_int = -11;
const BAD_SLOT: c_int = -57;

impl Ptr<rpc_xprt> {
    pub(crate) fn ops(self) -> &'static rpc_xprt_ops {
        unsafe { &*self.get().ops }
    }

    /// Fails the Calls that wait.
    fn close(self) {
        let close = self.ops().close.expect("the operation is there");
        unsafe { close(self.0) };
    }

    pub(crate) fn forget(self, rqst: Ptr<rpc_rqst>) {
        self.get().waiting.retain(|one| *one != rqst);
    }

    /// Waits for the transport, and makes the module send. Returns what it says.
    fn transmit(self, rqst: Ptr<rpc_rqst>) -> c_int {
        sim::wait(self.0, || {
            let this = self.get();
            !this.is_connected || !(this.is_locked || this.wants_space)
        });
        if !self.get().is_connected {
            return NOT_CONNECTED;
        }
        self.get().is_locked = true;
        let send = self.ops().send_request.expect("the operation is there");
        let result = unsafe { send(rqst.0) };
        self.get().is_locked = false;
        sim::wake(self.0);
        result
    }

    /// Sends a Call, again if it has to. Returns false if it cannot be sent.
    fn send(self, rqst: Ptr<rpc_rqst>) -> bool {
        loop {
            match self.transmit(rqst) {
                0 => return true,
                NO_BUFFERS => sim::sleep(250),
                // The next try waits for space.
                AGAIN => {}
                BAD_SLOT => {
                    let has_room = || self.get().under_way < self.get().window;
                    sim::wait(self.0, || !self.get().is_connected || has_room());
                }
                _ => return false,
            }
        }
    }

    /// Makes a Call. Returns true if it is answered.
    fn call(self, xid: u32) -> bool {
        let (mut call, mut reply) = (words(&[xid, 0, 2, 0x4000_0000, 1, 0]), vec![0; 512]);
        let rqst = Ptr::new(rpc_rqst::new(self, xid, &mut call, &mut reply));
        let task = Ptr(rqst.get().rq_task);
        task.get().rqst = rqst.0;
        self.get().waiting.push(rqst);
        let is_sent = self.send(rqst);
        if is_sent {
            sim::wait_for(task.0, 9000, || {
                task.get().is_done || !self.get().is_connected
            });
        }
        self.forget(rqst);
        if rqst.get().is_under_way {
            self.get().under_way -= 1;
            sim::wake(self.0);
        }
        if is_sent && !task.get().is_done {
            self.close();
        }
        task.get().is_done
    }
}

impl rpc_rqst {
    fn new(xprt: Ptr<rpc_xprt>, xid: u32, call: &mut [u8], reply: &mut [u8]) -> Self {
        let buffer = |bytes: &mut [u8]| {
            let mut buf = EMPTY;
            buf.head[0] = kvec {
                iov_base: bytes.as_mut_ptr().cast(),
                iov_len: bytes.len(),
            };
            buf.len = bytes.len() as u32;
            buf
        };
        let task = Ptr::new(rpc_task {
            rqst: core::ptr::null_mut(),
            is_done: false,
        });
        Self {
            rq_xprt: xprt.0,
            rq_task: task.0,
            rq_xid: xid.to_be(),
            rq_xtime: 0,
            rq_xmit_bytes_sent: 0,
            rq_snd_buf: buffer(call),
            rq_private_buf: buffer(reply),
            rq_buffer: EMPTY.head[0],
            is_under_way: false,
        }
    }
}

impl Ptr<svc_xprt> {
    /// Closes the transport for callbacks of a connection that nfsd has detached.
    pub(crate) fn close_callbacks(self) {
        if !self.get().bc_xprt.is_null() {
            Ptr(self.get().bc_xprt).close();
        }
    }
}

impl Ptr<svc_serv> {
    /// Makes callbacks to the client of a connection, from its first Call on.
    pub(crate) fn call_back(self, xprt: Ptr<svc_xprt>) {
        if self.get().callbacks == 0 || core::mem::replace(&mut xprt.get().has_client, true) {
            return;
        }
        // The client's reference.
        xprt.hold();
        sim::spawn_short("callbacks", move || {
            if let Some(channel) = new_channel(xprt) {
                self.run_client(channel);
                unsafe { xprt_put(channel.0) };
            }
            xprt.put();
        });
    }

    /// Makes callbacks, up to three at a time.
    fn run_client(self, channel: Ptr<rpc_xprt>) {
        let tasks: Vec<_> = (0..3)
            .map(|n| {
                sim::spawn("rpciod", move || {
                    for i in 0..self.get().callbacks {
                        let is_answered = channel.call(0xcb00_0000 + 100 * n + i as u32);
                        self.get().called_back += u64::from(is_answered);
                        sim::sleep(sim::below(50));
                    }
                })
            })
            .collect();
        for task in tasks {
            task.join().expect("a client does not fail");
        }
    }
}

/// Makes the transport for callbacks to the client of a connection.
fn new_channel(xprt: Ptr<svc_xprt>) -> Option<Ptr<rpc_xprt>> {
    let setup = unsafe { (*BACKCHANNEL.get()).setup }.expect("the function is there");
    let mut address = crate::address(0, 0);
    let mut args = xprt_create {
        net: xprt.get().xpt_net,
        srcaddr: &mut address,
        bc_xprt: xprt.0,
    };
    let channel = unsafe { setup(&mut args) };
    let is_error = (-4095..0).contains(&(channel as isize));
    (!is_error).then_some(Ptr(channel))
}
