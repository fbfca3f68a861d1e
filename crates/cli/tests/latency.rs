//! The core-to-core latency of `manycore eval`, with real threads on the CPUs of this machine.

use assert_cmd::cargo::cargo_bin;
use manycore_experiment::{Record, ping_pong::Visits};
use manycore_topology::CpuSet;
use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};

fn eval(program: &mut Command, folder: &Path) -> Output {
    program.args(["eval", "--only", "latency", "--seed", "3", "--out"]).arg(folder);
    program.stdin(Stdio::null()).output().unwrap()
}

fn words(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn json(bytes: &[u8]) -> serde_json::Value {
    serde_json::from_slice(bytes).unwrap()
}

fn record(folder: &Path) -> serde_json::Value {
    json(&fs::read(folder.join("record.json")).unwrap())
}

/// Returns the CPUs that this process may use.
fn cpus() -> CpuSet {
    manycore_linux::affinity::allowed().unwrap()
}

fn two_cpus() -> bool {
    let two = cpus().len() > 1;
    if !two {
        eprintln!("SKIPPED: needs two CPUs");
    }
    two
}

#[test]
fn every_pair_has_a_plausible_figure() {
    if !two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let run = eval(&mut Command::new(cargo_bin("manycore")), folder.path());
    assert_eq!(run.status.code(), Some(0), "{}", words(&run));
    assert!(String::from_utf8_lossy(&run.stdout).contains("CORE-TO-CORE LATENCY"));
    if record(folder.path())["not_measured"].to_string().contains("not available at the same time") {
        eprintln!("SKIPPED: other work used the CPUs all the time");
        return;
    }
    let table = fs::read_to_string(folder.path().join("latency.csv")).unwrap();
    let mut pairs = 0;
    for line in table.lines().skip(1) {
        let cells: Vec<&str> = line.split(',').collect();
        let number = |at: usize| cells[at].parse::<f64>().unwrap();
        assert!(number(0) < number(1), "{line}");
        // How long it takes beside other work is not known.
        assert!(number(3) >= 2.0 && number(4) <= number(3), "{line}");
        assert!(number(6) >= 1.0, "{line}");
        pairs += 1;
    }
    let cpus = cpus().len();
    assert!(pairs == cpus * (cpus - 1) / 2 || cpus > 70, "{pairs} pairs of {cpus} CPUs");
    let record = record(folder.path());
    assert_eq!(record["not_measured"], serde_json::json!([]), "nothing was left out");
    let experiment = &record["experiments"][0];
    assert_eq!(
        (&experiment["id"], &experiment["metrics"][0]["better"]),
        (&"latency".into(), &"lower".into())
    );
    let samples = experiment["samples"].as_array().unwrap();
    assert!(samples.iter().all(|sample| sample["values"].as_array().unwrap().len() == 3));
    // Either CPU may serve, so the samples cover both directions. They have no counters of all CPUs.
    assert!(samples.iter().all(|sample| sample["counters"]["busy_ticks"].is_null()));
    // A single pair is a figure in the table, and no map.
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    assert_eq!(page.contains("chart-latency-map-1"), pairs > 1);
}

#[test]
fn one_cpu_alone_has_no_pair_and_that_is_no_failure() {
    let folder = tempfile::tempdir().unwrap();
    let mut bound = Command::new("taskset");
    let first = cpus().first().unwrap().to_string();
    bound.args(["--cpu-list", &first]).arg(cargo_bin("manycore"));
    let run = eval(&mut bound, folder.path());
    assert_eq!(run.status.code(), Some(0), "{}", words(&run));
    let record = record(folder.path());
    assert_eq!(record["experiments"], serde_json::json!([]));
    let why = record["not_measured"][0]["why"].as_str().unwrap();
    assert_eq!(why, format!("core-to-core latency needs two CPUs, but only CPU {first} may be used"));
}

#[test]
fn only_cpus_that_may_be_used_are_visited() {
    let cpus = cpus();
    if cpus.len() < 3 {
        eprintln!("SKIPPED: needs three CPUs");
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let mut bound = Command::new("taskset");
    let (first, last) = (cpus.first().unwrap(), cpus.last().unwrap());
    bound.args(["--cpu-list", &format!("{first},{last}")]).arg(cargo_bin("manycore"));
    let run = eval(&mut bound, folder.path());
    assert_eq!(run.status.code(), Some(0), "{}", words(&run));
    let table = fs::read_to_string(folder.path().join("latency.csv")).unwrap();
    assert!(table.lines().skip(1).all(|line| line.starts_with(&format!("{first},{last},"))), "{table}");
}

/// Returns the voluntary context switches of the measuring thread of `pid`, which sleeps between visits.
fn sleeps_of_server(pid: u32) -> u64 {
    let tasks = fs::read_dir(format!("/proc/{pid}/task")).into_iter().flatten().flatten();
    let status = tasks.map(|task| fs::read_to_string(task.path().join("status")).unwrap_or_default());
    let server = status.filter(|status| status.starts_with("Name:\tserver\n"));
    let sleeps = |status: String| {
        let line = status.lines().find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"))?;
        line.trim().parse::<u64>().ok()
    };
    server.filter_map(sleeps).max().unwrap_or(0)
}

#[test]
fn ctrl_c_saves_the_visits_that_were_made() {
    if !two_cpus() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    // A run may be over before it is interrupted.
    let interrupted = (0..10).any(|_| {
        let mut child = Command::new(cargo_bin("manycore"))
            .args(["eval", "--quiet", "--force", "--only", "latency", "--budget", "120s", "--out"])
            .arg(folder.path())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        while child.try_wait().unwrap().is_none() && sleeps_of_server(child.id()) < 6 {
            std::thread::yield_now();
        }
        // If it has ended already, it has not been waited for, so that its id is not reused.
        drop(Command::new("kill").args(["-INT", &child.id().to_string()]).stderr(Stdio::null()).status());
        match child.wait().unwrap().code() {
            Some(130) => true,
            code => {
                assert_eq!(code, Some(0));
                false
            }
        }
    });
    assert!(interrupted);
    let record: Record =
        serde_json::from_slice(&fs::read(folder.path().join("record.json")).unwrap()).unwrap();
    assert!(record.interrupted);
    assert!(!record.experiments[0].samples.is_empty());
    let report =
        Command::new(cargo_bin("manycore")).arg("report").arg(folder.path().join("record.json")).output();
    let printed = report.unwrap().stdout;
    let printed = String::from_utf8_lossy(&printed);
    // On a busy machine the two CPUs may not have run at the same time in most of the few visits.
    let suffice = Visits::by_pair(&record.experiments[0]).iter().all(Visits::suffice);
    assert_eq!(printed.contains("Core-to-core latency is"), suffice, "{printed}");
}
