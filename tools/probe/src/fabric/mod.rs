// SPDX-License-Identifier: GPL-2.0

//! `fabric`: measures what the fabric gives, and what NFS gets of it.
//!
//! The fabric is measured with the module `rdma_bulk` of the server, NFS with its transport. All
//! operations of one size and depth take turns, several rounds, so that what disturbs one disturbs all.

mod carrier;
mod cell;
mod chart;
mod nfs;
mod sample;
mod table;

use self::{
    carrier::Carrier,
    cell::{plan, Bounds, Cell},
    sample::{Figures, Sample},
    table::{human, rows},
};
use crate::{
    calls::{Calls, Line},
    error::{Error, Result},
    ffi::Region,
    output::{Format, Output, Progress},
    run::Run,
    target::{Server, Target},
};
use clap::value_parser;
use serde_json::{json, Value};
use std::{fs::File, io::Write, path::PathBuf, time::Duration};

/// The largest size.
const LARGEST: i64 = 4 << 20;

/// Measure what the fabric gives, and what NFS gets of it
///
/// The server needs the module rdma_bulk beside its NFS server. Without --file only the fabric is
/// measured.
#[derive(Debug, clap::Args)]
pub(crate) struct Fabric {
    #[command(flatten)]
    server: Server,
    /// File below the root of NFS version 4, which is overwritten
    #[arg(long, value_name = "PATH")]
    file: Option<String>,
    /// Port of rdma_bulk
    #[arg(long, value_name = "PORT", default_value_t = 5445, value_parser = value_parser!(u16).range(1..))]
    bulk_port: u16,
    /// Bytes of an operation, from 64 to 4194304
    #[arg(
        long,
        value_name = "BYTES,...",
        value_delimiter = ',',
        default_value = "64,256,1024,4096,16384,65536,262144,1048576,4194304",
        value_parser = value_parser!(u32).range(64..=LARGEST)
    )]
    sizes: Vec<u32>,
    /// Operations in flight, from 1 to 64; large ones and some operations have fewer
    #[arg(
        long,
        value_name = "N,...",
        value_delimiter = ',',
        default_value = "1,4,16,64",
        value_parser = value_parser!(u32).range(1..=64)
    )]
    depths: Vec<u32>,
    /// Rounds, of which the medians count
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = value_parser!(u32).range(1..=99))]
    rounds: u32,
    /// Milliseconds of an operation in a round
    #[arg(long, value_name = "MS", default_value_t = 200, value_parser = value_parser!(u64).range(1..=5000))]
    round_ms: u64,
    /// Four sizes, depths 1 and 16, three rounds of 50 ms
    #[arg(long, conflicts_with_all = ["sizes", "depths", "rounds", "round_ms"])]
    quick: bool,
    /// File to write a chart to, as SVG
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

/// The cells to measure, and the time for each.
struct Plan<'a> {
    target: Target,
    file: Option<&'a str>,
    groups: Vec<Vec<Cell>>,
    rounds: u32,
    round: Duration,
}

/// The memory or the connection that a cell is measured with.
enum Means<'a> {
    Fabric(Region),
    Nfs(Line<'a>),
}

impl Run for Fabric {
    fn format(&self) -> Format {
        self.server.format()
    }

    fn run(&self, output: &mut Output) -> Result {
        // Before the measurement, as a path may be wrong.
        let svg = self.svg.as_ref().map(create).transpose()?;
        let target = self.server.target()?;
        let mut bulk = target.clone();
        bulk.addresses.to.set_port(self.bulk_port);
        let mut carrier = Carrier::connect(&bulk)?;
        if self.file.is_some() {
            (carrier.bounds.read, carrier.bounds.write) = nfs::largest(&target)?;
        }
        let bounds = carrier.bounds;
        let all = self.plan(target, &bounds).measure(&mut carrier)?;
        carrier.end()?;
        print(output, &all, &bounds);
        if let Some(mut svg) = svg {
            let picture = chart::svg(self.server.host(), &rows(&all));
            let written = svg.write_all(picture.as_bytes());
            written.map_err(|error| Error::os("--svg", error))?;
        }
        Ok(())
    }
}

/// Creates a file.
fn create(path: &PathBuf) -> Result<File> {
    File::create(path).map_err(|error| Error::os(&path.to_string_lossy(), error))
}

