// SPDX-License-Identifier: GPL-2.0

//! Host shares: the most pages or Receive buffers of a device that one host may hold.
//!
//! A host may hold three quarters of what all other hosts leave. So a host that is alone has most of
//! the limit, there is always some left for the next host, and hosts that all want more than there
//! is converge to the same share: 3/7 of the limit for each of two hosts, 3/10 for each of three.
//!
//! A host whose share is smaller than the *first part* may hold that, even if other hosts hold the
//! whole limit: those that came first may keep what they have. So all shares together exceed the
//! limit by at most a first part for each host.

/// Divisor of the limit that gives the first part of a host.
const FIRST: u32 = 256;

/// The pages or Receive buffers that a host holds, and those that all hosts hold. One number may be a
/// little older than the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Holdings {
    /// The number that the host holds.
    pub host: i64,
    /// The number that all hosts hold, this one included.
    pub all: i64,
}

impl Holdings {
    /// Returns the most that the host may hold of `limit`; at least 1, and at most `limit` if that
    /// is not 0.
    #[inline]
    pub fn share(&self, limit: u32) -> i64 {
        let others = self.all.saturating_sub(self.host).max(0);
        let left = i64::from(limit).saturating_sub(others);
        let share = left.saturating_sub(left >> 2);
        share.max(first(limit))
    }

    /// Returns how much more the host may hold if all hosts must not exceed `limit`: the rest of
    /// its share, and at most the rest of the limit; 0 or less if it may hold no more.
    #[inline]
    pub fn left(&self, limit: u32) -> i64 {
        let unused = i64::from(limit).saturating_sub(self.all);
        self.share(limit).saturating_sub(self.host).min(unused)
    }
}

/// Returns true if all hosts hold so little of `limit`, a quarter, that any of them may hold twice as
/// much: no share need be calculated.
#[inline]
pub fn is_ample(limit: u32, all: i64) -> bool {
    all <= i64::from(limit >> 2)
}

/// Returns the first part: the number that a host may always hold.
#[inline]
fn first(limit: u32) -> i64 {
    i64::from(limit / FIRST).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: u32 = 16384;

    /// Lets each host take one after another, in turns, until all hold their share.
    fn fill(limit: u32, hosts: &mut [i64]) {
        loop {
            let mut has_taken = false;
            for index in 0..hosts.len() {
                let (host, all) = (hosts[index], hosts.iter().sum());
                if host < (Holdings { host, all }).share(limit) {
                    hosts[index] += 1;
                    has_taken = true;
                }
            }
            if !has_taken {
                return;
            }
        }
    }

    /// Returns what each of `count` hosts holds that all take as much as they may.
    fn filled(limit: u32, count: usize) -> Vec<i64> {
        let mut hosts = vec![0; count];
        fill(limit, &mut hosts);
        hosts
    }

    #[test]
    fn a_host_that_is_alone_has_three_quarters() {
        assert_eq!(filled(LIMIT, 1), [12288]);
        assert_eq!(filled(60, 1), [45]);
        for (limit, most) in [(1, 1), (2, 2), (3, 3), (4, 3), (5, 4)] {
            assert_eq!(filled(limit, 1), [most]);
        }
    }

    #[test]
    fn hosts_with_equal_demand_have_equal_shares() {
        for (count, least, all) in [
            (2, 7022, 14044),
            (3, 4915, 14746),
            (16, 1003, 16050),
            (64, 254, 16300),
            (200, 81, 16357),
        ] {
            let hosts = filled(LIMIT, count);
            assert!(hosts.iter().all(|&host| host == least || host == least + 1));
            assert_eq!(hosts.iter().sum::<i64>(), all);
        }
    }

    #[test]
    fn more_hosts_than_the_limit_has_first_parts_have_those() {
        let hosts = filled(LIMIT, 1000);
        assert!(hosts.iter().all(|&host| host == 64));
    }

    #[test]
    fn a_host_that_holds_its_share_leaves_some_for_the_next() {
        let mut hosts = vec![0];
        for share in [12288, 3072, 768, 192, 64, 64] {
            fill(LIMIT, &mut hosts);
            assert_eq!(hosts.last(), Some(&share));
            hosts.push(0);
        }
    }

    #[test]
    fn hosts_that_hold_more_than_the_limit_leave_the_next_its_first_part() {
        for all in [i64::from(LIMIT), 2 * i64::from(LIMIT), i64::MAX] {
            assert_eq!(Holdings { host: 0, all }.share(LIMIT), 64);
        }
    }

    /// All small cases: a share is never 0 and never exceeds the limit, falls with what others hold,
    /// and rises with the limit.
    #[test]
    fn a_share_is_monotone_and_within_the_limit() {
        for limit in 1..=600u32 {
            for others in 0..=700i64 {
                for host in [0, 1, 2, 77, 600] {
                    let share = |limit, others: i64| {
                        let all = others + host;
                        Holdings { host, all }.share(limit)
                    };
                    let this = share(limit, others);
                    assert!((1..=i64::from(limit)).contains(&this));
                    assert!(share(limit, others + 1) <= this);
                    assert!(share(limit + 1, others) >= this);
                    let all = others + host;
                    let left = Holdings { host, all }.left(limit);
                    assert!(left <= this - host && left <= i64::from(limit) - all);
                }
            }
        }
        assert_eq!(Holdings::default().share(0), 1);
    }

    #[test]
    fn no_host_is_near_its_share_while_there_is_ample() {
        for limit in 1..300u32 {
            for all in (0..300).filter(|all| is_ample(limit, *all)) {
                for host in 0..=all {
                    let left = Holdings { host, all }.left(limit);
                    assert!(left > all, "{host} of {all} of {limit}: {left}");
                }
            }
        }
        assert!(is_ample(LIMIT, 4096) && !is_ample(LIMIT, 4097));
    }

    /// Returns what three hosts can hold, which take and give back in all ways while `may_take`.
    fn reachable(may_take: impl Fn(Holdings) -> bool) -> std::collections::BTreeSet<[i64; 3]> {
        let mut seen = std::collections::BTreeSet::new();
        let mut open = vec![[0i64; 3]];
        while let Some(hosts) = open.pop() {
            if !seen.insert(hosts) {
                continue;
            }
            let all = hosts.iter().sum();
            for index in 0..3 {
                let host = hosts[index];
                let mut next = hosts;
                if may_take(Holdings { host, all }) {
                    next[index] += 1;
                    open.push(next);
                }
                if host > 0 {
                    next = hosts;
                    next[index] -= 1;
                    open.push(next);
                }
            }
        }
        seen
    }

    #[test]
    fn shares_exceed_the_limit_by_the_first_parts_at_most() {
        let seen = reachable(|one| one.host < one.share(12));
        assert!(seen.iter().all(|hosts| hosts.iter().sum::<i64>() <= 12 + 1));
        // The largest share, and what it leaves: the last host has its first part.
        assert!(seen.contains(&[9, 3, 1]) && !seen.iter().any(|hosts| hosts[0] > 9));
    }

    #[test]
    fn a_host_that_must_not_exceed_the_limit_may_wait_for_the_others() {
        let seen = reachable(|one| one.left(12) > 0);
        assert!(seen.iter().all(|hosts| hosts.iter().sum::<i64>() <= 12));
        assert!(seen.contains(&[9, 3, 0]) && seen.contains(&[9, 2, 1]));
    }
}
