// SPDX-License-Identifier: GPL-2.0

//! Files that are replaced as a whole.

use std::{
    fs::{
        self,
        Permissions, //
    },
    io::{
        self,
        Write, //
    },
    os::unix::fs::PermissionsExt,
    path::Path, //
};
use tempfile::Builder;

/// Writes `content` to the file `path` with the permissions `mode`. A reader sees the old or the new
/// content, also after a crash.
///
/// # Errors
///
/// Besides those of the system: something other than a regular file has that name, such as
/// `/dev/null`, and would be lost.
pub(crate) fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
    if fs::symlink_metadata(path).is_ok_and(|found| !found.is_file()) {
        return Err(io::Error::other("not a regular file"));
    }
    let folder = match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // Readers of the folder take files by their last part: *.prom, *.conf.
    let mut file = Builder::new()
        .prefix(".svcrdmactl-")
        .suffix(".tmp")
        .tempfile_in(folder)?;
    file.write_all(content)?;
    file.as_file()
        .set_permissions(Permissions::from_mode(mode))?;
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn replaces_regular_files_only() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("file");
        write(&file, b"old", 0o644).expect("a new file");
        write(&file, b"new", 0o600).expect("a file");
        assert_eq!(fs::read(&file).expect("the file"), b"new");
        let link = folder.path().join("link");
        symlink(&file, &link).expect("a link");
        for other in [link.as_path(), folder.path(), Path::new("/dev/null")] {
            assert!(write(other, b"lost", 0o644).is_err(), "{other:?}");
        }
        assert_eq!(fs::read(&file).expect("the file"), b"new");
    }
}
