// SPDX-License-Identifier: GPL-2.0

//! Close reasons: which of them are abnormal, and what to do.

/// A reason why a connection was closed.
#[derive(Debug)]
pub(crate) struct CloseReason {
    /// The number in Documentation/reference.rst and in trace events.
    pub(crate) number: u64,
    /// The beginning of the text, up to its detail.
    text: &'static str,
    /// The action after an abnormal close; None for a normal one.
    pub(crate) advice: Option<&'static str>,
}

const MEMORY: Option<&str> =
    Some("look at the host's memory and at \"cannot serve\" in the kernel log");
const THREADS: Option<&str> = Some("start more nfsd threads, or find what they wait for");
const NETWORK: Option<&str> =
    Some("if retries were exceeded, make the network lossless (PFC or ECN) or look at the client; otherwise look for messages of the device's driver");
const SLOW: Option<&str> = Some(
    "the client hangs or its link is slow; svcrdmactl settings explain stall_seconds minimum_rate",
);
const FOREIGN: Option<&str> = Some("find what runs on the peer: no Linux NFS client does this");
const FAULT: Option<&str> = Some("a fault of the module: send what svcrdmactl report collects");
const DRIVER: Option<&str> = Some("look for messages of the device's driver in the kernel log");

/// Statuses of work completions, as ib_wc_status_msg() names those of `enum ib_wc_status`.
const STATUSES: &[&str] = &[
    "success",
    "local length error",
    "local QP operation error",
    "local EE context operation error",
    "local protection error",
    "WR flushed",
    "memory bind operation error",
    "bad response error",
    "local access error",
    "remote invalid request error",
    "remote access error",
    "remote operation error",
    "transport retry counter exceeded",
    "RNR retry counter exceeded",
    "local RDD violation error",
    "remote invalid RD request",
    "operation aborted",
    "invalid EE context number",
    "invalid EE context state",
    "fatal error",
    "response timeout error",
    "general error",
];
/// The queues of reason 22, from detail 1 on.
const QUEUES: &[&str] = &[
    "Calls that wait for nfsd",
    "Reads and Replies to post",
    "Calls of the connection that wait for pages",
];

/// Creates a reason.
const fn reason(number: u64, text: &'static str, advice: Option<&'static str>) -> CloseReason {
    CloseReason {
        number,
        text,
        advice,
    }
}

/// All reasons, by number.
const REASONS: &[CloseReason] = &[
    reason(0, "closed by the server", None),
    reason(1, "closed by the peer", None),
    reason(2, "the device was removed", None),
    reason(3, "the listener was removed", None),
    reason(4, "could not be accepted", MEMORY),
    reason(5, "no nfsd thread accepted it within pending_seconds", THREADS),
    reason(6, "too many connections wait to be accepted", THREADS),
    reason(7, "the peer sent more Calls than it has credits", Some("if users kill processes that wait for the mount, nothing; otherwise find what runs on the peer")),
    reason(8, "Receive failed", NETWORK),
    reason(9, "Send, Read or Write failed", NETWORK),
    reason(10, "posting of work failed", DRIVER),
    reason(11, "the device reported a failed queue pair", DRIVER),
    reason(12, "the peer takes no Replies or serves no Reads", SLOW),
    reason(13, "no memory for a Call or its Reply", MEMORY),
    reason(14, "results cannot be sent", FAULT),
    reason(15, "the peer made no Call within first_call_seconds", Some("the client hangs, or is no NFS client")),
    reason(16, "release was set to 1", None),
    reason(17, "the peer sent an RDMA Write with immediate data", FOREIGN),
    reason(18, "nfsd dropped a Call that needs an answer", Some("look at the exported file system: nfsd still worked on the first copy of a Call")),
    reason(19, "its completion queue has failed or stopped", DRIVER),
    reason(20, "the peer sent too many unsolicited messages", FOREIGN),
    reason(21, "the peer invalidated a memory region of the server", FOREIGN),
    reason(22, "queue full", FAULT),
    reason(23, "the peer does not serve its Reads while pages are short", SLOW),
    reason(24, "the peer is slower than minimum_rate", SLOW),
    reason(25, "the device reported a fatal error", DRIVER),
];

