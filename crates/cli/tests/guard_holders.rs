//! Memory outside of all processes' pages: `manycore guard` ends the process that is shown to hold it, in
//! control groups with limits of their own. If no process is shown to hold it, the guard reports that.

use crate::common::memory_group::Group;
use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
};

/// A guard of one group whose first signal is awaited.
struct Guard {
    child: Child,
    state: tempfile::TempDir,
}

impl Guard {
    fn start(group: &Group, rules: &str) -> Self {
        let state = tempfile::tempdir().unwrap();
        let path = state.path().join("rules.toml");
        fs::write(&path, format!("[[cgroup]]\npath = \"{}\"\n{rules}", group.path)).unwrap();
        let mut command = Command::new("timeout");
        // If nothing happens, it ends by itself, and so does its output.
        command.args([
            "-k",
            "5",
            "90",
            env!("CARGO_BIN_EXE_manycore"),
            "guard",
            "--format",
            "json",
            "--rules",
        ]);
        command.arg(&path).env("MANYCORE_STATE", state.path());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut error = BufReader::new(child.stderr.take().unwrap());
        let mut first = String::new();
        while !first.contains("manycore guard ") {
            first.clear();
            assert!(error.read_line(&mut first).unwrap() > 0, "the guard has exited");
        }
        std::thread::spawn(move || {
            error.lines().map_while(Result::ok).for_each(|line| eprintln!("guard: {line}"));
        });
        Self { child, state }
    }

    /// Returns the first line with one of these events, and all lines before it.
    fn wait(mut self, events: &[&str]) -> (serde_json::Value, Vec<serde_json::Value>) {
        let out = BufReader::new(self.child.stdout.take().unwrap());
        let mut seen = Vec::new();
        for line in out.lines().map_while(Result::ok) {
            let line: serde_json::Value = serde_json::from_str(&line).unwrap();
            if events.iter().any(|event| line["event"] == *event) {
                return (line, seen);
            }
            seen.push(line);
        }
        panic!("none of {events:?} in {}: {seen:#?}", self.state.path().display());
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status();
        let _ = self.child.wait();
    }
}

fn started(child: &mut Child) {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "1\n");
}

fn ended(child: &mut Child) {
    let _ = child.kill();
    child.wait().unwrap();
}

/// Ends when its input does. It holds a file in memory open for writing, and writes more than any other
/// process, but elsewhere.
const INNOCENT: &str = "import os, select, sys, tempfile
x = bytearray(b'x') * (40 << 20)
f = tempfile.TemporaryFile(dir='/dev/shm')
n = open('/dev/null', 'wb', buffering=0)
print(1, flush=True)
while not select.select([0], [], [], 0)[0]: n.write(x[:1 << 20])";

/// Starts a script in a group.
fn python(group: &Group, script: &str) -> Child {
    group.start(Path::new("python3"), &["-c", script])
}

/// Runs a memory hog beside an unrelated process. Returns what the guard reported that the hog held when it
/// got the first signal.
fn holder_of_ended_process(name: &str, hog: &str) -> Option<String> {
    let able = Command::new("python3").args(["-c", "import os; os.memfd_create('x')"]).output();
    if !able.is_ok_and(|out| out.status.success()) {
        eprintln!("SKIPPED: python3 is not installed, or has no memfd_create");
        return None;
    }
    let group = Group::new(name, 256)?;
    let mut innocent = python(&group, INNOCENT);
    started(&mut innocent);
    let guard = Guard::start(&group, "");
    let mut hog = python(&group, hog);
    let (line, seen) = guard.wait(&["term", "kill"]);
    assert_eq!(line["cause"]["pid"], hog.id(), "{line:#} after {seen:#?}");
    assert!(innocent.try_wait().unwrap().is_none(), "the unrelated process has ended");
    ended(&mut hog);
    ended(&mut innocent);
    Some(line["cause"]["extra_memory"]["what"].as_str().unwrap_or_default().to_owned())
}

#[test]
fn a_memfd_belongs_to_the_process_that_writes_it() {
    let hog = "import os, time\nf, b = os.memfd_create('x'), b'x' * (1 << 20)\nwhile True:\n os.write(f, b)\n time.sleep(0.01)";
    let Some(what) = holder_of_ended_process("memfd", hog) else { return };
    assert!(what.contains("shared memory"), "{what}");
}

#[test]
fn pipes_belong_to_the_process_that_fills_them() {
    let hog = "import fcntl, os, time\nkeep = []\nwhile True:\n keep.append(os.pipe())\n fcntl.fcntl(keep[-1][1], 1031, 1 << 20)\n os.write(keep[-1][1], b'x' * (1 << 20))\n time.sleep(0.01)";
    let Some(what) = holder_of_ended_process("pipes", hog) else { return };
    assert!(what.contains("pipes"), "{what}");
}

#[test]
fn a_file_in_memory_belongs_to_its_writer_and_not_to_another_writing_process() {
    let folder = tempfile::tempdir_in("/dev/shm");
    let Ok(folder) = folder else { return eprintln!("SKIPPED: no directory can be created in /dev/shm") };
    let path = folder.path().join("file");
    let hog = format!(
        "import time\nf, b = open('{}', 'wb', buffering=0), b'x' * (1 << 20)\nwhile True:\n f.write(b)\n time.sleep(0.01)",
        path.display()
    );
    let Some(what) = holder_of_ended_process("file", &hog) else { return };
    assert!(what.contains("files in memory"), "{what}");
}

/// Two processes of two sessions that hold the same memory. It is not shown to belong to either. The last of the group's memory
/// they take slowly: if the guard is late on a busy machine, the kernel ends the other process.
const PAIR: &str = "import os, sys, time
f, b = os.memfd_create('x'), b'x' * (1 << 20)
if os.fork() == 0: os.setsid()
while True:
 try: os.write(f, b if os.fstat(f).st_size < 80 << 20 else b[:1 << 17])
 except OSError: pass
 time.sleep(0.1)";

#[test]
fn last_resort_acts_and_reports_without_known_cause() {
    let Some(group) = Group::new("resort", 200) else { return };
    let mut big = python(
        &group,
        // So that no other process has the same `oom_score`.
        "import sys\nx = bytearray(b'x') * (70 << 20)\nopen('/proc/self/oom_score_adj', 'w').write('300')\nprint(1, flush=True)\nsys.stdin.read()",
    );
    started(&mut big);
    let guard = Guard::start(&group, "term_below = \"30%\"\nkill_below = \"20%\"");
    let mut pair = python(&group, PAIR);
    let (line, seen) = guard.wait(&["kill", "term"]);
    ended(&mut pair);
    ended(&mut big);
    assert_eq!(
        (line["event"].as_str(), line["cause"]["pid"].as_u64()),
        (Some("kill"), Some(big.id().into())),
        "{line:#}"
    );
    let note = line["note"].as_str().unwrap();
    assert!(note.contains("last resort") && note.contains("oom_score"), "{note}");
    assert!(
        seen.iter().any(|line| line["event"] == "files"),
        "it reports first that no process is known: {seen:#?}"
    );
}
