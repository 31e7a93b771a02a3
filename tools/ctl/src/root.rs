// SPDX-License-Identifier: GPL-2.0

//! Files below a root directory: `/`, or the tree of a test.

use std::{
    fs,
    io::{
        self,
        Read, //
    },
    path::{
        Path,
        PathBuf, //
    },
};

/// Why a file cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Gap {
    /// The file does not exist.
    Missing,
    /// The caller may not read the file.
    Denied,
    /// Another error of the operating system.
    Other(String),
}

impl From<io::Error> for Gap {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => Gap::Missing,
            io::ErrorKind::PermissionDenied => Gap::Denied,
            _ => Gap::Other(error.to_string()),
        }
    }
}

/// The directory below which all paths are.
#[derive(Clone, Debug)]
pub(crate) struct Root(PathBuf);

impl Root {
    /// Creates the root `path`.
    pub(crate) fn new(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Returns where the absolute path `path` is below the root.
    pub(crate) fn path(&self, path: &str) -> PathBuf {
        self.0.join(path.trim_start_matches('/'))
    }

    /// Returns true if `path` exists and the caller may see that.
    pub(crate) fn exists(&self, path: &str) -> bool {
        self.path(path).exists()
    }

    /// Reads a file. Bytes that are not UTF-8 are replaced.
    pub(crate) fn read(&self, path: &str) -> Result<String, Gap> {
        let bytes = fs::read(self.path(path))?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads at most `limit` bytes of a file.
    pub(crate) fn read_at_most(&self, path: &str, limit: usize) -> Result<String, Gap> {
        let mut bytes = Vec::new();
        let file = fs::File::open(self.path(path))?;
        file.take(limit as u64).read_to_end(&mut bytes)?;
        Ok(String::from_utf8_lossy(&bytes).into_owned())
    }

    /// Reads a file of one line; returns nothing if it cannot be read.
    pub(crate) fn line(&self, path: &str) -> Option<String> {
        self.read(path).ok().map(|text| text.trim().to_owned())
    }

    /// Returns the names in a folder, sorted.
    pub(crate) fn names(&self, folder: &str) -> Result<Vec<String>, Gap> {
        let mut names = Vec::new();
        for entry in fs::read_dir(self.path(folder))? {
            names.push(entry?.file_name().to_string_lossy().into_owned());
        }
        names.sort();
        Ok(names)
    }

    /// Returns the last part of the target of a symbolic link.
    pub(crate) fn link(&self, path: &str) -> Option<String> {
        let target = fs::read_link(self.path(path)).ok()?;
        Some(target.file_name()?.to_string_lossy().into_owned())
    }
}
