//! Tests of `manycore guard` on real processes, in control groups with limits of their own.

use crate::common;
use crate::common::{
    memory_group::{AllocationPattern, Group, eat},
    running_guard::Guard,
};
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    path::{Path, PathBuf},
    process::{Child, Command},
    thread,
    time::{Duration, Instant},
};

/// Freezes the members of a group: by a group of the freezer hierarchy (version 1), or the group itself.
struct Freezer {
    made: Option<PathBuf>,
    state: PathBuf,
}

impl Freezer {
    fn new(group: &Group) -> Option<Self> {
        let own = group.folder.join("cgroup.freeze");
        if own.exists() {
            return Some(Self { made: None, state: own });
        }
        let folder = PathBuf::from(format!("/sys/fs/cgroup/freezer{}", group.path));
        match fs::create_dir(&folder) {
            Ok(()) => Some(Self { state: folder.join("freezer.state"), made: Some(folder) }),
            Err(error) => {
                eprintln!("SKIPPED: no control group that can be frozen: {error}");
                None
            }
        }
    }

    fn take(&self, pid: u32) {
        if let Some(folder) = &self.made {
            fs::write(folder.join("cgroup.procs"), pid.to_string()).unwrap();
        }
    }

    fn is_frozen(&self) -> bool {
        let state = fs::read_to_string(&self.state).unwrap();
        ["1", "FREEZING", "FROZEN"].contains(&state.trim())
    }
}

impl Drop for Freezer {
    fn drop(&mut self) {
        let Some(folder) = &self.made else { return };
        let end = Instant::now() + Duration::from_mins(1);
        while fs::remove_dir(folder).is_err() && Instant::now() < end {
            thread::yield_now();
        }
    }
}

/// Returns a rules file for a group.
fn rules_for(group: &Group, settings: &str) -> tempfile::NamedTempFile {
    let file = tempfile::NamedTempFile::new().unwrap();
    fs::write(file.path(), format!("[[cgroup]]\npath = {:?}\n{settings}", group.path)).unwrap();
    file
}

/// Thresholds by level alone, for a group of 200 MiB in which a process holds 160. About 38 are left, because
/// the kernel's own memory and what it charges in advance count too.
const LEVELS: &str =
    "term_below = \"70M\"\nkill_below = \"10M\"\nterm_before = \"0s\"\nkill_before = \"0s\"\n";

fn has_python() -> bool {
    let has = Command::new("python3").arg("--version").output().is_ok();
    if !has {
        eprintln!("SKIPPED: python3 is not installed");
    }
    has
}

fn wait_for_line(child: &mut Child) {
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "1\n");
}

#[test]
fn growing_process_is_ended_and_larger_one_survives() {
    let Some(group) = Group::new("grows", 256) else { return };
    let mut big = group.eat(AllocationPattern::at_once(120));
    wait_for_line(&mut big);
    let mut guard = Guard::start(&["--cgroup", &group.path]);
    let mut small = group.eat(AllocationPattern::endless(50));
    let sent = guard.wait("term");
    assert_eq!(sent["cause"]["pid"], small.id());
    assert!(sent["cause"]["bytes"].as_u64().unwrap() < 130 << 20);
    guard.wait("exited");
    small.wait().unwrap();
    assert!(big.try_wait().unwrap().is_none(), "the larger process was ended");
    drop(big.stdin.take());
    assert!(big.wait().unwrap().success());
    let (status, lines) = guard.end();
    assert!(status.success());
    assert!(lines.iter().all(|line| line["event"] != "kill"), "{lines:#?}");
}

