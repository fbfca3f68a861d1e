//! Tests of `manycore top` with the real binary: what is printed without a terminal.
#![allow(clippy::unwrap_used, reason = "a test may stop anywhere")]

mod common;

use common::{manycore, place::soon, schema, sh, text};
use serde_json::Value;
use std::{fs, path::Path, process::Output};
use tempfile::TempDir;

/// Runs a shell that works for about half a second below `top`, whose tables have only its tasks.
fn with_command(options: &[&str], script: &str) -> Output {
    let words = [&["top", "--interval", "200ms"], options, &["--", "sh", "-c", script]].concat();
    manycore().args(words).output().unwrap()
}

const WORK: &str = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; exit 7";

fn snapshots(output: &Output) -> Vec<Value> {
    text(&output.stdout).lines().map(|line| schema::parse("top", line.as_bytes())).collect()
}

#[test]
fn a_command_is_shown_alone_and_its_exit_status_is_that_of_top() {
    let output = with_command(&["--format", "json", "--show", "processes,threads,cpus"], WORK);
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let all = snapshots(&output);
    let names = |one: &Value| -> Vec<String> {
        let rows = one["processes"].as_array().into_iter().flatten();
        rows.map(|row| row["name"].as_str().unwrap().to_owned()).collect()
    };
    assert!(all.iter().any(|one| names(one) == ["sh"]), "{all:?}");
    let mut shares: Vec<f64> =
        all.iter().filter_map(|one| one["processes"][0]["cpu_percent"].as_f64()).collect();
    shares.sort_by(f64::total_cmp);
    // It shares its CPU with other tests. The moment at which a busy machine reads it is late in one sample or another.
    let share = shares[shares.len() / 2];
    assert!((5.0..=105.0).contains(&share), "{shares:?}");
    assert!(all.iter().all(|one| !one["cpus"].as_array().unwrap().is_empty()));
}

#[test]
fn its_output_does_not_mix_with_the_tables() {
    let output = with_command(&["--format", "csv"], "echo from-the-command; sleep 0.5");
    assert!(text(&output.stderr).contains("from-the-command"));
    assert!(!text(&output.stdout).contains("from-the-command"));
}

#[test]
fn rows_of_one_table_have_one_head() {
    let options = ["top", "--interval", "100ms", "--count", "3", "--show", "cpus", "--format", "csv"];
    let run = manycore().args(options).assert().success();
    let printed = text(&run.get_output().stdout);
    let heads = printed.lines().filter(|line| line.starts_with("time,cpu,%usr")).count();
    let cpus = text(&sh("getconf _NPROCESSORS_ONLN").stdout).trim().parse::<usize>().unwrap();
    assert_eq!((heads, printed.lines().count()), (1, 1 + 3 * cpus), "{printed}");
}

#[test]
fn shares_of_a_cpu_add_up_to_its_time() {
    let run = manycore().args(["top", "--once", "--show", "cpus", "--format", "json"]).assert().success();
    let snapshot = schema::parse("top", &run.get_output().stdout);
    for row in snapshot["cpus"].as_array().unwrap() {
        let shares = row["cpu_percent"].as_object().unwrap();
        let sum: f64 = shares.values().map(|share| share.as_f64().unwrap()).sum();
        assert!((99.9..100.1).contains(&sum), "{row}");
    }
}

#[test]
fn what_does_not_exist_is_refused() {
    for (words, expected) in [
        (&["--pid", "4194303"][..], "there is no process 4194303"),
        (&["--cgroup", "/no-such-group"], "there is no control group \"/no-such-group\""),
        (&["--interval", "1ms"], "the shortest interval is 100ms"),
        (&["--", "/no/such/program"], "cannot start /no/such/program"),
    ] {
        let run = manycore().args([&["top", "--once"], words].concat()).assert().code(2);
        let said = text(&run.get_output().stderr);
        assert!(said.contains(expected), "{said}");
    }
}

#[test]
fn a_command_that_ends_within_the_first_interval_is_shown() {
    let words =
        ["top", "--interval", "60s", "--format", "json", "--show", "processes", "--", "sh", "-c", WORK];
    let output = manycore().args(words).output().unwrap();
    assert_eq!(output.status.code(), Some(7), "{}", text(&output.stderr));
    let all = snapshots(&output);
    assert_eq!((all.len(), &all[0]["processes"][0]["name"]), (1, &Value::from("sh")), "{all:?}");
}

