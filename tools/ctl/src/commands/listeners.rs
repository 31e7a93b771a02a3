// SPDX-License-Identifier: GPL-2.0

//! `listeners`: nfsd's RDMA listeners.

use crate::{
    answer::Answer,
    columns::Columns,
    error::Result,
    human::or_dash,
    listener::Listener,
    system::{
        self,
        Server,
        System, //
    },
};
use serde_json::{
    json,
    Value, //
};

/// Lists the listeners of svcrdma, or those of this network namespace that nfsd lists.
pub(crate) fn run(system: &System) -> Result<Answer> {
    let server = system.server();
    if server == Server::Nobody {
        return Err(system::no_module());
    }
    let listeners = Listener::all(system)?;
    let mut columns = Columns::new(&["LISTENER", "STATE", "NET"]);
    for listener in &listeners {
        columns.push(vec![
            listener.name(),
            or_dash(listener.state.clone(), |state| state),
            or_dash(listener.net, |net| net.to_string()),
        ]);
    }
    let list: Vec<Value> = listeners.iter().map(Listener::json).collect();
    let json = json!({"server": server.module(), "listeners": list});
    Ok(Answer::new(columns.text(), json))
}
