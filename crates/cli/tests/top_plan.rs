//! Tests of `manycore top` with real processes that were pinned, and moved by others since.

use crate::common::{
    place::{KillOnDrop, TestHome, is_on, last, soon, two_cpus},
    schema, sh, text,
};
use manycore_topology::CpuSet;
use serde_json::Value;
use std::process::{Command, Stdio};

/// Returns what `top` says of one process, and its findings of broken pins.
fn seen(home: &TestHome, pid: u32) -> (Value, Vec<Value>) {
    let pid = pid.to_string();
    let words =
        ["top", "--once", "--interval", "200ms", "--pid", &pid, "--show", "processes,threads,findings"];
    let output = home.run(&[&words[..], &["--format", "json"]].concat());
    let snapshot = schema::parse("top", &output.stdout);
    let all = snapshot["findings"].as_array().cloned().unwrap_or_default();
    let rows = snapshot["processes"].as_array().into_iter().flatten();
    let row = rows.into_iter().find(|row| row["pid"] == pid.parse::<u64>().unwrap()).unwrap();
    (row["plan"].clone(), all.into_iter().filter(|one| one["kind"] == "broken_pin").collect())
}

/// Pins a process to a CPU. In a cpuset others could not move it.
fn pin(home: &TestHome, pid: u32, cpu: &CpuSet) {
    let (pid, place) = (pid.to_string(), format!("cpus={cpu}"));
    let words = ["pin", "--pid", &pid, "--place", &place, "--workers", "1", "--once", "--hold", "affinity"];
    home.stderr_of(0, &words);
}

#[test]
fn a_pin_is_kept_until_another_program_moves_the_process_and_the_command_mends_it() {
    let Some(cpus) = two_cpus() else { return };
    let (home, shell) = (TestHome::new(), KillOnDrop::shell());
    let pid = shell.pid();
    assert_eq!(seen(&home, pid).0, "none");
    let (first, last) = (cpus.first().unwrap(), last(&cpus));
    pin(&home, pid, &last);
    assert_eq!(seen(&home, pid), (Value::from("kept"), Vec::new()));

    assert!(sh(&format!("taskset -cp {first} {pid}")).status.success());
    let (plan, findings) = seen(&home, pid);
    assert_eq!((plan, findings.len()), (Value::from("broken"), 1), "{findings:?}");
    let said = findings[0]["text"].as_str().unwrap();
    assert!(said.contains(&format!("it may use CPU {first}, but was given CPU {last}")), "{said}");
    let csv =
        home.run(&["top", "--once", "--show", "processes", "--pid", &pid.to_string(), "--format", "csv"]);
    let csv = text(&csv.stdout);
    assert!(csv.lines().next().unwrap().contains(",plan") && csv.contains(",broken"), "{csv}");

    assert!(sh(findings[0]["fix"].as_str().unwrap()).status.success());
    assert_eq!(seen(&home, pid), (Value::from("kept"), Vec::new()));
    home.stderr_of(0, &["undo"]);
    assert_eq!(seen(&home, pid).0, "none");
}

#[test]
fn processes_of_a_running_command_have_a_plan() {
    let Some(cpus) = two_cpus() else { return };
    let home = TestHome::new();
    let place = format!("cpus={}", last(&cpus));
    let words = ["run", "--place", &place, "--workers", "1", "--hold", "affinity", "--"];
    let script = "sleep 60 & echo $! >child; wait";
    let run = home.command(&[&words[..], &["sh", "-c", script]].concat()).spawn().unwrap();
    let run = KillOnDrop(run);
    let child = || std::fs::read_to_string(home.path("child")).ok()?.trim().parse::<u32>().ok();
    soon("the command", || child().is_some_and(|pid| is_on(pid, &last(&cpus))));
    let pid = child().unwrap();
    soon("its journal", || seen(&home, pid).0 == "kept");
    assert!(sh(&format!("taskset -cp {} {pid}", cpus.first().unwrap())).status.success());
    let (plan, findings) = seen(&home, pid);
    assert_eq!((plan, findings.len()), (Value::from("broken"), 1), "{findings:?}");
    run.signal(rustix::process::Signal::INT);
}

#[test]
fn journals_of_other_users_are_not_believed() {
    let Some(cpus) = two_cpus() else { return };
    let (home, shell) = (TestHome::new(), KillOnDrop::shell());
    pin(&home, shell.pid(), &last(&cpus));
    let journals = home.path("journals");
    if std::os::unix::fs::chown(&journals, Some(65534), None).is_err() {
        return eprintln!("SKIPPED: needs root");
    }
    let found = seen(&home, shell.pid()).0;
    std::os::unix::fs::chown(&journals, Some(0), None).unwrap();
    assert_eq!(found, "none");
}

/// A shell that computes on one CPU, in a session of its own.
fn busy_on(cpu: u32) -> KillOnDrop {
    let mut command = Command::new("setsid");
    command.args(["taskset", "-c", &cpu.to_string(), "sh", "-c", "while :; do :; done"]);
    KillOnDrop(command.stdin(Stdio::null()).spawn().unwrap())
}

#[test]
fn findings_of_the_audit_are_those_of_top() {
    let Some(cpus) = two_cpus() else { return };
    let (home, cpu) = (TestHome::new(), cpus.last().unwrap());
    let both = [busy_on(cpu), busy_on(cpu)];
    let is_about_both = |one: &Value| {
        let text = one["text"].as_str().unwrap();
        one["kind"] == "overlapping_pins" && both.iter().all(|busy| text.contains(&busy.pid().to_string()))
    };
    let mut found = None;
    soon("the overlap", || {
        let words = ["top", "--once", "--interval", "200ms", "--show", "findings", "--format", "json"];
        let snapshot = schema::parse("top", &home.run(&words).stdout);
        found = snapshot["findings"]
            .as_array()
            .and_then(|all| all.iter().find(|one| is_about_both(one)).cloned());
        found.is_some()
    });
    // Where all CPUs have pinned tasks, no other CPU is proposed.
    let fix = found.unwrap()["fix"].as_str().unwrap().to_owned();
    assert!(fix.contains("--pid") || fix.contains("taskset"), "{fix}");
}
