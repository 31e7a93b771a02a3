// SPDX-License-Identifier: GPL-2.0

//! Changes in messages, by seed.

use kernel::sim;

/// Numbers at the limits of types and formats.
const EDGES: [u32; 10] = [
    0,
    1,
    2,
    4,
    0x400,
    0xffff,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_fffc,
    u32::MAX,
];

/// Changes up to three things in a message.
pub fn change(message: &mut Vec<u8>) {
    for _ in 0..=sim::below(3) {
        change_once(message);
    }
}

fn change_once(message: &mut Vec<u8>) {
    let len = message.len();
    let words = (len / 4) as u64;
    if words == 0 {
        return;
    }
    // The headers are at the beginning.
    let at = 4 * sim::below(words.min(32)) as usize;
    match sim::below(8) {
        0 => message.truncate(sim::below(len as u64) as usize),
        1 => drop(message.splice(at..at, (sim::below(1 << 32) as u32).to_be_bytes())),
        2 => drop(message.drain(at..at + 4)),
        3 => message[at + sim::below(4) as usize] ^= 1 << sim::below(8),
        4 => message.extend_from_within(at..),
        _ => {
            let edge = EDGES[sim::below(EDGES.len() as u64) as usize];
            message[at..at + 4].copy_from_slice(&edge.to_be_bytes());
        }
    }
    // A longer message finds no room in a Receive, which is no error of form.
    message.truncate(4096);
}
