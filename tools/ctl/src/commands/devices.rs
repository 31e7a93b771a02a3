// SPDX-License-Identifier: GPL-2.0

//! `devices`: the RDMA devices of the host.

use crate::{
    answer::Answer,
    columns::Columns,
    device::{
        Device,
        Port, //
    },
    error::Result,
    human::{
        self,
        or_dash, //
    },
    system::System, //
};
use serde_json::{
    json,
    Value, //
};

/// Lists all devices, those included that svcrdma does not use.
pub(crate) fn run(system: &System) -> Result<Answer> {
    let devices = Device::all(system)?;
    let mut columns = Columns::new(&[
        "DEVICE",
        "PORT",
        "STATE",
        "LINK",
        "INTERFACE",
        "DRIVER",
        "SERVES",
        ">CONNECTIONS",
        ">LANES",
        ">RECEIVES",
        ">PAGES",
        ">FREE",
        ">WAITING",
    ]);
    for device in &devices {
        for port in &device.ports {
            columns.push(line(device, port));
        }
    }
    let list: Vec<Value> = devices.iter().map(Device::json).collect();
    Ok(Answer::new(columns.text(), json!({"devices": list})))
}

/// Returns the line of a port.
fn line(device: &Device, port: &Port) -> Vec<String> {
    let text = |value: &Option<String>| or_dash(value.clone(), |text| text);
    let number = |title| or_dash(device.number(title), |number| number.to_string());
    let pages = |title| or_dash(device.number(title), |pages| human::kib(pages * 4));
    let state = device.row.as_ref().and_then(|row| row.text("state"));
    vec![
        device.name.clone(),
        port.number.clone(),
        text(&port.state),
        text(&port.link),
        text(&port.interface),
        text(&device.driver),
        or_dash(state, str::to_owned),
        number("connections"),
        number("lanes"),
        number("receives"),
        pages("pages"),
        pages("pages_free"),
        number("calls_waiting"),
    ]
}
