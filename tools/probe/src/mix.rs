// SPDX-License-Identifier: GPL-2.0

//! Mixes of Calls of several kinds, such as `read=70,write=30`.

use std::{fmt, str::FromStr};

/// The kind of a Call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, clap::ValueEnum)]
pub(crate) enum Kind {
    /// NULL Calls
    Null,
    /// READs into a Write chunk
    Read,
    /// FILE_SYNC WRITEs from a Read chunk
    Write,
}

impl Kind {
    /// Returns the name on the command line.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Read => "read",
            Self::Write => "write",
        }
    }

    /// Returns true if its Calls need a file.
    pub(crate) fn needs_file(self) -> bool {
        self != Self::Null
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// Kinds of Calls, each with its share.
///
/// # Invariants
///
/// There is at least one kind, each has a share of at least 1, and none occurs twice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Mix(Vec<(Kind, u32)>);

impl Mix {
    /// Returns the mix of one kind.
    pub(crate) fn of(kind: Kind) -> Self {
        Self(vec![(kind, 1)])
    }

    /// Returns the kinds in the order in which the user named them.
    pub(crate) fn kinds(&self) -> impl Iterator<Item = Kind> + '_ {
        self.0.iter().map(|&(kind, _)| kind)
    }

    /// Returns the order of Calls that follows the shares.
    pub(crate) fn turns(&self) -> Turns {
        Turns(
            self.0
                .iter()
                .map(|&(kind, share)| (kind, share, 0))
                .collect(),
        )
    }
}

impl FromStr for Mix {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let mut mix: Vec<(Kind, u32)> = Vec::new();
        for part in text.split(',') {
            let (name, share) = part.split_once('=').unwrap_or((part, "1"));
            let kind = <Kind as clap::ValueEnum>::from_str(name, false)
                .map_err(|_| format!("unknown kind \"{name}\": null, read or write"))?;
            let share = match share.parse() {
                Ok(share @ 1..=1_000_000) => share,
                _ => return Err(format!("share of {name}: 1 to 1000000")),
            };
            if mix.iter().any(|&(other, _)| other == kind) {
                return Err(format!("{name} occurs twice"));
            }
            mix.push((kind, share));
        }
        // INVARIANT: `split` yields at least one part, and the loop checks each.
        Ok(Self(mix))
    }
}

/// An endless order of Calls: kind, share, and the Calls that the kind is behind, times all shares.
#[derive(Clone, Debug)]
pub(crate) struct Turns(Vec<(Kind, u32, i64)>);

impl Turns {
    /// Returns the kind of the next Call: the one that is furthest behind its share.
    pub(crate) fn next(&mut self) -> Kind {
        let all: i64 = self.0.iter().map(|&(_, share, _)| i64::from(share)).sum();
        for (_, share, behind) in &mut self.0 {
            *behind += i64::from(*share);
        }
        let furthest = self.0.iter_mut().max_by_key(|(_, _, behind)| *behind);
        // A mix has at least one kind.
        furthest.map_or(Kind::Null, |(kind, _, behind)| {
            *behind -= all;
            *kind
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(mix: &str, calls: usize, kind: Kind) -> usize {
        let mut turns = mix.parse::<Mix>().unwrap().turns();
        (0..calls).filter(|_| turns.next() == kind).count()
    }

    #[test]
    fn a_mix_has_its_shares() {
        assert_eq!("write".parse(), Ok(Mix::of(Kind::Write)));
        assert_eq!(count("read=70,write=30", 1000, Kind::Read), 700);
        assert_eq!(count("read=70,write=30", 10, Kind::Write), 3);
        assert_eq!(count("null,read=2,write", 8, Kind::Read), 4);
        assert_eq!(count("null", 5, Kind::Null), 5);
    }

    #[test]
    fn kinds_are_spread() {
        let mut turns = "read=1,write=1".parse::<Mix>().unwrap().turns();
        let kinds: Vec<Kind> = (0..4).map(|_| turns.next()).collect();
        assert_ne!(kinds[0], kinds[1]);
        assert_eq!(kinds[..2], kinds[2..]);
    }

    #[test]
    fn nonsense_is_refused() {
        for text in [
            "",
            "reads",
            "read=",
            "read=0",
            "read=-1",
            "read,read",
            "read;write",
        ] {
            assert!(text.parse::<Mix>().is_err(), "{text}");
        }
    }
}
