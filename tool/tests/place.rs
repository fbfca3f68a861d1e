//! `run`, `pin` and `undo` on the real binary and real processes.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop anywhere")]

use manycore_host::{affinity, tasks};
use manycore_model::CpuSet;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    path::PathBuf,
    process::{Child, Command, Output, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Longest wait for anything.
const PATIENCE: Duration = Duration::from_mins(1);

/// A folder with journals of its own.
struct House(TempDir);

impl House {
    fn new() -> Self {
        Self(tempfile::tempdir().unwrap())
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("manycore"));
        command.args(arguments).current_dir(self.0.path()).env("MANYCORE_STATE", self.path("journals"));
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().unwrap()
    }

    /// What it says on standard error when it ends with `code`.
    fn says(&self, code: i32, arguments: &[&str]) -> String {
        let run = self.run(arguments);
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(code), "{arguments:?}: {said}");
        said
    }

    /// Whether no journal is left.
    fn is_clean(&self) -> bool {
        fs::read_dir(self.path("journals")).map_or(true, |entries| entries.count() == 0)
    }

    fn stay(&self) -> Value {
        serde_json::from_slice(&fs::read(self.path("stay.json")).unwrap()).unwrap()
    }
}

/// A process that ends with its test.
struct Guard(Child);

impl Guard {
    /// A shell that starts a sleeping child whenever a line comes.
    fn shell() -> Self {
        let mut shell = Command::new("sh");
        shell.args(["-c", "echo ready; while read line; do sleep 1000 & echo $!; done"]);
        let mut guard = Self(shell.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        assert_eq!(guard.line(), "ready");
        guard
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        // One byte at a time: nothing of the next line may be lost in a buffer.
        BufReader::with_capacity(1, self.0.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    /// Has a shell start a child; returns its id.
    fn child(&mut self) -> u32 {
        std::io::Write::write_all(self.0.stdin.as_mut().unwrap(), b"\n").unwrap();
        self.line().parse().unwrap()
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    fn signal(&self, signal: Signal) {
        kill_process(Pid::from_child(&self.0), signal).unwrap();
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        for pid in tasks::tree(&[self.pid()]) {
            let _ = Pid::from_raw(pid as i32).map(|pid| kill_process(pid, Signal::KILL));
        }
        let _ = self.0.wait();
    }
}

fn soon(what: &str, mut is_true: impl FnMut() -> bool) {
    let began = Instant::now();
    while !is_true() {
        assert!(began.elapsed() < PATIENCE, "{what} does not come true");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// The CPUs that we may use, where there are two at least.
fn two_cpus() -> Option<CpuSet> {
    let cpus = affinity::allowed().unwrap();
    if cpus.len() < 2 {
        eprintln!("SKIPPED: needs two CPUs");
        return None;
    }
    Some(cpus)
}

fn last(cpus: &CpuSet) -> CpuSet {
    CpuSet::single(cpus.last().unwrap())
}

fn is_on(pid: u32, cpus: &CpuSet) -> bool {
    affinity::of(pid).is_ok_and(|now| now == *cpus)
}

#[test]
fn a_command_keeps_its_streams_its_status_and_leaves_nothing() {
    let house = House::new();
    let run = house.run(&["run", "--place", "close", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!(run.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&run.stdout), "out\n");
    assert!(String::from_utf8_lossy(&run.stderr).starts_with("err\n"));
    assert_eq!(house.run(&["run", "-q", "--", "sh", "-c", "kill -9 $$"]).status.code(), Some(137));
    assert!(house.says(3, &["run", "--", "no-such-program"]).contains("there is no such program"));
    assert!(house.is_clean());
}

#[test]
fn each_thread_gets_its_own_cpu_and_is_seen_there() {
    let Some(cpus) = two_cpus() else { return };
    let house = House::new();
    let arguments = ["run", "--place", "close", "--workers", "2", "--check", "--out", "stay.json", "--"];
    let program = assert_cmd::cargo::cargo_bin!("manycore").to_str().unwrap();
    let run = house.run(&[&arguments[..], &[program, "probe", "--threads", "2"]].concat());
    let printed = String::from_utf8_lossy(&run.stdout).into_owned();
    assert_eq!(run.status.code(), Some(0), "{printed}{}", String::from_utf8_lossy(&run.stderr));
    assert!(printed.contains("2 of 2 threads bound") && printed.contains("; 0 looks elsewhere"), "{printed}");
    let mut bound: Vec<u32> = printed
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().nth(1)?.parse().ok())
        .take(2)
        .collect();
    bound.sort_unstable();
    assert_eq!(bound, cpus.iter().take(2).collect::<Vec<_>>());
    let stay = house.stay();
    assert_eq!(stay["schema"], "manycore/residence/1");
    let tasks = stay["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 3);
    assert!(tasks.iter().all(|task| task["outside_ns"] == 0 && task["worker"].is_number()), "{stay}");
    assert!(house.is_clean());
}

#[test]
fn a_command_that_leaves_its_place_is_told_and_checked() {
    let Some(cpus) = two_cpus() else { return };
    let (house, all, one) = (House::new(), cpus.to_string(), cpus.first().unwrap().to_string());
    // Holds itself to other CPUs than the plan: a cpuset would not let it.
    let command =
        format!("taskset -pc {all} $$ >/dev/null; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done");
    let place = format!("cpus={one}");
    let arguments =
        ["run", "--place", &place, "--workers", "1", "--hold", "affinity", "--check", "--", "sh", "-c"];
    let said = house.says(1, &[&arguments[..], &[&command]].concat());
    assert!(said.contains("set its own affinity") && said.contains("the plan did not hold"), "{said}");
}

#[test]
fn what_a_command_leaves_behind_gets_its_cpus_back() {
    let Some(cpus) = two_cpus() else { return };
    let house = House::new();
    let place = format!("cpus={}", last(&cpus));
    let run = house.run(&[
        "run",
        "--place",
        &place,
        "--workers",
        "1",
        "--",
        "sh",
        "-c",
        "sleep 1000 >&- 2>&- & echo $!",
    ]);
    let sleeper: u32 = String::from_utf8_lossy(&run.stdout).trim().parse().unwrap();
    assert!(is_on(sleeper, &cpus), "{}", affinity::of(sleeper).unwrap());
    assert!(String::from_utf8_lossy(&run.stderr).contains("it left sleep running"));
    kill_process(Pid::from_raw(sleeper as i32).unwrap(), Signal::KILL).unwrap();
    assert!(house.is_clean());
}

#[test]
fn wait_stays_until_all_has_ended() {
    let Some(cpus) = two_cpus() else { return };
    let house = House::new();
    let place = format!("cpus={}", last(&cpus));
    let script = "(sleep 0.3; sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status) &";
    let run = house.run(&["run", "--wait", "--place", &place, "--workers", "1", "--", "sh", "-c", script]);
    assert_eq!(String::from_utf8_lossy(&run.stdout).trim(), last(&cpus).to_string());
    assert!(house.is_clean());
}

#[test]
fn a_signal_reaches_the_command_which_decides() {
    let house = House::new();
    let script = "trap 'echo asked; exit 5' TERM; echo ready; while :; do sleep 0.01; done";
    let mut run = Guard(house.command(&["run", "--", "sh", "-c", script]).spawn().unwrap());
    assert_eq!(run.line(), "ready");
    run.signal(Signal::TERM);
    assert_eq!(run.line(), "asked");
    assert_eq!(run.0.wait().unwrap().code(), Some(5));
    assert!(house.is_clean());
}

#[test]
fn a_process_is_moved_with_children_to_come_and_moved_back() {
    let Some(cpus) = two_cpus() else { return };
    let (house, mut shell) = (House::new(), Guard::shell());
    let before = shell.child();
    let (pid, place) = (shell.pid().to_string(), format!("cpus={}", last(&cpus)));
    let pin =
        Guard(house.command(&["pin", "--pid", &pid, "--place", &place, "--workers", "1"]).spawn().unwrap());
    soon("the pin", || is_on(shell.pid(), &last(&cpus)) && is_on(before, &last(&cpus)));
    let after = shell.child();
    soon("the pin of a child", || is_on(after, &last(&cpus)));
    let listed = house.run(&["undo", "--list"]);
    assert!(String::from_utf8_lossy(&listed.stdout).contains("running: pin --pid"));
    // Whose owner lives is not undone by others.
    let left = house.run(&["undo"]);
    assert!(String::from_utf8_lossy(&left.stdout).contains("still running, left alone"));
    assert!(is_on(shell.pid(), &last(&cpus)));
    pin.signal(Signal::INT);
    let mut pin = pin;
    assert_eq!(pin.0.wait().unwrap().code(), Some(0));
    for pid in [shell.pid(), before, after] {
        assert!(is_on(pid, &cpus), "{pid}");
    }
    assert!(house.is_clean());
}

#[test]
fn what_sigkill_leaves_undo_gives_back() {
    let Some(cpus) = two_cpus() else { return };
    let (house, mut shell) = (House::new(), Guard::shell());
    let (pid, place) = (shell.pid().to_string(), format!("cpus={}", last(&cpus)));
    for turn in 0..10 {
        let mut pin = Guard(
            house.command(&["pin", "--pid", &pid, "--place", &place, "--workers", "1"]).spawn().unwrap(),
        );
        soon("the pin", || is_on(shell.pid(), &last(&cpus)));
        pin.signal(Signal::KILL);
        pin.0.wait().unwrap();
        let orphan = shell.child();
        assert!(is_on(orphan, &last(&cpus)));
        let undo = house.run(&["undo"]);
        assert_eq!(undo.status.code(), Some(0), "{}", String::from_utf8_lossy(&undo.stderr));
        for pid in tasks::tree(&[shell.pid()]) {
            assert!(is_on(pid, &cpus), "{pid} in turn {turn}: {}", String::from_utf8_lossy(&undo.stdout));
        }
        assert!(house.is_clean());
    }
}

#[test]
fn a_killed_run_leaves_its_command_which_undo_frees() {
    let Some(cpus) = two_cpus() else { return };
    let house = House::new();
    let place = format!("cpus={}", last(&cpus));
    let mut run = Guard(
        house
            .command(&[
                "run",
                "--place",
                &place,
                "--workers",
                "1",
                "--",
                "sh",
                "-c",
                "sleep 1000 & echo $!; wait",
            ])
            .spawn()
            .unwrap(),
    );
    let sleeper: u32 = run.line().parse().unwrap();
    let shell = tasks::parent(sleeper).unwrap();
    run.signal(Signal::KILL);
    run.0.wait().unwrap();
    assert!(tasks::is_alive(sleeper) && is_on(sleeper, &last(&cpus)));
    assert_eq!(house.run(&["undo"]).status.code(), Some(0));
    assert!(is_on(sleeper, &cpus) && is_on(shell, &cpus));
    for pid in [shell, sleeper] {
        let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL);
    }
    assert!(house.is_clean());
}

#[test]
fn once_stays_until_undone() {
    let Some(cpus) = two_cpus() else { return };
    let (house, shell) = (House::new(), Guard::shell());
    let (pid, place) = (shell.pid().to_string(), format!("cpus={}", last(&cpus)));
    let said = house.says(0, &["pin", "--pid", &pid, "--place", &place, "--workers", "1", "--once"]);
    assert!(said.contains("1 tasks moved") && said.contains("'manycore undo pin-"), "{said}");
    assert!(is_on(shell.pid(), &last(&cpus)));
    let listed = house.run(&["undo", "--list"]);
    let listed = String::from_utf8_lossy(&listed.stdout).into_owned();
    assert!(listed.contains("stays until undone"), "{listed}");
    let name = listed.split_whitespace().next().unwrap();
    assert!(house.says(2, &["undo", "pin-0"]).contains("nothing named pin-0"));
    let undone = house.run(&["undo", name, "--format", "json"]);
    let undone: Value = serde_json::from_slice(&undone.stdout).unwrap();
    assert_eq!(undone["undone"][0]["restored"]["tasks"], 1);
    assert!(is_on(shell.pid(), &cpus) && house.is_clean());
}

#[test]
fn plans_are_for_the_machine_that_they_name() {
    let house = House::new();
    let write = |name: &str, text: &str| fs::write(house.path(name), text).unwrap();
    write(
        "other.json",
        r#"{"schema":"manycore/plan/1","machine":"0","place":"close","workers":[{"cpus":"0","memory_nodes":[],"why":""}]}"#,
    );
    write("record.json", r#"{"schema":"manycore/record/1"}"#);
    write("none.json", "x");
    for (file, problem) in [
        ("other.json", "for another machine (fingerprint 0"),
        ("record.json", "expected \"manycore/plan/1\""),
        ("none.json", "is not a plan"),
        ("absent.json", "cannot read"),
    ] {
        assert!(house.says(2, &["run", "--plan", file, "--", "true"]).contains(problem), "{file}");
    }
    assert!(house.is_clean());
}

#[test]
fn what_cannot_be_is_said_and_nothing_is_changed() {
    let house = House::new();
    for (arguments, code, problem) in [
        (&["run", "--place", "near=nosuch0", "--", "true"][..], 2, "nosuch0"),
        (&["run", "--place", "cpus=4094", "--", "true"], 2, "4094"),
        (&["run", "--exclusive", "--workers", "5000", "--", "true"], 2, "5000 workers"),
        (&["run", "--memory", "bind=99", "--", "true"], 2, "no NUMA node 99"),
        (&["pin", "--pid", "4194303"], 2, "there is no process 4194303"),
        (&["pin", "--pid", "2"], 2, "thread of the kernel"),
    ] {
        let said = house.says(code, arguments);
        assert!(said.contains(problem), "{arguments:?}: {said}");
    }
    assert!(house.is_clean());
}

#[test]
fn without_a_journal_nothing_is_changed() {
    let house = House::new();
    fs::write(house.path("journals"), "a file").unwrap();
    let said = house.says(3, &["run", "--", "true"]);
    assert!(said.contains("cannot write a journal") && said.contains("nothing was changed"), "{said}");
}

#[test]
fn somebody_elses_journals_are_not_believed() {
    use std::os::unix::fs::chown;
    let house = House::new();
    fs::create_dir(house.path("journals")).unwrap();
    if chown(house.path("journals"), Some(65534), None).is_err() {
        return eprintln!("SKIPPED: needs root");
    }
    assert!(house.says(3, &["undo"]).contains("belongs to user 65534"));
}

#[test]
fn an_ordinary_user_places_his_own() {
    let house = House::new();
    let Some(cpus) = two_cpus() else { return };
    let program = assert_cmd::cargo::cargo_bin!("manycore");
    let place = format!("cpus={}", last(&cpus));
    let journals = house.path("own");
    fs::create_dir(&journals).unwrap();
    let mut user = Command::new("setpriv");
    user.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
    user.args(["run", "--place", &place, "--workers", "1", "--", "sleep", "0.2"])
        .env("MANYCORE_STATE", &journals);
    if std::os::unix::fs::chown(&journals, Some(65534), Some(65534)).is_err() {
        return eprintln!("SKIPPED: needs root");
    }
    fs::set_permissions(house.0.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let run = user.output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    if said.contains("Permission denied") && said.contains("setpriv") {
        return eprintln!("SKIPPED: another user cannot run what was built here");
    }
    assert_eq!(run.status.code(), Some(0), "{said}");
    assert!(said.contains("affinities alone: no cpuset can be made"), "{said}");
    let foreign = Guard::shell();
    let mut user = Command::new("setpriv");
    user.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(program);
    let run = user
        .args(["pin", "--pid", &foreign.pid().to_string()])
        .env("MANYCORE_STATE", &journals)
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&run.stderr).contains("none of its tasks can be moved"));
    assert_eq!(fs::read_dir(&journals).unwrap().count(), 0);
}
