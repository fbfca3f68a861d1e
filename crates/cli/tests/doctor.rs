//! Tests of `manycore doctor` on this machine.

use crate::common;
use crate::common::{manycore, schema::parse, text};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Output},
};
use tempfile::TempDir;

/// Runs it with only these programs in PATH, each a shell script.
fn with_programs(programs: &[(&str, &str)]) -> (TempDir, Output) {
    let folder = tempfile::tempdir().unwrap();
    for (name, script) in programs {
        let path = folder.path().join(name);
        fs::write(&path, format!("#!/bin/sh\n{script}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }
    let run = manycore().args(["doctor", "--format", "json"]).env("PATH", folder.path()).output().unwrap();
    (folder, run)
}

fn check<'a>(diagnosis: &'a Value, name: &str) -> &'a Value {
    diagnosis["checks"].as_array().unwrap().iter().find(|check| check["name"] == name).unwrap()
}

#[test]
fn this_machine_is_examined_and_the_text_names_every_check() {
    let json = manycore().args(["doctor", "--format", "json"]).assert().success();
    let diagnosis = parse("doctor", &json.get_output().stdout);
    let shown = manycore().args(["doctor", "--verbose"]).assert().success();
    let shown = text(&shown.get_output().stdout);
    assert!(text(&json.get_output().stderr).is_empty());
    for check in diagnosis["checks"].as_array().unwrap() {
        let (name, state) = (check["name"].as_str().unwrap(), check["state"].as_str().unwrap());
        let word = if state == "available" { "ok" } else { state };
        let listed = shown.lines().any(|line| {
            let rest = line.trim_start().strip_prefix(name);
            rest.is_some_and(|rest| rest.split_whitespace().next() == Some(word))
        });
        assert!(listed, "{name} {state}\n{shown}");
    }
}

#[test]
fn it_agrees_with_the_kernel() {
    let (_, run) = with_programs(&[]);
    let diagnosis = parse("doctor", &run.stdout);
    let available = |name: &str| check(&diagnosis, name)["state"] == "available";
    assert_eq!(available("BPF types (BTF)"), Path::new("/sys/kernel/btf/vmlinux").exists());
    let pressure = ["cpu", "memory"].map(|name| fs::read(format!("/proc/pressure/{name}")).is_ok());
    assert_eq!(available("PSI"), pressure == [true, true]);
    assert_eq!(available("scheduler counters"), {
        let own = |name: &str| fs::read(format!("/proc/self/{name}")).is_ok();
        own("schedstat") && own("sched")
    });
    let root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
    assert_eq!(check(&diagnosis, "root")["found"] == "an ordinary user", !root);
}

#[test]
fn programs_that_are_not_installed_are_missing_with_their_packages() {
    let (_, run) = with_programs(&[("dnf", "exit 1")]);
    assert!(run.status.success());
    let diagnosis = parse("doctor", &run.stdout);
    for (name, package) in [("sysbench", "sysbench"), ("Go", "golang"), ("NumPy", "python3-numpy")] {
        let check = check(&diagnosis, name);
        assert_eq!(
            (&check["state"], &check["packages"][0]),
            (&Value::from("missing"), &Value::from(package))
        );
        let command = check["fix"]["command"].as_str().unwrap();
        assert_eq!(command.trim_start_matches("sudo "), format!("dnf install {package}"));
        assert!(diagnosis["install_all"].as_str().unwrap().contains(package));
    }
}

#[test]
fn programs_that_are_installed_show_their_version() {
    let (_, run) = with_programs(&[
        ("sysbench", "echo sysbench 1.0.20"),
        ("stress-ng", "echo 'stress-ng, version 0.15.06 (gcc 12)'"),
        ("virsh", "echo 9.0.0"),
        ("erl", ""),
        ("erlc", ""),
        ("java", ""),
    ]);
    let diagnosis = parse("doctor", &run.stdout);
    let found = |name: &str| check(&diagnosis, name)["found"].as_str().unwrap().to_owned();
    assert_eq!(found("sysbench"), "sysbench 1.0.20");
    assert_eq!(found("stress-ng"), "stress-ng 0.15.06");
    assert_eq!(found("libvirt"), "9.0.0");
    assert_eq!(found("Erlang"), "erl, erlc");
    // The compiler is missing.
    assert_eq!(
        (found("Java").as_str(), &check(&diagnosis, "Java")["state"]),
        ("no javac", &"missing".into())
    );
}

#[test]
fn a_program_that_hangs_is_reported_and_ended() {
    let folder = tempfile::tempdir().unwrap();
    let pid_file = folder.path().join("pid");
    let hang = format!("echo $$ >{}\nexec /bin/sleep 1000", pid_file.display());
    let (_, run) = with_programs(&[("sysbench", &hang)]);
    let diagnosis = parse("doctor", &run.stdout);
    let sysbench = check(&diagnosis, "sysbench");
    assert_eq!(sysbench["state"], "missing");
    assert!(sysbench["found"].as_str().unwrap().starts_with("no answer after"), "{sysbench}");
    let pid = fs::read_to_string(pid_file).unwrap();
    common::study::until("the program has ended", || {
        let stat = fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        stat.is_empty() || stat.contains(") Z ")
    });
}
