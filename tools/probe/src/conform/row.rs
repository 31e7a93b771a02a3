// SPDX-License-Identifier: GPL-2.0

//! A row: a requirement of an RFC and its check.

use super::{
    bench::Bench,
    props::Props,
    seen::{self, Seen},
};
use crate::error::{Error, Result};

/// A requirement and its check.
pub(super) struct Row {
    /// A unique name that says what is sent or done.
    pub(super) name: &'static str,
    /// The RFC and section.
    pub(super) source: &'static str,
    pub(super) needs: Needs,
    pub(super) check: Check,
}

/// The prerequisite of a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Needs {
    Nothing,
    /// A file that may be overwritten.
    File,
    /// The length of the longest Call that the server accepts.
    CallLimit,
    /// A file, and a device with memory windows.
    Window,
}

/// The check of a row.
pub(super) enum Check {
    /// Sends one message and accepts any of these reactions.
    Answer(&'static [Seen], fn(&Props<'_>) -> Vec<u8>),
    /// Runs a script, whose error describes the violation.
    Script(fn(&Bench<'_>) -> Result),
    /// Runs a script in which the server has a choice. Returns its reaction.
    Choice(fn(&Bench<'_>) -> Result<Seen>),
}

/// The outcome of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// The requirement is met. Holds the server's reaction if it has a choice.
    Met(Option<Seen>),
    /// The requirement is violated. Holds the reason.
    Violated(String),
    /// The row was not tried. Holds the missing prerequisite.
    NotTried(String),
    /// The row could not be tried. Holds the error of this side.
    Failed(String),
}

impl Row {
    /// Creates a row with a script that has no prerequisite.
    pub(super) const fn script(
        source: &'static str,
        name: &'static str,
        script: fn(&Bench<'_>) -> Result,
    ) -> Self {
        Self {
            name,
            source,
            needs: Needs::Nothing,
            check: Check::Script(script),
        }
    }

    /// Creates a row with a script that needs a file.
    pub(super) const fn file_script(
        source: &'static str,
        name: &'static str,
        script: fn(&Bench<'_>) -> Result,
    ) -> Self {
        Self {
            needs: Needs::File,
            ..Self::script(source, name, script)
        }
    }

    /// Creates a row with a script that has no prerequisite and in which the server has a choice.
    pub(super) const fn choice(
        source: &'static str,
        name: &'static str,
        script: fn(&Bench<'_>) -> Result<Seen>,
    ) -> Self {
        Self {
            name,
            source,
            needs: Needs::Nothing,
            check: Check::Choice(script),
        }
    }

    /// Runs the check.
    pub(super) fn try_on(&self, bench: &Bench<'_>) -> Outcome {
        let result = self.has_needs(bench).and_then(|()| match self.check {
            Check::Answer(want, build) => seen::try_message(bench, want, build).map(Some),
            Check::Script(script) => script(bench).map(|()| None),
            Check::Choice(script) => script(bench).map(Some),
        });
        match result {
            Ok(seen) => Outcome::Met(seen),
            Err(error) if error.is_finding() => Outcome::Violated(error.to_string()),
            Err(error) if error.is_local() => Outcome::Failed(error.to_string()),
            Err(error) => Outcome::NotTried(error.to_string()),
        }
    }

    /// Returns an error if the prerequisite is missing.
    fn has_needs(&self, bench: &Bench<'_>) -> Result {
        let has_file = bench.file.is_some();
        match self.needs {
            Needs::File | Needs::Window if !has_file => Err(Error::unavailable("no --file")),
            Needs::Window => {
                if bench.has_windows()? {
                    Ok(())
                } else {
                    Err(Error::unavailable("the device has no memory windows"))
                }
            }
            Needs::CallLimit if bench.call_limit.is_none() => {
                Err(Error::unavailable("no --call-limit"))
            }
            _ => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ffi::Fake, target::Target};

    /// Tries a row whose script ends with `result`.
    fn tried(script: fn(&Bench<'_>) -> Result) -> Outcome {
        let target = Target::new(Fake::addresses().to, None);
        let bench = Bench {
            target,
            file: None,
            call_limit: None,
            is_quick: true,
        };
        Row::script("no RFC", "a row", script).try_on(&bench)
    }

    #[test]
    fn errors_of_this_side_violate_nothing() {
        let fake = Fake::new();
        fake.fail("ibv_reg_mr");
        let failed = tried(|bench| bench.peer().map(drop));
        assert!(matches!(&failed, Outcome::Failed(why) if why.starts_with("ibv_reg_mr: ")));
        let failed = tried(|bench| bench.peer().map(drop).map_err(|error| error.within("it")));
        assert!(matches!(&failed, Outcome::Failed(why) if why.starts_with("it: ")));
        let missing = tried(|_| Err(Error::unavailable("no file")));
        assert_eq!(missing, Outcome::NotTried("no file".to_owned()));
        let violated = tried(|_| Err(Error::new("wrong")));
        assert_eq!(violated, Outcome::Violated("wrong".to_owned()));
    }
}
