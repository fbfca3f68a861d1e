//! `scripts/need` with fake installers that only record what they should install, and what `scripts/test` says of results.

use crate::common::text;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};
use tempfile::TempDir;

/// The first folder in PATH, with programs that replace those of the machine.
struct Programs(TempDir);

impl Programs {
    fn new() -> Self {
        let programs = Self(tempfile::tempdir().unwrap());
        programs.add("id", "echo 0");
        programs.add("cargo", "echo cargo 9999.0.0");
        programs.add("apt-get", &format!("echo \"$@\" >>{}/installed", programs.0.path().display()));
        programs
    }

    fn add(&self, name: &str, script: &str) {
        let path = self.0.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    fn need(&self, step: &str) -> Output {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/need");
        let path = format!("{}:{}", self.0.path().display(), std::env::var("PATH").unwrap());
        Command::new("timeout").arg("120").arg(script).arg(step).env("PATH", path).output().unwrap()
    }

    /// Returns the contents of a file that a program wrote.
    fn written(&self, name: &str) -> String {
        fs::read_to_string(self.0.path().join(name)).unwrap_or_default()
    }
}

#[test]
fn a_compiler_that_cannot_link_needs_the_c_library() {
    let programs = Programs::new();
    programs.add("cc", "echo 'cannot find Scrt1.o' >&2\nexit 1");
    let run = programs.need("build");
    let installed = programs.written("installed");
    assert!(installed.lines().any(|line| line.ends_with("gcc libc6-dev")), "{installed}");
    // Nothing was really installed, which is an error that states its reason.
    let said = text(&run.stderr);
    assert_eq!(run.status.code(), Some(3), "{said}");
    assert!(said.contains("cannot find Scrt1.o") && said.contains("libc6-dev"), "{said}");
}

#[test]
fn a_compiler_that_links_needs_nothing() {
    let programs = Programs::new();
    // Creates the file after -o, as a linker does.
    programs.add("cc", "shift\n: >\"$1\"");
    let run = programs.need("build");
    assert!(run.status.success(), "{}", text(&run.stderr));
    assert_eq!(programs.written("installed"), "");
}

#[test]
fn targets_that_rust_has_not_got_are_added() {
    let programs = Programs::new();
    programs.add("rustc", "echo /nonexistent");
    programs.add("rustup", &format!("echo \"$@\" >>{}/added", programs.0.path().display()));
    let run = programs.need("test");
    let added = programs.written("added");
    assert!(added.contains("target add aarch64-unknown-linux-gnu\n"), "{added}: {}", text(&run.stderr));
    assert!(added.contains("-unknown-linux-musl\n"), "{added}");
}

#[test]
fn a_target_that_cannot_be_added_is_named_and_stops_nothing() {
    let programs = Programs::new();
    programs.add("rustc", "exit 1");
    programs.add("rustup", "echo 'error: no way to the server' >&2\nexit 1");
    let run = programs.need("test");
    let said = text(&run.stderr);
    assert!(run.status.success(), "{said}");
    assert!(said.contains("could not add aarch64-unknown-linux-gnu (error: no way to the server)"), "{said}");
}

/// Results of four tests, as cargo-nextest writes them.
const RESULTS: &str = r#"<?xml version="1.0" encoding="UTF-8"?>
<testsuites name="nextest-run" tests="4" failures="1" errors="0">
  <testsuite name="one::integration" tests="3">
    <testcase name="quick" classname="one::integration" time="0.25"><system-out>fine</system-out></testcase>
    <testcase name="rules::broken" classname="one::integration" time="1.5">
      <failure message="it broke" type="test failure">panicked</failure>
    </testcase>
    <testcase name="lucky" classname="one::integration" time="2">
      <flakyFailure message="late" type="test failure"/>
    </testcase>
  </testsuite>
  <testsuite name="two" tests="1">
    <testcase name="absent" classname="two" time="0.5"><system-err>SKIPPED: no such program</system-err></testcase>
  </testsuite>
</testsuites>
"#;

/// Runs `scripts/test-results` on a folder with these results and logs of other parts.
fn results(command: &str, xml: Option<&str>) -> Output {
    let target = tempfile::tempdir().unwrap();
    let folders = ["nextest/default", "test"].map(|name| target.path().join(name));
    for folder in &folders {
        fs::create_dir_all(folder).unwrap();
    }
    if let Some(xml) = xml {
        fs::write(folders[0].join("results.xml"), xml).unwrap();
    }
    fs::write(folders[1].join("rust.log"), "").unwrap();
    fs::write(folders[1].join("page.log"), "== page\nSKIPPED: chromium is not installed\n").unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/test-results");
    Command::new(script).arg(command).arg(target.path()).output().unwrap()
}

#[test]
fn failed_tests_are_named_for_the_next_run() {
    let run = results("failed", Some(RESULTS));
    assert_eq!(
        (run.status.code(), text(&run.stdout).trim()),
        (Some(0), "rust one::integration rules::broken")
    );
    // Nothing was run, since building failed.
    let run = results("failed", None);
    assert_eq!((run.status.code(), text(&run.stdout).trim()), (Some(1), ""));
}

#[test]
fn the_summary_of_tests_has_the_slowest_the_repeated_and_the_skipped() {
    let run = results("summary", Some(RESULTS));
    let said = text(&run.stdout);
    let expected = "Rust tests: 4, 4 s in all. The slowest:\n    2.0 s  one::integration lucky\n    1.5 s  one::integration rules::broken\n";
    assert!(said.starts_with(expected), "{said}");
    assert!(said.contains("Passed only when repeated:\n  one::integration lucky\n"), "{said}");
    let skipped = "Skipped:\n  page: chromium is not installed\n  two absent: no such program\n";
    assert!(said.ends_with(skipped), "{said}");
}

#[test]
fn the_table_of_tests_has_a_row_for_each_binary() {
    let run = results("table", Some(RESULTS));
    let rows = "| one::integration | 3 | 3.8 | lucky (2.0 s) |\n| two | 1 | 0.5 | absent (0.5 s) |\n";
    assert!(text(&run.stdout).ends_with(rows), "{}", text(&run.stdout));
}
