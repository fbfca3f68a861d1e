//! Files that only root and the user of this process can have chosen: what a tool that runs as root reads its orders
//! from, and where it writes.

use rustix::{
    fs::{Mode, OFlags, open},
    io::Errno,
    process::{getegid, geteuid},
};
use std::{
    collections::VecDeque,
    ffi::OsString,
    fs::{self, File, Metadata},
    os::unix::fs::MetadataExt,
    path::{Component, Path, PathBuf},
};

/// Symbolic links on the way to a file at most, as in the kernel (`MAXSYMLINKS`).
const MOST_LINKS: usize = 40;

/// Whether the contents of a file are safe from others: it and each folder on the way to it belong to root or to the
/// user of this process, and can be written by no other user or group. A folder with the sticky bit (`/tmp`) may be
/// written by all, because nothing in it can be replaced by others. A relative path begins in the current folder,
/// whose own way is not looked at: it stays the same folder wherever it is moved to.
///
/// # Errors
/// The file or folder that others can change, and how to change that; or what cannot be looked at.
pub fn check(path: &Path) -> Result<(), String> {
    walk(path, true)
}

/// Whether a path leads where it says: no other user can put a link or another folder in its way. Its last folder may be
/// one that others write to.
///
/// # Errors
/// As [`check`].
pub fn check_way(path: &Path) -> Result<(), String> {
    match path.parent().filter(|folder| !folder.as_os_str().is_empty()) {
        Some(folder) => walk(folder, false),
        None => Ok(()),
    }
}

/// Opens a regular file of the user of this process to read it. The path may have been chosen by others: a link is not
/// followed, and a FIFO or device neither opened for good nor waited for.
///
/// # Errors
/// In words: it is a link, no regular file or another user's, or why it cannot be opened.
pub fn open_own(path: &Path) -> Result<File, String> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC;
    let file = File::from(open(path, flags, Mode::empty()).map_err(|error| match error {
        Errno::LOOP => "it is a link".to_owned(),
        error => error.to_string(),
    })?);
    let about = file.metadata().map_err(|error| error.to_string())?;
    if !about.is_file() {
        return Err("it is no regular file".to_owned());
    }
    let user = geteuid().as_raw();
    if about.uid() != user {
        return Err(format!("it is user {}'s, not user {user}'s", about.uid()));
    }
    Ok(file)
}

/// Opens a file to add lines to it, or makes it. Whatever others have put there is refused: symbolic links, FIFOs,
/// devices, files of others and files with a second name.
///
/// # Errors
/// As [`check_way`], what of this it is, or why it cannot be opened.
pub fn append(path: &Path) -> Result<File, String> {
    let place = path.display();
    check_way(path)?;
    // A FIFO is opened without waiting for a reader.
    let flags = OFlags::WRONLY
        | OFlags::APPEND
        | OFlags::CREATE
        | OFlags::NOFOLLOW
        | OFlags::NONBLOCK
        | OFlags::NOCTTY
        | OFlags::CLOEXEC;
    let kind = fs::symlink_metadata(path).map(|about| about.file_type());
    let usual = format!("{place}: a regular file of this user is expected, or none");
    if kind.as_ref().is_ok_and(|kind| !kind.is_file()) {
        return Err(usual);
    }
    let file = open(path, flags, Mode::RUSR | Mode::WUSR | Mode::RGRP);
    let file = File::from(file.map_err(|error| format!("cannot write {place}: {error}"))?);
    let about = file.metadata().map_err(|error| format!("cannot write {place}: {error}"))?;
    if !about.is_file() || about.uid() != geteuid().as_raw() || about.nlink() != 1 {
        return Err(usual);
    }
    Ok(file)
}

