// SPDX-License-Identifier: GPL-2.0

//! What an admin can look at: the files of `/sys/kernel/debug/svcrdma`.
//!
//! Each has a line of titles and a line per connection, listener, device or close. Reading them takes
//! the locks of what is shown for moments only; the table of a device's connections is locked while
//! they are written, so connecting may wait for a reader, but no Call does.

use super::{
    conn::connection::Connection,
    device::Device,
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

/// The files.
pub(crate) type View = Folder<Server>;

/// Makes them. May sleep.
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

/// Prints the connections, but for those that only wait for the peer to confirm the disconnect.
fn show_connections(server: &Server, m: &SeqFile) {
    seq_print!(
        m,
        "device connection peer phase age_seconds calls unanswered credits \
         receive_bytes send_bytes posted waiting oldest_seconds reading_kib reply_kib net \
         standing behind_seconds credits_held receives receives_posted\n"
    );
    server.devices.for_each(|device| {
        device.lane.for_each(|connection| {
            if !connection.is_leaving() {
                show_connection(device, connection, m);
            }
        });
    });
}

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
        now.balance.calls,
        now.balance.unanswered,
        now.balance.granted
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
        connection.standing().name(),
        behind,
        now.balance.held
    );
    match &now.endpoint {
        Some(endpoint) => {
            let pool = endpoint.receives.pool();
            seq_print!(m, " {} {}\n", pool.count(), pool.posted());
        }
        None => seq_print!(m, " - -\n"),
    }
}

/// The listeners that nfsd has.
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

/// The devices, used or not.
fn show_devices(server: &Server, m: &SeqFile) {
    seq_print!(
        m,
        "device state connections receives pages pages_free calls_waiting send_buffers_free \
         calls_unanswered reply_pages leaving unvalidated_pages unvalidated_waiting\n"
    );
    server.devices.for_each(|device| {
        let stock = device.lane.pool.count();
        let (connections, leaving) = device.connection_counts();
        seq_print!(
            m,
            "{} {} {} {} {} {} {} {} {} {} {} {} {}\n",
            device.name(),
            if device.is_used() { "used" } else { "unused" },
            connections,
            device.lane.receives.used(),
            stock.pages,
            stock.pages_free,
            stock.waiting,
            stock.replies,
            device.under_way(),
            device.lane.held.count(),
            leaving,
            stock.unvalidated,
            stock.unvalidated_waiting
        );
    });
}

/// The connections that have closed lately.
fn show_closes(server: &Server, m: &SeqFile) {
    seq_print!(m, "device connection peer seconds_ago cause\n");
    server
        .devices
        .for_each(|device| device.lane.history.show(&device.name(), m));
}
