//! Tests of `manycore top` with the real binary: what is printed without a terminal.

use crate::common;
use crate::common::{
    manycore,
    place::{KillOnDrop, soon},
    schema, sh, text,
};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;

/// Runs a shell below `top`, whose tables have only its tasks.
fn with_command(options: &[&str], script: &str) -> Output {
    let words = [&["top", "--interval", "200ms"], options, &["--", "sh", "-c", script]].concat();
    manycore().args(words).output().unwrap()
}

/// Takes about half a second of CPU time, and says how much in user mode and in the kernel (`0m0.48s 0m0.01s`).
const WORK: &str = "i=0; while [ $i -lt 400000 ]; do i=$((i+1)); done; times; exit 7";

/// Returns what the first line of `times` says.
fn cpu_seconds(said: &str) -> f64 {
    let seconds = |time: &str| {
        let (minutes, seconds) = time.strip_suffix('s')?.split_once('m')?;
        Some(minutes.parse::<f64>().ok()? * 60.0 + seconds.parse::<f64>().ok()?)
    };
    let sum = |line: &str| line.split_whitespace().map(seconds).sum::<Option<f64>>();
    said.lines().filter(|line| !line.trim().is_empty()).find_map(sum).unwrap()
}

pub fn snapshots(output: &Output) -> Vec<Value> {
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
    // It shares its CPU with other tests, and is read late in one sample or another. The sum has no such error: the CPU time
    // from its first to its last sample, in which a tick and a rounded digit may be wrong.
    let seconds = |one: &Value| {
        let percent = one["processes"][0]["cpu_percent"].as_f64()?;
        Some(percent / 100.0 * one["seconds"].as_f64().unwrap())
    };
    let (sum, own) = (all.iter().filter_map(seconds).sum::<f64>(), cpu_seconds(&text(&output.stderr)));
    assert!(sum > 0.0 && sum < 1.05 * own + 0.05, "{sum} s, by its own account {own} s: {all:?}");
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

/// Regression: the waits of the machine and of its CPUs were those of the named tasks.
#[test]
fn waits_of_cpus_are_those_of_all_tasks_where_some_are_named() {
    let loops = "exec 2>/dev/null; cpu=$(taskset -pc $$ | sed 's/.*[ ,-]//'); taskset -pc $cpu $$ >&2; \
                 while :; do :; done & while :; do :; done";
    let mut busy = Command::new("sh");
    let busy = KillOnDrop(busy.args(["-c", loops]).stdin(Stdio::null()).spawn().unwrap());
    let idle = KillOnDrop(Command::new("sleep").arg("600").spawn().unwrap());
    let pid = idle.pid().to_string();
    let words = ["top", "--once", "--show", "cpus,processes,system", "--format", "json", "--pid", &pid];
    soon("no task waits for a CPU", || {
        let run = manycore().args(words).assert().success();
        let snapshot = schema::parse("top", &run.get_output().stdout);
        assert_eq!(snapshot["processes"].as_array().unwrap().len(), 1, "{snapshot}");
        let waits =
            snapshot["cpus"].as_array().unwrap().iter().map(|cpu| cpu["wait_percent"].as_f64().unwrap());
        snapshot["system"]["wait_percent"].as_f64().unwrap() > 50.0 && waits.fold(0.0, f64::max) > 50.0
    });
    drop(busy);
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
fn what_a_command_has_started_ends_with_it() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("pid");
    let script = format!("sleep 1000 & echo $! >{}; wait", file.display());
    // On a busy machine, the command is still starting when two intervals have passed.
    let pid = ["2", "20", "200"].into_iter().find_map(|count| {
        let words = ["top", "--count", count, "--interval", "300ms", "--", "sh", "-c", &script];
        manycore().args(words).assert().success();
        fs::read_to_string(&file).ok()?.trim().parse::<u32>().ok()
    });
    let pid = pid.unwrap();
    // It is a zombie until its new parent takes its status.
    let stat = || fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    soon("the end of the other process", || !stat().contains("(sleep) S"));
}

#[test]
fn latencies_without_bpf_are_refused_and_what_is_missing_is_named() {
    let refused = manycore().args(["top", "--once", "--show", "latency"]).assert().code(2);
    assert!(text(&refused.get_output().stderr).contains("add --bpf, as root"));
    let folder = TempDir::new().unwrap();
    let day = folder.path().join("day.top").to_str().unwrap().to_owned();
    manycore().args(["top", "--record", &day, "--interval", "100ms", "--count", "2"]).assert().success();
    let words = ["top", "--replay", &day, "--interval", "100ms", "--show", "latency,groups,bandwidth"];
    let said = text(&manycore().args(words).assert().success().get_output().stderr);
    for option in ["with --bpf", "with --show groups", "with --show bandwidth"] {
        assert_eq!(said.matches(option).count(), 1, "{said}");
    }
}

fn recorded(folder: &TempDir, count: &str) -> String {
    let day = folder.path().join("day.top").to_str().unwrap().to_owned();
    manycore().args(["top", "--record", &day, "--interval", "200ms", "--count", count]).assert().success();
    day
}

#[test]
fn parts_that_are_missing_leave_no_empty_lines() {
    let folder = TempDir::new().unwrap();
    let day = recorded(&folder, "4");
    let words = ["top", "--replay", &day, "--interval", "200ms", "--show", "interrupts"];
    let run = manycore().args(words).assert().success();
    assert_eq!(text(&run.get_output().stdout), "");
    let run = manycore().args(["top", "--interval", "100ms", "--count", "4", "--show", "findings"]).assert();
    let printed = text(&run.success().get_output().stdout);
    // Each block begins with the time.
    for block in printed.split("\n\n").filter(|block| !block.is_empty()) {
        let clock = block.lines().next().unwrap();
        assert!(clock.ends_with(" UTC") && clock.matches(':').count() == 2, "{printed}");
    }
}

#[test]
fn no_findings_are_said_to_be_none() {
    // Those of this machine are not known.
    let findings = |words: &[&str]| {
        let run = manycore().args([&["top", "--once", "--interval", "100ms"], words].concat()).assert();
        text(&run.success().get_output().stdout)
    };
    let json: Value = serde_json::from_str(&findings(&["--format", "json", "--show", "findings"])).unwrap();
    assert!(json["findings"].is_array(), "{json}");
    let json: Value = serde_json::from_str(&findings(&["--format", "json", "--show", "system"])).unwrap();
    assert!(json.get("findings").is_none(), "{json}");
    assert!(findings(&["--show", "findings"]).lines().count() > 1);
}

#[test]
fn a_port_in_use_and_the_token_are_explained() {
    let folder = TempDir::new().unwrap();
    let token = folder.path().join("token").to_str().unwrap().to_owned();
    sh(&format!("umask 077; echo 0123456789abcdef0123456789abcdef >{token}"));
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let occupied = listener.local_addr().unwrap().to_string();
    let refused = manycore().args(["top", "--serve", &occupied]).assert().code(2);
    assert!(text(&refused.get_output().stderr).contains("Choose another port"));
    let words = ["top", "--serve", "127.0.0.1:0", "--token", &token, "--interval", "100ms", "--count", "1"];
    let said = text(&manycore().args(words).assert().success().get_output().stderr);
    assert!(said.contains(&format!("(each with ?token=TOKEN, which is in {token})")), "{said}");
}

/// The kernel calls a process `exe` that was started as `/proc/self/exe`, as helper processes are.
#[test]
fn helper_processes_are_called_manycore() {
    let folder = TempDir::new().unwrap();
    let link = folder.path().join("exe");
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_manycore"), &link).unwrap();
    let script = "grep . /proc/$PPID/comm";
    let words = ["top", "--interval", "100ms", "--format", "csv", "--", "sh", "-c", script];
    let output = Command::new(link).args(words).output().unwrap();
    assert_eq!(text(&output.stderr).lines().next(), Some("manycore"));
}

#[test]
fn a_command_that_stops_and_continues_has_no_table_of_its_own() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("pid");
    let script = format!("echo $$ >{0}; kill -STOP $$; exit 3", file.display());
    let words =
        ["top", "--interval", "60s", "--format", "json", "--show", "system", "--", "sh", "-c", &script];
    let program = common::program();
    let top = Command::new(program).args(words).stdout(Stdio::piped()).spawn().unwrap();
    let pid = || fs::read_to_string(&file).ok()?.trim().parse::<u32>().ok();
    let stat = |pid: u32| fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    soon("the stop of the command", || pid().is_some_and(|pid| stat(pid).contains(") T ")));
    sh(&format!("kill -CONT {}", pid().unwrap()));
    let output = top.wait_with_output().unwrap();
    assert_eq!(output.status.code(), Some(3));
    assert_eq!(snapshots(&output).len(), 1, "{}", text(&output.stdout));
}

