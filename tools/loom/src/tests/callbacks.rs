// SPDX-License-Identifier: GPL-2.0

//! Callbacks that wait for a credit.

use super::check;
use crate::{callback::Channel, svc::conn::callbacks::Callbacks};
use kernel::sync::made;
use loom::{sync::Arc, thread};

#[test]
fn a_callback_that_waits_is_sent_after_the_answer_to_another() {
    check(|| {
        let callbacks = made(Callbacks::new()).unwrap();
        let channel = Channel::new();
        // The client grants one credit.
        assert!(callbacks.count(1, 60).is_ok());
        assert!(!callbacks.is_wanted());
        let callbacks = Arc::new(callbacks);
        let answer = (callbacks.clone(), channel.clone());
        let answer = thread::spawn(move || {
            let (callbacks, channel) = answer;
            assert!(callbacks.on_answer(1, None));
            callbacks.resume(|| Some(channel));
        });
        // As `CallbackXprt::send_request`.
        if callbacks.count(2, 60).is_err() {
            channel.wait_for_space();
            if !callbacks.is_wanted() {
                channel.resume();
            }
        }
        answer.join().unwrap();
        assert!(!channel.waits(), "the callback waits for ever");
    });
}
