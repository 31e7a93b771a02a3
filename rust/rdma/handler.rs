// SPDX-License-Identifier: GPL-2.0

//! Handlers: what a ULP does when work of a queue pair has completed.

use crate::{
    completion::{
        Completion,
        Status, //
    },
    receive::Receive,
    receive_buffer::State, //
};
use kernel::sync::ArcBorrow;

/// What a peer has done with a Receive that is for messages.
#[derive(Clone, Copy)]
pub enum Unfit {
    /// An RDMA Write with immediate data.
    Immediate,
    /// A Send With Invalidate: a memory region of ours is not valid any more, whoever's it is.
    Invalidation,
}

/// Who handles the completions of a queue pair, its context.
pub trait Handler: Send + Sync + Sized + 'static {
    /// The data that is kept with a received message.
    type Call: State;

    /// A message has arrived. On the RDMA core's workqueue; must not sleep.
    fn received(this: ArcBorrow<'_, Self>, receive: Receive<Self::Call>);

    /// A Receive was used up by something else than a message, or by one that does more. As above.
    fn unfit(this: ArcBorrow<'_, Self>, what: Unfit);

    /// A Receive has failed, which ends the connection. As above.
    fn receive_failed(this: ArcBorrow<'_, Self>, status: Status);

    /// Posted work has completed. As above.
    fn sent(this: ArcBorrow<'_, Self>, completion: &Completion);

    /// The device reports an error of the queue pair. In any context, with hard interrupts
    /// perhaps disabled: takes no locks.
    fn failed(this: ArcBorrow<'_, Self>);
}
