//! Where results go: standard output and files that are either whole or absent.

use crate::failure::{Failure, Outcome};
use std::{
    io::{self, ErrorKind, Write},
    path::Path,
};

/// Writes `text` to standard output; a reader that went away ends the run quietly.
///
/// # Errors
/// [`Failure::ReaderGone`] on a closed pipe, [`Failure::Missing`] on any other error.
pub fn print(text: &str) -> Outcome {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).map_err(|error| match error.kind() {
        ErrorKind::BrokenPipe => Failure::ReaderGone,
        _ => Failure::missing(format!("cannot write to standard output: {error}")),
    })
}

/// Writes a file whole or not at all: to a temporary file beside it, then renamed over it.
///
/// # Errors
/// [`Failure::Missing`] with the path where the folder cannot be written or the disk is full; nothing is
/// left behind and an older file of that name stays as it was.
pub fn write_file(path: &Path, contents: &[u8]) -> Outcome {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let write = || -> io::Result<()> {
        let mut file = tempfile::Builder::new().prefix(".manycore-").tempfile_in(folder)?;
        file.write_all(contents)?;
        file.as_file().sync_all()?;
        let permissions = std::os::unix::fs::PermissionsExt::from_mode(0o644);
        file.as_file().set_permissions(permissions)?;
        file.persist(path)?;
        Ok(())
    };
    write().map_err(|error| Failure::missing(format!("cannot write {}: {error}", path.display())))
}
