// SPDX-License-Identifier: GPL-2.0

//! The server side of RPC-over-RDMA: NFS over InfiniBand, RoCE and iWARP.
//!
//! `svcrdma_proto` knows the wire, `rdma` and `sunrpc` are safe interfaces of the kernel's subsystems of
//! these names, and `svc` is the transport between them.

use kernel::{
    prelude::*,
    sync::Arc, //
};
use rdma::client::Registration;
use sunrpc::{
    backchannel::Backchannel,
    class::Class, //
};

#[forbid(unsafe_code)]
mod svc;

module! {
    type: Module,
    name: "svcrdma",
    authors: ["The svcrdma developers"],
    description: "RPC-over-RDMA server transport",
    license: "GPL",
    params: {
        register_reads: u8 {
            default: 0,
            description: "For tests: 1 to read into registered memory on all devices (default: where a device needs it)",
        },
    },
}

/// Returns the memory that RDMA Reads go to, by the module's parameter.
fn reads_into() -> svc::ReadsInto {
    match module_parameters::register_reads.value() {
        0 => svc::ReadsInto::Needed,
        _ => svc::ReadsInto::Registered,
    }
}

/// The module; fields are dropped in their order. First nothing new can come: no listener, no
/// device. Removing the devices queues what is left to do, `_flush` waits for it; with it goes the
/// server, and the folders in `/proc/sys`.
#[pin_data]
struct Module {
    #[pin]
    class: Class<svc::Listener>,
    #[pin]
    backchannel: Backchannel<svc::Listener>,
    #[pin]
    view: svc::debugfs::View,
    _watchdog: svc::Watchdog<svc::Server>,
    #[pin]
    client: Registration<svc::Devices>,
    _flush: svc::Flush,
}

impl kernel::InPlaceModule for Module {
    fn init(module: &'static ThisModule) -> impl PinInit<Self, Error> {
        pin_init::pin_init_scope(move || {
            let server = svc::Server::new(reads_into())?;
            Ok(try_pin_init!(Self {
                _flush: svc::Flush(server.clone()),
                client <- Registration::new(c"svcrdma", server.devices.clone()),
                _watchdog: svc::start_watchdog(&server.devices.queue, &server)?,
                view <- svc::debugfs::show(module, server.clone()),
                backchannel <- Backchannel::register(module, svc::IDENT),
                class <- register_class(module, server),
            }? Error))
        })
    }
}

/// Registers the class last: from then on listeners may be made.
fn register_class(
    module: &'static ThisModule,
    server: Arc<svc::Server>,
) -> impl PinInit<Class<svc::Listener>, Error> {
    pin_init::pin_init_scope(move || {
        Ok::<_, Error>(Class::register(module, svc::CLASS, svc::IDENT, server))
    })
}
