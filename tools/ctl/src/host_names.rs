// SPDX-License-Identifier: GPL-2.0

//! Masks of host names: each name becomes `host1`, `host2` and so on, the same in all texts.
//!
//! A name is hidden if it was learned, or if it has a domain.

use crate::root::Root;
use std::collections::HashMap;

/// Last parts of words with dots that are no domains: files, units of systemd, parts of symbols.
const ENDINGS: &[&str] = &[
    "automount",
    "cold",
    "conf",
    "constprop",
    "dep",
    "device",
    "gz",
    "isra",
    "json",
    "ko",
    "mount",
    "part",
    "path",
    "prom",
    "rs",
    "scope",
    "service",
    "slice",
    "so",
    "socket",
    "swap",
    "tar",
    "target",
    "timer",
    "xz",
    "zst",
];
/// The first part of the names of settings.
const SYSCTL: &str = "sunrpc.";
/// Words of the kernel's RPC client and of its lock manager before the name of a host, and what the
/// line has besides: before or after the name.
const BEFORE: &[(&str, &[&str])] = &[
    ("server ", &[" not responding", " OK", " requires stronger"]),
    ("host ", &["lockd: ", "NLM: "]),
    ("monitor ", &["lockd: "]),
];

/// The host names that were found so far.
#[derive(Debug, Default)]
pub(crate) struct HostNames {
    /// Numbers by name, in lower case.
    numbers: HashMap<String, usize>,
}

impl HostNames {
    /// Learns the name of this host, and the names of /etc/hosts.
    pub(crate) fn learn_files(&mut self, root: &Root) {
        let own = root.line("/proc/sys/kernel/hostname").unwrap_or_default();
        let short = own.split('.').next().unwrap_or_default();
        self.learn(&own);
        self.learn(short);
        for line in root.read("/etc/hosts").unwrap_or_default().lines() {
            let line = line.split('#').next().unwrap_or_default();
            line.split_whitespace()
                .skip(1)
                .for_each(|name| self.learn(name));
        }
    }

    /// Learns the names of hosts in lines of the kernel log.
    pub(crate) fn learn_log(&mut self, log: &str) {
        for line in log.lines() {
            for (before, others) in BEFORE {
                let has_other = others.iter().any(|other| line.contains(other));
                if let Some((_, rest)) = line.split_once(before).filter(|_| has_other) {
                    self.learn(rest.split([' ', ',', ')']).next().unwrap_or_default());
                }
            }
        }
    }

    /// Learns a name, unless it names no host or is an address.
    fn learn(&mut self, name: &str) {
        let is_local = name.starts_with("localhost") || name.starts_with("ip6-");
        let is_name = name.chars().all(is_part) && name.contains(char::is_alphabetic);
        if is_name && !is_local && name != "(none)" {
            self.number(name);
        }
    }

    /// Returns the number of a name.
    fn number(&mut self, name: &str) -> usize {
        let next = self.numbers.len() + 1;
        *self.numbers.entry(name.to_lowercase()).or_insert(next)
    }

    /// Returns `text` with all names replaced.
    pub(crate) fn apply(&mut self, text: &str) -> String {
        let mut masked = String::with_capacity(text.len());
        let mut rest = text;
        while let Some(start) = rest.find(is_part) {
            masked += &rest[..start];
            let before = rest[..start].chars().next_back();
            rest = &rest[start..];
            let end = rest.find(|c| !is_part(c)).unwrap_or(rest.len());
            let after = rest[end..].chars().next();
            // A full stop ends a sentence.
            let word = rest[..end].trim_end_matches(['.', '-']);
            masked += &self.word(before, word, after);
            rest = &rest[word.len()..];
            // Nothing of the word is left but what was trimmed.
            let trimmed = rest.len() - rest.trim_start_matches(['.', '-']).len();
            masked += &rest[..trimmed];
            rest = &rest[trimmed..];
        }
        masked + rest
    }

    /// Returns a word, or its replacement if it names a host.
    fn word(&mut self, before: Option<char>, word: &str, after: Option<char>) -> String {
        let is_known = self.numbers.contains_key(&word.to_lowercase());
        // Parts of paths, and symbols with an offset.
        let is_other = before == Some('/') || matches!(after, Some('/' | '+' | '=' | '('));
        if is_known || !is_other && is_domain(word) {
            format!("host{}", self.number(word))
        } else {
            word.to_owned()
        }
    }
}

/// Returns true for characters that names consist of, and for the underscore, which no name has.
fn is_part(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_')
}

/// Returns true for words that look like the name of a host with its domain.
fn is_domain(word: &str) -> bool {
    let Some((first, last)) = word.rsplit_once('.') else {
        return false;
    };
    let is_top = last.len() > 1 && last.chars().all(|c| c.is_ascii_alphabetic());
    let are_labels = first.split('.').all(|label| !label.is_empty()) && !word.contains('_');
    is_top && are_labels && !ENDINGS.contains(&last) && !word.starts_with(SYSCTL)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_get_the_same_number_everywhere() {
        let mut names = HostNames::default();
        names.learn("nas");
        assert_eq!(names.apply("nas: NAS, nas."), "host1: host1, host1.");
        assert_eq!(
            names.apply("host client7.example.com:20049 (Client7.Example.COM)"),
            "host host2:20049 (host2)"
        );
        assert_eq!(
            names.apply("nasal mynas nas_1 nas-1"),
            "nasal mynas nas_1 nas-1"
        );
    }

    #[test]
    fn names_of_the_kernel_log_are_learned() {
        let mut names = HostNames::default();
        names.learn_log(
            "nfs: server filer not responding, still trying\n\
             nfs: server filer OK\n\
             lockd: cannot monitor client7\n\
             NLM: done reclaiming locks for host backup\n\
             lockd: cannot monitor 10.77.0.2\n\
             svcrdma: the server closes, and the host waits\n",
        );
        assert_eq!(
            names.apply("filer client7 backup 10.77.0.2 closes waits"),
            "host1 host2 host3 10.77.0.2 closes waits"
        );
    }

    #[test]
    fn other_texts_stay() {
        let mut names = HostNames::default();
        for text in [
            "10.77.0.2 fe80::1%eth0 0.0.0.0:20049 [::]:20049",
            "7.3.4+deb13-amd64 16.35.4506 0000:3b:00.0 gcc-14 (Debian 14.2.0-19)",
            "sunrpc.svcrdma.credits = 64, svcrdma.ko.xz, nfs-server.service: rpc_pipefs.target",
            "svc_process.cold+0x12 [svcrdma] nlm.alloc+0x1/0x2 /usr/lib/x.org/y, e.g. so. And",
            "..., --, a..b, -.-",
            "",
        ] {
            assert_eq!(names.apply(text), text);
        }
    }

    #[test]
    fn names_of_the_host_are_learned() {
        let folder = tempfile::tempdir().expect("a folder");
        for (path, text) in [
            ("proc/sys/kernel/hostname", "Filer.lan\n"),
            (
                "etc/hosts",
                "127.0.0.1 localhost\n::1 ip6-loopback\n10.0.0.7\tclient7.lan client7 # of Ann\n",
            ),
        ] {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            std::fs::write(path, text).expect("a file");
        }
        let mut names = HostNames::default();
        names.learn_files(&Root::new(folder.path()));
        assert_eq!(
            names.apply("filer filer.lan client7 client7.lan localhost ip6-loopback of Ann"),
            "host2 host1 host4 host3 localhost ip6-loopback of Ann"
        );
    }
}
