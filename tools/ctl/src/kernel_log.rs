// SPDX-License-Identifier: GPL-2.0

//! The lines of the kernel log about RDMA, NFS and faults, as many as a fault report needs.

use crate::program;
use std::{
    collections::VecDeque,
    io::{
        self,
        BufRead,
        BufReader,
        Read, //
    },
    process::Stdio, //
};

/// Words of the lines that are kept.
const WORDS: &[&str] = &[
    "rdma",
    "nfsd",
    "rpc",
    "lockd",
    "infiniband",
    "ib_",
    "mlx",
    "bnxt",
    "irdma",
    "cxgb",
    "qedr",
    "rxe",
    "siw",
    "bug:",
    "oops:",
    "warning:",
    "out of memory",
    "page allocation failure",
];
/// Texts in the first and in the last line of a trace.
const TRACE_BEGINS: &[&str] = &["cut here", "call trace", "blocked for more than"];
const TRACE_ENDS: &[&str] = &["end trace", "</task>"];
/// The program that prints the log since the boot, which goes back further than the kernel's buffer.
const JOURNAL: &[&str] = &[
    "journalctl",
    "-k",
    "-b",
    "--no-pager",
    "--no-hostname",
    "-q",
    "-o",
    "short-monotonic",
];
/// The program that prints the kernel's buffer.
const BUFFER: &[&str] = &["dmesg"];
/// The most lines from the beginning of the log, where the first fault is, and from its end.
const FIRST: usize = 2_000;
const LAST: usize = 8_000;
/// The most bytes of a line.
const LINE: u64 = 1_000;

/// The lines of the kernel log that matter.
#[derive(Debug, Default)]
pub(crate) struct KernelLog {
    first: Vec<String>,
    last: VecDeque<String>,
    /// The number of lines between them.
    left_out: u64,
    /// The last line is of a trace that has not ended.
    is_in_trace: bool,
}

impl KernelLog {
    /// Reads the log since the boot. Returns nothing if the caller may not read it.
    pub(crate) fn read() -> Option<Self> {
        let journal = Self::printed_by(JOURNAL).filter(|(_, bytes)| *bytes > 0);
        let (log, _) = journal.or_else(|| Self::printed_by(BUFFER))?;
        Some(log)
    }

    /// Returns the log that a program prints and the number of its bytes, or nothing if it fails.
    fn printed_by(command: &[&str]) -> Option<(Self, u64)> {
        let (name, args) = command.split_first()?;
        let mut child = program::command(name)
            .args(args)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut log = Self::default();
        let bytes = log.take(BufReader::new(child.stdout.take()?));
        // The program ends: its output is closed.
        let has_succeeded = child.wait().ok()?.success();
        bytes
            .ok()
            .filter(|_| has_succeeded)
            .map(|bytes| (log, bytes))
    }

    /// Takes the lines of `log`, and returns the number of its bytes.
    fn take(&mut self, mut log: impl BufRead) -> io::Result<u64> {
        let mut bytes = 0;
        loop {
            let mut line = Vec::new();
            let read = log.by_ref().take(LINE).read_until(b'\n', &mut line)?;
            if read == 0 {
                return Ok(bytes);
            }
            bytes += read as u64;
            if line.last() != Some(&b'\n') {
                log.skip_until(b'\n')?;
            }
            self.push(String::from_utf8_lossy(&line).trim_end());
        }
    }

    /// Keeps a line that is about RDMA, NFS or a fault, or of a trace.
    fn push(&mut self, line: &str) {
        let lower = line.to_lowercase();
        let has = |words: &[&str]| words.iter().any(|word| lower.contains(word));
        self.is_in_trace |= has(TRACE_BEGINS);
        let matters = self.is_in_trace || has(WORDS);
        self.is_in_trace &= !has(TRACE_ENDS);
        if !matters {
            return;
        }
        if self.first.len() < FIRST {
            self.first.push(line.to_owned());
            return;
        }
        self.last.push_back(line.to_owned());
        if self.last.len() > LAST {
            self.last.pop_front();
            self.left_out += 1;
        }
    }

    /// Returns true if lines are missing.
    pub(crate) fn is_cut(&self) -> bool {
        self.left_out > 0
    }

    /// Returns the lines.
    pub(crate) fn text(&self) -> String {
        let gap = (self.left_out > 0).then(|| format!("[{} lines are left out]", self.left_out));
        let lines = self.first.iter().chain(&gap).chain(&self.last);
        lines.flat_map(|line| [line.as_str(), "\n"]).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns what is kept of a log.
    fn kept(log: &str) -> KernelLog {
        let mut kept = KernelLog::default();
        let bytes = kept.take(log.as_bytes()).expect("bytes in memory");
        assert!(bytes as usize <= log.len());
        kept
    }

    #[test]
    fn logs_are_reduced_to_what_matters() {
        let log = "usb 1-1: new device\nsda: debug\nsvcrdma: connection 7\n--[ cut here ]--\nRIP: 0010\n--[ end trace ]--\nsda: x\n";
        assert_eq!(
            kept(log).text(),
            "svcrdma: connection 7\n--[ cut here ]--\nRIP: 0010\n--[ end trace ]--\n"
        );
    }

    #[test]
    fn first_and_last_lines_are_kept() {
        let all: Vec<String> = (0..FIRST + LAST + 3)
            .map(|n| format!("nfsd {n}\n"))
            .collect();
        let log = kept(&all.concat());
        assert!(log.is_cut());
        let expected = [
            all[..FIRST].concat(),
            "[3 lines are left out]\n".to_owned(),
            all[FIRST + 3..].concat(),
        ];
        assert_eq!(log.text(), expected.concat());
        assert!(!kept(&all[3..].concat()).is_cut());
    }

    #[test]
    fn long_lines_are_cut() {
        let long = "x".repeat(5_000);
        let text = kept(&format!("nfsd {long}\nnfsd 2\n")).text();
        assert_eq!(text, format!("nfsd {}\nnfsd 2\n", &long[..995]));
    }
}
