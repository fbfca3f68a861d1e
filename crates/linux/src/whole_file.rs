//! Writes results: to standard output, and to files that are either complete or absent.

use rustix::process::geteuid;
use std::{
    error::Error,
    fs::{self, File, Metadata, Permissions},
    io::{self, ErrorKind, Write},
    os::{
        fd::AsFd,
        unix::fs::{FileTypeExt, MetadataExt, PermissionsExt, fchown},
    },
    path::Path,
};

/// Checks that `write` could start now, so that the results of a long run are not lost at its end.
///
/// # Errors
/// No file can be created in its folder, or its metadata cannot be read; it is a link of another user, or a block device.
pub fn check(path: &Path) -> io::Result<()> {
    check_link(path)?;
    match fs::metadata(path) {
        Ok(older) if older.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(older) if older.is_file() && open_stream(&older)?.is_none() => {
            temporary(&fs::canonicalize(path)?, None).map(drop)
        }
        Ok(older) => check_kind(&older),
        Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => {
            temporary(path, None).map(drop)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    }
}

/// Refuses, for root, a link of another user: in a directory of that user, it could name any file.
fn check_link(path: &Path) -> io::Result<()> {
    let Ok(link) = fs::symlink_metadata(path) else { return Ok(()) };
    if link.is_symlink() && geteuid().is_root() && link.uid() != 0 {
        return Err(io::Error::new(
            ErrorKind::PermissionDenied,
            "it is a symbolic link of another user: name the file itself",
        ));
    }
    Ok(())
}

/// Refuses what no result belongs into.
fn check_kind(about: &Metadata) -> io::Result<()> {
    if about.file_type().is_block_device() {
        return Err(io::Error::new(ErrorKind::InvalidInput, "it is a block device"));
    }
    Ok(())
}

/// Writes these contents, as [`write_with`].
///
/// # Errors
/// Those of [`write_with`].
pub fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    write_with(path, |file| file.write_all(contents))
}

/// Writes a file completely or not at all: to a temporary file in the same folder, which is then renamed. A
/// symbolic link stays, and its target is written. An existing path that is not a regular file
/// (`/dev/stdout`, a FIFO, a device) is opened and written in place.
///
/// An existing file keeps its permissions; a new one has those that the umask leaves.
///
/// # Errors
/// The folder cannot be written or the disk is full: nothing is left behind, and an existing file of that
/// name stays as it was. `EPIPE` if the path is a pipe that was closed. A block device is refused, and for root a
/// symbolic link of another user; the error of `contents`.
pub fn write_with(path: &Path, contents: impl FnOnce(&mut File) -> io::Result<()>) -> io::Result<()> {
    check_link(path)?;
    let older = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound && path.is_symlink() => {
            return contents(&mut File::create(path)?);
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return replace(path, contents, None),
        Err(error) => return Err(error),
    };
    // A stream that is open already may have no name that can be opened (a socket, a deleted file). A file
    // that receives the rest of the output must not be replaced.
    if let Some(mut open) = open_stream(&older)? {
        contents(&mut open)
    } else if older.is_file() {
        replace(&fs::canonicalize(path)?, contents, Some(&older))
    } else {
        check_kind(&older)?;
        contents(&mut File::options().write(true).open(path)?)
    }
}

/// Returns standard output or standard error, if that is the file with the metadata `wanted`.
fn open_stream(wanted: &Metadata) -> io::Result<Option<File>> {
    let (out, error) = (io::stdout(), io::stderr());
    for stream in [out.as_fd(), error.as_fd()] {
        let open = File::from(stream.try_clone_to_owned()?);
        let metadata = open.metadata()?;
        if (metadata.dev(), metadata.ino()) == (wanted.dev(), wanted.ino()) {
            return Ok(Some(open));
        }
    }
    Ok(None)
}

/// Creates a temporary file in the folder of `path`, to be renamed over it later.
fn temporary(path: &Path, older: Option<&Metadata>) -> io::Result<tempfile::NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".manycore-");
    if older.is_none() {
        // The kernel subtracts the umask when it creates the file.
        builder.permissions(Permissions::from_mode(0o666));
    }
    builder.tempfile_in(folder).map_err(|error| reason(&error, folder))
}

