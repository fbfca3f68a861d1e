//! Checks that files can only be changed by root or by the user of this process, before a tool that runs as
//! root reads its configuration from them or writes to them.

use rustix::{
    fs::{Mode, OFlags, open},
    io::Errno,
    process::{getegid, geteuid},
};
use std::{
    collections::VecDeque,
    ffi::OsString,
    fs::{self, File, Metadata},
    io,
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
};

/// Maximum number of symbolic links in a path, as in the kernel (`MAXSYMLINKS`).
const MAX_LINKS: usize = 40;

/// Why a file is not trusted.
#[derive(Debug, thiserror::Error)]
pub enum Untrusted {
    /// Other users can write to the file or folder.
    #[error("{0}: others can write it; run: chmod go-w {0}")]
    Writable(String),
    /// The file or folder belongs to another user than root and the user of this process.
    #[error(
        "{path}: it belongs to user {user} and can be changed by that user; change its owner (chown) or use another file"
    )]
    OtherOwner {
        /// Its path.
        path: String,
        /// Its owner.
        user: u32,
    },
    /// The path has more symbolic links than the kernel follows.
    #[error("{0}: too many symbolic links")]
    TooManyLinks(String),
    /// A file that is opened for reading is a symbolic link.
    #[error("it is a link, expected a regular file")]
    Link,
    /// A file that is opened for reading is not a regular file.
    #[error("it is not a regular file")]
    NotRegular,
    /// A file that is opened for reading belongs to another user.
    #[error("it belongs to user {user}, expected user {expected}")]
    NotOwn {
        /// Its owner.
        user: u32,
        /// The user of this process.
        expected: u32,
    },
    /// Something else is in the place of a file that is opened for writing.
    #[error("{0}: a regular file of this user is expected, or none")]
    NotOwnRegular(String),
    /// The file cannot be read or written.
    #[error("{what}: {error}")]
    Failed {
        /// What was tried, with the path.
        what: String,
        /// The error.
        error: io::Error,
    },
    /// A file that is opened for reading cannot be opened.
    #[error(transparent)]
    Open(#[from] io::Error),
}

type Result<T = (), E = Untrusted> = std::result::Result<T, E>;

/// Checks that no other user can change a file: the file and every folder on its path must belong to root or
/// to the user of this process, and must not be writable by other users or groups. Folders with the sticky bit
/// (`/tmp`) may be writable by all, because other users cannot replace files in them. A relative path starts
/// in the current folder, whose own path is not checked: it stays the same folder wherever it is moved to.
///
/// # Errors
/// [`Untrusted::Writable`] or [`Untrusted::OtherOwner`] with the file or folder that others can change;
/// [`Untrusted::TooManyLinks`]; [`Untrusted::Failed`] if a file or folder cannot be read.
pub fn check(path: &Path) -> Result {
    walk(path, true)
}

/// Checks that no other user can redirect a path by placing a link or another folder in it. The last folder
/// may be writable by others.
///
/// # Errors
/// As [`check`].
pub fn check_path(path: &Path) -> Result {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => walk(folder, false),
        None => Ok(()),
    }
}

/// Opens a regular file of the user of this process for reading. The path may have been chosen by others: a
/// symbolic link is not followed, and opening a FIFO or device does not block.
///
/// # Errors
/// [`Untrusted::Link`], [`Untrusted::NotRegular`], [`Untrusted::NotOwn`]; [`Untrusted::Open`] if it cannot be opened.
/// The message does not contain the path.
pub fn open_own(path: &Path) -> Result<File> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty()).map_err(|error| match error {
        Errno::LOOP => Untrusted::Link,
        error => Untrusted::Open(error.into()),
    })?);
    let status = file.metadata()?;
    if !status.is_file() {
        return Err(Untrusted::NotRegular);
    }
    let expected = geteuid().as_raw();
    if status.uid() != expected {
        return Err(Untrusted::NotOwn { user: status.uid(), expected });
    }
    Ok(file)
}

