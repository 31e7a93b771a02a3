// SPDX-License-Identifier: GPL-2.0

//! The order in which lanes take the completion vectors of a device.

/// The most lanes of a device.
pub const MAX_LANES: u32 = 32;

/// Returns the most lanes of a device with `vectors` completion vectors on a host with `cpus` CPUs:
/// at least 1.
pub fn most(vectors: u32, cpus: u32) -> u32 {
    vectors.min(cpus).clamp(1, MAX_LANES)
}

/// Returns the completion vector of lane number `index` of at most `most` lanes on a device with
/// `vectors` completion vectors.
///
/// Lanes with successive numbers are far apart, because neighbouring vectors are often on one NUMA
/// node, and each pool of nfsd threads serves the Calls that complete on its own node
/// (net/sunrpc/svc.c, `svc_pool_for_cpu`).
pub fn vector(index: u32, most: u32, vectors: u32) -> u32 {
    let place = place(index, most);
    let vector = u64::from(place).saturating_mul(u64::from(vectors));
    // The quotient is less than `vectors`, as `place` is less than `most`.
    vector
        .checked_div(u64::from(most))
        .map_or(0, |vector| vector as u32)
}

/// Returns element `index` of a permutation of the numbers below `most`, whose neighbours are far
/// apart: the numbers in the order of their reversed bits.
fn place(index: u32, most: u32) -> u32 {
    // The bits of the numbers below `most`.
    let unused = most.saturating_sub(1).leading_zeros();
    let numbers = 0..u32::MAX
        .checked_shr(unused)
        .map_or(1, |most| most.saturating_add(1));
    let places = numbers.map(|number| number.reverse_bits().checked_shr(unused).unwrap_or(0));
    let mut fit = places.filter(|place| *place < most);
    fit.nth(index as usize).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_vector_is_taken_once() {
        for most in 1..=MAX_LANES {
            for vectors in [most, most + 1, 2 * most, 64] {
                let mut taken: Vec<u32> = (0..most).map(|i| vector(i, most, vectors)).collect();
                taken.sort();
                taken.dedup();
                assert_eq!(taken.len(), most as usize, "{most} of {vectors}");
                assert!(taken.iter().all(|vector| *vector < vectors));
            }
        }
    }

    #[test]
    fn the_first_lanes_are_far_apart() {
        let first: Vec<u32> = (0..4).map(|i| vector(i, 32, 64)).collect();
        assert_eq!(first, [0, 32, 16, 48]);
        assert_eq!(vector(0, 1, 64), 0);
    }

    #[test]
    fn a_host_has_at_least_one_lane() {
        assert_eq!([most(0, 4), most(4, 0), most(2, 64)], [1, 1, 2]);
        assert_eq!([most(64, 64), most(8, 4)], [MAX_LANES, 4]);
        assert_eq!([vector(7, 1, 0), vector(9, 4, 8)], [0, 0]);
    }
}