/// Returns the reason and the text of the numbers in a trace event, or a text alone for a reason of a
/// newer module.
pub(crate) fn of_trace(number: u64, detail: i32) -> (Option<&'static CloseReason>, String) {
    let known = REASONS.iter().find(|reason| reason.number == number);
    let Some(reason) = known else {
        return (None, format!("reason {number}, detail {detail}"));
    };
    let name = |names: &[&'static str], at: i32| {
        let name = usize::try_from(at).ok().and_then(|at| names.get(at));
        name.map_or_else(|| at.to_string(), |name| (*name).to_owned())
    };
    let detail = match number {
        1 => format!(" (event {detail})"),
        4 | 10 | 14 => format!(" (error {detail})"),
        8 | 9 => format!(": {}", name(STATUSES, detail)),
        22 => format!(": {}", name(QUEUES, detail.saturating_sub(1))),
        _ => String::new(),
    };
    (known, format!("{}{detail}", reason.text))
}

/// Returns the reason of a text in the table `closes`, or nothing for one of a newer module.
pub(crate) fn find(text: &str) -> Option<&'static CloseReason> {
    REASONS.iter().find(|reason| {
        let rest = text.strip_prefix(reason.text);
        rest.is_some_and(|rest| rest.is_empty() || rest.starts_with([':', ' ']))
    })
}

/// Returns true if a close with this text is abnormal. Reasons of a newer module count as such.
pub(crate) fn is_abnormal(text: &str) -> bool {
    find(text).is_none_or(|reason| reason.advice.is_some())
}

/// Returns true if a close with this text may be a fault of the network: failed work, or a peer that
/// is late.
pub(crate) fn is_of_fabric(text: &str) -> bool {
    find(text).is_some_and(|reason| matches!(reason.number, 8 | 9 | 12 | 23 | 24))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns numbers and texts of Documentation/reference.rst.
    fn documented() -> Vec<(u64, &'static str)> {
        let reference = include_str!("../../../Documentation/reference.rst");
        let (_, rest) = reference
            .split_once("\nClose reasons\n")
            .expect("a section");
        let (section, _) = rest
            .split_once("\n.. _malformed-reasons:")
            .expect("its end");
        let rows = section.lines().filter_map(|line| {
            let number = line.get(..2)?.trim().parse().ok()?;
            let text = line.get(4..)?.split("  ").next()?;
            Some((number, text))
        });
        rows.collect()
    }

    #[test]
    fn reasons_are_those_of_the_reference() {
        let documented = documented();
        assert_eq!(documented.len(), REASONS.len());
        for (number, text) in documented {
            assert_eq!(
                find(text).map(|reason| reason.number),
                Some(number),
                "{text}"
            );
        }
    }

    #[test]
    fn texts_of_traces_are_those_of_the_module() {
        let text = |number, detail| of_trace(number, detail).1;
        assert_eq!(text(1, 10), "closed by the peer (event 10)");
        assert_eq!(text(4, -12), "could not be accepted (error -12)");
        assert_eq!(
            text(9, 10),
            "Send, Read or Write failed: remote access error"
        );
        assert_eq!(text(8, 99), "Receive failed: 99");
        assert_eq!(
            text(22, 3),
            "queue full: Calls of the connection that wait for pages"
        );
        assert_eq!(text(22, 0), "queue full: -1");
        assert_eq!(text(99, 7), "reason 99, detail 7");
        for (number, documented) in documented() {
            let text = text(number, 1);
            let found = find(&text).map(|reason| reason.number);
            assert_eq!(found, Some(number), "{documented}");
        }
    }

    #[test]
    fn normal_reasons_have_no_advice() {
        let normal: Vec<u64> = REASONS
            .iter()
            .filter(|reason| reason.advice.is_none())
            .map(|reason| reason.number)
            .collect();
        assert_eq!(normal, [0, 1, 2, 3, 16]);
        assert!(!is_abnormal("closed by the peer (event 10)"));
        assert!(is_abnormal("Receive failed: local protection error"));
        assert!(is_abnormal("a reason of tomorrow"));
    }
}