#[test]
fn named_processes_are_watched_from_their_start() {
    // The limit of the group is far above that of the rule. The process exceeds the rule's limit in less than
    // the time between two surveys.
    let Some(group) = Group::new("named", 400) else { return };
    let folder = tempfile::tempdir().unwrap();
    let name = format!("mc-{}", std::process::id());
    let program = folder.path().join(&name);
    std::os::unix::fs::symlink(eat(), &program).unwrap();
    let rules = folder.path().join("rules.toml");
    fs::write(&rules, format!("[[processes]]\nname = \"{name}\"\nlimit = \"100M\"\ngrace = \"1s\"\n"))
        .unwrap();
    let mut guard = Guard::start(&["--rules", rules.to_str().unwrap()]);
    let words = AllocationPattern::endless(150).ignoring_sigterm().words();
    let mut child = group.start(&program, &words.iter().map(String::as_str).collect::<Vec<_>>());
    let killed = guard.wait("kill");
    assert_eq!(killed["cause"]["pid"], child.id());
    let bytes = killed["cause"]["bytes"].as_u64().unwrap();
    assert!(bytes < 300 << 20, "it had {bytes} bytes");
    guard.wait("exited");
    child.wait().unwrap();
    guard.end();
}

#[test]
fn process_that_ignores_sigterm_is_killed() {
    let Some(group) = Group::new("deaf", 200) else { return };
    let mut guard = Guard::start(&["--cgroup", &group.path]);
    let mut deaf = group.eat(AllocationPattern::endless(100).ignoring_sigterm());
    let killed = guard.wait("kill");
    assert_eq!(killed["cause"]["pid"], deaf.id());
    guard.wait("exited");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&deaf.wait().unwrap()), Some(9));
    guard.end();
}

#[test]
fn forked_memory_hogs_are_ended_together() {
    if !has_python() {
        return;
    }
    let Some(group) = Group::new("bomb", 400) else { return };
    let mut big = group.eat(AllocationPattern::at_once(100));
    wait_for_line(&mut big);
    let mut guard = Guard::start(&["--cgroup", &group.path]);
    // The kernel ends processes of the group as well when it is full: the guard has some seconds before.
    let script = "import os, time\nos.setsid() if os.getpgrp() != os.getpid() else None\nwhile True:\n if os.fork() == 0:\n  x = bytearray(3 << 20)\n  time.sleep(1000)\n time.sleep(0.03)";
    let mut bomb = group.start(Path::new("python3"), &["-c", script]);
    let line = guard.wait("exited");
    assert!(line["cause"]["processes"].as_u64().unwrap() > 4, "{line:#?}");
    bomb.wait().unwrap();
    assert_eq!(group.members(), [big.id()]);
    drop(big.stdin.take());
    assert!(big.wait().unwrap().success());
    guard.end();
}

#[test]
fn dry_run_sends_no_signal() {
    let Some(group) = Group::new("dry", 200) else { return };
    let rules = rules_for(&group, LEVELS);
    let mut guard = Guard::start(&["--dry-run", "--rules", rules.path().to_str().unwrap()]);
    let mut hog = group.eat(AllocationPattern::at_once(160));
    let line = guard.wait("term");
    assert_eq!((line["dry_run"].as_bool(), &line["cause"]["pid"]), (Some(true), &hog.id().into()));
    // The reading of the guard itself is between both limits.
    let available = line["reading"]["available_bytes"].as_u64().unwrap();
    assert!((10_000_000..=70 << 20).contains(&available), "{line:#}");
    wait_for_line(&mut hog);
    drop(hog.stdin.take());
    assert!(hog.wait().unwrap().success());
    guard.end();
}

#[test]
fn protected_process_is_never_ended() {
    let Some(group) = Group::new("spared", 200) else { return };
    let rules = rules_for(&group, &format!("{LEVELS}[protect]\nnames = [\"eat\"]\n"));
    let mut guard = Guard::start(&["--rules", rules.path().to_str().unwrap()]);
    let mut hog = group.eat(AllocationPattern::at_once(160));
    wait_for_line(&mut hog);
    guard.wait("no_cause");
    drop(hog.stdin.take());
    assert!(hog.wait().unwrap().success());
    let (_, lines) = guard.end();
    assert!(lines.iter().all(|line| line["event"] != "kill" && line["event"] != "term"), "{lines:#?}");
}

