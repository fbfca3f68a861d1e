//! `manycore bench` as a whole: every load on the real kernel, and what it leaves on the machine.

use crate::common::{assert_bench_refuses, first_cpu, manycore};
use assert_cmd::cargo::cargo_bin;
use manycore_testkit::{Alone, alone};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Tests that create System V objects check those of the whole machine, so only one of them runs at a time.
fn exclusive() -> Alone {
    alone("sysv").unwrap()
}

/// Returns the System V semaphores and queues of this machine, as `ipcs` would list them.
fn objects() -> BTreeSet<String> {
    ["sem", "msg"]
        .iter()
        .flat_map(|kind| {
            let table = fs::read_to_string(format!("/proc/sysvipc/{kind}")).unwrap_or_default();
            let ids = table.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1));
            ids.map(|id| format!("{kind} {id}")).collect::<Vec<_>>()
        })
        .collect()
}

/// Waits until all objects that were not in `before` are removed.
fn wait_until_removed(before: &BTreeSet<String>) {
    let deadline = Instant::now() + Duration::from_mins(1);
    while !objects().is_subset(before) {
        assert!(Instant::now() < deadline, "left behind: {:?}", objects().difference(before));
        std::thread::yield_now();
    }
}

fn record(folder: &Path) -> Value {
    serde_json::from_slice(&fs::read(folder.join("record.json")).unwrap()).unwrap()
}

/// Starts a load and returns when it has begun to measure.
fn start(load: &str, folder: &Path) -> Child {
    let mut child = Command::new(cargo_bin("manycore"))
        .args(["bench", load, "--workers", "2", "--budget", "3600", "--out"])
        .arg(folder)
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(line.starts_with("measuring: ") || line.starts_with("skipped "), "{line}");
    child
}

/// Returns the worker processes of `parent` that have used CPU time. Waits until there are some.
fn workers(parent: u32) -> Vec<i32> {
    let deadline = Instant::now() + Duration::from_mins(1);
    loop {
        let found: Vec<i32> = fs::read_dir("/proc")
            .unwrap()
            .filter_map(|entry| {
                let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
                let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
                let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
                let line = fs::read_to_string(format!("/proc/{pid}/cmdline")).ok()?;
                let worker = line.contains("worker");
                let at_work = fields[11].parse::<u64>().ok()? > 0;
                (fields[1].parse() == Ok(parent) && worker && at_work).then_some(pid)
            })
            .collect();
        if !found.is_empty() {
            return found;
        }
        assert!(Instant::now() < deadline, "no worker is at work");
        std::thread::yield_now();
    }
}

fn signal(pid: i32, name: &str) {
    assert!(Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status().unwrap().success());
}

#[test]
fn every_load_is_measured_evaluated_and_leaves_nothing() {
    let _alone = exclusive();
    let before = objects();
    for load in ["counter", "lock", "queue", "sem", "sem-sysv", "msg", "pipe"] {
        let folder = tempfile::tempdir().unwrap();
        let run = manycore()
            .args([
                "bench",
                load,
                "--budget",
                "1",
                "--workers",
                "1,2",
                "--quiet",
                "--format",
                "json",
                "--out",
            ])
            .arg(folder.path())
            // Without the programs with which it would be compared.
            .env("PATH", "/nonexistent")
            .assert();
        let run = run.get_output();
        let said = String::from_utf8_lossy(&run.stderr);
        if run.status.code() == Some(3) {
            eprintln!("SKIPPED: {load}: {said}");
            continue;
        }
        assert_eq!((run.status.code(), &*said), (Some(0), ""), "{load}");
        let judged: Value = serde_json::from_slice(&run.stdout).unwrap();
        let of_load = &judged["contention"][0];
        assert_eq!(of_load["load"], load);
        let points = of_load["points"].as_array().unwrap();
        // Two workers that wait for each other may do nothing in most runs, if others use the CPUs.
        let is_any = |point: &Value| {
            let rate = &point["rate"];
            [&rate["median"], &rate["interval"][1]].iter().any(|figure| figure.as_f64() > Some(0.0))
        };
        assert!(points.iter().all(is_any), "{load}: {points:?}");
        for file in ["report.html", "contention.csv"] {
            assert!(folder.path().join(file).metadata().unwrap().len() > 0, "{file}");
        }
        let record = record(folder.path());
        assert_eq!((&record["subcommand"], &record["subject"]), (&"bench".into(), &load.into()));
        manycore().arg("report").arg(folder.path().join("record.json")).assert().success();
    }
    // Other programs on this machine may create some for a moment, too.
    wait_until_removed(&before);
}

