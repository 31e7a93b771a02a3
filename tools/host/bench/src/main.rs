// SPDX-License-Identifier: GPL-2.0

//! `svcrdma-bench OPERATION` performs all steps of an operation once. `svcrdma-bench operations` and
//! `svcrdma-bench steps` print the names of all.

use svcrdma_bench::{Rpc, OPERATIONS, STEPS};

fn main() {
    let name = std::env::args().nth(1).expect("no operation");
    match name.as_str() {
        "operations" => OPERATIONS
            .iter()
            .for_each(|known| println!("{}", known.name)),
        "steps" => STEPS.iter().for_each(|(step, _)| println!("{step}")),
        _ => {
            let operation = OPERATIONS.iter().find(|known| known.name == name);
            Rpc::new(*operation.expect("unknown operation")).whole();
        }
    }
}
