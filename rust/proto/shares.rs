// SPDX-License-Identifier: GPL-2.0

//! Shares of the pages for Read chunks.
//!
//! A device's pages are divided in two budgets: an eighth belongs to all peers together that the
//! server has not validated, the rest to the others. Neither can use up the other's. Within a budget,
//! the fewer pages are left the fewer a connection may have.

/// One in so many of all pages is for peers that are not validated.
const PART: usize = 8;

/// The knowledge that the server has of a peer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Standing {
    /// One of its Calls had a good file handle.
    Validated,
    /// Anybody.
    #[default]
    Unvalidated,
}

impl Standing {
    /// All of them; those with precedence come first.
    pub const ALL: [Self; 2] = [Self::Validated, Self::Unvalidated];

    /// Returns its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::Validated => "validated",
            Self::Unvalidated => "unvalidated",
        }
    }
}

/// The pages that all connections of a standing may have together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Budget {
    pages: usize,
    /// The pages that one of them may have as long as it is alone.
    alone: usize,
}

impl Budget {
    /// Returns the budget of `standing` of a device with `device` pages, where a validated connection
    /// may have `alone` pages as long as it is alone. One Call of `largest` pages always fits into an
    /// unused budget, if the device has twice as many.
    pub fn new(standing: Standing, device: usize, alone: usize, largest: usize) -> Self {
        let part = (device / PART).max(largest).min(device);
        match standing {
            Standing::Validated => Self {
                pages: device.saturating_sub(part),
                alone,
            },
            Standing::Unvalidated => Self {
                pages: part,
                alone: alone / PART,
            },
        }
    }

    /// Returns how many pages it has.
    pub fn pages(&self) -> usize {
        self.pages
    }

    /// Returns true if `pages` more may be lent when `lent` are: some may always be when none are.
    pub fn fits(&self, lent: usize, pages: usize) -> bool {
        lent == 0 || lent.saturating_add(pages) <= self.pages
    }

    /// Returns how many pages a connection may have when `lent` are lent, or promised: what it may
    /// have alone as long as it is; and of `n` that take all they may, each leaves the next one the
    /// same part of what it found.
    pub fn share(&self, lent: usize) -> usize {
        let left = self.pages.saturating_sub(lent);
        let others = self.pages.saturating_sub(self.alone);
        let most = self.alone.saturating_mul(left).checked_div(others);
        most.map_or(self.alone, |most| most.min(self.alone))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LARGEST: usize = 1028;

    fn budget(standing: Standing, device: usize) -> Budget {
        Budget::new(standing, device, 2112, LARGEST)
    }

    #[test]
    fn the_budgets_are_all_pages_and_an_eighth_is_for_strangers() {
        for (device, strangers) in [(16384, 2048), (8224, 1028), (4224, 1028), (4194304, 524288)] {
            let budgets = Standing::ALL.map(|standing| budget(standing, device).pages());
            assert_eq!(budgets, [device - strangers, strangers]);
        }
    }

    #[test]
    fn the_largest_call_fits_into_each_unused_budget() {
        for device in [2 * LARGEST, 4224, 16384, 4194304] {
            for standing in Standing::ALL {
                let budget = budget(standing, device);
                assert!(budget.pages() >= LARGEST && budget.fits(0, LARGEST));
                assert!(!budget.fits(1, budget.pages()));
                assert!(budget.fits(1, budget.pages() - 1));
            }
        }
        // Also one that never fits goes on when it is alone.
        assert!(budget(Standing::Validated, 0).fits(0, LARGEST));
    }

    #[test]
    fn many_that_take_all_they_may_leave_some() {
        for standing in Standing::ALL {
            let budget = budget(standing, 16384);
            let mut lent = 0;
            for _ in 0..24 {
                let share = budget.share(lent);
                assert!(share > 0, "{lent} of {}", budget.pages());
                lent += share;
            }
            assert!(lent < budget.pages());
            assert_eq!(budget.share(budget.pages()), 0);
        }
        assert_eq!(budget(Standing::Validated, 16384).share(0), 2112);
        assert_eq!(budget(Standing::Unvalidated, 16384).share(0), 264);
    }

    #[test]
    fn a_connection_may_have_all_if_it_is_to() {
        let budget = Budget::new(Standing::Validated, 16384, 4194304, LARGEST);
        assert_eq!(budget.share(10000), 4194304);
    }
}
