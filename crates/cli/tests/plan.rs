//! Tests of `manycore plan` as users and scripts run it: its output, and each error.

use crate::common::manycore;
use manycore_placement::PlacementPlan;
use manycore_topology::synthetic::MachineSpec;
use std::{fs, process::Command};

fn fixture(name: &str) -> String {
    format!("{}/../../fixtures/machines/{name}.machine", env!("CARGO_MANIFEST_DIR"))
}

fn stdout(args: &[&str]) -> String {
    let assert = manycore().arg("plan").args(args).assert().success();
    String::from_utf8(assert.get_output().stdout.clone()).unwrap()
}

/// Runs the plan on a machine from the fixtures.
fn on(machine: &str, args: &[&str]) -> String {
    stdout(&[&["--root", &fixture(machine)], args].concat())
}

/// Checks that the run fails with this exit code and this message on standard error, and prints nothing.
fn assert_fails(args: &[&str], code: i32, message: &str) {
    let assert = manycore().arg("plan").args(args).assert().code(code).stdout("");
    let said = String::from_utf8_lossy(&assert.get_output().stderr).into_owned();
    assert!(said.contains(message), "{said:?} should contain {message:?}");
}

#[test]
fn plans_read_well() {
    for (name, machine, args) in [
        ("guest", "guest-2cpu", "--workers 3 --place free"),
        ("hybrid", "hybrid-16cpu", "--workers 20 --place spread"),
        ("limited", "server-64cpu", "--workers 40 --reserve 2"),
        ("device", "server-64cpu", "--workers 2 --place near=eth0+nosmt"),
        ("neighbours", "clusters-128cpu", "--place close"),
        ("groups", "clusters-128cpu", "--workers 64 --place spread@llc --reserve 8"),
    ] {
        let text = on(machine, &args.split(' ').collect::<Vec<_>>());
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
        insta::assert_snapshot!(name, text);
    }
}

#[test]
fn each_worker_has_a_line_on_request() {
    let text = on("clusters-128cpu", &["--all", "--place", "spread"]);
    assert!(text.contains("\n     127  508   node 3"), "{text}");
    assert!(on("clusters-128cpu", &["--place", "spread"]).lines().count() < 12);
}

#[test]
fn the_plan_in_json_is_the_plan() {
    let json = on("hybrid-16cpu", &["--place", "spread", "--workers", "3", "--format", "json"]);
    let plan: PlacementPlan = serde_json::from_str(&json).unwrap();
    assert_eq!((plan.schema.as_str(), plan.policy.as_str()), ("manycore/plan/1", "spread"));
    let cpus: Vec<String> = plan.workers.iter().map(|worker| worker.cpus.to_string()).collect();
    assert_eq!(cpus, ["0", "2", "4"]);
}

#[test]
fn as_many_workers_as_the_placement_has_room_for() {
    for (args, workers) in [
        ("--place close", 16),
        ("--place close+nosmt", 10),
        ("--reserve cpus=0-3", 12),
        ("--place cpus=4,0,4", 3),
        ("--place free --reserve 15", 1),
    ] {
        let args: Vec<&str> = args.split(' ').chain(["--format", "json"]).collect();
        let plan: PlacementPlan = serde_json::from_str(&on("hybrid-16cpu", &args)).unwrap();
        assert_eq!(plan.workers.len(), workers, "{args:?}");
    }
}

#[test]
fn a_machine_as_json_has_the_same_plan_as_its_capture() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("machine.json");
    let topo = ["topo", "--format", "json", "--root", &fixture("clusters-128cpu")];
    fs::write(&file, &manycore().args(topo).assert().success().get_output().stdout).unwrap();
    let from_json = stdout(&["--machine", file.to_str().unwrap(), "--format", "json"]);
    assert_eq!(from_json, on("clusters-128cpu", &["--format", "json"]));
}

#[test]
fn the_picture_has_every_worker_on_its_cpu() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("plan.svg");
    on(
        "hybrid-16cpu",
        &["--place", "close", "--workers", "18", "--reserve", "1", "--svg", svg.to_str().unwrap()],
    );
    let picture = fs::read_to_string(&svg).unwrap();
    let json = on("hybrid-16cpu", &["--workers", "18", "--reserve", "1", "--format", "json"]);
    let plan: PlacementPlan = serde_json::from_str(&json).unwrap();
    let count = |class: &str| picture.matches(&format!("<rect class=\"{class}\"")).count();
    // The legend contains one box of each class.
    assert_eq!((count("worker"), count("shared"), count("idle"), count("cpu")), (13, 4, 2, 0));
    for (at, worker) in plan.workers.iter().enumerate().take(15) {
        let also = if at < 3 { format!(" w{}", at + 15) } else { String::new() };
        let hint = format!("<title>CPU {}: w{at}{also}</title>", worker.cpus);
        assert!(picture.contains(&hint), "{hint}");
    }
    assert!(picture.contains("18 workers, close"));
}