#[test]
fn a_section_of_eval_is_measured_alone_and_on_some_cpus() {
    let folder = tempfile::tempdir().unwrap();
    let run = manycore()
        .args(["bench", "noise", "--cpus", &first_cpu(), "--budget", "1", "--quiet", "--out"])
        .arg(folder.path())
        .assert()
        .success();
    let record = record(folder.path());
    // Under a quota, slices are long, and fewer than six pairs have no interval.
    let pairs = record["experiments"][0]["samples"].as_array().unwrap().len() / 2;
    assert!(
        pairs < 6 || String::from_utf8_lossy(&run.get_output().stdout).contains("NOISE FLOOR"),
        "{pairs} pairs"
    );
    assert_eq!(record["experiments"][0]["treatments"].as_array().unwrap().len(), 2, "one CPU, A and B");
}

#[test]
fn no_signal_leaves_an_object_behind() {
    let _alone = exclusive();
    let before = objects();
    for load in ["sem-sysv", "msg"] {
        // KILL last: only the cleanup process can remove the objects then.
        for (name, code) in [("INT", Some(130)), ("TERM", Some(130)), ("KILL", None)] {
            let folder = tempfile::tempdir().unwrap();
            let mut child = start(load, folder.path());
            let workers = workers(child.id());
            assert!(!objects().is_subset(&before), "{load} has an object while it runs");
            signal(child.id() as i32, name);
            assert_eq!(child.wait().unwrap().code(), code, "{load} {name}");
            wait_until_removed(&before);
            let deadline = Instant::now() + Duration::from_mins(1);
            while workers.iter().any(|worker| Path::new(&format!("/proc/{worker}/cwd/.")).exists()) {
                assert!(Instant::now() < deadline, "{load} {name}: a worker is still running");
                std::thread::yield_now();
            }
        }
    }
}

#[test]
fn a_killed_worker_is_reported() {
    let _alone = exclusive();
    let before = objects();
    for load in ["sem-sysv", "msg", "pipe"] {
        let folder = tempfile::tempdir().unwrap();
        let child = start(load, folder.path());
        signal(workers(child.id())[0], "KILL");
        // If it hung, it would be killed at the time limit of a test, and have no exit code.
        let run = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&run.stderr);
        assert_eq!(run.status.code(), Some(4), "{load}: {said}");
        assert!(said.contains("signal: 9 (SIGKILL)"), "{load}: {said}");
        wait_until_removed(&before);
    }
}

#[test]
fn names_are_listed_and_similar_ones_suggested() {
    let list = manycore().arg("bench").assert().success();
    let list = String::from_utf8_lossy(&list.get_output().stdout).into_owned();
    assert!(["counter", "pipe", "sem-sysv", "matrix"].iter().all(|name| list.contains(name)), "{list}");
    manycore().args(["bench", "list"]).assert().success().stdout(list);
    let wrong = manycore().args(["bench", "countr"]).assert().code(2);
    let said = String::from_utf8_lossy(&wrong.get_output().stderr).into_owned();
    assert!(said.contains("similar names are: counter"), "{said}");
}

