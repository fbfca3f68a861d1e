//! Names of code that was generated at run time, for example by a virtual machine's compiler. They come from
//! the map or the dump that the runtime writes for profilers.
//!
//! These files were written by the observed program, or by another user under the expected name, and are not
//! trusted: only names are used, and only for addresses that were seen.

mod dump;
mod map;

use crate::sharing::{Frame, Process};
use manycore_linux::trusted_file;
use std::{
    collections::{BTreeMap, BTreeSet},
    io::Read,
    os::unix::fs::MetadataExt,
    path::Path,
    time::{Duration, SystemTime},
};

/// Maximum number of bytes that are read of such a file.
const MAX_BYTES: u64 = 256 << 20;

/// Maximum number of characters of a name.
const MAX_NAME_CHARS: usize = 300;

/// Names by address.
pub(super) type Names = BTreeMap<u64, Frame>;

/// Returns the names of those `addresses` that are generated code of a process, which started at most `age` ago.
pub(super) fn names(process: &Process, addresses: &BTreeSet<u64>, age: Duration) -> Names {
    let mut names = Names::new();
    if addresses.is_empty() {
        return names;
    }
    let earliest = SystemTime::now().checked_sub(age).unwrap_or(SystemTime::UNIX_EPOCH);
    // This is where perf looks for it (`tools/perf/Documentation/jit-interface.txt`).
    let map_file = format!("/tmp/perf-{}.map", process.pid);
    if let Some(text) = read(Path::new(&map_file), earliest) {
        map::add_names(&text, addresses, &mut names);
    }
    // A runtime maps its dump into memory so that profilers find it (`jitdump-specification.txt`).
    let is_dump = |path: &&str| {
        let name = path.rsplit('/').next().unwrap_or_default();
        name == format!("jit-{}.dump", process.pid)
    };
    let mut paths: Vec<&str> =
        process.modules.iter().map(|module| module.path.as_str()).filter(is_dump).collect();
    paths.dedup();
    for path in paths {
        if let Some(bytes) = read(Path::new(path), earliest) {
            dump::add_names(&bytes, addresses, &mut names);
        }
    }
    names
}

/// Reads a regular file of our user that was modified since `earliest`. Symbolic links are not followed.
fn read(path: &Path, earliest: SystemTime) -> Option<Vec<u8>> {
    let file = trusted_file::open_own(path).ok()?;
    let status = file.metadata().ok()?;
    if status.nlink() != 1 || status.modified().ok()? < earliest {
        return None;
    }
    let mut bytes = Vec::new();
    file.take(MAX_BYTES).read_to_end(&mut bytes).ok()?;
    Some(bytes)
}

/// Returns a name with control characters replaced and the length limited.
fn printable_name(name: &[u8]) -> String {
    let text = String::from_utf8_lossy(&name[..name.len().min(4 * MAX_NAME_CHARS)]);
    text.chars().map(|letter| if letter.is_control() { '?' } else { letter }).take(MAX_NAME_CHARS).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{fs, os::unix::fs::symlink};

    #[test]
    fn links_pipes_and_old_files_are_not_read() {
        let folder = tempfile::tempdir().unwrap();
        let (file, link, pipe) =
            (folder.path().join("file"), folder.path().join("link"), folder.path().join("pipe"));
        fs::write(&file, "10 10 name\n").unwrap();
        symlink(&file, &link).unwrap();
        assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
        assert_eq!(read(&file, SystemTime::UNIX_EPOCH).as_deref(), Some(&b"10 10 name\n"[..]));
        for none in [&link, &pipe, folder.path(), Path::new("/dev/zero"), Path::new("/no/such")] {
            assert_eq!(read(none, SystemTime::UNIX_EPOCH), None, "{}", none.display());
        }
        assert_eq!(read(&file, SystemTime::now() + Duration::from_mins(1)), None);
        fs::hard_link(&file, folder.path().join("second")).unwrap();
        assert_eq!(read(&file, SystemTime::UNIX_EPOCH), None, "another name may be another owner's doing");
    }

    #[test]
    fn names_are_shown_harmless_and_short() {
        assert_eq!(printable_name(b"a\x1b[31mb\n\xff"), "a?[31mb?\u{fffd}");
        assert_eq!(printable_name(&vec![b'x'; 1 << 20]).len(), MAX_NAME_CHARS);
    }
}
