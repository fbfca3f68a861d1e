//! What a test finds in a directory.

use std::{fs, io, path::Path};

/// Returns the names of the entries of a directory, sorted.
///
/// # Panics
/// If the directory cannot be read.
#[allow(clippy::panic, reason = "a test fails there")]
pub fn names_in(folder: &Path) -> Vec<String> {
    let names = || -> io::Result<Vec<String>> {
        fs::read_dir(folder)?.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    };
    let mut names = names().unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    names.sort();
    names
}