#[test]
fn memory_by_node_is_that_of_the_processes_that_are_shown() {
    let words = ["top", "--once", "--show", "memory", "--format", "json", "--", "sleep", "1000"];
    let output = manycore().args(words).output().unwrap();
    let all = snapshots(&output);
    let [row] = &all[0]["memory"].as_array().unwrap()[..] else { panic!("{all:?}") };
    assert_eq!(row["name"], "sleep");
    if !Path::new("/proc/self/numa_maps").exists() {
        println!("SKIPPED: this kernel has no memory by node");
        return;
    }
    let nodes = row["node_kib"].as_object().unwrap();
    assert!(nodes.values().map(|kib| kib.as_u64().unwrap()).sum::<u64>() > 0, "{row}");
    assert!((0.0..=100.0).contains(&row["remote_percent"].as_f64().unwrap()), "{row}");
}

/// A process that looks like an emulator, until it is dropped: its only thread is that of a virtual CPU.
struct Emulator(std::process::Child);

impl Emulator {
    fn start(folder: &Path) -> Self {
        let program = folder.join("qemu-system-x86_64");
        // The name of a link is that of the process. A copy could be open for writing in a child of another test.
        std::os::unix::fs::symlink("/bin/sh", &program).unwrap();
        let script = "printf 'CPU 0/KVM' >/proc/$$/comm; while :; do :; done";
        let words = ["-c", script, "-name", "guest=web1,debug-threads=on"];
        let emulator = Self(Command::new(program).args(words).spawn().unwrap());
        let comm = || fs::read_to_string(format!("/proc/{}/comm", emulator.0.id())).unwrap_or_default();
        soon("the name of its thread", || comm() == "CPU 0/KVM\n");
        emulator
    }
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.0.kill().and_then(|()| self.0.wait());
    }
}

