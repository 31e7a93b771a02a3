// SPDX-License-Identifier: GPL-2.0

//! Counters of RDMA devices, their ports and interfaces, and the meaning of their growth.
//!
//! The names are those of the drivers: rxe_hw_counters.c, mlx5/counters.c, bnxt_re/hw_counters.c,
//! irdma/verbs.c and efa_verbs.c in drivers/infiniband; those of ports are of core/sysfs.c there.

/// Where a counter is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Place {
    /// `hw_counters` of an RDMA device or of its port.
    Device,
    /// `counters` of the port of an RDMA device.
    Port,
    /// `statistics` of the network interface, and what ethtool says.
    Interface,
}

/// The meaning of the growth of a counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Meaning {
    /// Packets from peers were lost: this host has seen a gap.
    LostComing,
    /// Packets to peers were lost: a peer has reported a gap.
    LostGoing,
    /// A peer has sent packets twice: packets or their confirmations were lost.
    Repeated,
    /// A peer did not confirm or answer in time.
    Late,
    /// A peer did not answer all repetitions, so its connection has ended.
    GaveUp,
    /// This host had no Receive posted for a message.
    NotReadyHere,
    /// A peer had no Receive posted for a message.
    NotReadyThere,
    /// A switch has marked packets, or asked this host to pause.
    Congested,
    /// This host dropped packets, or asked the switch to pause.
    Overrun,
    /// Packets were damaged on a cable.
    Damaged,
    /// The link went down.
    LinkDown,
}

use Meaning::{
    Congested,
    Damaged,
    GaveUp,
    Late,
    LinkDown,
    LostComing,
    LostGoing,
    NotReadyHere,
    NotReadyThere,
    Overrun,
    Repeated, //
};

/// Counters in `hw_counters`, in lower case and with `_` for a space.
const DEVICE: &[(&str, Meaning)] = &[
    // mlx5, and bnxt_re under the names of newer kernels.
    ("out_of_sequence", LostComing),
    ("packet_seq_err", LostGoing),
    ("implied_nak_seq_err", LostComing),
    ("duplicate_request", Repeated),
    ("roce_adp_retrans", LostGoing),
    ("roce_adp_retrans_to", Late),
    ("local_ack_timeout_err", Late),
    ("req_transport_retries_exceeded", GaveUp),
    ("out_of_buffer", NotReadyHere),
    ("rnr_nak_retry_err", NotReadyThere),
    ("req_rnr_retries_exceeded", NotReadyThere),
    ("np_cnp_sent", Congested),
    ("np_cnp_pkts", Congested),
    ("np_ecn_marked_roce_packets", Congested),
    ("rp_cnp_handled", Congested),
    ("rx_icrc_encapsulated", Damaged),
    // rxe.
    ("out_of_seq_request", LostComing),
    ("rcvd_seq_err", LostGoing),
    ("completer_retry_err", Late),
    ("retry_exceeded_err", GaveUp),
    ("send_rnr_err", NotReadyHere),
    ("rcvd_rnr_err", NotReadyThere),
    ("retry_rnr_exceeded_err", NotReadyThere),
    ("link_downed", LinkDown),
    // bnxt_re.
    ("oos_drop_count", LostComing),
    ("seq_err_naks_rcvd", LostGoing),
    ("missing_resp", LostComing),
    ("dup_req", Repeated),
    ("to_retransmits", Late),
    ("max_retry_exceeded", GaveUp),
    ("rx_out_of_buffer", NotReadyHere),
    ("rnr_naks_rcvd", NotReadyThere),
    ("tx_cnp_pkts", Congested),
    ("rx_cnp_pkts", Congested),
    ("rx_ecn_marked_pkts", Congested),
    ("rx_roce_discards", Overrun),
    ("rx_roce_errors", Damaged),
    // irdma; siw has the first one, as Tcp of /proc/net/snmp.
    ("retranssegs", LostGoing),
    ("tcpretranssegs", LostGoing),
    ("nak_sequence_error", LostGoing),
    ("nak_sequence_error_implied", LostComing),
    ("rcvd_out_of_order_packets", LostComing),
    ("rto", Late),
    ("rnr_sent", NotReadyHere),
    ("rnr_received", NotReadyThere),
    ("cnpsent", Congested),
    ("cnphandled", Congested),
    ("rxecnmrkd", Congested),
    ("ip4indiscards", Overrun),
    ("ip6indiscards", Overrun),
    ("crc_errors", Damaged),
    // efa.
    ("retrans_pkts", LostGoing),
    ("impaired_remote_conn_events", LostGoing),
    ("retrans_timeout_events", Late),
    ("unresponsive_remote_events", GaveUp),
    ("rx_drops", Overrun),
];

