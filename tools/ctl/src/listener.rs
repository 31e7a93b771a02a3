// SPDX-License-Identifier: GPL-2.0

//! Listeners of nfsd.

use crate::{
    error::Result,
    system::{
        Server,
        System, //
    },
};
use serde_json::{
    json,
    Value, //
};

/// A listener.
#[derive(Clone, Debug)]
pub(crate) struct Listener {
    /// Address and port; nothing where only nfsd's list is known, which has none.
    pub(crate) address: Option<String>,
    pub(crate) port: Option<u64>,
    /// `listening`, `lost` or `closed`; nothing where only nfsd's list is known.
    pub(crate) state: Option<String>,
    /// The network namespace, as lsns(8) shows it.
    pub(crate) net: Option<u64>,
    /// All columns, those included that this program does not know.
    columns: Value,
}

impl Listener {
    /// Returns all listeners: those of svcrdma in all network namespaces, or those of this one
    /// that nfsd lists.
    pub(crate) fn all(system: &System) -> Result<Vec<Self>> {
        if system.server() != Server::Ours {
            return Ok(Self::listed(system));
        }
        let table = system.table_with("listeners", &["address", "state"])?;
        let found = table.rows.iter().map(|row| {
            let text = |title| row.text(title).map(str::to_owned);
            let address = text("address");
            Self {
                port: address.as_deref().and_then(port),
                address,
                state: text("state"),
                net: row.number("net"),
                columns: row.json(),
            }
        });
        Ok(found.collect())
    }

    /// Returns the RDMA listeners of nfsd's list.
    pub(crate) fn listed(system: &System) -> Vec<Self> {
        let list = system.portlist().unwrap_or_default();
        let rdma = list
            .into_iter()
            .filter(|(transport, _)| transport == "rdma");
        let listed = rdma.map(|(_, port)| Self {
            address: None,
            port: Some(port),
            state: None,
            net: None,
            columns: json!({}),
        });
        listed.collect()
    }

    /// Returns true if clients cannot connect until a device comes back.
    pub(crate) fn is_lost(&self) -> bool {
        self.state.as_deref() == Some("lost")
    }

    /// Returns the text for people.
    pub(crate) fn name(&self) -> String {
        match (&self.address, self.port) {
            (Some(address), _) => address.clone(),
            (None, Some(port)) => format!("port {port}"),
            (None, None) => "-".to_owned(),
        }
    }

    /// Returns the JSON object.
    pub(crate) fn json(&self) -> Value {
        json!({
            "address": self.address,
            "port": self.port,
            "state": self.state,
            "net": self.net,
            "columns": self.columns,
        })
    }
}

/// Returns the port in `ADDRESS:PORT`, or in `ADDRESS:PORT%INTERFACE` of a link-local address.
fn port(address: &str) -> Option<u64> {
    let (_, port) = address.rsplit_once(':')?;
    let port = port.split_once('%').map_or(port, |(port, _)| port);
    port.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ports_of_addresses() {
        assert_eq!(port("0.0.0.0:20049"), Some(20049));
        assert_eq!(port("[fe80::2]:20049%3"), Some(20049));
        assert_eq!(port("nothing"), None);
    }
}