/// Returns why a temporary file cannot be created; the original message would name the file.
fn reason(error: &io::Error, folder: &Path) -> io::Error {
    if error.kind() == ErrorKind::NotFound {
        return io::Error::new(ErrorKind::NotFound, format!("there is no directory {}", folder.display()));
    }
    let cause = error.source().and_then(|cause| cause.downcast_ref::<io::Error>());
    let number = cause.and_then(io::Error::raw_os_error);
    number.map_or_else(|| error.kind().into(), io::Error::from_raw_os_error)
}

/// Replaces the file at `path`, whose metadata are `older`, by a complete new one.
fn replace(
    path: &Path,
    contents: impl FnOnce(&mut File) -> io::Result<()>,
    older: Option<&Metadata>,
) -> io::Result<()> {
    let mut file = temporary(path, older)?;
    contents(file.as_file_mut())?;
    if let Some(older) = older {
        // Only root can change the owner of a file. For other users who may replace it, the new file is their
        // own, as with any editor.
        let _ = fchown(file.as_file(), Some(older.uid()), Some(older.gid()));
        file.as_file().set_permissions(Permissions::from_mode(older.mode() & 0o777))?;
    }
    file.as_file().sync_all()?;
    file.persist(path)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{os::unix::fs::symlink, process::Command, thread};

    fn mode(path: &Path) -> u32 {
        fs::metadata(path).unwrap().mode() & 0o777
    }

    #[test]
    fn a_fifo_is_written_and_stays_one() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let reader = thread::spawn({
            let path = path.clone();
            move || fs::read_to_string(path).unwrap()
        });
        write(&path, b"through").unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().file_type().is_fifo());
        assert_eq!(reader.join().unwrap(), "through");
    }

    #[test]
    fn a_link_stays_one_and_its_target_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        symlink("target", &link).unwrap();
        for contents in ["new", "newer"] {
            write(&link, contents.as_bytes()).unwrap();
            assert_eq!(fs::read_link(&link).unwrap(), Path::new("target"));
            assert_eq!(fs::read_to_string(&target).unwrap(), contents);
        }
        assert!(fs::symlink_metadata(&target).unwrap().is_file());
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 2);
    }

    #[test]
    fn an_older_file_keeps_its_mode_and_a_new_one_has_the_usual() {
        let folder = tempfile::tempdir().unwrap();
        let [older, new, usual] = ["older", "new", "usual"].map(|name| folder.path().join(name));
        for path in [&older, &usual] {
            fs::write(path, "before").unwrap();
        }
        fs::set_permissions(&older, Permissions::from_mode(0o600)).unwrap();
        for path in [&older, &new] {
            write(path, b"after").unwrap();
            assert_eq!(fs::read_to_string(path).unwrap(), "after");
        }
        assert_eq!(mode(&older), 0o600);
        assert_eq!(mode(&new), mode(&usual));
    }

    #[test]
    fn a_link_of_another_user_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        symlink("target", &link).unwrap();
        if !geteuid().is_root() {
            eprintln!("SKIPPED a_link_of_another_user_is_refused: only root can change the owner of a link");
            return;
        }
        std::os::unix::fs::lchown(&link, Some(65_534), None).unwrap();
        for result in [check(&link), write(&link, b"x")] {
            assert_eq!(result.unwrap_err().kind(), ErrorKind::PermissionDenied);
        }
        assert!(!target.exists());
    }

    #[test]
    fn a_device_stays_one() {
        let null = Path::new("/dev/null");
        write(null, b"away").unwrap();
        assert!(fs::symlink_metadata(null).unwrap().file_type().is_char_device());
        assert!(write(Path::new("/dev/full"), b"x").is_err());
        assert!(fs::symlink_metadata("/dev/full").unwrap().file_type().is_char_device());
    }

    #[test]
    fn a_missing_folder_is_named() {
        let folder = tempfile::tempdir().unwrap();
        let missing = folder.path().join("none");
        let error = check(&missing.join("x")).unwrap_err();
        assert_eq!(error.to_string(), format!("there is no directory {}", missing.display()));
    }

    #[test]
    fn a_folder_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        assert!(write(folder.path(), b"").is_err());
        assert!(folder.path().is_dir());
    }
}
