//! Cache of the programs compiled for runtimes, in `manycore` below `XDG_CACHE_HOME` or `~/.cache`.
//!
//! An entry is a directory. It is built under a temporary name and renamed when complete, so that concurrent
//! runs do not disturb each other. Its name is derived from the source and the compiler's version. Beside the
//! compiled files it holds a list of them with checksums; a damaged entry is compiled again. Files of the
//! cache are executed, also by root: the directory is used only if no user other than the current one and
//! root can write to it or to any of its parents.

use crate::error::{Error, Result};
use rustix::process::getuid;
use std::{
    collections::hash_map::DefaultHasher,
    env, fs,
    hash::Hasher,
    io,
    os::unix::fs::{DirBuilderExt, MetadataExt},
    path::{Path, PathBuf},
    time::Duration,
};
use tempfile::TempDir;

/// Name of the file with the list of files of an entry.
const LIST: &str = "entry";

/// Prefixes of the names of entries that are being built or removed.
const TEMPORARY_PREFIXES: [&str; 2] = [".new-", ".old-"];

/// Age from which an entry that is being built or removed is a leftover of a killed run. Compilers may take
/// minutes.
const LEFTOVER_AGE: Duration = Duration::from_hours(1);

/// The cache of compiled programs.
pub struct ProgramCache {
    folder: PathBuf,
    /// Temporary directory that stands in for a cache; removed when this value is dropped.
    _own: Option<TempDir>,
}

impl ProgramCache {
    /// Opens the cache of the current user, or a temporary directory for this run if there is no safe cache
    /// directory.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the temporary directory cannot be created either.
    pub fn open() -> Result<Self> {
        let home = |name: &str| env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let above = home("XDG_CACHE_HOME").or_else(|| home("HOME").map(|home| home.join(".cache")));
        let folder = above.map(|above| above.join("manycore"));
        if let Some(folder) = folder.filter(|folder| make_private(folder).is_ok()) {
            remove_leftovers(&folder, LEFTOVER_AGE);
            return Ok(Self { folder, _own: None });
        }
        let own = tempfile::Builder::new().prefix("manycore-").tempdir();
        let own = own.map_err(|error| {
            Error::unavailable(format!("cannot create a directory for compiled programs: {error}"))
        })?;
        Ok(Self { folder: own.path().to_owned(), _own: Some(own) })
    }

    /// Returns the directory with the output of `compile` for `source`. Compiles now if the entry is missing
    /// or damaged. `key` is the compiler's version and everything else that affects the output.
    ///
    /// # Errors
    /// Those of `compile`; [`Error::Unavailable`] if files cannot be written.
    pub fn get(
        &self,
        name: &str,
        source: &str,
        key: &str,
        compile: impl FnOnce(&Path) -> Result,
    ) -> Result<PathBuf> {
        let key = format!("{name}\n{key}\n{source}");
        let entry = self.folder.join(format!("{name}-{:016x}", hash(key.as_bytes())));
        let first = hash(key.as_bytes()).to_string();
        if is_whole(&entry, &first) {
            return Ok(entry);
        }
        let cannot =
            |error: io::Error| Error::unavailable(format!("cannot write {}: {error}", entry.display()));
        let new = tempfile::Builder::new()
            .prefix(TEMPORARY_PREFIXES[0])
            .tempdir_in(&self.folder)
            .map_err(cannot)?;
        compile(new.path())?;
        let list = list(new.path(), &first).map_err(cannot)?;
        fs::write(new.path().join(LIST), list).map_err(cannot)?;
        // Another run may have stored the same entry meanwhile, which is equally good. A damaged entry is
        // moved away first.
        for _ in 0..2 {
            if fs::rename(new.path(), &entry).is_ok() {
                // The directory no longer has its temporary name, so dropping it must not delete anything.
                let _ = new.keep();
                return Ok(entry);
            }
            if is_whole(&entry, &first) {
                return Ok(entry);
            }
            let old = tempfile::Builder::new()
                .prefix(TEMPORARY_PREFIXES[1])
                .tempdir_in(&self.folder)
                .map_err(cannot)?;
            let _ = fs::rename(&entry, old.path());
        }
        // Another process damages the entry while this run reads it: this run uses its own copy.
        Ok(new.keep())
    }
}

/// Creates a directory that only the current user can enter, and checks that other users cannot replace its
/// parents.
fn make_private(folder: &Path) -> io::Result<()> {
    fs::DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
    let folder = fs::canonicalize(folder)?;
    let owner = fs::metadata(&folder)?.uid();
    if owner != getuid().as_raw() || !folder.ancestors().all(is_safe) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    tempfile::tempfile_in(&folder).map(drop)
}

