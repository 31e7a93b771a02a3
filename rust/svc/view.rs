// SPDX-License-Identifier: GPL-2.0

//! What an admin can look at: the files of `/sys/kernel/debug/svcrdma`.
//!
//! Each has a line of titles and a line per connection, device or close. Reading them takes the locks
//! of what is shown for moments only; the table of a device's connections is locked while they are
//! written, so connecting may wait for a reader, but no Call does.

use super::{
    conn::Shared,
    device::Device,
    Server, //
};
use kernel::{
    debugfs::Scope,
    fmt,
    prelude::*,
    sync::Arc, //
};

/// The files.
pub(crate) type View = Scope<Arc<Server>>;

/// Makes them. May sleep.
pub(crate) fn show(server: Arc<Server>) -> impl PinInit<View, Error> {
    Scope::dir(Ok::<_, Error>(server), c"svcrdma", |server, dir| {
        dir.read_callback_file(c"connections", server, &write_connections);
        dir.read_callback_file(c"devices", server, &write_devices);
        dir.read_callback_file(c"closes", server, &write_closes);
    })
}

/// The connections that there are.
fn write_connections(server: &Arc<Server>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(
        f,
        "device connection peer phase age_seconds calls unanswered credits \
         receive_bytes send_bytes posted waiting oldest_seconds reading_kib"
    )?;
    server
        .devices
        .try_for_each(|device| device.try_for_each(|shared| write_connection(device, shared, f)))
}

fn write_connection(device: &Device, shared: &Shared, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    let now = shared.snapshot();
    f.write_fmt(fmt!(
        "{} {} {} {} {} {} {} {}",
        device.name(),
        shared.number(),
        shared.peer(),
        now.phase,
        shared.age(),
        now.calls,
        now.unanswered,
        now.granted
    ))?;
    match now.endpoint {
        Some(endpoint) => {
            let load = endpoint.load();
            writeln!(
                f,
                " {} {} {} {} {} {}",
                endpoint.thresholds.receive,
                endpoint.thresholds.send,
                load.fifo.posted,
                load.fifo.waiting,
                load.fifo.oldest,
                load.reading_kib
            )
        }
        None => writeln!(f, " - - - - - -"),
    }
}

/// The devices, used or not.
fn write_devices(server: &Arc<Server>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(
        f,
        "device state connections receives pages pages_free calls_waiting send_buffers_free"
    )?;
    server.devices.try_for_each(|device| {
        let stock = device.pools.count();
        let receives = device.receives();
        f.write_fmt(fmt!(
            "{} {} {} {} {} {} {} {}\n",
            device.name(),
            if receives.is_some() { "used" } else { "unused" },
            device.connection_count(),
            receives.unwrap_or(0),
            stock.pages,
            stock.pages_free,
            stock.waiting,
            stock.replies
        ))
    })
}

/// The connections that have closed lately.
fn write_closes(server: &Arc<Server>, f: &mut fmt::Formatter<'_>) -> fmt::Result {
    writeln!(f, "device connection peer seconds_ago cause")?;
    server
        .devices
        .try_for_each(|device| device.history.write(device.name(), f))
}
