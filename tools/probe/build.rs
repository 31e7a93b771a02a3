// SPDX-License-Identifier: GPL-2.0

//! Generates the bindings of librdmacm and libibverbs with the bindgen tool, which the build of the
//! kernel module needs anyway.

use std::{
    env,
    path::Path,
    process::Command, //
};

/// Functions that src/ffi calls, as regular expressions of bindgen.
const FUNCTIONS: &[&str] = &[
    "ibv_ack_cq_events",
    "ibv_alloc_pd",
    "ibv_create_comp_channel",
    "ibv_create_cq",
    "ibv_create_qp",
    "ibv_dealloc_pd",
    "ibv_dereg_mr",
    "ibv_destroy_comp_channel",
    "ibv_destroy_cq",
    "ibv_destroy_qp",
    "ibv_get_cq_event",
    "ibv_reg_mr",
    "rdma_ack_cm_event",
    "rdma_connect",
    "rdma_create_event_channel",
    "rdma_create_id",
    "rdma_create_qp",
    "rdma_destroy_event_channel",
    "rdma_destroy_id",
    "rdma_destroy_qp",
    "rdma_disconnect",
    "rdma_get_cm_event",
    "rdma_resolve_addr",
    "rdma_resolve_route",
    "rdma_set_option",
];

/// Types and constants that src/ffi uses and that none of [`FUNCTIONS`] refers to.
const ITEMS: &[&str] = &[
    "RDMA_OPTION_ID.*",
    "ibv_access_flags",
    "ibv_mw_type",
    "ibv_recv_wr",
    "ibv_send_flags",
    "ibv_send_wr",
    "ibv_wr_opcode",
];

fn main() {
    println!("cargo:rerun-if-changed=src/ffi/bindings.h");
    println!("cargo:rerun-if-env-changed=BINDGEN");
    println!("cargo:rustc-link-lib=rdmacm");
    println!("cargo:rustc-link-lib=ibverbs");

    let out = Path::new(&env::var_os("OUT_DIR").expect("cargo sets OUT_DIR")).join("bindings.rs");
    let bindgen = env::var_os("BINDGEN").unwrap_or_else(|| "bindgen".into());
    let mut command = Command::new(&bindgen);
    command.arg("src/ffi/bindings.h").arg("-o").arg(out);
    command.args(["--no-prepend-enum-name", "--no-layout-tests"]);
    for function in FUNCTIONS {
        command.args(["--allowlist-function", function]);
    }
    for item in ITEMS {
        command.args(["--allowlist-item", item]);
    }
    match command.status() {
        Ok(status) if status.success() => (),
        Ok(_) => panic!("bindgen failed: are librdmacm-dev and libibverbs-dev installed?"),
        Err(error) => panic!("cannot run {bindgen:?} ({error}): install Debian's package bindgen"),
    }
}
