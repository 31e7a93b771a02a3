// SPDX-License-Identifier: GPL-2.0

//! The trait that all commands implement.

use crate::{
    error::Result,
    output::{Format, Output}, //
};

/// A command with its options.
pub(crate) trait Run {
    /// Returns the format of the results.
    fn format(&self) -> Format;

    /// Runs the command.
    fn run(&self, output: &mut Output) -> Result;
}
