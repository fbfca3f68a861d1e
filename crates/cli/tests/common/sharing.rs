//! Helpers for tests of `falseshare`: programs with known sharing, built when they are needed.

use super::manycore;
use serde_json::Value;
use std::{
    fs,
    path::{Path, PathBuf},
    process::{Command, Output},
    sync::OnceLock,
    time::Duration,
};
use tempfile::TempDir;

/// Maximum run time of a program, on a machine that is busy with other tests.
const LIMIT: Duration = Duration::from_mins(5);

/// Returns the path of a source file.
pub fn source(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/sharing").join(name)
}

/// Returns the number of the line with a marker, `/* A */` or `// A`.
pub fn marked(name: &str, marker: &str) -> u64 {
    let text = fs::read_to_string(source(name)).unwrap();
    let marks = [format!("/* {marker} */"), format!("// {marker}")];
    let at = text.lines().position(|line| marks.iter().any(|mark| line.ends_with(mark)));
    at.unwrap_or_else(|| panic!("{name} has no marker {marker}")) as u64 + 1
}

/// Whether programs can be observed here; reports it if not.
pub fn can_emulate() -> bool {
    let found = manycore_falseshare::emulator::find();
    if let Err(error) = &found {
        println!("SKIPPED: {error}");
    }
    found.is_ok()
}

/// A directory for programs that exists as long as the tests.
fn folder() -> &'static Path {
    static FOLDER: OnceLock<TempDir> = OnceLock::new();
    FOLDER.get_or_init(|| tempfile::tempdir().unwrap()).path()
}

/// Builds a program under a name of its own; reports why if there is none.
pub fn build(compiler: &str, arguments: &[&str], name: &str) -> Option<PathBuf> {
    if !can_emulate() {
        return None;
    }
    let program = folder().join(name);
    let run = Command::new(compiler).args(arguments).arg("-o").arg(&program).output();
    match run {
        Err(_) => {
            eprintln!("SKIPPED: {compiler} is not installed");
            None
        }
        Ok(run) => {
            assert!(run.status.success(), "{compiler}: {}", String::from_utf8_lossy(&run.stderr));
            Some(program)
        }
    }
}

/// Builds the cases in C with other compiler flags.
pub fn c(flags: &[&str], name: &str) -> Option<PathBuf> {
    let source = source("cases.c");
    build("gcc", &[&["-g", "-pthread", source.to_str().unwrap()], flags].concat(), name)
}

/// Returns the cases in C with the usual flags, built once.
pub fn plain() -> Option<&'static Path> {
    static PROGRAM: OnceLock<Option<PathBuf>> = OnceLock::new();
    PROGRAM.get_or_init(|| c(&["-O2"], "cases")).as_deref()
}

/// Runs `manycore falseshare ARGUMENTS -- PROGRAM CASE`.
pub fn falseshare(arguments: &[&str], program: &Path, case: &str) -> Output {
    manycore()
        .args(["falseshare", "--quiet"])
        .args(arguments)
        .arg("--")
        .arg(program)
        .arg(case)
        .timeout(LIMIT)
        .output()
        .unwrap()
}

/// Returns the exit code and the findings of a case.
pub fn findings_of(arguments: &[&str], program: &Path, case: &str) -> (Option<i32>, Value) {
    let run = falseshare(&[&["--format", "json"], arguments].concat(), program, case);
    // The output of the program comes before the JSON.
    let text = String::from_utf8(run.stdout).unwrap();
    let json = text.find("{\n").and_then(|at| serde_json::from_str(&text[at..]).ok());
    let said = String::from_utf8_lossy(&run.stderr);
    let json = json.unwrap_or_else(|| panic!("{case}: {text}\n{said}"));
    super::schema::assert_valid("falseshare", &json);
    (run.status.code(), json)
}

/// Returns the lines of a source file that a finding lists as code.
pub fn lines(finding: &Value, file: &str) -> Vec<u64> {
    let sites = finding["sites"].as_array().unwrap().iter();
    let frames = sites
        .map(|site| &site["frame"])
        .filter(|frame| frame["file"].as_str().is_some_and(|path| path.ends_with(file)));
    let mut lines: Vec<u64> = frames.filter_map(|frame| frame["line"].as_u64()).collect();
    lines.sort_unstable();
    lines.dedup();
    lines
}

/// Returns the only finding of a list.
pub fn only<'a>(findings: &'a Value, list: &str) -> &'a Value {
    let list = findings[list].as_array().unwrap();
    assert_eq!(list.len(), 1, "{findings:#}");
    &list[0]
}

/// Asserts that nothing is found, also by the exit code.
pub fn assert_clean(program: &Path, case: &str) {
    let (code, findings) = findings_of(&[], program, case);
    assert_eq!((code, &findings["false_sharing"]), (Some(0), &Value::Array(vec![])), "{case}: {findings:#}");
}
