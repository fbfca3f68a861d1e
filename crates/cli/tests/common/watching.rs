//! Verbs that look again and again, and folders that are made like resctrl, whose counters the tests move.

use serde_json::Value;
use std::{
    fs::{self, File},
    io::{BufRead, BufReader, Lines, Write},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};
use tempfile::TempDir;

/// Looks within which what was changed must be seen.
const LOOKS: usize = 100;

/// Gives a file other contents in one piece and in place: it is open, and must never be seen empty.
pub fn put(path: &Path, contents: &str) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    let mut file = File::options().write(true).create(true).truncate(false).open(path).unwrap();
    file.write_all(contents.as_bytes()).unwrap();
}

/// Sets what a group's counters say, in two domains.
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

/// A mounted file system with a default group and one more.
pub fn resctrl() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("info/L3_MON")).unwrap();
    fs::write(folder.path().join("schemata"), "    MB:0=100;1=100\n    L3:0=fffff;1=fffff\n").unwrap();
    set(folder.path(), "", ["0", "0"]);
    set(folder.path(), "qemu-1-web", ["1000", "1000"]);
    folder
}

/// A verb that prints a look as a line of JSON ten times a second.
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

    /// The first look of which this holds.
    pub fn until(&mut self, holds: impl Fn(&Value) -> bool) -> Value {
        for line in self.lines.by_ref().take(LOOKS) {
            let look: Value = serde_json::from_str(&line.unwrap()).unwrap();
            if holds(&look) {
                return look;
            }
        }
        unreachable!("what was changed is not seen in {LOOKS} looks");
    }

    /// Ends it by Ctrl-C; its exit code.
    pub fn end(mut self) -> Option<i32> {
        assert!(super::sh(&format!("kill -INT {}", self.child.id())).status.success());
        self.child.wait().unwrap().code()
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        // One that has ended is no error.
        drop(self.child.kill());
        drop(self.child.wait());
    }
}
