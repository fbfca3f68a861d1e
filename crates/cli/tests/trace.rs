//! `manycore trace`. Recording needs root and a kernel with BTF.

use crate::common;
use crate::common::{manycore, text};
use serde_json::Value;
use std::{
    fs::{self, Permissions},
    os::unix::{fs::PermissionsExt, process::CommandExt},
    path::Path,
    process::Command,
};

/// Two loops on one CPU.
const LOAD: &str = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done & j=0; while [ $j -lt 300000 ]; do j=$((j+1)); \
                    done; wait; exit 7";

fn is_possible() -> bool {
    let is_possible = rustix::process::geteuid().is_root() && Path::new("/sys/kernel/btf/vmlinux").exists();
    if !is_possible {
        println!("SKIPPED: recording needs root and a kernel with BTF");
    }
    is_possible
}

#[test]
fn two_processes_on_one_cpu_run_and_wait_in_turn() {
    if !is_possible() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("t.json");
    let words = [
        "trace",
        "--budget",
        "60s",
        "--out",
        path.to_str().unwrap(),
        "--",
        "taskset",
        "-c",
        "0",
        "sh",
        "-c",
        LOAD,
    ];
    let run = manycore().args(words).assert();
    let output = run.get_output();
    let said = text(&output.stderr);
    if said.contains("built without") {
        println!("SKIPPED: {said}");
        return;
    }
    assert_eq!(output.status.code(), Some(7), "{said}");
    assert!(said.contains("after being displaced") && said.contains("https://ui.perfetto.dev"), "{said}");
    assert!(said.contains(" events") && !said.contains(" 0 events"), "{said}");
    let trace: Value = serde_json::from_slice(&fs::read(&path).unwrap()).unwrap();
    let events = trace["traceEvents"].as_array().unwrap();
    let sum = |name: &str| -> f64 {
        let slices = events.iter().filter(|event| event["ph"] == "X" && event["name"] == name);
        slices.filter_map(|event| event["dur"].as_f64()).sum()
    };
    let (running, waiting) = (sum("running"), sum("waiting for a CPU"));
    // Each runs while the other one waits, and both wait while another program runs.
    assert!(waiting > 0.6 * running, "{running} {waiting}");
    let on_cpu = |event: &&Value| event["ph"] == "X" && event["cat"] == "watched";
    let mut shells: Vec<&Value> = events.iter().filter(on_cpu).collect();
    shells.sort_by(|a, b| a["ts"].as_f64().unwrap().total_cmp(&b["ts"].as_f64().unwrap()));
    let changes =
        shells.windows(2).filter(|pair| pair[0]["args"]["thread"] != pair[1]["args"]["thread"]).count();
    assert!(changes > 10, "{changes}");
}

#[test]
fn what_cannot_be_recorded_is_an_error_in_one_line() {
    for (words, code) in [
        (&["trace"][..], 2),
        (&["trace", "--pid", "0"], 2),
        (&["trace", "--most-events", "0", "--", "true"], 2),
        (&["trace", "--out", "/nonexistent/t.json", "--", "true"], 3),
    ] {
        manycore().args(words).assert().code(code);
    }
    if is_possible() {
        let folder = tempfile::tempdir().unwrap();
        let run = manycore().current_dir(&folder).args(["trace", "--pid", "4194304"]).assert().code(2);
        let said = text(&run.get_output().stderr);
        assert!(said.contains("no process 4194304") && said.lines().count() == 1, "{said}");
    }
}

#[test]
fn without_privileges_it_says_what_is_missing_and_what_to_use() {
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("manycore");
    // A copy that this process makes could be open for writing in a child of another test.
    assert!(Command::new("cp").arg(common::program()).arg(&program).status().unwrap().success());
    fs::set_permissions(folder.path(), Permissions::from_mode(0o777)).unwrap();
    let mut command = Command::new(program);
    command.current_dir(folder.path()).args(["trace", "--", "true"]);
    if rustix::process::geteuid().is_root() {
        command.uid(65534).gid(65534);
    }
    let output = command.output().unwrap();
    let said = text(&output.stderr);
    if said.contains("built without") {
        println!("SKIPPED: {said}");
        return;
    }
    assert_eq!(output.status.code(), Some(3), "{said}");
    for part in ["needs root (CAP_BPF", "manycore top shows", "perf sched record"] {
        assert!(said.contains(part), "no {part:?} in {said}");
    }
    assert!(!folder.path().join("manycore-trace.json").exists());
}