#[test]
fn options_that_do_not_apply_are_refused() {
    for (arguments, expected) in [
        (&["noise", "--workers", "2"][..], "--workers applies to loads and stream"),
        (&["noise", "--array", "1G"], "--array applies to stream"),
        (&["pipe", "--kernel", "copy"], "--kernel applies to stream"),
        (&["counter", "--nodes", "0"], "--nodes applies to stream"),
        (&["lock", "--unixbench"], "--unixbench applies to pipe"),
        (&["lock", "--unixbench-dir", "/"], "--unixbench-dir applies to pipe"),
        (&["pipe", "--unixbench", "--workers", "2"], "cannot be combined with --workers"),
        (&["pipe", "--unixbench", "--budget", "2"], "cannot be combined with --budget"),
        (&["pipe", "--unixbench-dir", "/nonexistent"], "found no context1"),
        (&["queue", "--workers", "1"], "needs at least 2"),
        (&["counter", "--cpus", "4000"], "--cpus 4000 has CPUs that may not be used here"),
        (&["counter", "--cpus", ""], "--cpus is empty"),
        (&["counter", "--cpus", "x"], "--cpus"),
        (&["counter", "--workers", "0"], "--workers"),
        (&["counter", "--budget", "0"], "--budget"),
        (&["counter", "--budget=-1"], "--budget"),
        (&["counter", "--quick", "--full"], "cannot be used with"),
        (&["guard"], "there is no load"),
    ] {
        assert_bench_refuses(arguments, expected);
    }
}

#[test]
fn a_process_limit_is_reported_with_its_fix() {
    let folder = tempfile::tempdir().unwrap();
    // Eight workers share 32 pipe ends. The first limit is too small for these; the second allows them and
    // little else.
    for files in [20, 36] {
        let out = folder.path().join("out");
        let script = format!("ulimit -n {files}; exec \"$0\" bench pipe --workers 8 --quiet --out \"$1\"");
        let run =
            Command::new("bash").args(["-c", &script]).arg(cargo_bin("manycore")).arg(&out).output().unwrap();
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(3), "{said}");
        assert!(said.contains("see ulimit -n") && said.lines().count() == 1, "{said}");
        assert!(!out.exists());
    }
}

/// Uses the C program of the benchmark `contention`, which has the name and the output of UnixBench's.
#[test]
fn pipes_are_measured_beside_a_context1() {
    let folder = tempfile::tempdir().unwrap();
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("benches/contention.c");
    let built =
        Command::new("gcc").args(["-O2", "-o"]).arg(folder.path().join("context1")).arg(source).status();
    if !built.is_ok_and(|status| status.success()) {
        eprintln!("SKIPPED: gcc is not installed");
        return;
    }
    let run = manycore()
        .args(["bench", "pipe", "--workers", "1", "--budget", "5", "--quiet", "--format", "json"])
        .arg("--unixbench-dir")
        .arg(folder.path())
        .arg("--out")
        .arg(folder.path().join("out"))
        .assert()
        .success();
    let judged: Value = serde_json::from_slice(&run.get_output().stdout).unwrap();
    let load = &judged["contention"][0];
    assert_eq!(load["other_program"], "UnixBench's context1");
    let peer = &load["against_other"][0];
    // A busy machine makes fewer pairs in the time, and fewer than six have no interval.
    if peer["pairs"].as_u64() >= Some(6) {
        // How fast the two are is a matter of `make bench`.
        assert!(peer["ratio"]["median"].as_f64() > Some(0.0), "{peer:#}");
    } else {
        assert!(peer["ratio"].is_null() && peer["pairs"].as_u64() > Some(0), "{peer:#}");
    }
    assert_eq!(load["unixbench"]["exact"], false);
}

#[test]
fn a_system_limit_is_reported_with_its_fix() {
    let _alone = exclusive();
    let folder = tempfile::tempdir().unwrap();
    // In a namespace of its own, so that the limit affects no other process.
    let script = "echo 0 > /proc/sys/kernel/msgmni || exit 77; exec \"$0\" bench msg --quiet --out \"$1\"";
    let run = Command::new("unshare")
        .args(["--ipc", "sh", "-c", script])
        .arg(cargo_bin("manycore"))
        .arg(folder.path().join("out"))
        .output();
    let Some(run) = run.ok().filter(|run| !matches!(run.status.code(), Some(1 | 77))) else {
        eprintln!("SKIPPED: lowering the limit needs a namespace");
        return;
    };
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(run.status.code(), Some(3), "{said}");
    assert!(said.contains("the system's limit is reached") && said.lines().count() == 1, "{said}");
}