/// Opens a file for appending, or creates it. Refuses anything else that others may have put there: symbolic
/// links, FIFOs, devices, files of other users, and files with several hard links.
///
/// # Errors
/// As [`check_path`]; [`Untrusted::NotOwnRegular`]; [`Untrusted::Failed`] if it cannot be opened.
pub fn append(path: &Path) -> Result<File> {
    check_path(path)?;
    // Opening a FIFO must not wait for a reader.
    let flags = OFlags::WRONLY
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    let kind = fs::symlink_metadata(path).map(|entry| entry.file_type());
    let expected = || Untrusted::NotOwnRegular(path.display().to_string());
    let failed =
        |error: io::Error| Untrusted::Failed { what: format!("cannot write {}", path.display()), error };
    if kind.as_ref().is_ok_and(|kind| !kind.is_file()) {
        return Err(expected());
    }
    let file = open(path, flags, Mode::RUSR | Mode::WUSR | Mode::RGRP);
    let file = File::from(file.map_err(|error| failed(error.into()))?);
    let status = file.metadata().map_err(failed)?;
    if !status.is_file() || status.uid() != geteuid().as_raw() || status.nlink() != 1 {
        return Err(expected());
    }
    Ok(file)
}

/// Returns whether a process runs the file at a path, as reported by the kernel (`/proc/PID/exe`), regardless of
/// the process's name and arguments. The file may also have been replaced since (by an update), if the process has
/// the mount namespace of process 1 or our own. In other mount namespaces, a user can put any file at any path.
pub fn runs_file(pid: u32, path: &Path) -> bool {
    let exe = format!("/proc/{pid}/exe");
    let same = |a: &Metadata, b: &Metadata| (a.dev(), a.ino()) == (b.dev(), b.ino());
    if let (Ok(runs), Ok(there)) = (fs::metadata(&exe), fs::metadata(path))
        && same(&runs, &there)
    {
        return true;
    }
    let view = |of: &str| fs::metadata(format!("/proc/{of}/ns/mnt")).ok();
    let is_view_of = |of| view(&pid.to_string()).zip(view(of)).is_some_and(|(its, other)| same(&its, &other));
    let replaced = format!("{} (deleted)", path.display());
    (is_view_of("1") || is_view_of("self"))
        && fs::read_link(&exe).is_ok_and(|runs| runs == Path::new(&replaced))
}

/// Follows a path component by component, as the kernel does, and checks each.
fn walk(path: &Path, checks_last: bool) -> Result {
    let mut here = PathBuf::from(if path.is_absolute() { "/" } else { "." });
    let mut rest: VecDeque<OsString> = parts(path);
    let mut links = 0;
    if checks_last || !rest.is_empty() {
        check_permissions(&here, &metadata(&here)?)?;
    }
    while let Some(part) = rest.pop_front() {
        let next = here.join(&part);
        let seen = metadata(&next)?;
        if seen.is_symlink() {
            links += 1;
            if links > MAX_LINKS {
                return Err(Untrusted::TooManyLinks(path.display().to_string()));
            }
            // In a folder that is writable by all, a link is controlled by its owner.
            check_owner(&next, &seen)?;
            let target = fs::read_link(&next).map_err(|error| unreadable(&next, error))?;
            if target.is_absolute() {
                here = PathBuf::from("/");
                check_permissions(&here, &metadata(&here)?)?;
            }
            for part in parts(&target).into_iter().rev() {
                rest.push_front(part);
            }
            continue;
        }
        if checks_last || !rest.is_empty() {
            check_permissions(&next, &seen)?;
        }
        here = next;
    }
    Ok(())
}

/// Returns the components of a path, without the root and `.`.
fn parts(path: &Path) -> VecDeque<OsString> {
    let named = |part: &Component| matches!(part, Component::Normal(_) | Component::ParentDir);
    path.components().filter(named).map(|part| part.as_os_str().to_owned()).collect()
}

fn metadata(path: &Path) -> Result<Metadata> {
    fs::symlink_metadata(path).map_err(|error| unreadable(path, error))
}

fn unreadable(path: &Path, error: io::Error) -> Untrusted {
    Untrusted::Failed { what: format!("cannot read {}", path.display()), error }
}

fn check_permissions(path: &Path, status: &Metadata) -> Result {
    check_owner(path, status)?;
    let is_sticky = status.is_dir() && status.mode() & 0o1000 != 0;
    let by_group = status.mode() & 0o020 != 0 && status.gid() != getegid().as_raw();
    if !is_sticky && (by_group || status.mode() & 0o002 != 0) {
        return Err(Untrusted::Writable(path.display().to_string()));
    }
    Ok(())
}

