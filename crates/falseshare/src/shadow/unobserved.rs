//! Finds out why a program runs unobserved.

use crate::shadow::{elf, program::START_BYTES, sys};
use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::{ffi::OsStrExt, fs::MetadataExt},
    path::Path,
};

/// Mode bits that make a program run with the privileges of the file's owner or group (`S_ISUID`, `S_ISGID`).
pub const SET_ID: u32 = 0o6000;

/// Checks that a program started by the calling thread could open `path`, an anonymous file of manycore below
/// `/proc`. It could not as another user, in another root directory, or where `/proc` shows another PID
/// namespace, in which process ids may be those of other processes.
///
/// # Errors
/// `PermissionDenied` if the file is hidden from this user; `NotFound` if it is not one of manycore's.
pub fn check_access(path: &Path) -> io::Result<()> {
    if !fs::read_link(path)?.as_os_str().as_bytes().starts_with(b"/memfd:manycore-") {
        return Err(io::ErrorKind::NotFound.into());
    }
    // A process that changed its user may keep root's capabilities until it executes a program (`PR_SET_KEEPCAPS`).
    let user = sys::user();
    if user == 0 || fs::symlink_metadata(path)?.uid() == user {
        Ok(())
    } else {
        Err(io::ErrorKind::PermissionDenied.into())
    }
}

/// Returns why program `path`, which the calling thread is about to execute, is not observed; empty if
/// unknown. `ours` is the path of one of manycore's files.
pub fn unobserved_reason(path: &Path, ours: &Path) -> String {
    if let Some(elf::ElfMismatch::Architecture(what)) = kind(path).and_then(Result::err) {
        return format!("it is a program for {what}");
    }
    if fs::metadata(path).is_ok_and(|file| file.mode() & SET_ID != 0) {
        return "it runs with the rights of its owner (set-user-ID, set-group-ID)".to_owned();
    }
    match check_access(ours) {
        Err(error) if error.kind() == io::ErrorKind::PermissionDenied => {
            "it was started as another user".to_owned()
        }
        Err(_) => "it was started in another PID namespace or another root directory".to_owned(),
        Ok(()) => String::new(),
    }
}

fn kind(path: &Path) -> Option<Result<bool, elf::ElfMismatch>> {
    let (file, mut start) = (File::open(path).ok()?, Vec::new());
    let bytes = file.metadata().ok()?.len();
    file.take(START_BYTES).read_to_end(&mut start).ok()?;
    Some(elf::check_program(&start, bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_of_another_user_is_inaccessible() {
        let file = sys::memory_file(c"manycore-test").unwrap();
        let path = format!("/proc/self/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&file));
        assert!(check_access(Path::new(&path)).is_ok());
        drop(file);
        assert_eq!(check_access(Path::new(&path)).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(check_access(Path::new("/proc/self/exe")).unwrap_err().kind(), io::ErrorKind::NotFound);
    }

    #[test]
    fn a_program_for_another_architecture_is_reported() {
        let folder = std::env::temp_dir().join(format!("manycore-escape-{}", std::process::id()));
        fs::create_dir_all(&folder).unwrap();
        let path = folder.join("m32");
        let mut header = [0; 64];
        header[..7].copy_from_slice(b"\x7fELF\x01\x01\x01");
        (header[16], header[18]) = (2, 3);
        fs::write(&path, header).unwrap();
        assert_eq!(unobserved_reason(&path, Path::new("/no/such")), "it is a program for 32-bit x86");
        assert!(unobserved_reason(Path::new("/bin/true"), Path::new("/no/such")).contains("another root"));
        fs::remove_dir_all(&folder).unwrap();
    }
}
