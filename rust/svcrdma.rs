// SPDX-License-Identifier: GPL-2.0

//! The server side of RPC-over-RDMA (RFC 8166, RFC 8167): NFS over InfiniBand, RoCE and iWARP.
//!
//! This is the root of the module `svcrdma.ko`: module parameters, and the order of set-up and
//! removal. The code is in these crates, which are linked into one module:
//!
//! | crate | content |
//! |---|---|
//! | `svcrdma_proto` | the wire format, and every decision that is arithmetic or a state machine |
//! | `rdma` | safe RDMA verbs: devices, connection manager, queue pairs, memory |
//! | `sunrpc` | safe transport classes for the kernel's RPC services |
//! | `support` | parts of the kernel that its `kernel` crate does not cover yet |
//! | `svcrdma_bindings` | generated bindings, which only `rdma`, `sunrpc` and `support` use |
//! | this crate, in `svc` | the transport, without unsafe code |

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

/// Returns the kind of memory that RDMA Reads write to, as the parameter `register_reads` says.
fn reads_into() -> svc::ReadsInto {
    match module_parameters::register_reads.value() {
        0 => svc::ReadsInto::Needed,
        _ => svc::ReadsInto::Registered,
    }
}

/// The module.
///
/// The fields are initialised in the reverse of this order, and dropped in this order when the
/// module is unloaded:
///
/// 1. `class` and `backchannel`: sunrpc makes no new listeners and no new callback transports. None
///    is left, as each holds the module.
/// 2. `view`: removes the files in debugfs.
/// 3. `_watchdog`: stops the periodic work.
/// 4. `client`: removes the devices, which queues the rest of their teardown as work.
/// 5. `_flush`: waits for that work, then drops the server and its directories in `/proc/sys`.
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
                // SAFETY: The module is dropped when it is unloaded.
                backchannel <- unsafe { Backchannel::register(module, svc::IDENT) },
                class <- register_class(module, server),
            }? Error))
        })
    }
}

/// Registers the transport class. The class comes last: listeners can be created from then on.
fn register_class(
    module: &'static ThisModule,
    server: Arc<svc::Server>,
) -> impl PinInit<Class<svc::Listener>, Error> {
    pin_init::pin_init_scope(move || {
        // SAFETY: The result becomes a field of the module, which is dropped when it is unloaded.
        let class = unsafe { Class::register(module, svc::CLASS, svc::IDENT, server) };
        Ok::<_, Error>(class)
    })
}
