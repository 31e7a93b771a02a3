// SPDX-License-Identifier: GPL-2.0

//! Cells: what is measured, and in which order.

use std::fmt;

/// The bytes that all operations in flight move together, at most.
const MOST_BYTES: u32 = 16 << 20;

/// An operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    /// A message that the server sends back.
    Send,
    /// The server reads from this side, by RDMA Read.
    Pull,
    /// The server writes to this side, by RDMA Write.
    Push,
    /// This side reads what the server exposes.
    OfferRead,
    /// This side writes to what the server exposes.
    OfferWrite,
    /// NFS: NULL.
    Null,
    /// NFS: READ, for which the server writes to this side.
    Read,
    /// NFS: WRITE, for which the server reads from this side.
    Write,
}

impl Kind {
    /// The operations of the fabric, each before what NFS makes of it. WRITE comes before READ, so that
    /// the file has the bytes.
    pub(super) const ALL: [Self; 8] = [
        Self::Send,
        Self::Null,
        Self::Pull,
        Self::Write,
        Self::Push,
        Self::Read,
        Self::OfferRead,
        Self::OfferWrite,
    ];

    /// Returns the name.
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Send => "send",
            Self::Pull => "pull",
            Self::Push => "push",
            Self::OfferRead => "offer-read",
            Self::OfferWrite => "offer-write",
            Self::Null => "NULL",
            Self::Read => "READ",
            Self::Write => "WRITE",
        }
    }

    /// Returns true if it is one of NFS.
    pub(super) fn is_nfs(self) -> bool {
        matches!(self, Self::Null | Self::Read | Self::Write)
    }

    /// Returns the operation of NFS that moves bytes in the same way.
    pub(super) fn of_nfs(self) -> Option<Self> {
        match self {
            Self::Send => Some(Self::Null),
            Self::Pull => Some(Self::Write),
            Self::Push => Some(Self::Read),
            _ => None,
        }
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// The limits of both servers.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    /// The longest message that comes back, and the bytes of answers that may wait.
    pub(super) message: u32,
    pub(super) waiting: u32,
    /// The regions, and the bytes of each.
    pub(super) regions: u32,
    pub(super) region: u32,
    /// The RDMA operations that this side has in flight at most.
    pub(super) operations: u32,
    /// The most bytes of a READ, and of a WRITE; 0 without NFS.
    pub(super) read: u32,
    pub(super) write: u32,
}

impl Bounds {
    /// Returns how many operations of this size can be in flight; 0 if not even one.
    fn in_flight(&self, kind: Kind, size: u32) -> u32 {
        let (largest, most) = match kind {
            Kind::Send => (
                self.message,
                self.waiting / size.max(1).saturating_add(1024),
            ),
            Kind::Pull | Kind::Push => (self.region, self.regions),
            Kind::OfferRead | Kind::OfferWrite => (self.region, self.operations),
            Kind::Null => (u32::MAX, if self.read > 0 { u32::MAX } else { 0 }),
            Kind::Read => (self.read, u32::MAX),
            Kind::Write => (self.write, u32::MAX),
        };
        match size <= largest {
            true => most,
            false => 0,
        }
    }
}

/// A cell of the measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Cell {
    pub(super) kind: Kind,
    pub(super) size: u32,
    /// The depth that was asked for.
    pub(super) depth: u32,
    /// The operations in flight.
    pub(super) in_flight: u32,
}

/// Returns the cells of each size and depth. A size that an operation cannot have is left out. NULL has
/// no size, and is measured beside the smallest one.
pub(super) fn plan(sizes: &[u32], depths: &[u32], bounds: &Bounds) -> Vec<Vec<Cell>> {
    let smallest = sizes.iter().min();
    let group = |size: u32, depth: u32| {
        let kinds = Kind::ALL.into_iter();
        let kinds = kinds.filter(|&kind| kind != Kind::Null || smallest == Some(&size));
        let cells = kinds.map(|kind| Cell {
            kind,
            size,
            depth,
            in_flight: depth
                .min(bounds.in_flight(kind, size))
                .min((MOST_BYTES / size.max(1)).max(1)),
        });
        cells.filter(|cell| cell.in_flight > 0).collect()
    };
    let pairs = sizes
        .iter()
        .flat_map(|&size| depths.iter().map(move |&depth| (size, depth)));
    pairs.map(|(size, depth)| group(size, depth)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const BOUNDS: Bounds = Bounds {
        message: 100_000,
        waiting: 256 << 10,
        regions: 4,
        region: 1 << 20,
        operations: 32,
        read: 1 << 20,
        write: 4 << 20,
    };

    fn cells(sizes: &[u32], depths: &[u32], bounds: &Bounds) -> Vec<Cell> {
        plan(sizes, depths, bounds).concat()
    }

    #[test]
    fn each_size_and_depth_has_all_that_fits() {
        let groups = plan(&[64, 65_536], &[1, 64], &BOUNDS);
        assert_eq!(groups.len(), 4);
        let lens: Vec<_> = groups.iter().map(Vec::len).collect();
        // NULL is beside the smallest size only.
        assert_eq!(lens, [8, 8, 7, 7]);
        for group in groups {
            let same = |cell: &Cell| (cell.size, cell.depth) == (group[0].size, group[0].depth);
            assert!(group.iter().all(same));
        }
    }

    #[test]
    fn depths_are_bounded() {
        let in_flight = |kind, size| {
            let all = cells(&[size], &[64], &BOUNDS);
            let cell = all.into_iter().find(|cell| cell.kind == kind);
            cell.map(|cell| (cell.depth, cell.in_flight))
        };
        assert_eq!(in_flight(Kind::Send, 64), Some((64, 64)));
        assert_eq!(in_flight(Kind::Send, 65_536), Some((64, 3)));
        assert_eq!(in_flight(Kind::Pull, 64), Some((64, 4)));
        assert_eq!(in_flight(Kind::OfferRead, 64), Some((64, 32)));
        assert_eq!(in_flight(Kind::Read, 64), Some((64, 64)));
        assert_eq!(in_flight(Kind::Read, 1 << 20), Some((64, 16)));
        assert_eq!(in_flight(Kind::Write, 4 << 20), Some((64, 4)));
    }

    #[test]
    fn sizes_that_do_not_fit_are_left_out() {
        let kinds = |bounds: &Bounds| -> Vec<_> {
            let cells = cells(&[64, 4 << 20], &[1], bounds).into_iter();
            cells
                .filter(|cell| cell.size > 64)
                .map(|cell| cell.kind)
                .collect()
        };
        assert_eq!(kinds(&BOUNDS), [Kind::Write]);
        let without_nfs = Bounds {
            read: 0,
            write: 0,
            ..BOUNDS
        };
        assert_eq!(kinds(&without_nfs), []);
        let fabric = cells(&[64], &[1], &without_nfs);
        assert!(fabric.len() == 5 && fabric.iter().all(|cell| !cell.kind.is_nfs()));
    }

    #[test]
    fn a_file_is_written_before_it_is_read() {
        let at = |kind| Kind::ALL.iter().position(|&other| other == kind);
        assert!(at(Kind::Write) < at(Kind::Read));
    }
}
