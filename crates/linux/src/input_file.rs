//! Reads input files: bounded, and JSON by the kind that its `schema` field names.
//!
//! Every JSON file that this program writes has a field `schema` with the value `manycore/KIND/VERSION`.
//! [`load`] checks it before the rest, so that the error for another kind of file names that kind.

use manycore_text::units;
use rustix::fs::OFlags;
use serde::{
    Deserialize,
    de::{DeserializeOwned, IgnoredAny},
};
use serde_json::{Value, error::Category};
use std::{
    fs::{self, File},
    io::{self, Read},
    os::unix::fs::{FileTypeExt, OpenOptionsExt},
    path::{Path, PathBuf},
};

/// A kind of JSON file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileKind {
    /// Its name in messages: `record`.
    pub name: &'static str,
    /// The value of its `schema` field: `manycore/record/1`.
    pub schema: &'static str,
    /// What such a file is, or which command writes it, at the end of a sentence.
    pub origin: &'static str,
    /// Size limit in bytes.
    pub max_bytes: u64,
}

/// Why an input file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum InputError {
    /// The file cannot be opened or read.
    #[error("cannot read {}: {problem}", path.display())]
    Unreadable {
        /// The file.
        path: PathBuf,
        /// Why.
        problem: ReadProblem,
    },
    /// The file was read and does not hold what was expected.
    #[error("{}: {problem}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        problem: ContentProblem,
    },
}

/// Why a file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum ReadProblem {
    /// The kernel refused it.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// A directory or a device, some of which never end.
    #[error("it is not a regular file or pipe (use - for standard input)")]
    NotAFile,
    /// It is longer than the limit.
    #[error("it is longer than {}", units::bytes(*.0))]
    TooLong(u64),
}

/// What is wrong with the contents of a file.
#[derive(Debug, thiserror::Error)]
pub enum ContentProblem {
    /// There is nothing in it.
    #[error("the file is empty; expected {}", described(.0))]
    Empty(&'static FileKind),
    /// The JSON ends in the middle.
    #[error("the {} is truncated ({error}); copy the file again", kind.name)]
    Truncated {
        /// The expected kind.
        kind: &'static FileKind,
        /// Where it ends.
        error: serde_json::Error,
    },
    /// It is not JSON.
    #[error("not JSON ({error}); expected {}", described(kind))]
    NotJson {
        /// The expected kind.
        kind: &'static FileKind,
        /// Where the syntax is wrong.
        error: serde_json::Error,
    },
    /// JSON that does not name its kind.
    #[error("JSON, but not {}: it has no \"schema\" (expected {:?})", indefinite(.0.name), .0.schema)]
    NoSchema(&'static FileKind),
    /// The right kind in a version that this program does not know.
    #[error(
        "the {} has schema {found:?}, written by a newer manycore (this one reads {:?}); update this one",
        kind.name, kind.schema
    )]
    Newer {
        /// The expected kind.
        kind: &'static FileKind,
        /// The `schema` of the file.
        found: String,
    },
    /// A file of this program of another kind.
    #[error("this is {} ({found:?}); expected {}", indefinite(found_kind), described(kind))]
    OtherKind {
        /// The expected kind.
        kind: &'static FileKind,
        /// The kind that the file names.
        found_kind: String,
        /// The `schema` of the file.
        found: String,
    },
    /// A `schema` that is not of this program.
    #[error("unknown schema {found:?}; expected {:?}", kind.schema)]
    UnknownSchema {
        /// The expected kind.
        kind: &'static FileKind,
        /// The `schema` of the file.
        found: String,
    },
    /// The right kind with fields that are missing, of another type or impossible.
    #[error("damaged {}: {why}", kind.name)]
    Damaged {
        /// The expected kind.
        kind: &'static FileKind,
        /// Which field, and where.
        why: String,
    },
}

/// Puts `a` or `an` before a name.
fn indefinite(name: &str) -> String {
    let article = if name.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" };
    format!("{article} {name}")
}

fn described(kind: &FileKind) -> String {
    format!("{} ({:?}): {}", indefinite(kind.name), kind.schema, kind.origin)
}

