//! The machine that the command line means: a live or copied tree, a saved capture, or Machine JSON.

use crate::{
    cli::Source,
    failure::{Failure, Outcome},
};
use manycore_host::{
    Tree,
    capture::{CAPTURE_SCHEMA, Capture},
};
use manycore_model::{Machine, machine::MACHINE_SCHEMA};
use std::path::Path;

/// Longest Machine JSON; that of 4,096 CPUs has two megabytes.
const LARGEST_JSON: u64 = 64 << 20;

/// Reads the machine that `--root` or `--machine` name; without either, this one.
///
/// # Errors
/// [`Failure::Input`] where the folder or file describes no machine.
pub fn machine(source: &Source) -> Outcome<Machine> {
    match source.machine.as_deref() {
        Some(path) if !is_capture(path) => from_json(path),
        _ => read(&tree(source)?),
    }
}

/// The machine that this program runs on.
///
/// # Errors
/// [`Failure::Input`] where its sysfs or procfs cannot be read.
pub fn live() -> Outcome<Machine> {
    read(&Tree::open(Path::new("/")).map_err(Failure::input)?)
}

/// The same as [`machine`], and all files that were read for it, which are enough to read it again elsewhere.
///
/// # Errors
/// As [`machine`]; also where the machine comes from JSON, which no files were read for.
pub fn machine_and_files(source: &Source) -> Outcome<(Machine, Capture)> {
    if let Some(path) = source.machine.as_deref().filter(|path| path.exists() && !is_capture(path)) {
        return Err(Failure::input(format!(
            "{} is no capture: --save keeps the kernel's files, and Machine JSON has none",
            path.display()
        )));
    }
    let tree = tree(source)?.recording();
    let machine = read(&tree)?;
    Ok((machine, tree.recorded().unwrap_or_default()))
}

fn tree(source: &Source) -> Outcome<Tree> {
    Tree::open(source.machine.as_ref().unwrap_or(&source.root)).map_err(Failure::input)
}

fn read(tree: &Tree) -> Outcome<Machine> {
    manycore_host::read(tree).map_err(Failure::input)
}

/// Whether a file begins like a capture of any version.
fn is_capture(path: &Path) -> bool {
    use std::io::Read;
    let mark = CAPTURE_SCHEMA.trim_end_matches(|c: char| c.is_ascii_digit());
    let mut start = vec![0; mark.len()];
    std::fs::File::open(path).and_then(|mut file| file.read_exact(&mut start)).is_ok()
        && start == mark.as_bytes()
}

fn from_json(path: &Path) -> Outcome<Machine> {
    let shown = path.display();
    let cannot = |error: &dyn std::fmt::Display| Failure::input(format!("cannot read {shown}: {error}"));
    let metadata = std::fs::metadata(path).map_err(|error| cannot(&error))?;
    if !metadata.is_file() || metadata.len() > LARGEST_JSON {
        return Err(Failure::input(format!(
            "{shown} is not a machine: expected a file that 'manycore topo' wrote"
        )));
    }
    let text = std::fs::read_to_string(path).map_err(|error| cannot(&error))?;
    parse(&text).map_err(|problem| Failure::input(format!("{shown} is not a machine: {problem}")))
}

/// Machine JSON of the version that this program reads. The schema is looked at before the rest, so that a
/// file of another kind is called what it is.
fn parse(text: &str) -> Result<Machine, String> {
    let value: serde_json::Value = serde_json::from_str(text)
        .map_err(|error| format!("neither '{CAPTURE_SCHEMA}' nor JSON ({error})"))?;
    match value.get("schema").and_then(serde_json::Value::as_str) {
        Some(MACHINE_SCHEMA) => serde_json::from_value(value).map_err(|error| error.to_string()),
        Some(other) if other.starts_with("manycore/machine/") => {
            Err(format!("schema {other} is newer than this program, which reads {MACHINE_SCHEMA}"))
        }
        Some(other) => Err(format!("schema is {other:?}, expected {MACHINE_SCHEMA:?}")),
        None => Err(format!("no \"schema\" in it, expected {MACHINE_SCHEMA:?}")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn other_files_are_called_what_they_are() {
        for (text, problem) in [
            ("x", "neither '# manycore/capture/1' nor JSON (expected value at line 1 column 1)"),
            ("{}", "no \"schema\" in it, expected \"manycore/machine/1\""),
            (
                r#"{"schema": "manycore/machine/2"}"#,
                "schema manycore/machine/2 is newer than this program, which reads manycore/machine/1",
            ),
            (
                r#"{"schema": "manycore/record/1"}"#,
                "schema is \"manycore/record/1\", expected \"manycore/machine/1\"",
            ),
            (r#"{"schema": "manycore/machine/1"}"#, "missing field `system`"),
        ] {
            assert_eq!(parse(text).unwrap_err(), problem);
        }
    }
}
