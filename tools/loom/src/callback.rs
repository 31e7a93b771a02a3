// SPDX-License-Identifier: GPL-2.0

//! Model of `sunrpc::callback`: a transport of sunrpc whose Call waits for space.

use kernel::{
    prelude::*,
    sync::{
        atomic::{AtomicFlag, Full, Relaxed},
        made, Arc, SpinLock,
    },
};

pub const SLOTS: u32 = 16;

/// The state of a `struct rpc_xprt`.
struct Transport {
    /// `XPRT_WRITE_SPACE`: a Call waits.
    write_space: AtomicFlag,
    transport_lock: SpinLock<()>,
}

#[derive(Clone)]
pub struct Channel(Arc<Transport>);

impl Channel {
    pub fn new() -> Self {
        let transport = Transport {
            write_space: AtomicFlag::new(false),
            transport_lock: made(SpinLock::new(())).unwrap(),
        };
        transport.write_space.load(Relaxed);
        Self(Arc::new(transport, GFP_KERNEL).unwrap())
    }

    /// As `xprt_wait_for_buffer_space()`: sets the flag, and orders nothing.
    pub fn wait_for_space(&self) {
        self.0.write_space.xchg(true, Relaxed);
    }

    /// As `xprt_write_space()`, which looks at the flag without the lock first.
    pub fn resume(&self) {
        if self.0.write_space.load(Relaxed) {
            let _guard = self.0.transport_lock.lock();
            self.0.write_space.xchg(false, Full);
        }
    }

    /// Returns true if a Call waits.
    pub fn waits(&self) -> bool {
        self.0.write_space.load(Relaxed)
    }
}
