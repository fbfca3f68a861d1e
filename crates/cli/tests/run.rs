//! Tests of `run` with the real binary on real processes.

use crate::common::place::{KillOnDrop, TestHome, is_on, last, two_cpus};
use manycore_linux::{affinity, tasks};
use rustix::process::{Pid, Signal, kill_process};
use std::{fs, os::unix::process::CommandExt, process::Command};

#[test]
fn a_command_keeps_its_streams_its_status_and_leaves_nothing() {
    let home = TestHome::new();
    let run = home.run(&["run", "--place", "close", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!(run.status.code(), Some(7));
    assert_eq!(String::from_utf8_lossy(&run.stdout), "out\n");
    assert!(String::from_utf8_lossy(&run.stderr).starts_with("err\n"));
    assert_eq!(home.run(&["run", "-q", "--", "sh", "-c", "kill -9 $$"]).status.code(), Some(137));
    assert!(home.stderr_of(3, &["run", "--", "no-such-program"]).contains("there is no such program"));
    assert!(home.is_clean());
}

#[test]
fn each_thread_gets_its_own_cpu_and_is_seen_there() {
    let Some(cpus) = two_cpus() else { return };
    let home = TestHome::new();
    let arguments =
        ["run", "--place", "close", "--workers", "2", "--check=50%", "--trace", "stay.json", "--"];
    let program = assert_cmd::cargo::cargo_bin!("manycore").to_str().unwrap();
    // A second of work: what is seen of the default, 0.1 s, depends on when the sampler runs.
    let probe = [program, "probe", "--threads", "2", "--checks", "100000"];
    let run = home.run(&[&arguments[..], &probe[..]].concat());
    let printed = String::from_utf8_lossy(&run.stdout).into_owned();
    assert_eq!(run.status.code(), Some(0), "{printed}{}", String::from_utf8_lossy(&run.stderr));
    assert!(
        printed.contains("2 of 2 threads pinned") && printed.contains("; 0 checks on another CPU"),
        "{printed}"
    );
    let mut bound: Vec<u32> = printed
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().nth(1)?.parse().ok())
        .take(2)
        .collect();
    bound.sort_unstable();
    assert_eq!(bound, cpus.iter().take(2).collect::<Vec<_>>());
    let stay = home.stay();
    assert_eq!(stay["schema"], "manycore/placement-trace/1");
    let tasks = stay["tasks"].as_array().unwrap();
    assert_eq!(tasks.len(), 3);
    assert!(tasks.iter().all(|task| task["outside_ns"] == 0 && task["worker"].is_number()), "{stay}");
    assert!(home.is_clean());
}

#[test]
fn own_affinity_is_reported_and_fails_check() {
    let Some(cpus) = two_cpus() else { return };
    let (home, all, one) = (TestHome::new(), cpus.to_string(), cpus.first().unwrap().to_string());
    // The command sets its affinity to CPUs outside the plan, which a cpuset would prevent.
    let command =
        format!("taskset -pc {all} $$ >/dev/null; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done");
    let place = format!("cpus={one}");
    let arguments =
        ["run", "--place", &place, "--workers", "1", "--hold", "affinity", "--check", "--", "sh", "-c"];
    let said = home.stderr_of(1, &[&arguments[..], &[&command]].concat());
    assert!(said.contains("set its own affinity") && said.contains("the plan did not hold"), "{said}");
}

/// Regression test: such a program was reported as one that did not keep to the plan, or lost its own affinity.
#[test]
fn a_program_that_pins_itself_within_the_plan_keeps_its_cpus_and_the_plan_held() {
    let Some(cpus) = two_cpus() else { return };
    let (home, last) = (TestHome::new(), last(&cpus).to_string());
    // It runs until the enforcer has seen it several times, and prints its affinity at the end.
    let script = format!(
        "taskset -pc {last} $$ >/dev/null; i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done; taskset -pc $$"
    );
    let place = format!("cpus={},{last}", cpus.first().unwrap());
    for hold in ["affinity", "auto"] {
        let arguments =
            ["run", "--place", &place, "--workers", "2", "--hold", hold, "--check=1%", "--", "sh", "-c"];
        let run = home.run(&[&arguments[..], &[&script]].concat());
        let said = String::from_utf8_lossy(&run.stderr);
        assert!(
            run.status.success() && said.contains("all of them planned: left unchanged"),
            "{hold}: {said}"
        );
        let own = String::from_utf8_lossy(&run.stdout);
        assert!(own.trim().ends_with(&format!(": {last}")), "{hold}: {own}");
    }
}

#[test]
fn processes_left_by_a_command_get_their_cpus_back() {
    let Some(cpus) = two_cpus() else { return };
    let home = TestHome::new();
    // The new process is a copy of the shell until it has executed `sleep`.
    let script = "sleep 1000 >&- 2>&- & until grep -q sleep /proc/$!/comm; do :; done; echo $!";
    let run = home.shell_on(&last(&cpus), script).output().unwrap();
    let sleeper: u32 = String::from_utf8_lossy(&run.stdout).trim().parse().unwrap();
    assert!(is_on(sleeper, &cpus), "{}", affinity::of_thread(sleeper).unwrap());
    assert!(String::from_utf8_lossy(&run.stderr).contains("left running, with their former CPUs: sleep"));
    kill_process(Pid::from_raw(sleeper as i32).unwrap(), Signal::KILL).unwrap();
    assert!(home.is_clean());
}

#[test]
fn wait_lasts_until_all_processes_have_ended() {
    let Some(cpus) = two_cpus() else { return };
    let home = TestHome::new();
    let place = format!("cpus={}", last(&cpus));
    let script = "(sleep 0.3; sed -n 's/^Cpus_allowed_list:.//p' /proc/self/status) &";
    let run = home.run(&["run", "--wait", "--place", &place, "--workers", "1", "--", "sh", "-c", script]);
    assert_eq!(String::from_utf8_lossy(&run.stdout).trim(), last(&cpus).to_string());
    assert!(home.is_clean());
}

#[test]
fn signals_are_passed_on_to_the_command() {
    let home = TestHome::new();
    let script = "trap 'echo asked; exit 5' TERM; echo ready; while :; do sleep 0.01; done";
    let mut run = KillOnDrop(home.command(&["run", "--", "sh", "-c", script]).spawn().unwrap());
    assert_eq!(run.line(), "ready");
    run.signal(Signal::TERM);
    assert_eq!(run.line(), "asked");
    assert_eq!(run.0.wait().unwrap().code(), Some(5));
    assert!(home.is_clean());
}

#[test]
fn undo_unpins_the_command_of_a_killed_run() {
    let Some(cpus) = two_cpus() else { return };
    let home = TestHome::new();
    let mut run = KillOnDrop(home.shell_on(&last(&cpus), "sleep 1000 & echo $!; wait").spawn().unwrap());
    let sleeper: u32 = run.line().parse().unwrap();
    let shell = tasks::parent(sleeper).unwrap();
    run.signal(Signal::KILL);
    run.0.wait().unwrap();
    assert!(tasks::is_alive(sleeper) && is_on(sleeper, &last(&cpus)));
    assert_eq!(home.run(&["undo"]).status.code(), Some(0));
    assert!(is_on(sleeper, &cpus) && is_on(shell, &cpus));
    for pid in [shell, sleeper] {
        let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL);
    }
    assert!(home.is_clean());
}

