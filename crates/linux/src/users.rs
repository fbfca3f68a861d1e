//! Names of users, from a file as `/etc/passwd`.
//!
//! Users of directory services are not in it. Asking for them (`getpwuid(3)`) loads libraries and can wait for a network.

use manycore_text::names::printable;
use std::{
    collections::BTreeMap,
    fs::{self, File, Metadata},
    io::Read,
    path::PathBuf,
    sync::Arc,
};

/// Longest file that is read, in bytes.
const LONGEST: u64 = 16 << 20;
/// Longest name that is kept, in characters; that of useradd(8).
const LONGEST_NAME: usize = 32;

/// The names, read again when the file has changed.
#[derive(Debug)]
pub struct Users {
    path: PathBuf,
    /// What the file was when it was read.
    about: Option<Metadata>,
    names: Arc<BTreeMap<u32, Arc<str>>>,
}

impl Default for Users {
    /// The users of this system.
    fn default() -> Self {
        Self::of("/etc/passwd".into())
    }
}

impl Users {
    /// The users of such a file.
    pub fn of(path: PathBuf) -> Self {
        Self { path, about: None, names: Arc::default() }
    }

    /// Returns the names by numbers, printable and of at most 32 characters. There are none without the file.
    pub fn names(&mut self) -> Arc<BTreeMap<u32, Arc<str>>> {
        let about = fs::metadata(&self.path).ok().filter(Metadata::is_file);
        let key = |about: &Metadata| (about.modified().ok(), about.len());
        if about.as_ref().map(key) != self.about.as_ref().map(key) {
            self.names = Arc::new(if about.is_some() { self.read() } else { BTreeMap::new() });
            self.about = about;
        }
        Arc::clone(&self.names)
    }

    fn read(&self) -> BTreeMap<u32, Arc<str>> {
        let mut bytes = Vec::new();
        let read = File::open(&self.path).and_then(|file| file.take(LONGEST).read_to_end(&mut bytes));
        if read.is_err() {
            return BTreeMap::new();
        }
        parse(&String::from_utf8_lossy(&bytes))
    }
}

/// The first name of a number counts, as for `getpwuid(3)`.
fn parse(text: &str) -> BTreeMap<u32, Arc<str>> {
    let mut names = BTreeMap::new();
    for line in text.lines() {
        let mut fields = line.split(':');
        let (Some(name), Some(uid)) = (fields.next(), fields.nth(1)) else { continue };
        if let (false, Ok(uid)) = (name.is_empty(), uid.parse()) {
            let name = || printable(&name.chars().take(LONGEST_NAME).collect::<String>());
            names.entry(uid).or_insert_with(|| name().into());
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_printable_name_of_a_number_counts() {
        let names = parse("root:x:0:0:root:/root:/bin/sh\ntoor:x:0:0\n#\n:x:5:\nevil\x1b[2J:x:7:\nx:x:-1:\n");
        let names: Vec<(u32, &str)> = names.iter().map(|(uid, name)| (*uid, &**name)).collect();
        assert_eq!(names, [(0, "root"), (7, "evil\u{fffd}[2J")]);
        assert_eq!(parse(&format!("{}:x:1:", "a".repeat(99)))[&1].len(), 32);
    }

    #[test]
    fn a_file_that_changes_is_read_again_and_one_that_is_missing_has_no_names() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("passwd");
        let mut users = Users::of(path.clone());
        assert!(users.names().is_empty());
        fs::write(&path, "one:x:1:\n").unwrap();
        assert_eq!(&*users.names()[&1], "one");
        fs::write(&path, "other:x:1:\n").unwrap();
        assert_eq!(&*users.names()[&1], "other");
        fs::remove_file(&path).unwrap();
        assert!(users.names().is_empty());
    }
}