#[test]
fn sighup_loads_valid_rules_only() {
    let Some(group) = Group::new("reload", 100) else { return };
    let folder = tempfile::tempdir().unwrap();
    let rules = folder.path().join("rules.toml");
    fs::write(&rules, format!("[[cgroup]]\npath = \"{}\"\n", group.path)).unwrap();
    let mut guard = Guard::start(&["--rules", rules.to_str().unwrap()]);
    fs::write(&rules, "[machine]\nterm_belo = 3\n").unwrap();
    guard.signal("-HUP");
    let note = guard.wait("note")["note"].as_str().unwrap().to_owned();
    assert!(note.contains("old rules still apply") && note.contains("term_belo"), "{note}");
    fs::write(&rules, format!("[[cgroup]]\npath = \"{}\"\nterm_below = \"30%\"\n", group.path)).unwrap();
    guard.signal("-HUP");
    while !guard.wait("note")["note"].as_str().unwrap().contains("new rules now apply") {}
    guard.end();
}

#[test]
fn group_created_later_is_watched() {
    let Some(group) = Group::new("later", 64) else { return };
    let rules = rules_for(&group, "");
    fs::remove_dir(&group.folder).unwrap();
    let mut guard = Guard::start(&["--rules", rules.path().to_str().unwrap()]);
    for _ in 0..2 {
        guard.wait_for_note("cannot be read: there is no such group");
        let group = Group::new("later", 64).unwrap();
        guard.wait_for_note("can be read");
        // The guard notices a process that enters a group within a second.
        let mut hog = group.eat(AllocationPattern::endless(16));
        assert_eq!(guard.wait("exited")["cause"]["pid"], hog.id());
        assert!(!hog.wait().unwrap().success());
        guard.wait("over");
    }
    guard.end();
}

#[test]
fn growing_process_is_frozen_until_shortage_is_over() {
    let Some(group) = Group::new("frozen", 128) else { return };
    let Some(freezer) = Freezer::new(&group) else { return };
    // Far from any signal, so that nothing but freezing is done.
    let text = "warn_before = \"1h\"\nterm_before = \"1s\"\nkill_before = \"1s\"\nslow = \"freeze\"\n";
    let rules = rules_for(&group, text);
    let mut guard = Guard::start(&["--rules", rules.path().to_str().unwrap()]);
    let mut hog = group.eat(AllocationPattern::endless(10));
    freezer.take(hog.id());
    let told = guard.wait("slow");
    assert_eq!(told["cause"]["pid"], hog.id(), "{told:#}");
    assert!(freezer.is_frozen(), "{told:#}");
    // It is thawed when the guard ends.
    let (status, lines) = guard.end();
    assert!(status.success() && !freezer.is_frozen(), "{lines:#?}");
    assert!(lines.iter().any(|line| line["event"] == "release"), "{lines:#?}");
    hog.kill().unwrap();
    hog.wait().unwrap();
}

#[test]
fn blocked_reader_does_not_stop_the_guard() {
    let Some(group) = Group::new("unread", 128) else { return };
    let (unread, mut full) = std::io::pipe().unwrap();
    let flags = rustix::fs::fcntl_getfl(&full).unwrap();
    rustix::fs::fcntl_setfl(&full, flags | rustix::fs::OFlags::NONBLOCK).unwrap();
    while full.write(&[b'\n'; 4096]).is_ok() {}
    rustix::fs::fcntl_setfl(&full, flags).unwrap();
    let state = tempfile::tempdir().unwrap();
    let mut guard = Command::new(env!("CARGO_BIN_EXE_manycore"))
        .args(["guard", "--cgroup", &group.path])
        .env("MANYCORE_STATE", state.path())
        .stdout(full)
        .spawn()
        .unwrap();
    common::place::soon("a guard with its socket", || state.path().join("guard.sock").exists());
    for _ in 0..2 {
        assert!(!group.eat(AllocationPattern::endless(60)).wait().unwrap().success());
    }
    assert!(Command::new("kill").arg(guard.id().to_string()).status().unwrap().success());
    assert!(guard.wait().unwrap().success());
    drop(unread);
}

