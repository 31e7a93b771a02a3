// SPDX-License-Identifier: GPL-2.0

//! The files in `/sys/kernel/debug/svcrdma`.
//!
//! Each file has a line of column titles, then one line per connection, listener, device or close.
//!
//! # Locking
//!
//! A reader holds the mutex of a device's table of connections while it writes the lines of these
//! connections. So a new connection may wait for a reader. A Call never waits: a reader holds the
//! locks on its path only to copy numbers.

use crate::svc::{
    conn::connection::Connection,
    device::device::Device,
    latency::Latency,
    listen::server::Server, //
};
use kernel::{
    prelude::*,
    seq_file::SeqFile,
    seq_print,
    sync::Arc, //
};
use support::debugfs::{
    File,
    Folder,
    Show, //
};
use svcrdma_proto::histogram::BUCKETS;

/// The folder with the files. Dropping it removes the files, and waits for readers.
pub(crate) type View = Folder<Server>;

/// Creates the folder of `server` for `module`. May sleep.
pub(crate) fn show(module: &'static ThisModule, server: Arc<Server>) -> impl PinInit<View, Error> {
    Folder::new(module, c"svcrdma", server)
}

impl Show for Server {
    const FILES: &'static [File<Self>] = &[
        File {
            name: c"connections",
            show: show_connections,
        },
        File {
            name: c"latency",
            show: show_latency,
        },
        File {
            name: c"listeners",
            show: show_listeners,
        },
        File {
            name: c"devices",
            show: show_devices,
        },
        File {
            name: c"closes",
            show: show_closes,
        },
    ];
}

/// Writes a line per connection. Leaving connections, which only wait for the peer to confirm the
/// disconnect, have no line.
fn show_connections(server: &Server, m: &SeqFile) {
    seq_print!(
        m,
        "device connection peer phase age_seconds calls unanswered credits \
         receive_bytes send_bytes posted waiting oldest_seconds reading_kib reply_kib net \
         standing behind_seconds credits_held receives receives_posted lane \
         read_bytes write_bytes work_requests inline_received_bytes inline_sent_bytes \
         path_mtu traffic_class encapsulation\n"
    );
    server.devices.for_each(|device| {
        device.for_each(|connection| {
            if !connection.is_leaving() {
                show_connection(device, connection, m);
            }
        });
    });
}

/// Writes the line of `connection`.
fn show_connection(device: &Device, connection: &Connection, m: &SeqFile) {
    let now = connection.snapshot();
    seq_print!(
        m,
        "{} {} {} {} {} {} {} {}",
        device.name(),
        connection.number(),
        connection.peer(),
        now.phase,
        connection.age(),
        now.credit_state.calls,
        now.credit_state.unanswered,
        now.credit_state.granted
    );
    let mut behind = 0;
    match &now.endpoint {
        Some(endpoint) => {
            let load = endpoint.load();
            seq_print!(
                m,
                " {} {} {} {} {} {} {}",
                endpoint.thresholds.receive,
                endpoint.thresholds.send,
                load.send_queue.posted,
                load.send_queue.waiting,
                load.send_queue.oldest,
                load.reading_kib,
                load.reply_kib
            );
            behind = load.send_queue.behind;
        }
        None => seq_print!(m, " - - - - - - -"),
    }
    seq_print!(
        m,
        " {} {} {} {}",
        connection.counters.namespace.number,
        connection.class().name(),
        behind,
        now.credit_state.held
    );
    match &now.endpoint {
        Some(endpoint) => {
            let pool = endpoint.receives.pool();
            let lane = endpoint.lane.index();
            let tally = &endpoint.published.tally;
            seq_print!(
                m,
                " {} {} {} {} {} {} {} {}",
                pool.count(),
                pool.posted(),
                lane,
                tally.read_bytes.get(),
                tally.write_bytes.get(),
                tally.work_requests.get(),
                tally.inline_received_bytes.get(),
                tally.inline_sent_bytes.get()
            );
        }
        None => seq_print!(m, " - - - - - - - -"),
    }
    match connection.offer.path {
        Some(path) => seq_print!(
            m,
            " {} {} {}\n",
            path.mtu,
            path.traffic_class,
            path.encapsulation.name()
        ),
        None => seq_print!(m, " - - -\n"),
    }
}

/// Writes a line per histogram of each connection.
fn show_latency(server: &Server, m: &SeqFile) {
    seq_print!(m, "connection peer kind");
    (0..BUCKETS).for_each(|n| seq_print!(m, " b{}", n));
    seq_print!(m, "\n");
    server.devices.for_each(|device| {
        device.for_each(|connection| {
            if let Some(endpoint) = connection.snapshot().endpoint {
                show_histograms(connection, &endpoint.published.tally.latency, m);
            }
        });
    });
}

/// Writes the histograms of `connection`.
fn show_histograms(connection: &Connection, latency: &Latency, m: &SeqFile) {
    for (name, histogram) in latency.all() {
        seq_print!(m, "{} {} {}", connection.number(), connection.peer(), name);
        histogram.counts().for_each(|n| seq_print!(m, " {}", n));
        seq_print!(m, "\n");
    }
}

/// Writes a line per listener of nfsd, of all network namespaces.
fn show_listeners(server: &Server, m: &SeqFile) {
    seq_print!(m, "address state net\n");
    server.ports.for_each(|port| {
        let (addr, state) = port.state();
        match addr {
            Some(addr) => seq_print!(m, "{}", addr),
            None => seq_print!(m, "-"),
        }
        seq_print!(m, " {} {}\n", state, port.counters.namespace.number);
    });
}

/// Writes a line per device, used or not.
fn show_devices(server: &Server, m: &SeqFile) {
    seq_print!(
        m,
        "device state connections receives pages pages_free calls_waiting send_buffers_free \
         calls_unanswered reply_pages leaving unvalidated_pages unvalidated_waiting lanes \
         pages_idle\n"
    );
    server.devices.for_each(|device| {
        let (stock, lanes, pages_idle) = device.count();
        let (connections, leaving) = device.connection_counts();
        seq_print!(
            m,
            "{} {} {} {} {} {} {} {} {} {} {} {} {} {} {}\n",
            device.name(),
            if device.is_used() { "used" } else { "unused" },
            connections,
            device.receives.used(),
            stock.pages,
            stock.pages_free,
            stock.waiting,
            stock.replies,
            device.unanswered(),
            device.held.count(),
            leaving,
            stock.unvalidated,
            stock.unvalidated_waiting,
            lanes,
            pages_idle
        );
    });
}

/// Writes a line per recently closed connection.
fn show_closes(server: &Server, m: &SeqFile) {
    seq_print!(m, "device connection peer seconds_ago reason\n");
    server
        .devices
        .for_each(|device| device.history.show(&device.name(), m));
}
