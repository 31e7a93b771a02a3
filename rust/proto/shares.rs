// SPDX-License-Identifier: GPL-2.0

//! Shares of the pages for Read chunks.
//!
//! The pages of a device are divided into two budgets. One eighth belongs to all peers together
//! that the server has not validated, the rest to the validated peers. Neither group can use up the
//! budget of the other. Within a budget the share of each connection shrinks as fewer pages are
//! left, down to `LEAST`.

/// Divisor of all pages that gives the budget of peers that are not validated.
const PART: usize = 8;

/// The least share of a connection, so that one with small Calls has several at a time while few
/// pages are left.
const LEAST: usize = 16;

/// The class of a peer: whether nfsd has validated it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum PeerClass {
    /// One of the peer's Calls had a valid file handle.
    Validated,
    /// The peer has not been validated.
    #[default]
    Unvalidated,
}

impl PeerClass {
    /// All classes, in the order of their precedence.
    pub const ALL: [Self; 2] = [Self::Validated, Self::Unvalidated];

    /// Returns true if a peer of the class `holder` may be closed for Calls that wait for pages
    /// and whose peers have the class `self`: unvalidated peers never have a validated one closed.
    pub fn may_close(self, holder: Self) -> bool {
        self == Self::Validated || holder == Self::Unvalidated
    }

    /// Returns the name of the class.
    pub fn name(self) -> &'static str {
        match self {
            Self::Validated => "validated",
            Self::Unvalidated => "unvalidated",
        }
    }
}

/// The pages of all connections of one class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    /// Pages of the budget.
    pages: usize,
    /// Pages that one connection may have while it is alone.
    alone: usize,
}

impl Budget {
    /// Returns the budget of `class` on a device with `device` pages. A validated connection may
    /// have `alone` pages while it is alone. One Call of `largest` pages always fits into an unused
    /// budget if the device has at least twice as many pages.
    pub fn new(class: PeerClass, device: usize, alone: usize, largest: usize) -> Self {
        let part = (device / PART).max(largest).min(device);
        match class {
            PeerClass::Validated => Self {
                pages: device.saturating_sub(part),
                alone,
            },
            PeerClass::Unvalidated => Self {
                pages: part,
                alone: alone / PART,
            },
        }
    }

    /// Returns the number of pages of the budget.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Returns true if `pages` more pages may be lent while `lent` are. A Call of any size may
    /// borrow from an unused budget.
    pub fn fits(&self, lent: usize, pages: usize) -> bool {
        lent == 0 || lent.saturating_add(pages) <= self.pages
    }

    /// Returns the share of a connection while `lent` pages are lent or promised.
    ///
    /// The share is proportional to the pages that are left, and at most `alone`. So a connection
    /// that is alone may have `alone` pages, and each of several connections that take their whole
    /// share leaves the next one the same fraction of what it found.
    ///
    /// See [`Self::most`] for a connection that finds no pages left.
    fn share(&self, lent: usize) -> usize {
        let left = self.pages.saturating_sub(lent);
        let others = self.pages.saturating_sub(self.alone);
        let most = self.alone.saturating_mul(left).checked_div(others);
        most.map_or(self.alone, |most| most.min(self.alone))
    }

    /// Returns the most pages that a connection may have while `lent` pages are lent or promised: its
    /// share, or a few pages if none are left.
    ///
    /// A connection that has pages gets no more when none are left, although it may have its turn: a
    /// peer that hangs would collect those that others return.
    pub fn most(&self, lent: usize) -> usize {
        self.share(lent).max(LEAST.min(self.alone))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGEST: usize = 1028;

    fn budget(class: PeerClass, device: usize) -> Budget {
        Budget::new(class, device, 2112, LARGEST)
    }

    #[test]
    fn the_classes_have_names() {
        let classes = [PeerClass::Validated, PeerClass::Unvalidated];
        assert_eq!(classes.map(PeerClass::name), ["validated", "unvalidated"]);
    }

    #[test]
    fn the_budgets_divide_all_pages_one_to_seven() {
        for (device, strangers) in [(16384, 2048), (8224, 1028), (4224, 1028), (4194304, 524288)] {
            let budgets = PeerClass::ALL.map(|class| budget(class, device).pages());
            assert_eq!(budgets, [device - strangers, strangers]);
        }
    }

    #[test]
    fn the_largest_call_fits_into_each_unused_budget() {
        for device in [2 * LARGEST, 4224, 16384, 4194304] {
            for class in PeerClass::ALL {
                let budget = budget(class, device);
                assert!(budget.pages() >= LARGEST && budget.fits(0, LARGEST));
                assert!(!budget.fits(1, budget.pages()));
                assert!(budget.fits(1, budget.pages() - 1));
            }
        }
        // A Call that exceeds the budget is served while it is alone.
        assert!(budget(PeerClass::Validated, 0).fits(0, LARGEST));
    }

    #[test]
    fn many_connections_that_take_their_share_leave_some_pages() {
        for class in PeerClass::ALL {
            let budget = budget(class, 16384);
            let mut lent = 0;
            for _ in 0..24 {
                let share = budget.share(lent);
                assert!(share > 0, "{lent} of {}", budget.pages());
                lent += share;
            }
            assert!(lent < budget.pages());
            assert_eq!(budget.share(budget.pages()), 0);
        }
        assert_eq!(budget(PeerClass::Validated, 16384).share(0), 2112);
        assert_eq!(budget(PeerClass::Unvalidated, 16384).share(0), 264);
    }

    #[test]
    fn a_share_is_never_too_small_for_some_small_calls() {
        assert_eq!(budget(PeerClass::Validated, 16384).most(14336), 16);
        // But the administrator may allow less.
        let tight = Budget::new(PeerClass::Validated, 16384, 4, LARGEST);
        assert_eq!(tight.most(14336), 4);
    }

    #[test]
    fn a_connection_may_have_all_pages_if_so_configured() {
        let budget = Budget::new(PeerClass::Validated, 16384, 4194304, LARGEST);
        assert_eq!(budget.most(10000), 4194304);
    }
}
