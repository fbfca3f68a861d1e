//! `manycore spawn` that is interrupted or killed leaves no process, control group, file or journal.
#![allow(clippy::unwrap_used, reason = "a test may stop anywhere")]

mod common;

use common::study::{Bench, has, signal, unique, until};
use std::{
    fs,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

/// A run under way, whose processes can be told from all others.
struct Under {
    bench: Bench,
    mark: String,
    child: Child,
}

impl Under {
    /// Starts a run and waits until `program` works for it.
    fn way(program: &str, arguments: &[&str]) -> Self {
        let bench = Bench::new();
        let mark = format!("MANYCORE_TEST={}", unique());
        fs::create_dir(bench.path("scratch")).unwrap();
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("manycore"));
        command.args(["spawn", "--out", "out", "--scratch", "scratch"]).args(arguments);
        let (name, value) = mark.split_once('=').unwrap();
        command.env(name, value).env("MANYCORE_STATE", bench.path("state")).current_dir(bench.0.path());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let under = Self { bench, mark, child };
        until("the runtime", || under.processes().iter().any(|(_, line)| line.contains(program)));
        under
    }

    /// Processes of the run that live, with their command lines.
    fn processes(&self) -> Vec<(u32, String)> {
        let mut found = Vec::new();
        for entry in fs::read_dir("/proc").unwrap().flatten() {
            let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
            let read = |file: &str| fs::read(entry.path().join(file)).unwrap_or_default();
            if read("environ").split(|byte| *byte == 0).any(|one| one == self.mark.as_bytes()) {
                found.push((pid, String::from_utf8_lossy(&read("cmdline")).replace('\0', " ")));
            }
        }
        found
    }

    /// Control groups that its journal names.
    fn groups(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.bench.path("state")).into_iter().flatten().flatten();
        let text: String = files.filter_map(|file| fs::read_to_string(file.path()).ok()).collect();
        let paths = text.split('"').filter(|word| word.contains("/manycore-spawn-"));
        paths.map(PathBuf::from).collect()
    }

    /// Waits until nothing of it is there.
    fn nothing_is_left(&self, groups: &[PathBuf]) {
        until("the end of all its processes", || self.processes().is_empty());
        let empty = |name: &str| fs::read_dir(self.bench.path(name)).map_or(0, Iterator::count) == 0;
        assert!(empty("scratch"), "files are left");
        assert!(empty("state"), "a journal is left");
        for group in groups {
            assert!(!group.exists(), "{} is left", group.display());
        }
    }
}

/// What is under way when the end comes: the program's mark, and the run.
const WORKS: [(&str, &[&str], &[&str]); 4] = [
    (
        "manycore_light",
        &["--runtime", "beam", "--counts", "3000", "--work", "spin", "--for", "1h"],
        &["erl", "erlc"],
    ),
    ("light processes", &["--runtime", "processes", "--counts", "100", "--work", "io", "--for", "1h"], &[]),
    ("light threads", &["--runtime", "threads", "--counts", "500", "--work", "io", "--for", "1h"], &[]),
    ("light tokio", &["--runtime", "tokio", "--counts", "5000", "--work", "spin", "--for", "1h"], &[]),
];

fn here() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    let installed = |programs: &[&str]| programs.iter().all(|program| has(program));
    WORKS.into_iter().filter(move |(_, _, needs)| installed(needs)).map(|(mark, run, _)| (mark, run))
}

#[test]
fn an_interrupted_run_keeps_what_it_has_and_leaves_nothing_else() {
    for (program, arguments) in here() {
        let mut under = Under::way(program, arguments);
        let groups = under.groups();
        signal(under.child.id(), "INT");
        assert_eq!(under.child.wait().unwrap().code(), Some(130), "{program}");
        under.nothing_is_left(&groups);
        // It may have come before the runtime had said what it is.
        if under.bench.path("out").exists() {
            let record = under.bench.record();
            assert_eq!(record["interrupted"], true);
            assert_eq!(record["spawnings"][0]["runs"][0]["ending"]["kind"], "interrupted", "{record}");
        }
    }
}

#[test]
fn a_killed_run_leaves_nothing() {
    for (program, arguments) in here() {
        let mut under = Under::way(program, arguments);
        let groups = under.groups();
        signal(under.child.id(), "KILL");
        under.child.wait().unwrap();
        under.nothing_is_left(&groups);
    }
}
