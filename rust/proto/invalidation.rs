// SPDX-License-Identifier: GPL-2.0

//! Remote invalidation: the choice of the memory registration that a Reply invalidates (RFC 8797,
//! section 3.2).

use crate::chunk::Segment;
use crate::header::View;

impl View<'_> {
    /// Returns the rkey that the Reply may invalidate if the client supports it: the first one in
    /// the Reply chunk, else in the Write list, else in the Read list. The client invalidates all
    /// others itself.
    #[inline]
    pub fn invalidatable(&self) -> Option<u32> {
        if self.header().has_chunks() {
            self.find_invalidatable()
        } else {
            None
        }
    }

    /// Finds that rkey in a Call that may have one.
    fn find_invalidatable(&self) -> Option<u32> {
        self.reply()
            .and_then(|chunk| registered(chunk.segments()))
            .or_else(|| self.writes().find_map(|chunk| registered(chunk.segments())))
            .or_else(|| registered(self.reads().map(|read| read.segment)))
    }
}

/// Returns the first rkey that stands for memory. A segment without bytes need not be registered,
/// and invalidating an unregistered rkey breaks the connection.
fn registered(mut segments: impl Iterator<Item = Segment>) -> Option<u32> {
    segments
        .find(|segment| segment.length > 0 && segment.handle > 0)
        .map(|segment| segment.handle)
}

#[cfg(test)]
mod tests {
    use crate::decode::{
        decode,
        Received, //
    };
    use crate::header::Header;

    #[test]
    fn the_first_rkey_named_is_invalidated() {
        let invalidatable = |words: &[u32]| {
            let msg: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
            match decode(&msg, &mut Header::default()) {
                Ok(Received::Call(view)) => Some(view.invalidatable()),
                _ => None,
            }
        };
        // One Read chunk, an empty and a full Write chunk, a Reply chunk.
        let read = [1, 8, 10, 4, 0, 0, 0];
        let writes = [1, 0, 1, 1, 20, 4, 0, 0, 0];
        let fixed = [5, 1, 3, 0];
        let body = [5, 0];
        let reply = [1, 1, 30, 4, 0, 0];
        let all = [&fixed[..], &read, &writes, &reply, &body].concat();
        assert_eq!(invalidatable(&all), Some(Some(30)));
        let empty_reply = [&fixed[..], &read, &writes, &[1, 0], &body].concat();
        assert_eq!(invalidatable(&empty_reply), Some(Some(20)));
        let reads = [&fixed[..], &read, &[1, 0, 0, 0], &body].concat();
        assert_eq!(invalidatable(&reads), Some(Some(10)));
        // Segments without memory are skipped, one by one and whole lists.
        let empty = [
            &fixed[..],
            &[1, 8, 11, 0, 0, 0],
            &[1, 8, 0, 4, 0, 0, 0],
            &[1, 2, 21, 0, 0, 0, 0, 4, 0, 0, 1, 1, 22, 0, 0, 0, 0],
            &[1, 2, 31, 0, 0, 0, 0, 4, 0, 0],
            &body,
        ]
        .concat();
        assert_eq!(invalidatable(&empty), Some(None));
        let set = |changes: &[(usize, u32)]| {
            let mut words = empty.clone();
            changes.iter().for_each(|(at, word)| words[*at] = *word);
            invalidatable(&words)
        };
        let (read, write, reply) = ((12, 10), (23, 20), (40, 30));
        assert_eq!(set(&[read]), Some(Some(10)));
        assert_eq!(set(&[read, write]), Some(Some(20)));
        assert_eq!(set(&[read, (30, 4), write]), Some(Some(20)));
        assert_eq!(set(&[read, (30, 4)]), Some(Some(22)));
        assert_eq!(set(&[read, write, reply]), Some(Some(30)));
    }
}
