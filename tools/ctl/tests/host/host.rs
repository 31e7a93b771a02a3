// SPDX-License-Identifier: GPL-2.0

//! A host for tests: a copy of the tree tests/fixtures/serving, in which tests change files.

use serde_json::Value;
use std::{
    fs,
    os::unix::fs::{
        symlink,
        PermissionsExt, //
    },
    path::{
        Path,
        PathBuf, //
    },
    process::{
        Command,
        Output,
        Stdio, //
    },
};
use tempfile::TempDir;

pub(crate) const SYSCTL: &str = "proc/sys/sunrpc/svcrdma";
pub(crate) const DEBUGFS: &str = "sys/kernel/debug/svcrdma";

/// Returns a file of tests/fixtures.
pub(crate) fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("tests/fixtures")
        .join(name)
}

/// A host below a temporary root.
pub(crate) struct Host(TempDir);

impl Host {
    /// Creates a host on which svcrdma serves and nothing is wrong.
    pub(crate) fn serving() -> Self {
        let dir = tempfile::tempdir().expect("a temporary folder");
        copy(&fixture("serving"), dir.path());
        let devices = dir.path().join("sys/class/infiniband");
        for name in ["mlx5_0", "mlx5_1"] {
            fs::create_dir(devices.join(name).join("device")).expect("a folder");
            let driver = devices.join(name).join("device/driver");
            symlink("../../bus/pci/drivers/mlx5_core", driver).expect("a link");
        }
        Self(dir)
    }

    /// Creates a host on which the kernel's own server serves.
    pub(crate) fn with_rpcrdma() -> Self {
        Self::serving().without_module()
    }

    /// Creates a host on which neither svcrdma nor rpcrdma is loaded.
    pub(crate) fn without_server() -> Self {
        let host = Self::serving().without_module();
        host.remove("sys/module/rpcrdma");
        host.write("proc/fs/nfsd/portlist", "tcp 2049\n");
        host
    }

    fn without_module(self) -> Self {
        self.remove("sys/module/svcrdma");
        self.remove(SYSCTL);
        self.remove(DEBUGFS);
        self
    }

    /// Returns the path of a file.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.path().join(path)
    }

    /// Writes a file.
    pub(crate) fn write(&self, path: &str, text: &str) {
        let path = self.path(path);
        fs::create_dir_all(path.parent().expect("a folder")).expect("folders");
        fs::write(path, text).expect("a file");
    }

    /// Reads a file.
    pub(crate) fn read(&self, path: &str) -> String {
        fs::read_to_string(self.path(path)).expect("a file")
    }

    /// Replaces the first `from` in a file by `to`.
    pub(crate) fn replace(&self, path: &str, from: &str, to: &str) {
        let text = self.read(path);
        assert!(text.contains(from), "{path} has no {from}");
        self.write(path, &text.replacen(from, to, 1));
    }

    /// Removes a file or a folder.
    pub(crate) fn remove(&self, path: &str) {
        let path = self.path(path);
        if path.is_dir() {
            fs::remove_dir_all(path).expect("a folder")
        } else {
            fs::remove_file(path).expect("a file")
        }
    }

    /// Adds the table of latencies, as a newer module has it.
    pub(crate) fn add_latency(&self) {
        let text = fs::read_to_string(fixture("latency")).expect("a file");
        self.write(&format!("{DEBUGFS}/latency"), &text);
    }

    /// Returns the command with some arguments.
    pub(crate) fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_svcrdmactl"));
        command
            .env("SVCRDMACTL_PROGRAMS", fixture("bin"))
            .current_dir(self.0.path())
            .arg("--root")
            .arg(self.0.path())
            .args(args)
            .stdin(Stdio::null());
        command
    }

    /// Runs the program.
    pub(crate) fn run(&self, args: &[&str]) -> Done {
        Done::of(self.command(args).output().expect("the program runs"))
    }

    /// Runs the program as a user who may not read debugfs.
    pub(crate) fn run_as_user(&self, args: &[&str]) -> Done {
        let folder = self.path("sys/kernel/debug");
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o000)).expect("permissions");
        let mut command = self.command(args);
        if is_root() {
            // Another user may be unable to reach the program in its folder.
            let program = self.path("svcrdmactl");
            // If this process wrote the file, children of other threads would have it open for
            // writing, and it could not be run.
            let copied = Command::new("cp")
                .arg(env!("CARGO_BIN_EXE_svcrdmactl"))
                .arg(&program)
                .status();
            assert!(copied.expect("cp runs").success());
            fs::set_permissions(self.0.path(), fs::Permissions::from_mode(0o755))
                .expect("permissions");
            let args: Vec<_> = command.get_args().map(|arg| arg.to_owned()).collect();
            command = Command::new("setpriv");
            command
                .env("SVCRDMACTL_PROGRAMS", fixture("bin"))
                .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
                .arg(program)
                .args(args)
                .current_dir(self.0.path());
        }
        let done = Done::of(command.output().expect("the program runs"));
        fs::set_permissions(&folder, fs::Permissions::from_mode(0o755)).expect("permissions");
        done
    }
}

/// Returns true if the tests run as root, whom permissions do not stop.
fn is_root() -> bool {
    fs::metadata("/proc/self")
        .map(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0)
        .unwrap_or(false)
}

/// The output of the program, and its exit status.
pub(crate) struct Done {
    pub(crate) status: i32,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Done {
    /// Takes the output of a program that has ended.
    pub(crate) fn of(output: Output) -> Self {
        Self {
            status: output.status.code().expect("an exit status"),
            out: String::from_utf8(output.stdout).expect("UTF-8"),
            err: String::from_utf8(output.stderr).expect("UTF-8"),
        }
    }

    /// Checks the exit status.
    #[track_caller]
    pub(crate) fn exits(self, status: i32) -> Self {
        assert_eq!(self.status, status, "{}{}", self.out, self.err);
        self
    }

    /// Checks that the output contains a text.
    #[track_caller]
    pub(crate) fn says(self, text: &str) -> Self {
        assert!(self.out.contains(text), "no \"{text}\" in:\n{}", self.out);
        self
    }

    /// Checks that the only line of the error output contains a text.
    #[track_caller]
    pub(crate) fn complains(self, text: &str) -> Self {
        assert_eq!(self.err.lines().count(), 1, "not one line:\n{}", self.err);
        assert!(self.err.contains(text), "no \"{text}\" in:\n{}", self.err);
        self
    }

    /// Returns the JSON object, whose schema is checked.
    #[track_caller]
    pub(crate) fn json(&self) -> Value {
        assert_eq!(self.out.lines().count(), 1, "not one line:\n{}", self.out);
        let value: Value = serde_json::from_str(&self.out).expect("JSON");
        assert_eq!(value["schema"], 1);
        assert!(value["command"].is_string());
        value
    }
}

/// Copies a folder.
fn copy(from: &Path, to: &Path) {
    for entry in fs::read_dir(from).expect("a folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.path().is_dir() {
            fs::create_dir_all(&target).expect("a folder");
            copy(&entry.path(), &target);
        } else {
            fs::copy(entry.path(), target).expect("a copy");
        }
    }
}