/// Returns the contents of a file or pipe, or of standard input if `path` is `-`. Devices are refused, as
/// some of them never end.
///
/// # Errors
/// [`InputError::Unreadable`], also above `max_bytes`.
pub fn read(path: &Path, max_bytes: u64) -> Result<Vec<u8>, InputError> {
    bounded(path, max_bytes).map_err(|problem| InputError::Unreadable { path: path.to_owned(), problem })
}

/// Returns the contents of a regular file that a directory is known to have. Pipes, which may never end, are refused.
///
/// # Errors
/// As [`read`].
fn read_regular(path: &Path, max_bytes: u64) -> Result<Vec<u8>, InputError> {
    let read = || {
        // A pipe that is opened like this has an end at once.
        let file = File::options().read(true).custom_flags(OFlags::NONBLOCK.bits() as i32).open(path)?;
        if !file.metadata()?.is_file() {
            return Err(ReadProblem::NotAFile);
        }
        up_to(max_bytes, file)
    };
    read().map_err(|problem| InputError::Unreadable { path: path.to_owned(), problem })
}

/// As [`load`], of a file that was found in a directory: pipes are refused.
///
/// # Errors
/// As [`load`].
pub fn load_found<T: DeserializeOwned>(path: &Path, kind: &'static FileKind) -> Result<T, InputError> {
    parse(&read_regular(path, kind.max_bytes)?, kind).map_err(|problem| problem.in_file(path))
}

fn up_to(max_bytes: u64, source: impl Read) -> Result<Vec<u8>, ReadProblem> {
    let mut bytes = Vec::new();
    let count = source.take(max_bytes + 1).read_to_end(&mut bytes)? as u64;
    if count > max_bytes { Err(ReadProblem::TooLong(max_bytes)) } else { Ok(bytes) }
}

fn bounded(path: &Path, max_bytes: u64) -> Result<Vec<u8>, ReadProblem> {
    if path == Path::new("-") {
        return up_to(max_bytes, io::stdin().lock());
    }
    let file_type = fs::metadata(path)?.file_type();
    if file_type.is_dir() || file_type.is_char_device() || file_type.is_block_device() {
        return Err(ReadProblem::NotAFile);
    }
    up_to(max_bytes, File::open(path)?)
}

/// Reads a JSON file of the given kind, or standard input if `path` is `-`.
///
/// # Errors
/// Those of [`read`], and [`InputError::Unusable`] if it is of another kind or damaged.
pub fn load<T: DeserializeOwned>(path: &Path, kind: &'static FileKind) -> Result<T, InputError> {
    let bytes = read(path, kind.max_bytes)?;
    parse(&bytes, kind).map_err(|problem| problem.in_file(path))
}

/// Parses JSON of the given kind. The schema is checked before the rest.
///
/// # Errors
/// What is wrong with the contents.
pub fn parse<T: DeserializeOwned>(bytes: &[u8], kind: &'static FileKind) -> Result<T, ContentProblem> {
    #[derive(Deserialize)]
    struct Head {
        schema: Option<Value>,
    }
    if bytes.iter().all(u8::is_ascii_whitespace) {
        return Err(ContentProblem::Empty(kind));
    }
    serde_json::from_slice::<IgnoredAny>(bytes).map_err(|error| match error.classify() {
        Category::Eof => ContentProblem::Truncated { kind, error },
        Category::Syntax | Category::Data | Category::Io => ContentProblem::NotJson { kind, error },
    })?;
    // Other JSON than an object has no schema either.
    let head: Option<Head> = serde_json::from_slice(bytes).ok();
    let schema = head.and_then(|head| head.schema);
    check_schema(schema.as_ref().and_then(Value::as_str), kind)?;
    serde_json::from_slice(bytes).map_err(|error| ContentProblem::damaged(kind, &error.to_string()))
}

fn check_schema(found: Option<&str>, kind: &'static FileKind) -> Result<(), ContentProblem> {
    let Some(found) = found else { return Err(ContentProblem::NoSchema(kind)) };
    if found == kind.schema {
        return Ok(());
    }
    let parts = |schema: &str| -> Option<(String, u64)> {
        let (name, version) = schema.strip_prefix("manycore/")?.rsplit_once('/')?;
        Some((name.to_owned(), version.parse().ok()?))
    };
    let found_schema = found.to_owned();
    Err(match (parts(found), parts(kind.schema)) {
        (Some((name, version)), Some((expected, known))) if name == expected && version > known => {
            ContentProblem::Newer { kind, found: found_schema }
        }
        (Some((name, _)), Some((expected, _))) if name != expected => {
            ContentProblem::OtherKind { kind, found_kind: name, found: found_schema }
        }
        _ => ContentProblem::UnknownSchema { kind, found: found_schema },
    })
}

