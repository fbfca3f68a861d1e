//! Helpers for tests of the real binary.
#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod audit;
pub mod fleet;
pub mod markdown;
pub mod memory_group;
pub mod place;
pub mod running_guard;
pub mod schema;
pub mod sharing;
pub mod slurm;
pub mod study;
pub mod vm;
pub mod watching;

use assert_cmd::Command;
use manycore_experiment::record::Record;
use manycore_linux::{absent_process::hidepid, affinity};
use manycore_testkit::{SlowCause, SyntheticMachine};
use manycore_topology::CpuSet;
use std::{
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// Returns the path of the program.
pub fn program() -> PathBuf {
    assert_cmd::cargo::cargo_bin!("manycore").to_path_buf()
}

/// Returns a command that runs the binary under test.
pub fn manycore() -> Command {
    let mut command = Command::new(program());
    // The width and the colours of the user's terminal are not those of the test.
    for variable in ["COLUMNS", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE"] {
        command.env_remove(variable);
    }
    command
}

/// Asserts that `bench` refuses these arguments with this message, and measures nothing.
pub fn assert_bench_refuses(arguments: &[&str], expected: &str) {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    let run = manycore().arg("bench").args(arguments).arg("--quiet").arg("--out").arg(&out).assert().code(2);
    let said = text(&run.get_output().stderr);
    assert!(said.contains(expected), "{arguments:?}: {said}");
    assert!(!out.exists(), "{arguments:?}");
}

/// Writes `record` as `NAME.json` into `folder`.
pub fn save(folder: &TempDir, name: &str, record: &Record) -> PathBuf {
    write(folder.path(), &format!("{name}.json"), &serde_json::to_vec(record).unwrap())
}

/// Writes a file into `folder`.
pub fn write(folder: &Path, name: &str, contents: &[u8]) -> PathBuf {
    let path = folder.join(name);
    fs::write(&path, contents).unwrap();
    path
}

/// Returns the record of a guest whose single worker lost a fifth of its time to the hypervisor.
pub fn stolen_guest() -> Record {
    SyntheticMachine { slow_cause: SlowCause::Steal(0.2), blocks: 12, ..SyntheticMachine::guest() }.record()
}

/// Returns a record with only the first three experiments.
pub fn interrupted() -> Record {
    let mut record = SyntheticMachine { blocks: 12, ..SyntheticMachine::guest() }.record();
    record.experiments.truncate(3);
    record.interrupted = true;
    record
}

/// Returns the CPUs that the tests may use. The count of the standard library is lower in a group with a
/// quota.
pub fn allowed() -> CpuSet {
    affinity::allowed().unwrap()
}

/// Returns the number of the first CPU that the tests may use, which need not be 0.
pub fn first_cpu() -> String {
    allowed().first().unwrap().to_string()
}

/// Returns the number of the last CPU that the tests may use.
pub fn last_cpu() -> String {
    allowed().last().unwrap().to_string()
}

/// Runs a script in bash.
pub fn sh(script: &str) -> std::process::Output {
    std::process::Command::new("bash").args(["-c", script]).output().unwrap()
}

/// Returns a command that runs the binary under test as a user without privileges. It sees the processes of the test, also
/// where `/proc` hides them (`hidepid`): then it has a mount of `/proc` of its own.
pub fn unprivileged() -> std::process::Command {
    let run = "exec setpriv --reuid=65534 --regid=65534 --clear-groups \"$0\" \"$@\"";
    let is_hiding = hidepid(&fs::read_to_string("/proc/self/mountinfo").unwrap_or_default()).is_some();
    let mut command = if is_hiding {
        let mut command = std::process::Command::new("unshare");
        let script = format!("mount -t proc proc /proc && {run}");
        command.args(["--mount", "--propagation", "private", "sh", "-c", &script]);
        command
    } else {
        let mut command = std::process::Command::new("sh");
        command.args(["-c", run]);
        command
    };
    command.arg(program());
    command
}

/// Returns output as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