/// Removes entries that killed runs have left and that are at least `age` old.
fn remove_leftovers(folder: &Path, age: Duration) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = entry.file_name();
        let is_temporary = TEMPORARY_PREFIXES.iter().any(|prefix| name.to_string_lossy().starts_with(prefix));
        let changed = entry.metadata().and_then(|about| about.modified());
        if is_temporary && changed.is_ok_and(|time| time.elapsed().is_ok_and(|since| since >= age)) {
            let _ = fs::remove_dir_all(entry.path());
        }
    }
}

/// Returns whether only root and the current user can replace what is in a directory.
fn is_safe(folder: &Path) -> bool {
    const STICKY: u32 = 0o1000;
    fs::metadata(folder).is_ok_and(|about| {
        let ours = [0, getuid().as_raw()].contains(&about.uid());
        ours && (about.mode() & 0o022 == 0 || about.mode() & STICKY != 0)
    })
}

/// Detects damage. It is no protection against attackers, who cannot write here.
fn hash(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// Returns the list of all files in a directory with their checksums, after the line `first`.
fn list(folder: &Path, first: &str) -> io::Result<String> {
    let mut lines = Vec::new();
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        let name = entry.file_name().to_string_lossy().into_owned();
        if name != LIST && entry.file_type()?.is_file() {
            lines.push(format!("{name} {:016x}\n", hash(&fs::read(entry.path())?)));
        }
    }
    lines.sort();
    Ok(format!("{first}\n{}", lines.concat()))
}

fn is_whole(folder: &Path, first: &str) -> bool {
    let stored = fs::read_to_string(folder.join(LIST));
    stored.is_ok_and(|stored| list(folder, first).is_ok_and(|list| list == stored))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    fn cache(folder: &Path) -> ProgramCache {
        ProgramCache { folder: folder.to_owned(), _own: None }
    }

    fn put(cache: &ProgramCache, key: &str, text: &str) -> (PathBuf, bool) {
        let mut compiled = false;
        let place = cache.get("x", "source", key, |folder| {
            compiled = true;
            fs::write(folder.join("program"), text).map_err(Error::unavailable)
        });
        (place.unwrap(), compiled)
    }

    #[test]
    fn entry_is_reused_until_source_or_compiler_changes() {
        let folder = tempfile::tempdir().unwrap();
        let cache = cache(folder.path());
        let (place, compiled) = put(&cache, "1", "a");
        assert!(compiled && fs::read_to_string(place.join("program")).unwrap() == "a");
        assert_eq!(put(&cache, "1", "b"), (place.clone(), false));
        assert!(put(&cache, "2", "c").1, "another compiler");
        for damage in
            [|path: &Path| fs::write(path, "").unwrap(), |path: &Path| fs::remove_file(path).unwrap()]
        {
            damage(&place.join("program"));
            assert_eq!(put(&cache, "1", "d"), (place.clone(), true));
            assert_eq!(fs::read_to_string(place.join("program")).unwrap(), "d");
        }
        let names = fs::read_dir(folder.path()).unwrap().count();
        assert_eq!(names, 2, "nothing else is left");
    }

    #[test]
    fn a_failed_compilation_leaves_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let failed = cache(folder.path()).get("x", "", "", |_| Err(Error::unavailable("no")));
        assert!(failed.is_err() && fs::read_dir(folder.path()).unwrap().count() == 0);
    }

    #[test]
    fn old_leftovers_are_removed() {
        let folder = tempfile::tempdir().unwrap();
        fs::create_dir_all(folder.path().join(".new-abc/parts")).unwrap();
        fs::create_dir(folder.path().join("go-1")).unwrap();
        remove_leftovers(folder.path(), LEFTOVER_AGE);
        assert!(folder.path().join(".new-abc").exists(), "another run may be making it");
        remove_leftovers(folder.path(), Duration::ZERO);
        assert!(!folder.path().join(".new-abc").exists() && folder.path().join("go-1").exists());
    }

    #[test]
    fn concurrent_runs_get_the_same_entry() {
        let folder = tempfile::tempdir().unwrap();
        let places: Vec<PathBuf> = std::thread::scope(|scope| {
            let runs: Vec<_> =
                (0..8).map(|_| scope.spawn(|| put(&cache(folder.path()), "1", "same").0)).collect();
            runs.into_iter().map(|run| run.join().unwrap()).collect()
        });
        assert!(places.iter().all(|place| place == &places[0] && place.join("program").exists()));
    }

    #[test]
    fn a_folder_that_others_can_write_to_is_not_used() {
        let folder = tempfile::tempdir().unwrap();
        let (open, inner) = (folder.path().join("open"), folder.path().join("open/manycore"));
        fs::create_dir(&open).unwrap();
        make_private(&inner).unwrap();
        assert_eq!(fs::metadata(&inner).unwrap().mode() & 0o777, 0o700);
        fs::set_permissions(&open, fs::Permissions::from_mode(0o777)).unwrap();
        assert!(make_private(&inner).is_err());
    }
}
