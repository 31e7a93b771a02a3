// SPDX-License-Identifier: GPL-2.0

//! Files that are replaced as a whole.

use std::{
    fs::Permissions,
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
pub(crate) fn write(path: &Path, content: &[u8], mode: u32) -> io::Result<()> {
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