fn check_owner(path: &Path, status: &Metadata) -> Result {
    if status.uid() == 0 || status.uid() == geteuid().as_raw() {
        return Ok(());
    }
    Err(Untrusted::OtherOwner { path: path.display().to_string(), user: status.uid() })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        io::Write,
        os::unix::fs::{PermissionsExt, chown, symlink},
        process::Command,
    };

    fn mode(path: &Path, mode: u32) {
        fs::set_permissions(path, fs::Permissions::from_mode(mode)).unwrap();
    }

    /// Creates a folder and a file in it that only we can write.
    fn place() -> (tempfile::TempDir, PathBuf) {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("rules.toml");
        fs::write(&file, "").unwrap();
        mode(&file, 0o644);
        (folder, file)
    }

    #[test]
    fn a_file_that_others_can_write_or_replace_is_not_trusted() {
        let (folder, file) = place();
        check(&file).unwrap();
        mode(&file, 0o646);
        assert!(check(&file).unwrap_err().to_string().contains("rules.toml: others can write it"));
        mode(&file, 0o644);
        mode(folder.path(), 0o777);
        assert!(check(&file).unwrap_err().to_string().contains("others can write it"));
        mode(folder.path(), 0o1777);
        check(&file).unwrap();
        assert!(check(&folder.path().join("absent")).unwrap_err().to_string().starts_with("cannot read"));
    }

    #[test]
    fn a_link_is_as_safe_as_the_folders_on_both_sides_of_it() {
        let (folder, file) = place();
        let open = folder.path().join("open");
        fs::create_dir(&open).unwrap();
        mode(&open, 0o777);
        let (link, through) = (folder.path().join("link"), open.join("link"));
        symlink(&file, &link).unwrap();
        check(&link).unwrap();
        // The second link is in a folder where any user can replace it.
        symlink(&file, &through).unwrap();
        fs::remove_file(&link).unwrap();
        symlink("open/../open/link", &link).unwrap();
        assert!(check(&link).unwrap_err().to_string().contains("open: others can write it"));
        fs::remove_file(&link).unwrap();
        symlink("link", &link).unwrap();
        assert!(check(&link).unwrap_err().to_string().contains("too many symbolic links"));
    }

    #[test]
    fn only_regular_files_of_this_user_are_written() {
        let (folder, file) = place();
        writeln!(append(&file).unwrap(), "one").unwrap();
        writeln!(append(&file).unwrap(), "two").unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "one\ntwo\n");
        let at = |name: &str| folder.path().join(name);
        symlink(&file, at("link")).unwrap();
        fs::hard_link(&file, at("second")).unwrap();
        assert!(Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
        for name in ["link", "second", "fifo", "."] {
            assert!(
                append(&at(name))
                    .unwrap_err()
                    .to_string()
                    .contains("a regular file of this user is expected"),
                "{name}"
            );
        }
        let made = at("made");
        append(&made).unwrap();
        assert_eq!(fs::metadata(&made).unwrap().mode() & 0o007, 0);
        assert_eq!(fs::read_to_string(&file).unwrap(), "one\ntwo\n");
    }

    #[test]
    fn a_program_is_the_file_and_not_the_name() {
        let folder = tempfile::tempdir().unwrap();
        let sleep = Command::new("sh").args(["-c", "command -v sleep"]).output().unwrap().stdout;
        let sleep = PathBuf::from(String::from_utf8(sleep).unwrap().trim());
        let (own, other) = (folder.path().join("sshd"), folder.path().join("other"));
        for path in [&own, &other] {
            // A copy that this process makes could be open for writing in a child of another test.
            assert!(Command::new("cp").arg(&sleep).arg(path).status().unwrap().success());
        }
        let mut child = Command::new(&own).arg("60").spawn().unwrap();
        let pid = child.id();
        let seen =
            [runs_file(pid, &own), runs_file(pid, &other), runs_file(pid, Path::new("/usr/sbin/sshd"))];
        // An update: the new file replaces the one that is running.
        fs::rename(&other, &own).unwrap();
        let updated = runs_file(pid, &own);
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!((seen, updated), ([true, false, false], true));
    }

    #[test]
    fn files_and_folders_of_others_are_not_trusted() {
        let (folder, file) = place();
        if chown(&file, Some(65_534), None).is_err() {
            eprintln!("SKIPPED: only root can give a file away");
            return;
        }
        assert!(check(&file).unwrap_err().to_string().contains("it belongs to user 65534"));
        assert!(append(&file).unwrap_err().to_string().contains("a regular file of this user is expected"));
        // The owner of a folder can replace it with a link at any time; a file directly in it is checked
        // after it is opened.
        chown(folder.path(), Some(65_534), None).unwrap();
        assert!(append(&folder.path().join("new")).is_ok());
        fs::create_dir(folder.path().join("below")).unwrap();
        assert!(
            append(&folder.path().join("below/new"))
                .unwrap_err()
                .to_string()
                .contains("it belongs to user 65534")
        );
    }
}
