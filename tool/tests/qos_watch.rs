//! `manycore qos watch` on a folder that is made like resctrl, whose counters the tests move.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod common;

use common::{manycore, sh, text};
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

/// Sets what a group's counters say, in two domains.
fn set(root: &Path, group: &str, totals: [&str; 2]) {
    for (domain, total) in totals.iter().enumerate() {
        let folder = root.join(group).join(format!("mon_data/mon_L3_{domain:02}"));
        fs::create_dir_all(&folder).unwrap();
        for (file, value) in
            [("mbm_total_bytes", *total), ("mbm_local_bytes", "0"), ("llc_occupancy", "65536")]
        {
            // In one piece and in place: the file is open, and must never be seen empty.
            let mut file =
                File::options().write(true).create(true).truncate(false).open(folder.join(file)).unwrap();
            file.write_all(format!("{value:<23}\n").as_bytes()).unwrap();
        }
    }
}

/// A mounted file system with a default group and one more.
fn resctrl() -> TempDir {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("info/L3_MON")).unwrap();
    fs::write(folder.path().join("schemata"), "    MB:0=100;1=100\n    L3:0=fffff;1=fffff\n").unwrap();
    set(folder.path(), "", ["0", "0"]);
    set(folder.path(), "qemu-1-web", ["1000", "1000"]);
    folder
}

struct Watching {
    child: Child,
    lines: Lines<BufReader<ChildStdout>>,
}

impl Watching {
    fn start(root: &Path, more: &[&str]) -> Self {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("manycore"));
        command
            .args(["qos", "watch", "--interval", "100ms", "--format", "json", "--resctrl"])
            .arg(root)
            .args(more);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        Self { child, lines }
    }

    /// The first look of which this holds.
    fn until(&mut self, holds: impl Fn(&Value) -> bool) -> Value {
        for line in self.lines.by_ref().take(LOOKS) {
            let look: Value = serde_json::from_str(&line.unwrap()).unwrap();
            if holds(&look) {
                return look;
            }
        }
        unreachable!("what was changed is not seen in {LOOKS} looks");
    }
}

fn group<'a>(look: &'a Value, name: &str) -> Option<&'a Value> {
    look["groups"].as_array().unwrap().iter().find(|group| group["name"] == name)
}

#[test]
fn counters_become_rates_while_groups_come_and_go() {
    let folder = resctrl();
    let root = folder.path();
    let history = tempfile::tempdir().unwrap();
    let kept = history.path().join("kept.jsonl");
    let mut watching = Watching::start(root, &["--history", kept.to_str().unwrap()]);
    let rate = |look: &Value| group(look, "qemu-1-web").and_then(|web| web["memory"].as_f64());
    watching.until(|look| rate(look) == Some(0.0) && group(look, "/").is_some());
    set(root, "qemu-1-web", ["5001000", "1001000"]);
    // Both domains, whether or not they are met in the same look.
    let mut bytes = 0.0;
    while bytes < 5_500_000.0 {
        let look = watching.until(|look| rate(look).is_some_and(|rate| rate > 0.0));
        bytes += rate(&look).unwrap() * look["seconds"].as_f64().unwrap();
        assert_eq!(group(&look, "/").unwrap()["memory"], 0.0);
    }
    // 6 MB in all. A look's time is that of its first group, and each group is read at a time of its own.
    assert!(bytes < 9_000_000.0, "{bytes}");
    set(root, "qemu-1-web", ["5001000", "Unavailable"]);
    let look = watching.until(|look| rate(look).is_none());
    let web = group(&look, "qemu-1-web").unwrap();
    assert_eq!((&web["memory"], &web["missing"]), (&Value::Null, &"unavailable".into()));
    assert_eq!(look["all"]["without"], 1);
    set(root, "late", ["7", "7"]);
    let look = watching.until(|look| group(look, "late").is_some());
    assert_eq!(group(&look, "late").unwrap()["memory"], Value::Null);
    watching.until(|look| group(look, "late").is_some_and(|late| late["memory"] == 0.0));
    fs::remove_dir_all(root.join("late")).unwrap();
    watching.until(|look| group(look, "late").is_none());
    // Made anew, it has counted less, and that is no negative rate.
    set(root, "late", ["1", "1"]);
    watching.until(|look| group(look, "late").is_some_and(|late| late["memory"].is_null()));
    watching.until(|look| group(look, "late").is_some_and(|late| late["memory"] == 0.0));
    // Ctrl-C is how it ends.
    assert!(sh(&format!("kill -INT {}", watching.child.id())).status.success());
    assert_eq!(watching.child.wait().unwrap().code(), Some(0));
    let kept = fs::read_to_string(kept).unwrap();
    assert!(
        kept.lines()
            .all(|line| serde_json::from_str::<Value>(line).unwrap()["schema"] == "manycore/qos-watch/1")
    );
    assert!(kept.lines().count() > 5);
}

#[test]
fn lines_are_added_in_a_pipe_and_a_table_is_drawn_on_a_terminal() {
    let folder = resctrl();
    let root = folder.path().to_str().unwrap();
    let words = ["qos", "watch", "--interval", "100ms", "--count", "2", "--resctrl", root];
    let run =
        manycore().args(words).args(["--group", "qemu-1-web", "--group", "qemu-10-web"]).output().unwrap();
    assert_eq!(run.status.code(), Some(0));
    assert!(text(&run.stderr).contains("there is no group \"qemu-10-web\" now"), "{}", text(&run.stderr));
    let out = text(&run.stdout);
    let lines: Vec<Vec<&str>> = out.lines().map(|line| line.split_whitespace().collect()).collect();
    assert_eq!(lines.len(), 3, "{out}");
    assert_eq!(lines[0][..3], ["time", "group", "memory"]);
    assert_eq!(lines[1][1..], ["qemu-1-web", "0.0", "0.0", "128", "0.0", "0.0"]);
    let program = assert_cmd::cargo::cargo_bin!("manycore");
    let drawn = Command::new("script")
        .args(["-qec", &format!("{} {}", program.display(), words.join(" ")), "/dev/null"])
        .stdin(Stdio::null())
        .output();
    match drawn {
        Err(_) => eprintln!("SKIPPED: script is not installed"),
        Ok(drawn) => {
            let drawn = text(&drawn.stdout);
            assert_eq!(
                (drawn.matches("\x1b[2J").count(), drawn.matches("\x1b[H").count()),
                (1, 2),
                "{drawn}"
            );
            assert!(drawn.contains("qemu-1-web") && drawn.contains("course"), "{drawn}");
        }
    }
}

#[test]
fn what_cannot_be_watched_is_told() {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir_all(folder.path().join("info")).unwrap();
    fs::write(folder.path().join("schemata"), "MB:0=100\n").unwrap();
    let watch = |more: &[&str]| {
        let run =
            manycore().args(["qos", "watch", "--resctrl"]).arg(folder.path()).args(more).output().unwrap();
        (run.status.code().unwrap(), text(&run.stderr))
    };
    let (code, said) = watch(&[]);
    assert!(code == 3 && said.contains("monitors nothing"), "{said}");
    for wrong in [["--count", "0"], ["--interval", "1ms"], ["--interval", "soon"]] {
        assert_eq!(watch(&wrong).0, 2, "{wrong:?}");
    }
    let (code, said) = watch(&["--history", "/no/such/folder/file"]);
    assert!(code == 3 && said.contains("/no/such/folder/file"), "{said}");
}
