//! Tests that `manycore spawn`, when interrupted or killed, leaves no process, control group, file or
//! journal.

use crate::common::study::{WorkFolder, has, signal, unique, until};
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::PathBuf,
    process::{Child, Command, Stdio},
};

/// A run in progress. Its processes are identified by a mark in their environment.
struct RunningSpawn {
    work: WorkFolder,
    mark: String,
    child: Child,
}

impl RunningSpawn {
    /// Starts a run and waits until `program` runs for it.
    fn start(program: &str, arguments: &[&str]) -> Self {
        Self::start_in(WorkFolder::new(), program, arguments)
    }

    /// The same in a given directory, whose `bin` is searched for programs first.
    fn start_in(work: WorkFolder, program: &str, arguments: &[&str]) -> Self {
        let path = std::env::var("PATH").unwrap();
        let mark = format!("MANYCORE_TEST={}", unique());
        fs::create_dir(work.path("scratch")).unwrap();
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("manycore"));
        command.args(["spawn", "--out", "out", "--scratch", "scratch"]).args(arguments);
        let (name, value) = mark.split_once('=').unwrap();
        command.env(name, value).env("MANYCORE_STATE", work.path("state")).current_dir(work.0.path());
        command.env("PATH", format!("{}:{path}", work.path("bin").display()));
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let spawn = Self { work, mark, child };
        until("the runtime", || spawn.processes().iter().any(|(_, line)| line.contains(program)));
        spawn
    }

    /// Returns the live processes of the run, with their command lines.
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

    /// Returns the control groups in its journal.
    fn groups(&self) -> Vec<PathBuf> {
        let files = fs::read_dir(self.work.path("state")).into_iter().flatten().flatten();
        let text: String = files.filter_map(|file| fs::read_to_string(file.path()).ok()).collect();
        let paths = text.split('"').filter(|word| word.contains("/manycore-spawn-"));
        paths.map(PathBuf::from).collect()
    }

    /// Waits until nothing of the run is left.
    fn wait_until_nothing_is_left(&self, groups: &[PathBuf]) {
        until("the end of all its processes", || self.processes().is_empty());
        let empty = |name: &str| fs::read_dir(self.work.path(name)).map_or(0, Iterator::count) == 0;
        assert!(empty("scratch"), "files are left");
        assert!(empty("state"), "a journal is left");
        for group in groups {
            assert!(!group.exists(), "{} is left", group.display());
        }
    }
}

/// Runs to interrupt: a mark on the program's command line, the arguments, the required programs.
const WORKS: [(&str, &[&str], &[&str]); 4] = [
    (
        "manycore_light",
        &["--runtime", "beam", "--counts", "3000", "--work", "spin", "--work-time", "1h"],
        &["erl", "erlc"],
    ),
    (
        "light processes",
        &["--runtime", "processes", "--counts", "100", "--work", "io", "--work-time", "1h"],
        &[],
    ),
    ("light threads", &["--runtime", "threads", "--counts", "500", "--work", "io", "--work-time", "1h"], &[]),
    ("light tokio", &["--runtime", "tokio", "--counts", "5000", "--work", "spin", "--work-time", "1h"], &[]),
];

fn installed_works() -> impl Iterator<Item = (&'static str, &'static [&'static str])> {
    let installed = |programs: &[&str]| programs.iter().all(|program| has(program));
    WORKS.into_iter().filter(move |(_, _, needs)| installed(needs)).map(|(mark, run, _)| (mark, run))
}

#[test]
fn an_interrupted_run_keeps_what_it_has_and_leaves_nothing_else() {
    for (program, arguments) in installed_works() {
        let mut spawn = RunningSpawn::start(program, arguments);
        let groups = spawn.groups();
        signal(spawn.child.id(), "INT");
        assert_eq!(spawn.child.wait().unwrap().code(), Some(130), "{program}");
        spawn.wait_until_nothing_is_left(&groups);
        // The signal may arrive before the runtime has sent its first message.
        if spawn.work.path("out").exists() {
            let record = spawn.work.record();
            assert_eq!(record["interrupted"], true);
            assert_eq!(record["light_processes"][0]["runs"][0]["ending"]["kind"], "interrupted", "{record}");
        }
    }
}

#[test]
fn silent_compiler_does_not_block_interrupt() {
    let work = WorkFolder::new();
    fs::create_dir(work.path("bin")).unwrap();
    for name in ["erl", "erlc"] {
        let file = work.path("bin").join(name);
        fs::write(&file, "#!/bin/sh\nexec sleep 77777\n").unwrap();
        fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let mut spawn = RunningSpawn::start_in(work, "sleep 77777", &["--runtime", "beam", "--counts", "10"]);
    signal(spawn.child.id(), "INT");
    assert_eq!(spawn.child.wait().unwrap().code(), Some(130));
    spawn.wait_until_nothing_is_left(&[]);
}

#[test]
fn a_killed_run_leaves_nothing() {
    for (program, arguments) in installed_works() {
        let mut spawn = RunningSpawn::start(program, arguments);
        let groups = spawn.groups();
        signal(spawn.child.id(), "KILL");
        spawn.child.wait().unwrap();
        spawn.wait_until_nothing_is_left(&groups);
    }
}