impl ContentProblem {
    /// A file of the right kind that cannot be what the program wrote.
    pub fn damaged(kind: &'static FileKind, why: &str) -> Self {
        Self::Damaged { kind, why: why.to_owned() }
    }

    /// The error for the file at `path`.
    pub fn in_file(self, path: &Path) -> InputError {
        InputError::Unusable { path: path.to_owned(), problem: self }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KIND: FileKind =
        FileKind { name: "record", schema: "manycore/record/2", origin: "written by a test", max_bytes: 100 };

    #[derive(Debug, PartialEq, Deserialize)]
    struct Contents {
        figure: u64,
    }

    /// Regression test: a pipe in a directory of results was waited for without end.
    #[test]
    fn a_pipe_that_was_found_is_refused_at_once() {
        let folder = tempfile::tempdir().unwrap();
        let pipe = folder.path().join("record.json");
        rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::RUSR).unwrap();
        let error = load_found::<Contents>(&pipe, &KIND).unwrap_err().to_string();
        assert!(error.contains("not a regular file"), "{error}");
        fs::remove_file(&pipe).unwrap();
        fs::write(&pipe, r#"{"schema": "manycore/record/2", "figure": 7}"#).unwrap();
        assert_eq!(load_found::<Contents>(&pipe, &KIND).unwrap(), Contents { figure: 7 });
    }

    #[test]
    fn files_of_other_kinds_are_named_in_errors() {
        for (text, problem) in [
            (" \n", "the file is empty; expected a record (\"manycore/record/2\"): written by a test"),
            (
                "{\"schema\"",
                "the record is truncated (EOF while parsing an object at line 1 column 9); copy the file again",
            ),
            (
                "x",
                "not JSON (expected value at line 1 column 1); expected a record (\"manycore/record/2\"): written by a test",
            ),
            ("{}", "JSON, but not a record: it has no \"schema\" (expected \"manycore/record/2\")"),
            ("[1, 2]", "JSON, but not a record: it has no \"schema\" (expected \"manycore/record/2\")"),
            (
                "{\"schema\": 7}",
                "JSON, but not a record: it has no \"schema\" (expected \"manycore/record/2\")",
            ),
            (
                "{\"schema\": \"manycore/record/3\"}",
                "the record has schema \"manycore/record/3\", written by a newer manycore (this one reads \"manycore/record/2\"); update this one",
            ),
            (
                "{\"schema\": \"manycore/evaluation/1\"}",
                "this is an evaluation (\"manycore/evaluation/1\"); expected a record (\"manycore/record/2\"): written by a test",
            ),
            ("{\"schema\": \"else\"}", "unknown schema \"else\"; expected \"manycore/record/2\""),
            (
                "{\"schema\": \"manycore/record/1\"}",
                "unknown schema \"manycore/record/1\"; expected \"manycore/record/2\"",
            ),
            (
                "{\"schema\": \"manycore/record/2\"}",
                "damaged record: missing field `figure` at line 1 column 31",
            ),
        ] {
            assert_eq!(parse::<Contents>(text.as_bytes(), &KIND).unwrap_err().to_string(), problem);
        }
        let right = b"{\"figure\": 3, \"schema\": \"manycore/record/2\"}";
        assert_eq!(parse::<Contents>(right, &KIND).unwrap(), Contents { figure: 3 });
    }

    #[test]
    fn files_are_bounded_and_devices_are_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long");
        fs::write(&path, " ".repeat(101)).unwrap();
        let problem = |path: &Path| load::<Contents>(path, &KIND).unwrap_err().to_string();
        assert_eq!(problem(&path), format!("cannot read {}: it is longer than 100 B", path.display()));
        assert!(problem(Path::new("/dev/zero")).contains("not a regular file or pipe"));
        assert!(problem(folder.path()).contains("not a regular file or pipe"));
        assert!(problem(Path::new("/nonexistent")).contains("cannot read /nonexistent: No such file"));
    }
}
