// SPDX-License-Identifier: GPL-2.0

//! `svcrdma-bench OPERATION` performs all steps of an operation once. `svcrdma-bench SHAPE SEGMENTS`
//! does so for a Call whose chunk lists have this shape and this number of segments.
//! `svcrdma-bench operations`, `steps` and `shapes` print the names of all.

use svcrdma_bench::lists::SHAPES;
use svcrdma_bench::{Rpc, OPERATIONS, STEPS};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["operations"] => OPERATIONS
            .iter()
            .for_each(|known| println!("{}", known.name)),
        ["steps"] => STEPS.iter().for_each(|(step, _)| println!("{step}")),
        ["shapes"] => SHAPES.iter().for_each(|known| println!("{}", known.name)),
        [name] => {
            let operation = OPERATIONS.iter().find(|known| known.name == name);
            Rpc::new(*operation.expect("unknown operation")).whole();
        }
        [name, segments] => {
            let shape = SHAPES.iter().find(|known| known.name == name);
            let segments = segments.parse().expect("a number of segments");
            (shape.expect("unknown shape").call)(segments).serve();
        }
        _ => panic!("no operation"),
    }
}