/// Whether a process runs the file at a path, by what the kernel says (`/proc/PID/exe`) and not by its name or
/// arguments: the file that is there now; or one that was there and was replaced since (an update), as seen by a
/// process with the file systems of process 1 or our own. In other mount namespaces a user may put any file at any path.
pub fn program(pid: u32, path: &Path) -> bool {
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

/// Follows a path part by part, as the kernel does.
fn walk(path: &Path, is_last_looked_at: bool) -> Result<(), String> {
    let mut here = PathBuf::from(if path.is_absolute() { "/" } else { "." });
    let mut rest: VecDeque<OsString> = parts(path);
    let mut links = 0;
    if is_last_looked_at || !rest.is_empty() {
        look(&here, &about(&here)?)?;
    }
    while let Some(part) = rest.pop_front() {
        let next = here.join(&part);
        let seen = about(&next)?;
        if seen.is_symlink() {
            links += 1;
            if links > MOST_LINKS {
                return Err(format!("{}: too many symbolic links", path.display()));
            }
            // In a folder that all may write to, a link is its owner's.
            owner(&next, &seen)?;
            let target = fs::read_link(&next).map_err(|error| format!("{}: {error}", next.display()))?;
            if target.is_absolute() {
                here = PathBuf::from("/");
                look(&here, &about(&here)?)?;
            }
            for part in parts(&target).into_iter().rev() {
                rest.push_front(part);
            }
            continue;
        }
        if is_last_looked_at || !rest.is_empty() {
            look(&next, &seen)?;
        }
        here = next;
    }
    Ok(())
}

/// Without the root and `.`.
fn parts(path: &Path) -> VecDeque<OsString> {
    let named = |part: &Component| matches!(part, Component::Normal(_) | Component::ParentDir);
    path.components().filter(named).map(|part| part.as_os_str().to_owned()).collect()
}

fn about(path: &Path) -> Result<Metadata, String> {
    fs::symlink_metadata(path).map_err(|error| format!("cannot read {}: {error}", path.display()))
}

fn look(path: &Path, about: &Metadata) -> Result<(), String> {
    owner(path, about)?;
    let is_sticky = about.is_dir() && about.mode() & 0o1000 != 0;
    let by_group = about.mode() & 0o020 != 0 && about.gid() != getegid().as_raw();
    if !is_sticky && (by_group || about.mode() & 0o002 != 0) {
        return Err(format!("{}: others can write it; chmod go-w {0}", path.display()));
    }
    Ok(())
}

fn owner(path: &Path, about: &Metadata) -> Result<(), String> {
    if about.uid() == 0 || about.uid() == geteuid().as_raw() {
        return Ok(());
    }
    Err(format!(
        "{}: it belongs to user {}, who can change it; chown it, or name another",
        path.display(),
        about.uid()
    ))
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

    /// A folder and a file in it that only we can write.
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
        assert_eq!(check(&file), Ok(()));
        mode(&file, 0o646);
        assert!(check(&file).unwrap_err().contains("rules.toml: others can write it"));
        mode(&file, 0o644);
        mode(folder.path(), 0o777);
        assert!(check(&file).unwrap_err().contains("others can write it"));
        mode(folder.path(), 0o1777);
        assert_eq!(check(&file), Ok(()));
        assert!(check(&folder.path().join("absent")).unwrap_err().starts_with("cannot read"));
    }

    #[test]
    fn a_link_is_as_safe_as_the_folders_on_both_sides_of_it() {
        let (folder, file) = place();
        let open = folder.path().join("open");
        fs::create_dir(&open).unwrap();
        mode(&open, 0o777);
        let (link, through) = (folder.path().join("link"), open.join("link"));
        symlink(&file, &link).unwrap();
        assert_eq!(check(&link), Ok(()));
        // The second link could be replaced by anybody.
        symlink(&file, &through).unwrap();
        fs::remove_file(&link).unwrap();
        symlink("open/../open/link", &link).unwrap();
        assert!(check(&link).unwrap_err().contains("open: others can write it"));
        fs::remove_file(&link).unwrap();
        symlink("link", &link).unwrap();
        assert!(check(&link).unwrap_err().contains("too many symbolic links"));
    }

    #[test]
    fn what_is_not_our_own_regular_file_is_not_written() {
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
                append(&at(name)).unwrap_err().contains("a regular file of this user is expected"),
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
            fs::copy(&sleep, path).unwrap();
        }
        let mut child = Command::new(&own).arg("60").spawn().unwrap();
        let pid = child.id();
        let seen = [program(pid, &own), program(pid, &other), program(pid, Path::new("/usr/sbin/sshd"))];
        // An update: the new file takes the place of the one that runs.
        fs::rename(&other, &own).unwrap();
        let updated = program(pid, &own);
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
        assert!(check(&file).unwrap_err().contains("it belongs to user 65534"));
        assert!(append(&file).unwrap_err().contains("a regular file of this user is expected"));
        // A folder that is not ours can be made a link at any time; what is directly in it is looked at when it is open.
        chown(folder.path(), Some(65_534), None).unwrap();
        assert!(append(&folder.path().join("new")).is_ok());
        fs::create_dir(folder.path().join("below")).unwrap();
        assert!(append(&folder.path().join("below/new")).unwrap_err().contains("it belongs to user 65534"));
    }
}
