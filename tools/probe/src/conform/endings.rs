// SPDX-License-Identifier: GPL-2.0

//! Rows about clients that disappear: other clients are served as before.

use super::{
    bench::Bench,
    row::Row, //
};
use crate::{
    error::Result,
    scenario::{Remains, Scenario, READS},
    stage::Stage,
};

pub(super) const ROWS: &[Row] = &[
    Row::file_script("no RFC", "client that disconnects, at each step", |b| {
        each(b, |remains| remains.disconnect().map(|()| None))
    }),
    Row::file_script("no RFC", "client that falls silent, at each step", |b| {
        each(b, |mut remains| {
            remains.fall_silent();
            Ok(Some(remains))
        })
    }),
];

/// Takes a client to each stage and makes it leave; after each, another client must be served.
fn each(bench: &Bench<'_>, leave: fn(Remains) -> Result<Option<Remains>>) -> Result {
    let scenario = Scenario {
        target: bench.target.clone(),
        file: bench.file.map(str::to_owned),
        key: None,
        calls: READS,
    };
    // The connection manager knows silent clients as long as these live.
    let mut silent = Vec::new();
    for (turn, &stage) in Stage::ALL.iter().enumerate() {
        let result = scenario.reach(stage, turn).and_then(leave);
        let result = result.and_then(|remains| {
            silent.push(remains);
            bench.peer()
        });
        result.map_err(|error| error.within(format_args!("stage {stage}")))?;
    }
    Ok(())
}
