//! The directory of journals, their names, and what identifies the running system.

use rustix::process::getuid;
use std::{
    env,
    fs::{self, DirBuilder, Metadata},
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
};

/// Environment variable with the directory of journals.
pub const FOLDER_VARIABLE: &str = "MANYCORE_STATE";

/// The directory of root's journals. Other users can pass through it to the socket of root's guard, but
/// cannot list it.
pub const ROOTS_FOLDER: &str = "/run/manycore";

/// Returns the directory of journals: `MANYCORE_STATE`, or `/run/manycore` for root, or `manycore` below
/// `XDG_RUNTIME_DIR`, or `/tmp/manycore-UID`.
pub fn folder() -> PathBuf {
    if let Some(folder) = env::var_os(FOLDER_VARIABLE).filter(|folder| !folder.is_empty()) {
        return folder.into();
    }
    if getuid().is_root() {
        return ROOTS_FOLDER.into();
    }
    match env::var_os("XDG_RUNTIME_DIR").filter(|folder| Path::new(folder).is_dir()) {
        Some(folder) => Path::new(&folder).join("manycore"),
        None => env::temp_dir().join(format!("manycore-{}", getuid().as_raw())),
    }
}

/// Creates the directory and checks its owner. In `/tmp` another user could have created it with forged
/// journals, which undo would then execute.
///
/// # Errors
/// It cannot be created, or other users can write to it.
pub fn make_folder(folder: &Path) -> io::Result<()> {
    let mode = if folder == Path::new(ROOTS_FOLDER) { 0o711 } else { 0o700 };
    DirBuilder::new().recursive(true).mode(mode).create(folder)?;
    check_owner(&fs::metadata(folder)?)
}

/// Checks that only this user can have written a directory or file.
pub(super) fn check_owner(about: &Metadata) -> io::Result<()> {
    let denied = |why: String| Err(io::Error::new(io::ErrorKind::PermissionDenied, why));
    match (about.uid(), about.mode() & 0o022) {
        (owner, _) if owner != getuid().as_raw() => {
            denied(format!("it belongs to user {owner}; set {FOLDER_VARIABLE} to another directory"))
        }
        (_, 0) => Ok(()),
        _ => denied(format!(
            "other users can write to it; run chmod go-w on it, or set {FOLDER_VARIABLE} to another directory"
        )),
    }
}

/// Suffix of the names of journals.
pub(super) const EXTENSION: &str = "journal";

/// Returns the name of a journal, as `undo` takes it.
pub(super) fn id(path: &Path) -> String {
    path.file_stem().unwrap_or_default().to_string_lossy().into_owned()
}

/// Returns the process namespace of this process.
pub(super) fn namespace() -> String {
    fs::read_link("/proc/self/ns/pid").map(|link| link.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Returns the identifier of the running system, which a reboot changes.
pub(super) fn boot_id() -> String {
    let id = fs::read_to_string("/proc/sys/kernel/random/boot_id").unwrap_or_default();
    id.trim().to_owned()
}
