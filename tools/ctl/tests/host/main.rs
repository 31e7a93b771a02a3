// SPDX-License-Identifier: GPL-2.0

//! Runs svcrdmactl on trees that stand for hosts.

mod check;
mod connections;
mod fabric;
mod golden;
mod host;
mod listener;
mod load;
mod metrics;
mod pipe;
mod report;
mod settings;
mod tables;
mod top;
mod upgrade;
mod watch;
