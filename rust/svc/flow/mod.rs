// SPDX-License-Identifier: GPL-2.0

//! The way of a Call from the wire to nfsd and back.

pub(crate) mod backchannel;
pub(crate) mod read;
pub(crate) mod receive;
pub(crate) mod reply;
pub(crate) mod teardown;
