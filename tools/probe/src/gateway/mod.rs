// SPDX-License-Identifier: GPL-2.0

//! `gateway`: relays RPC messages between TCP clients and a server of RPC-over-RDMA.
//!
//! Each TCP client has its own thread and its own RDMA connection, so XIDs need no translation. The
//! folder has the [`record`] marking of TCP, the memory for chunks ([`slots`]), the time for which a
//! client is [`quiet`], and the [`relay`] of one client.

mod quiet;
mod record;
mod relay;
mod slots;

use self::relay::{Limits, Relay};
use crate::{
    error::{Error, Result},
    grant::MOST,
    host,
    output::{Format, Output},
    peer::{Params, Peer},
    run::Run,
    target::{Server, Target}, //
};
use clap::value_parser;
use std::{
    net::{IpAddr, SocketAddr, TcpListener, TcpStream},
    sync::{
        atomic::{AtomicUsize, Ordering},
        Arc,
    },
    thread,
    time::Duration, //
};

/// The pause after a client could not be accepted.
const PAUSE: Duration = Duration::from_millis(100);

/// Relay RPC messages between TCP clients and the server, until it is killed
///
/// Any RPC client can reach the server this way. Each TCP client has its own RDMA connection. Calls
/// longer than the inline threshold are sent as position-zero Read chunks, each Call offers a Reply
/// chunk, and Calls of the server (RFC 8167) go to the client over its TCP connection. Messages are
/// never split into Read and Write chunks of their data. A client that sends a bad record, or is idle
/// for too long, is disconnected, with a line on standard error.
///
/// The server takes all Calls for Calls of this host. With an address beyond loopback, root of any host
/// that reaches the gateway has the rights of root of this host.
#[derive(Debug, clap::Args)]
pub(crate) struct Gateway {
    #[command(flatten)]
    server: Server,
    /// Local address and port to listen on
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:20490")]
    listen: SocketAddr,
    /// Calls in flight of each client, at most 128 and what the server grants
    #[arg(
        long,
        value_name = "N",
        default_value_t = 16,
        value_parser = value_parser!(u32).range(1..=i64::from(MOST))
    )]
    depth: u32,
    /// TCP clients at a time
    #[arg(long, value_name = "N", default_value_t = 64, value_parser = value_parser!(u32).range(1..))]
    clients: u32,
    /// Bytes of the largest RPC message in either direction. Each Call in flight takes twice as much
    /// memory
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = (1 << 20) + (64 << 10),
        value_parser = value_parser!(u32).range(4096..=1 << 30)
    )]
    largest: u32,
    /// Seconds after which a client is disconnected that sends nothing and waits for no Reply
    #[arg(long, value_name = "SECONDS", default_value_t = 600, value_parser = value_parser!(u64).range(1..))]
    idle: u64,
}

impl Run for Gateway {
    fn format(&self) -> Format {
        self.server.format()
    }

    fn run(&self, output: &mut Output) -> Result {
        let target = self.server.target()?;
        host::raise_file_limit()?;
        // A server that cannot be reached is told at once.
        Peer::connect(&target, Params::default())?.disconnect()?;
        let failed = |error| Error::os("listen", error);
        let listener = TcpListener::bind(self.listen).map_err(failed)?;
        let address = listener.local_addr().map_err(failed)?;
        if !is_loopback(address.ip()) {
            eprintln!("rpcrdma-probe gateway: {}", exposed(address));
        }
        output.line(format_args!("listening on {address}"));
        output.set("listening", address.to_string());
        output.complete();
        self.serve(&listener, &target)
    }
}

impl Gateway {
    /// Serves all clients that connect.
    fn serve(&self, listener: &TcpListener, target: &Target) -> Result {
        let limits = Limits {
            depth: self.depth,
            largest: self.largest,
            idle: Duration::from_secs(self.idle),
        };
        let clients = Arc::new(AtomicUsize::new(0));
        loop {
            // A client may have gone before it is accepted, or files are short for a moment.
            let Ok((stream, client)) = listener.accept() else {
                thread::sleep(PAUSE);
                continue;
            };
            let Some(place) = Place::take(&clients, self.clients as usize) else {
                tell(client, "closed: too many clients");
                continue;
            };
            let target = target.clone();
            let work = move || {
                let _place = place;
                serve_client(stream, client, &target, limits);
            };
            if let Err(error) = thread::Builder::new().spawn(work) {
                tell(client, format_args!("closed: no thread: {error}"));
            }
        }
    }
}

/// Returns true if only this host reaches `ip`.
fn is_loopback(ip: IpAddr) -> bool {
    ip.to_canonical().is_loopback()
}

/// Returns the warning about an address that other hosts reach.
fn exposed(address: SocketAddr) -> String {
    format!(
        "warning: {address} is open to other hosts, and the server takes their Calls for Calls of this \
         host, those of root (AUTH_SYS) too: listen on 127.0.0.1, or restrict the port in the firewall"
    )
}

/// The place of a client among those that are served at a time; free again when it is dropped.
struct Place(Arc<AtomicUsize>);

impl Place {
    /// Takes a place; returns `None` if all `most` are taken.
    fn take(taken: &Arc<AtomicUsize>, most: usize) -> Option<Self> {
        let place = Self(Arc::clone(taken));
        // Without room, dropping `place` undoes the count.
        (taken.fetch_add(1, Ordering::Relaxed) < most).then_some(place)
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Serves one client until either side ends its connection.
fn serve_client(stream: TcpStream, client: SocketAddr, target: &Target, limits: Limits) {
    let served = Relay::new(stream, client, target, limits).and_then(|mut relay| relay.run());
    if let Err(error) = served {
        tell(client, format_args!("closed: {error}"));
    }
}

/// Prints a line about a client on standard error.
fn tell(client: SocketAddr, what: impl std::fmt::Display) {
    eprintln!("rpcrdma-probe gateway: client {client}: {what}");
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_beyond_loopback_are_told() {
        let ip = |text: &str| text.parse().unwrap();
        for own in ["127.0.0.1", "127.1.2.3", "::1", "::ffff:127.0.0.1"] {
            assert!(is_loopback(ip(own)), "{own}");
        }
        for open in ["0.0.0.0", "::", "192.0.2.1", "2001:db8::1"] {
            assert!(!is_loopback(ip(open)), "{open}");
        }
    }

    #[test]
    fn places_are_taken_and_given_back() {
        let taken = Arc::new(AtomicUsize::new(0));
        let first = Place::take(&taken, 2);
        let second = Place::take(&taken, 2);
        assert!(first.is_some() && second.is_some());
        assert!(Place::take(&taken, 2).is_none());
        drop(first);
        assert!(Place::take(&taken, 2).is_some());
        drop(second);
        assert_eq!(taken.load(Ordering::Relaxed), 0);
    }
}