#[test]
fn running_guard_answers_queries() {
    let Some(group) = Group::new("why", 300) else { return };
    let mut held = group.eat(AllocationPattern::at_once(60));
    wait_for_line(&mut held);
    let guard = Guard::start(&["--cgroup", &group.path]);
    let why = |pid: u32| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_manycore"));
        command.args(["guard", "why", &pid.to_string(), "--format", "json"]);
        command.env("MANYCORE_STATE", guard.state.path()).output().unwrap()
    };
    let out = why(held.id());
    assert!(out.status.success(), "{}", String::from_utf8_lossy(&out.stderr));
    let answers = common::schema::parse("guard-why", &out.stdout);
    assert_eq!(answers["outlooks"][0]["watch"], group.path.as_str());
    assert!(answers["outlooks"][0]["bytes"].as_u64().unwrap() > 60 << 20, "{answers:#}");
    assert_eq!(answers["outlooks"][0]["is_watched"], true);
    // With hidepid, root without CAP_SYS_PTRACE does not see it.
    if fs::exists("/proc/1/stat").unwrap() {
        let init: serde_json::Value = serde_json::from_slice(&why(1).stdout).unwrap();
        assert!(init["outlooks"][0]["protected_by"].as_str().unwrap().contains("process 1"));
    }
    assert_eq!(why(u32::MAX - 1).status.code(), Some(2));
    let second = Command::new(env!("CARGO_BIN_EXE_manycore"))
        .args(["guard", "--cgroup", &group.path])
        .env("MANYCORE_STATE", guard.state.path())
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(3));
    assert!(String::from_utf8_lossy(&second.stderr).contains("already running"));
    drop(held.stdin.take());
    held.wait().unwrap();
    guard.end();
}

#[test]
fn invalid_rules_are_reported_with_position() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("rules.toml");
    for (text, expected) in [
        ("[machine]\nwarn_befor = \"3s\"\n", "warn_befor"),
        ("[machine]\nterm_below = \"x\"\n", "not an amount of memory"),
        ("[machine]\ngrace = \"soon\"\n", "not a duration"),
        ("[machine]\ngrace = 2.5\n", "in quotes"),
        ("[protect]\nusers = [-1]\n", "the number of a user"),
        ("[machine]\nterm_below = \"5%\"\nkill_below = \"9%\"\n", "kill_below is more than term_below"),
        ("[[cgroup]]\npath = \"/../x\"\n", "without \"..\""),
        ("[[cgroup]]\npath = \"/x\"\ngraze = \"3s\"\n", "graze"),
        ("[[processes]]\nname = \"*\"\nlimit = \"4G\"\n", "matches init"),
        ("[[processes]]\nname = \"manycor?\"\nlimit = \"4G\"\n", "matches the guard itself"),
        ("[[processes]]\nname = \"beam.smp\"\nlimit = \"much\"\n", "not a size"),
        ("[[processes]]\nname = \"beam.smp\"\n", "limit"),
        ("[protect]\nnames = [\"*\"]\n", "matches everything"),
        ("[protect]\nusers = [\"nobody-such\"]\n", "no such user"),
        ("machine = 3\n", "machine"),
        ("[machine\n", "line 1"),
    ] {
        fs::write(&path, text).unwrap();
        let out = Command::new(env!("CARGO_BIN_EXE_manycore"))
            .args(["guard", "check"])
            .arg(&path)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&out.stderr);
        assert_eq!(out.status.code(), Some(2), "{text}: {said}");
        assert!(said.contains(expected) && said.contains("rules.toml"), "{text}: {said}");
    }
    // A control group in the rules may be created later. One on the command line must exist.
    fs::write(&path, "[[cgroup]]\npath = \"/none-such\"\n").unwrap();
    let guard = |args: &[&str]| Command::new(env!("CARGO_BIN_EXE_manycore")).arg("guard").args(args).output();
    let out = guard(&["check", path.to_str().unwrap()]).unwrap();
    let said = String::from_utf8_lossy(&out.stdout);
    assert!(out.status.success() && said.contains("there is no such control group yet"), "{said}");
    let out = guard(&["--cgroup", "/none-such"]).unwrap();
    let said = String::from_utf8_lossy(&out.stderr);
    assert!(out.status.code() == Some(2) && said.contains("there is no control group"), "{said}");
}