/// Counters in `counters` of a port.
const PORT: &[(&str, Meaning)] = &[
    ("symbol_error", Damaged),
    ("port_rcv_errors", Damaged),
    ("local_link_integrity_errors", Damaged),
    ("link_error_recovery", Damaged),
    ("excessive_buffer_overrun_errors", Overrun),
    ("port_xmit_discards", LostGoing),
    ("link_downed", LinkDown),
];

/// Counters of a network interface. Its dropped packets also count those that nobody wants.
const INTERFACE: &[(&str, Meaning)] = &[
    ("rx_crc_errors", Damaged),
    ("rx_frame_errors", Damaged),
    ("rx_crc_errors_phy", Damaged),
    ("rx_symbol_err_phy", Damaged),
    ("rx_missed_errors", Overrun),
    ("rx_fifo_errors", Overrun),
    ("rx_over_errors", Overrun),
    ("rx_discards_phy", Overrun),
    ("carrier_down_count", LinkDown),
];

/// Returns what it says if a counter grows, or nothing if it says nothing about the fabric.
pub(crate) fn meaning(place: Place, name: &str) -> Option<Meaning> {
    let name = name.to_lowercase().replace(' ', "_");
    let (table, other): (_, fn(&str) -> Option<Meaning>) = match place {
        Place::Device => (DEVICE, |_| None),
        Place::Port => (PORT, |_| None),
        Place::Interface => (INTERFACE, by_pattern),
    };
    let known = table.iter().find(|(each, _)| *each == name);
    known.map(|known| known.1).or_else(|| other(&name))
}

/// Returns the meaning of a counter of ethtool, whose names have the number of a priority: pauses
/// (but not their times), and packets that were dropped for lack of a buffer.
fn by_pattern(name: &str) -> Option<Meaning> {
    let is_pause = ["pause", "xoff", "pfc_ena_frames"]
        .iter()
        .any(|word| name.contains(word));
    let is_time = ["duration", "transition", "storm", "_us"]
        .iter()
        .any(|word| name.contains(word));
    let is_discard = name.starts_with("rx_prio") && name.ends_with("_discards");
    match () {
        () if is_pause && !is_time && name.contains("rx") => Some(Congested),
        () if is_pause && !is_time && name.contains("tx") => Some(Overrun),
        () if is_discard => Some(Overrun),
        () => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_of_the_place() {
        assert_eq!(meaning(Place::Device, "out_of_sequence"), Some(LostComing));
        assert_eq!(
            meaning(Place::Device, "Nak Sequence Error"),
            Some(LostGoing)
        );
        assert_eq!(meaning(Place::Device, "cnpSent"), Some(Congested));
        assert_eq!(
            meaning(Place::Device, "rx_out_of_buffer"),
            Some(NotReadyHere)
        );
        // That of the interface is about its own receive queues.
        assert_eq!(meaning(Place::Interface, "rx_out_of_buffer"), None);
        assert_eq!(meaning(Place::Port, "symbol_error"), Some(Damaged));
        assert_eq!(meaning(Place::Device, "symbol_error"), None);
        assert_eq!(meaning(Place::Device, "ack_deferred"), None);
    }

    #[test]
    fn pauses_have_a_direction() {
        let of = |name| meaning(Place::Interface, name);
        assert_eq!(of("rx_prio3_pause"), Some(Congested));
        assert_eq!(of("tx_prio3_pause"), Some(Overrun));
        assert_eq!(of("rx_pause_ctrl_phy"), Some(Congested));
        assert_eq!(of("rx_priority_3_xoff.nic"), Some(Congested));
        assert_eq!(of("tx_pfc_ena_frames_pri3"), Some(Overrun));
        assert_eq!(of("rx_prio3_discards"), Some(Overrun));
        assert_eq!(of("rx_prio3_pause_duration"), None);
        assert_eq!(of("tx_pause_storm_warning_events"), None);
        assert_eq!(of("rx_packets"), None);
    }

    #[test]
    fn no_name_is_listed_twice() {
        for table in [DEVICE, PORT, INTERFACE] {
            let mut names: Vec<&str> = table.iter().map(|(name, _)| *name).collect();
            names.sort_unstable();
            let all = names.len();
            names.dedup();
            assert_eq!(names.len(), all);
        }
    }
}
