// SPDX-License-Identifier: GPL-2.0

//! The Receive buffers for replies to callbacks.

use super::check;
use crate::{
    callback::SLOTS,
    svc::{conn::receives::Receives, pages::host::Host},
};
use kernel::{prelude::*, sync::Arc};
use loom::thread;
use rdma::recv::pool::ReceivePool;

#[test]
fn a_callback_is_sent_only_when_the_buffers_for_its_reply_exist() {
    check(|| {
        let pool = Arc::new(ReceivePool::new(), GFP_KERNEL).unwrap();
        let host = Arc::new(Host::new(), GFP_KERNEL).unwrap();
        let receives = Receives::new(pool, host).unwrap();
        // nfsd has bound no backchannel.
        assert_eq!(receives.lock().callbacks(8), 0);
        receives.bind();
        let other = receives.clone();
        let other = thread::spawn(move || other.lock().callbacks(8));
        if receives.takes_callbacks() {
            assert_eq!(receives.pool().callbacks.get(), SLOTS);
        }
        assert_eq!(other.join().unwrap(), SLOTS);
        assert!(receives.takes_callbacks());
    });
}