impl Fabric {
    /// Returns what is measured.
    fn plan(&self, target: Target, bounds: &Bounds) -> Plan<'_> {
        let (sizes, depths) = match self.quick {
            true => (&[64, 4096, 65_536, 1 << 20][..], &[1, 16][..]),
            false => (&self.sizes[..], &self.depths[..]),
        };
        let (rounds, ms) = match self.quick {
            true => (3, 50),
            false => (self.rounds, self.round_ms),
        };
        Plan {
            target,
            file: self.file.as_deref(),
            groups: plan(sizes, depths, bounds),
            rounds,
            round: Duration::from_millis(ms),
        }
    }
}

impl Plan<'_> {
    /// Measures all cells.
    fn measure(&self, carrier: &mut Carrier) -> Result<Vec<Figures>> {
        let mut all = Vec::new();
        let mut progress = Progress::new(Duration::from_secs(1));
        for group in &self.groups {
            if let Some(cell) = group.first() {
                progress.tell(|| format!("{}, depth {}", human(cell.size), cell.depth));
            }
            all.extend(self.measure_group(carrier, group)?);
        }
        Ok(all)
    }

    /// Measures the cells of one size and depth in turns. The first round, which brings up the credits
    /// and writes the file, does not count.
    fn measure_group(&self, carrier: &mut Carrier, group: &[Cell]) -> Result<Vec<Figures>> {
        let file = self.file.unwrap_or_default();
        let calls: Vec<_> = group.iter().map(|cell| nfs::calls(cell, file)).collect();
        let means = group.iter().zip(&calls);
        let means = means.map(|(cell, calls)| self.means(carrier, cell, calls.as_ref()));
        let mut means = means.collect::<Result<Vec<Means<'_>>>>()?;
        let samples = self.turns(carrier, group, &mut means)?;
        let mut figures = Vec::new();
        for ((cell, means), samples) in group.iter().zip(means).zip(&samples) {
            let mut cell = *cell;
            if let Means::Nfs(line) = means {
                cell.in_flight = cell.in_flight.min(line.end()?.most);
            }
            figures.push(Figures::new(cell, samples));
        }
        Ok(figures)
    }

    /// Lets the cells take turns. Returns the samples of each.
    fn turns(
        &self,
        carrier: &mut Carrier,
        group: &[Cell],
        means: &mut [Means<'_>],
    ) -> Result<Vec<Vec<Sample>>> {
        let mut all = vec![Vec::new(); group.len()];
        for round in 0..=self.rounds {
            for ((cell, means), samples) in group.iter().zip(&mut *means).zip(&mut all) {
                let sample = match means {
                    Means::Fabric(memory) => carrier.measure(cell, memory, self.round)?,
                    Means::Nfs(line) => nfs::measure(cell, line, self.round)?,
                };
                if round > 0 {
                    samples.push(sample);
                }
            }
        }
        Ok(all)
    }

    /// Returns what a cell is measured with.
    fn means<'c>(
        &self,
        carrier: &Carrier,
        cell: &Cell,
        calls: Option<&'c Calls>,
    ) -> Result<Means<'c>> {
        match calls {
            Some(calls) => Line::new(calls, &self.target).map(Means::Nfs),
            None => carrier.memory(cell).map(Means::Fabric),
        }
    }
}

/// Prints the results.
fn print(output: &mut Output, all: &[Figures], bounds: &Bounds) {
    let rows = rows(all);
    table::lines(&rows)
        .into_iter()
        .for_each(|line| output.line(line));
    output.line(format_args!(
        "{} regions of {} bytes, messages of up to {} bytes, READs of up to {} bytes, WRITEs of up to {} bytes",
        bounds.regions, bounds.region, bounds.message, bounds.read, bounds.write
    ));
    output.set(
        "cells",
        all.iter().map(Figures::json).collect::<Vec<Value>>(),
    );
    output.set(
        "table",
        rows.iter().map(table::Row::json).collect::<Vec<Value>>(),
    );
    output.set(
        "limits",
        json!({
            "regions": bounds.regions, "region": bounds.region, "message": bounds.message,
            "read": bounds.read, "write": bounds.write,
        }),
    );
}