#[test]
fn plans_are_for_the_machine_that_they_name() {
    let home = TestHome::new();
    let write = |name: &str, text: &str| fs::write(home.path(name), text).unwrap();
    write(
        "other.json",
        r#"{"schema":"manycore/plan/1","machine_fingerprint":"0","policy":"close","workers":[{"cpus":"0","memory_nodes":[],"why":""}]}"#,
    );
    write("record.json", r#"{"schema":"manycore/record/1"}"#);
    write("none.json", "x");
    for (file, problem) in [
        ("other.json", "for another machine (fingerprint 0"),
        ("record.json", "expected a plan (\"manycore/plan/1\")"),
        ("none.json", "not JSON (expected value at line 1 column 1); expected a plan"),
        ("absent.json", "cannot read"),
    ] {
        assert!(home.stderr_of(2, &["run", "--plan", file, "--", "true"]).contains(problem), "{file}");
    }
    assert!(home.is_clean());
}

#[test]
fn impossible_requests_are_reported_and_change_nothing() {
    let home = TestHome::new();
    let own = std::process::id().to_string();
    for (arguments, code, problem) in [
        (&["run", "--place", "near=nosuch0", "--", "true"][..], 2, "nosuch0"),
        (&["run", "--place", "cpus=4094", "--", "true"], 2, "4094"),
        (&["run", "--exclusive", "--workers", "5000", "--", "true"], 2, "5000 workers"),
        (&["run", "--memory", "bind=99", "--", "true"], 2, "no memory on node 99"),
        (&["pin", "--pid", "2147483647"], 2, "there is no process 2147483647"),
        (&["pin", "--pid", &own, "--memory", "local"], 2, "keeps its memory policy"),
        (&["pin", "--pid", &own, "--once", "--check"], 2, "with --once, pin exits"),
        (&["run", "--trace", "no/such/file", "--", "true"], 2, "there is no directory no/such"),
    ] {
        let said = home.stderr_of(code, arguments);
        assert!(said.contains(problem), "{arguments:?}: {said}");
    }
    assert!(home.is_clean());
}

#[test]
fn without_a_journal_nothing_is_changed() {
    let home = TestHome::new();
    fs::write(home.path("journals"), "a file").unwrap();
    let said = home.stderr_of(3, &["run", "--", "true"]);
    assert!(said.contains("cannot write a journal") && said.contains("nothing was changed"), "{said}");
}

#[test]
fn ignored_signals_stay_ignored() {
    let home = TestHome::new();
    let program = assert_cmd::cargo::cargo_bin!("manycore");
    let script =
        format!("trap '' HUP INT; exec {} run -q -- grep SigIgn /proc/self/status", program.display());
    let run = Command::new("sh")
        .args(["-c", &script])
        .env("MANYCORE_STATE", home.path("journals"))
        .output()
        .unwrap();
    let mask = String::from_utf8_lossy(&run.stdout).split_whitespace().last().unwrap().to_owned();
    assert_eq!(u64::from_str_radix(&mask, 16).unwrap() & 3, 3, "{mask}");
    let script = format!("trap '' CHLD; exec {} run -q -- sh -c 'exit 9'", program.display());
    let run = Command::new("sh")
        .args(["-c", &script])
        .env("MANYCORE_STATE", home.path("journals"))
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(9), "{}", String::from_utf8_lossy(&run.stderr));
}

