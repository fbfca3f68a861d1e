//! Helpers for tests of `run`, `pin` and `undo`: a directory with journals of its own, and processes that end
//! with their
//! test.

use manycore_linux::{affinity, tasks};
use manycore_topology::CpuSet;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Maximum waiting time.
const MAX_WAIT: Duration = Duration::from_mins(3);

/// A directory with journals of its own.
pub struct TestHome(pub TempDir);

impl TestHome {
    pub fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("manycore"));
        command.args(arguments).current_dir(self.0.path()).env("MANYCORE_STATE", self.path("journals"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// Runs a measurement of `density` with its results in `found`. It is repeated while pairs did not count, because other
    /// work on the machine delayed the loads. `None` with a message if that was so for a minute and a half.
    pub fn undisturbed(&self, measure: impl Fn() -> Output) -> Option<Output> {
        let began = Instant::now();
        while began.elapsed() < Duration::from_secs(90) {
            let run = measure();
            let record = fs::read_to_string(self.path("found/record.json")).unwrap_or_default();
            if !run.status.success() || !record.contains("pairs do not count") {
                return Some(run);
            }
        }
        println!("SKIPPED: other work on this machine delayed the loads for a minute and a half");
        None
    }

    /// Returns the command `run` for a shell script on these CPUs.
    pub fn shell_on(&self, cpus: &CpuSet, script: &str) -> Command {
        let place = format!("cpus={cpus}");
        self.command(&["run", "--place", &place, "--workers", "1", "--", "sh", "-c", script])
    }

    /// Runs a command that must end with `code`; returns its standard error.
    pub fn stderr_of(&self, code: i32, arguments: &[&str]) -> String {
        let run = self.run(arguments);
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(code), "{arguments:?}: {said}");
        said
    }

    /// Whether no journal is left.
    pub fn is_clean(&self) -> bool {
        fs::read_dir(self.path("journals")).map_or(true, |entries| entries.count() == 0)
    }

    pub fn stay(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("stay.json")).unwrap()).unwrap()
    }
}

impl Drop for TestHome {
    /// Undoes all changes, even if the test fails.
    fn drop(&mut self) {
        if self.path("journals").is_dir() {
            let _ = self.command(&["undo"]).output();
        }
    }
}

/// A process that ends with its test.
pub struct KillOnDrop(pub Child);

impl KillOnDrop {
    /// Starts a shell that starts a sleeping child for each input line.
    pub fn shell() -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo ready; while read line; do sleep 1000 & echo $!; done"]);
        let mut guard = Self(shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        assert_eq!(guard.line(), "ready");
        guard
    }

    pub fn line(&mut self) -> String {
        let mut line = String::new();
        // A buffer of one byte, so that nothing of the next line is lost in it.
        BufReader::with_capacity(1, self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Makes the shell start a child; returns its id.
    pub fn child(&mut self) -> u32 {
        self.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
        self.line().parse().unwrap()
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    pub fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        for pid in tasks::with_descendants(&[self.pid()]) {
            let _ = Pid::from_raw(pid as i32).map(|pid| kill_process(pid, Signal::KILL));
        }
        let _ = self.0.wait();
    }
}

pub fn soon(what: &str, mut is_true: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < MAX_WAIT, "{what}: not in time");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Waits until nothing is left; says what is.
pub fn none_soon<T: std::fmt::Debug>(what: &str, left: impl Fn() -> Vec<T>) {
    let began = Instant::now();
    while let found @ [_, ..] = &left()[..] {
        assert!(began.elapsed() < MAX_WAIT, "{what}: {found:?}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the CPUs that the test may use, if there are at least two.
pub fn two_cpus() -> Option<CpuSet> {
    let cpus = affinity::allowed().unwrap();
    if cpus.len() < 2 {
        eprintln!("SKIPPED: needs two CPUs");
        return None;
    }
    Some(cpus)
}

pub fn last(cpus: &CpuSet) -> CpuSet {
    CpuSet::single(cpus.last().unwrap())
}

pub fn is_on(pid: u32, cpus: &CpuSet) -> bool {
    affinity::of_thread(pid).is_ok_and(|now| now == *cpus)
}
