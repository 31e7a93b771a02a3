// SPDX-License-Identifier: GPL-2.0

//! Measures the time of each step.

use criterion::{criterion_group, criterion_main, BatchSize, Criterion};
use std::time::Duration;
use svcrdma_bench::{Rpc, OPERATIONS, STEPS};

fn steps(criterion: &mut Criterion) {
    for operation in OPERATIONS {
        let mut group = criterion.benchmark_group(operation.name);
        group.warm_up_time(Duration::from_millis(100));
        group.measurement_time(Duration::from_millis(300));
        for (index, (name, step)) in STEPS.iter().enumerate() {
            group.bench_function(*name, |bencher| {
                let setup = || Rpc::after(operation, index);
                bencher.iter_batched_ref(setup, |rpc| step(rpc), BatchSize::SmallInput);
            });
        }
    }
}

criterion_group!(all, steps);
criterion_main!(all);