#[test]
fn tasks_ending_between_scans_do_not_fail_check() {
    let home = TestHome::new();
    let script = "for i in 1 2 3 4 5 6 7 8 9 10; do /bin/true; sleep 0.01; done";
    for place in ["cpus=0", "free"] {
        if place != "free" && !affinity::allowed().unwrap().contains(0) {
            continue;
        }
        let said = home.stderr_of(0, &["run", "--check=0%", "--place", place, "--", "sh", "-c", script]);
        assert!(
            said.contains("the plan held") || said.contains("the observed part kept to the plan"),
            "{said}"
        );
    }
}

#[test]
fn immediate_own_affinity_is_reported() {
    let Some(cpus) = two_cpus() else { return };
    let home = TestHome::new();
    let (place, elsewhere) = (format!("cpus={}", cpus.first().unwrap()), last(&cpus).to_string());
    let arguments = ["run", "--check", "--hold", "affinity", "--place", &place, "--workers", "1", "--"];
    let said = home.stderr_of(1, &[&arguments[..], &["taskset", "-c", &elsewhere, "sleep", "3"]].concat());
    assert!(said.contains("sleep set its own affinity"), "{said}");
}

#[test]
fn a_child_with_a_non_utf_8_name_is_pinned_and_unpinned() {
    let Some(cpus) = two_cpus() else { return };
    let home = TestHome::new();
    let odd = home.0.path().join(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(b"caf\xe9"));
    std::os::unix::fs::symlink("/bin/sleep", &odd).unwrap();
    let script = "./caf* 1000 >&- 2>&- & until grep -q caf /proc/$!/comm; do :; done; echo $!";
    let run = home.shell_on(&last(&cpus), script).output().unwrap();
    let sleeper: u32 = String::from_utf8_lossy(&run.stdout).trim().parse().unwrap();
    assert!(is_on(sleeper, &cpus), "{}", affinity::of_thread(sleeper).unwrap());
    assert!(String::from_utf8_lossy(&run.stderr).contains("left running"));
    kill_process(Pid::from_raw(sleeper as i32).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn threads_are_found_by_scans_in_a_pid_namespace() {
    let Some(cpus) = two_cpus() else { return };
    let home = TestHome::new();
    let program = assert_cmd::cargo::cargo_bin!("manycore");
    let mut unshare = Command::new("unshare");
    unshare.args(["--pid", "--fork", "--mount-proc"]).arg(program);
    unshare.args(["run", "--place", "close", "--workers", "2", "--"]).arg(program);
    unshare
        .args(["probe", "--threads", "2", "--checks", "100000"])
        .env("MANYCORE_STATE", home.path("journals"));
    // In its own process group, so that signals to this one do not reach the namespace.
    let run = unshare.process_group(0).output().unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    if said.contains("unshare") {
        return eprintln!("SKIPPED: {said}");
    }
    let printed = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(printed.contains("2 of 2 threads pinned"), "{printed}{said}");
    let mut bound: Vec<&str> =
        printed.lines().skip(1).take(2).filter_map(|line| line.split_whitespace().nth(1)).collect();
    bound.sort_unstable();
    assert_eq!(bound, cpus.iter().take(2).map(|cpu| cpu.to_string()).collect::<Vec<_>>(), "{said}");
}
