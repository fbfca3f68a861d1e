//! Helpers for commands that print repeated readings, and imitations of resctrl in a directory, whose
//! counters the tests change.

use serde_json::Value;
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Lines, Write},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};
use tempfile::TempDir;

/// Number of readings within which a change must be visible.
const MAX_READINGS: usize = 100;

/// Replaces the contents of a file in place and in one write: the file is open elsewhere, and must never
/// appear empty.
pub fn put(path: &Path, contents: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = File::options().write(true).create(true).truncate(false).open(path).unwrap();
    file.write_all(contents.as_bytes()).unwrap();
}

/// Sets the counters of a group, in two domains.
pub fn set(root: &Path, group: &str, totals: [&str; 2]) {
    for (domain, total) in totals.iter().enumerate() {
        let folder = root.join(group).join(format!("mon_data/mon_L3_{domain:02}"));
        for (file, value) in
            [("mbm_total_bytes", *total), ("mbm_local_bytes", "0"), ("llc_occupancy", "65536")]
        {
            put(&folder.join(file), &format!("{value:<23}\n"));
        }
    }
}

/// Creates an imitation of resctrl with the default group and one more.
pub fn resctrl() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("info/L3_MON")).unwrap();
    fs::write(folder.path().join("schemata"), "    MB:0=100;1=100\n    L3:0=fffff;1=fffff\n").unwrap();
    set(folder.path(), "", ["0", "0"]);
    set(folder.path(), "qemu-1-web", ["1000", "1000"]);
    folder
}

/// A running command that prints a reading as a line of JSON ten times per second.
pub struct Watching {
    pub child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watching {
    pub fn start(words: &[&str]) -> Self {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("manycore"));
        command.args(words).args(["--interval", "100ms", "--format", "json"]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// Returns the first reading for which `holds` is true.
    pub fn until(&mut self, holds: impl Fn(&Value) -> bool) -> Value {
        for line in self.lines.by_ref().take(MAX_READINGS) {
            let look: Value = serde_json::from_str(&line.unwrap()).unwrap();
            if holds(&look) {
                return look;
            }
        }
        unreachable!("no change in {MAX_READINGS} readings");
    }

    /// Ends it by Ctrl-C; returns its exit code.
    pub fn end(mut self) -> Option<i32> {
        assert!(super::sh(&format!("kill -INT {}", self.child.id())).status.success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // It may have ended already, which is not an error.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