#[test]
fn virtual_machines_are_printed_recorded_and_reported() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (day, page) = (path("day.top"), path("day.html"));
    let emulator = Emulator::start(folder.path());
    let web = |output: &Output| {
        let rows = snapshots(output)[0]["guests"].as_array().unwrap().clone();
        let own = rows.into_iter().find(|row| row["pid"] == emulator.0.id()).unwrap();
        assert_eq!((&own["name"], &own["vcpus"][0]["vcpu"]), (&"web1".into(), &0.into()), "{own}");
        assert!(own["cpu_percent"].as_f64().unwrap() > 0.0, "{own}");
    };
    web(&manycore().args(["top", "--once", "--show", "guests", "--format", "json"]).output().unwrap());
    manycore().args(["top", "--record", &day, "--interval", "300ms", "--count", "4"]).assert().success();
    let replayed = ["top", "--replay", &day, "--once", "--interval", "300ms", "--show", "guests"];
    web(&manycore().args(replayed).args(["--format", "json"]).output().unwrap());
    let shown = manycore().args(replayed).assert().success();
    assert!(text(&shown.get_output().stdout).contains("Virtual machines"));
    let report = manycore().args(["report", &day, "--html", &page]).assert().success();
    assert!(text(&report.get_output().stdout).contains("web1"));
    let page = fs::read_to_string(page).unwrap();
    assert!(page.contains("CPUs used by virtual machines") && page.contains("web1 ("));
}