#[test]
fn a_recording_is_replayed_and_reported() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (day, page) = (path("day.top"), path("day.html"));
    let options = ["top", "--record", &day, "--interval", "300ms", "--count", "5"];
    let run = manycore().args(options).assert().success();
    assert_eq!(text(&run.get_output().stdout), "");
    assert!(text(&run.get_output().stderr).contains("Recorded 6 samples"));

    let replayed = ["top", "--replay", &day, "--interval", "100ms", "--format", "json", "--show", "cpus"];
    let output = manycore().args(replayed).output().unwrap();
    // A sample that was late is followed by one that is nearer than the interval.
    assert!((4..=5).contains(&snapshots(&output).len()), "{}", text(&output.stderr));
    let report = manycore().args(["report", &day, "--html", &page, "--format", "json"]).assert().success();
    schema::parse("top", &report.get_output().stdout);
    assert!(fs::read_to_string(page).unwrap().trim_end().ends_with("</html>"));

    // What was recorded is never replaced, and a command is not started in vain.
    let marker = path("started");
    let words = ["top", "--once", "--record", &day, "--", "touch", &marker];
    let refused = manycore().args(words).assert().code(3);
    assert!(text(&refused.get_output().stderr).contains("exists"));
    assert!(!Path::new(&marker).exists());

    // Nor is there a recording if the command cannot be started.
    let vain = path("vain.top");
    manycore().args(["top", "--record", &vain, "--", "./no-such-command"]).assert().code(2);
    assert!(!Path::new(&vain).exists());

    let begin = fs::read(&day).unwrap();
    let cut = path("cut.top");
    fs::write(&cut, &begin[..begin.len() - 20]).unwrap();
    let cut = manycore().args(["top", "--replay", &cut, "--once"]).assert().success();
    assert!(text(&cut.get_output().stderr).contains("recording"));
    fs::write(path("none.top"), &begin[..6]).unwrap();
    manycore().args(["top", "--replay", &path("none.top"), "--once"]).assert().code(2);
}

#[test]
fn what_a_command_has_started_ends_with_it() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("pid");
    let script = format!("sleep 1000 & echo $! >{}; wait", file.display());
    let words = ["top", "--count", "2", "--interval", "300ms", "--", "sh", "-c", &script];
    manycore().args(words).assert().success();
    let pid: u32 = fs::read_to_string(file).unwrap().trim().parse().unwrap();
    // It is a zombie until its new parent takes its status.
    let stat = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    soon("the end of the other process", || !stat().contains("(sleep) S"));
}

#[test]
fn tables_go_on_when_the_recording_cannot() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (short, long) = (path("short.top"), path("long.top"));
    manycore().args(["top", "--once", "--interval", "100ms", "--record", &short]).assert().success();
    // No larger file: as with a full disk, writing the 60 samples of the first chunk fails.
    let size = fs::metadata(&short).unwrap().len();
    let script = format!(
        "trap '' XFSZ; exec prlimit --fsize={size} -- {} top --record {long} --interval 100ms --count 65 \
         --show cpus --format csv",
        common::program().display()
    );
    let output = sh(&script);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert_eq!(said.matches("The recording has ended early").count(), 1, "{said}");
    let cpus = text(&sh("getconf _NPROCESSORS_ONLN").stdout).trim().parse::<usize>().unwrap();
    assert_eq!(text(&output.stdout).lines().count(), 1 + 65 * cpus, "{said}");
}

#[test]
fn a_process_that_ended_before_the_recording_is_reported() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (recording, worker) = (path("day.top"), path("ends-early"));
    fs::copy("/bin/sh", &worker).unwrap();
    let script = format!("{worker} -c 'i=0; while [ $i -lt 600000 ]; do i=$((i+1)); done; :'; sleep 1");
    let words = ["top", "--record", &recording, "--interval", "100ms", "--", "sh", "-c", &script];
    manycore().args(words).assert().success();
    let json = manycore().args(["report", &recording, "--format", "json"]).assert().success();
    let report = schema::parse("top", &json.get_output().stdout);
    let rows = report["processes"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == "ends-early").unwrap();
    assert!(row["state"] == "X" && row["cpu_percent"].as_f64().unwrap() > 1.0, "{row}");
    let shown = manycore().args(["report", &recording]).assert().success();
    assert!(text(&shown.get_output().stdout).contains("State X: the process ended"));
}
