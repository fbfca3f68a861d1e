//! Where results go: standard output and files that are either whole or absent.

use crate::failure::{Failure, Outcome};
use manycore_text::names::{printable_json, printable_text};
use serde::Serialize;
use std::{
    fs::{self, File, Metadata, Permissions},
    io::{self, ErrorKind, IsTerminal, Write},
    os::{
        fd::AsFd,
        unix::fs::{MetadataExt, PermissionsExt, fchown},
    },
    path::Path,
};

/// Writes `text` to standard output; a reader that went away ends the run quietly. A terminal gets it without what
/// would command it ([`printable_text`]), wherever in the text that comes from; a file or a program gets all of it.
///
/// # Errors
/// [`Failure::ReaderGone`] on a closed pipe, [`Failure::Missing`] on any other error.
pub fn print(text: &str) -> Outcome {
    if io::stdout().is_terminal() { print_raw(&printable_text(text)) } else { print_raw(text) }
}

/// Writes `text`, which commands the terminal itself, to standard output.
///
/// # Errors
/// Those of [`print()`].
pub fn print_raw(text: &str) -> Outcome {
    let mut out = io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| failure("to standard output", &error))
}

/// `value` as JSON that people can read too, with a last newline.
///
/// # Errors
/// [`Failure::Missing`] where it cannot be put into JSON.
pub fn json(value: &impl Serialize) -> Outcome<String> {
    serde_json::to_string_pretty(value).map(|json| printable_json(&json) + "\n").map_err(Failure::missing)
}

/// Prints a line for people on standard error, in which names that others have chosen cannot command the terminal.
/// Where nobody can read it, nothing is lost: the run goes on.
pub fn note(line: &str) {
    let _ = writeln!(io::stderr(), "{}", printable_text(line));
}

/// Writes a file whole or not at all: to a temporary file beside it, then renamed over it. A symbolic link
/// stays one, and the file behind it is written. What is there and is no regular file (`/dev/stdout`, a
/// FIFO, a device) is opened and written in place.
///
/// An older file keeps its permissions; a new one has those that the umask leaves.
///
/// # Errors
/// [`Failure::Missing`] with the path where the folder cannot be written or the disk is full: nothing is
/// left behind and an older file of that name stays as it was. [`Failure::ReaderGone`] where the path is a
/// pipe that was closed.
pub fn write_file(path: &Path, contents: &[u8]) -> Outcome {
    write(path, contents).map_err(|error| failure(&path.display().to_string(), &error))
}

/// Whether [`write_file`] could begin now: what is seen in a long run should not be lost for want of a place.
///
/// # Errors
/// [`Failure::Missing`] with the path where no file can be made beside it, or it cannot be looked at.
pub fn check_file(path: &Path) -> Outcome {
    let check = || match fs::metadata(path) {
        Ok(older) if older.is_dir() => Err(ErrorKind::IsADirectory.into()),
        Ok(older) if older.is_file() && held(&older)?.is_none() => {
            temporary(&fs::canonicalize(path)?, None).map(drop)
        }
        Ok(_) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound && !path.is_symlink() => {
            temporary(path, None).map(drop)
        }
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(error),
    };
    check().map_err(|error| failure(&path.display().to_string(), &error))
}

fn failure(place: &str, error: &io::Error) -> Failure {
    match error.kind() {
        ErrorKind::BrokenPipe => Failure::ReaderGone,
        _ => Failure::missing(format!("cannot write {place}: {error}")),
    }
}

fn write(path: &Path, contents: &[u8]) -> io::Result<()> {
    let older = match fs::metadata(path) {
        Ok(metadata) => metadata,
        Err(error) if error.kind() == ErrorKind::NotFound && path.is_symlink() => {
            return File::create(path)?.write_all(contents);
        }
        Err(error) if error.kind() == ErrorKind::NotFound => return replace(path, contents, None),
        Err(error) => return Err(error),
    };
    // What we hold already may have no name that can be opened (a socket, a deleted file), and a file that
    // the rest of the output goes to must not be replaced.
    if let Some(mut open) = held(&older)? {
        open.write_all(contents)
    } else if older.is_file() {
        replace(&fs::canonicalize(path)?, contents, Some(&older))
    } else {
        File::options().write(true).open(path)?.write_all(contents)
    }
}

/// Standard output or standard error, where that is the file meant.
fn held(wanted: &Metadata) -> io::Result<Option<File>> {
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

/// A file beside `path`, which takes its place later.
fn temporary(path: &Path, older: Option<&Metadata>) -> io::Result<tempfile::NamedTempFile> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".manycore-");
    if older.is_none() {
        // The kernel takes the umask off when it makes the file.
        builder.permissions(Permissions::from_mode(0o666));
    }
    // Its message would name the temporary file.
    builder.tempfile_in(folder).map_err(|error| error.kind().into())
}

/// Puts a whole file in the place of `older`.
fn replace(path: &Path, contents: &[u8], older: Option<&Metadata>) -> io::Result<()> {
    let mut file = temporary(path, older)?;
    file.write_all(contents)?;
    if let Some(older) = older {
        // Only root can give a file away; whoever else may replace one gets it, as with any editor.
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
        use std::os::unix::fs::FileTypeExt;
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("fifo");
        assert!(Command::new("mkfifo").arg(&path).status().unwrap().success());
        let reader = thread::spawn({
            let path = path.clone();
            move || fs::read_to_string(path).unwrap()
        });
        write_file(&path, b"through").unwrap();
        assert!(fs::symlink_metadata(&path).unwrap().file_type().is_fifo());
        assert_eq!(reader.join().unwrap(), "through");
    }

    #[test]
    fn a_link_stays_one_and_its_target_is_written() {
        let folder = tempfile::tempdir().unwrap();
        let (target, link) = (folder.path().join("target"), folder.path().join("link"));
        symlink("target", &link).unwrap();
        for contents in ["new", "newer"] {
            write_file(&link, contents.as_bytes()).unwrap();
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
            write_file(path, b"after").unwrap();
            assert_eq!(fs::read_to_string(path).unwrap(), "after");
        }
        assert_eq!(mode(&older), 0o600);
        assert_eq!(mode(&new), mode(&usual));
    }

    #[test]
    fn a_device_stays_one() {
        use std::os::unix::fs::FileTypeExt;
        let null = Path::new("/dev/null");
        write_file(null, b"away").unwrap();
        assert!(fs::symlink_metadata(null).unwrap().file_type().is_char_device());
        assert!(matches!(write_file(Path::new("/dev/full"), b"x"), Err(Failure::Missing(_))));
        assert!(fs::symlink_metadata("/dev/full").unwrap().file_type().is_char_device());
    }

    #[test]
    fn a_folder_is_no_file() {
        let folder = tempfile::tempdir().unwrap();
        assert!(matches!(write_file(folder.path(), b""), Err(Failure::Missing(_))));
        assert!(folder.path().is_dir());
    }
}
