// SPDX-License-Identifier: GPL-2.0

//! Findings: what `check` has to say, one line each.

use crate::error::Error;
use serde_json::{
    json,
    Value, //
};

/// How bad a finding is, in the order of the exit status of several.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Level {
    Good,
    Warning,
    /// Something could not be found out.
    Unknown,
    Broken,
}

impl Level {
    /// Returns the exit status.
    pub(crate) fn status(self) -> u8 {
        match self {
            Level::Good => 0,
            Level::Warning => 1,
            Level::Broken => 2,
            Level::Unknown => 3,
        }
    }

    /// Returns the word in texts and in JSON.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Level::Good => "good",
            Level::Warning => "warning",
            Level::Broken => "broken",
            Level::Unknown => "unknown",
        }
    }
}

/// One finding.
#[derive(Debug)]
pub(crate) struct Finding {
    pub(crate) level: Level,
    /// Identifies the finding for programs.
    pub(crate) id: &'static str,
    /// The fault.
    pub(crate) text: String,
    /// The action that mends it.
    pub(crate) action: String,
}

impl Finding {
    /// Creates a finding.
    pub(crate) fn new(
        level: Level,
        id: &'static str,
        text: impl Into<String>,
        action: impl Into<String>,
    ) -> Self {
        Self {
            level,
            id,
            text: text.into(),
            action: action.into(),
        }
    }

    /// Creates the finding that something could not be found out.
    pub(crate) fn of_error(level: Level, error: &Error) -> Self {
        Self::new(level, error.id, &error.text, &error.action)
    }

    /// Returns the line for people, without a newline.
    pub(crate) fn line(&self) -> String {
        let colon = if self.action.is_empty() { "" } else { ": " };
        let Self {
            id, text, action, ..
        } = self;
        format!("{:<8} {id}: {text}{colon}{action}", self.level.name())
    }

    /// Returns the JSON object.
    pub(crate) fn json(&self) -> Value {
        json!({"level": self.level.name(), "id": self.id, "text": self.text, "action": self.action})
    }
}

/// Returns the worst level.
pub(crate) fn worst(findings: &[Finding]) -> Level {
    let levels = findings.iter().map(|finding| finding.level);
    levels.max().unwrap_or(Level::Good)
}
