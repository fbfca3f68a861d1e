//! What tests of the real binary share.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop anywhere")]
#![allow(dead_code, reason = "each test file uses a part of it")]

pub mod memory_group;
pub mod place;
pub mod sharing;
pub mod slurm;
pub mod study;
pub mod vm;
pub mod watching;

use assert_cmd::Command;
use manycore_experiment::record::Record;
use manycore_linux::affinity;
use manycore_testkit::{Trouble, World};
use manycore_topology::CpuSet;
use std::{
    fs,
    path::{Path, PathBuf},
};
use tempfile::TempDir;

/// The binary under test.
pub fn manycore() -> Command {
    Command::new(assert_cmd::cargo::cargo_bin!("manycore"))
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

/// A guest whose single worker lost a fifth of its time to the hypervisor.
pub fn stolen_guest() -> Record {
    World { trouble: Trouble::Steal(0.2), blocks: 12, ..World::guest() }.record()
}

/// A record of which only the first three experiments were made.
pub fn interrupted() -> Record {
    let mut record = World { blocks: 12, ..World::guest() }.record();
    record.experiments.truncate(3);
    record.interrupted = true;
    record
}

/// The CPUs that the tests may use. What the standard library counts is less in a group with a quota.
pub fn allowed() -> CpuSet {
    affinity::allowed().unwrap()
}

/// The number of the first CPU that the tests may use, which need not be 0.
pub fn first_cpu() -> String {
    allowed().first().unwrap().to_string()
}

/// The number of the last one.
pub fn last_cpu() -> String {
    allowed().last().unwrap().to_string()
}

/// Runs a script in bash.
pub fn sh(script: &str) -> std::process::Output {
    std::process::Command::new("bash").args(["-c", script]).output().unwrap()
}

/// Output as text.
pub fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}