#[test]
fn requests_that_cannot_be_met_name_the_nearest() {
    let server = fixture("server-64cpu");
    for (args, message) in [
        ("--workers 0", "there are no workers to place; request at least 1"),
        ("--workers 70000", "70000 workers are too many for a plan; request at most 65536"),
        ("--workers 99999999999999999999", "invalid value '99999999999999999999' for '--workers <N>'"),
        ("--workers=-1", "invalid value '-1' for '--workers <N>'"),
        ("--workers 15 --exclusive", "15 workers on CPUs 0-6,8-15 cannot have one CPU each; at most 15 can"),
        ("--workers 16 --exclusive", "16 workers on CPUs 0-6,8-15 cannot have one CPU each; at most 15 can"),
        ("--place near=eth9", "near=eth9: this machine reports no such device; the nearest names are eth0"),
        ("--place cpus=7", "cpus=7: 7 offline; CPUs that may be used: 0-6,8-15"),
        ("--place cpus=16,99", "99 not present on this machine, 16 not allowed (/sys/fs/cgroup"),
        ("--place cpus=0 --reserve cpus=0", "cpus=0: 0 reserved"),
        ("--reserve 15", "the reserve is 15 CPUs, but only 15 may be used; reserve at most 14"),
        ("--place spread@cluster", "spread@cluster: this machine reports no cluster; the nearest is"),
        ("--place sideways", "'sideways' is not a placement"),
        (
            "--as numactl --memory bind=9",
            "bind=9: this machine reports no memory on node 9; nodes with memory: 0",
        ),
        ("--memory bind", "--as <PROGRAM>"),
        ("--as slurm --format json", "cannot be used with '--format <FORMAT>'"),
        ("--as perl", "possible values: taskset, numactl, systemd, docker, podman, kubernetes, slurm"),
        ("--as openmp --together", "--together: openmp places the workers of one program separately"),
    ] {
        let args: Vec<&str> = ["--root", &server].into_iter().chain(args.split(' ')).collect();
        if args.contains(&"15") && args.contains(&"--exclusive") {
            manycore().arg("plan").args(&args).assert().success();
            continue;
        }
        assert_fails(&args, 2, message);
    }
}

#[test]
fn files_that_are_no_machines_are_refused() {
    assert_fails(&["--machine", concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml")], 2, "expected a machine");
    assert_fails(&["--machine", "/nonexistent"], 2, "cannot read /nonexistent");
}

#[test]
fn a_refusal_leaves_no_picture() {
    let folder = tempfile::tempdir().unwrap();
    let svg = folder.path().join("plan.svg");
    let root = fixture("guest-2cpu");
    let common = ["--root", &root, "--svg", svg.to_str().unwrap()];
    assert_fails(&[&common[..], &["--as", "openmp", "--together"]].concat(), 2, "--together");
    assert_fails(&[&common[..], &["--workers", "3", "--exclusive"]].concat(), 2, "cannot have one CPU each");
    assert!(!svg.exists());
}

#[test]
fn closed_pipes_and_full_disks_are_handled() {
    let full = "No space left on device (os error 28)\n";
    for (script, code, said) in [
        ("$0 plan --root $1 --all | true; exit ${PIPESTATUS[0]}", 0, String::new()),
        ("$0 plan --root $1 --as kubernetes | true; exit ${PIPESTATUS[0]}", 0, String::new()),
        (
            "$0 plan --root $1 --as slurm >/dev/full",
            3,
            format!("manycore: cannot write to standard output: {full}"),
        ),
        ("$0 plan --root $1 --svg /dev/full", 3, format!("manycore: cannot write /dev/full: {full}")),
    ] {
        let program = assert_cmd::cargo::cargo_bin!("manycore");
        let mut bash = Command::new("bash");
        let output = bash.args(["-c", script]).arg(program).arg(fixture("clusters-128cpu")).output().unwrap();
        assert_eq!(output.status.code(), Some(code), "{script}");
        assert_eq!(String::from_utf8_lossy(&output.stderr), said, "{script}");
    }
}

#[test]
fn five_hundred_workers_on_four_thousand_cpus_fit_a_screen() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("big.machine");
    fs::write(&file, MachineSpec::giant().capture().to_string()).unwrap();
    for place in ["free", "close", "spread", "spread@package"] {
        let text = stdout(&["--root", file.to_str().unwrap(), "--workers", "512", "--place", place]);
        assert!(text.lines().count() < 45, "{text}");
        assert!(text.lines().all(|line| line.chars().count() <= 100), "{text}");
    }
}
