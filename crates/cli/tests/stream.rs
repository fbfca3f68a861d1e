//! `manycore bench stream` as a whole, on this machine's memory.

use crate::common::{assert_bench_refuses, first_cpu, manycore};
use assert_cmd::cargo::cargo_bin;
use serde_json::Value;
use std::{
    fs,
    io::{BufRead, BufReader},
    path::Path,
    process::{Command, Stdio},
};

/// Runs it with small arrays. Returns its JSON output and its folder.
fn bench(arguments: &[&str]) -> (Value, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let run = manycore()
        .args([
            "bench", "stream", "--array", "16M", "--budget", "2", "--seed", "3", "--quiet", "--format",
            "json",
        ])
        .args(arguments)
        .arg("--out")
        .arg(folder.path())
        .assert()
        .success();
    (serde_json::from_slice(&run.get_output().stdout).unwrap(), folder)
}

fn rows(folder: &Path, name: &str) -> Vec<Vec<String>> {
    let table = fs::read_to_string(folder.join(name)).unwrap();
    table.lines().skip(1).map(|line| line.split(',').map(str::to_owned).collect()).collect()
}

fn number(cell: &str) -> f64 {
    cell.parse().unwrap_or_else(|_| panic!("{cell:?} is not a number"))
}

#[test]
fn every_kernel_and_every_route_has_a_plausible_figure() {
    let (judged, folder) = bench(&[]);
    let stream = &judged["stream"];
    assert_eq!(stream["array_bytes"], 16 << 20);
    let kernels = rows(folder.path(), "stream.csv");
    for kernel in ["copy", "scale", "add", "triad", "read"] {
        let of: Vec<_> = kernels.iter().filter(|row| row[0] == kernel).collect();
        assert!(of.iter().all(|row| (1e7..1e13).contains(&number(&row[3]))), "{of:?}");
        let stores = of.iter().map(|row| &*row[1]).collect::<std::collections::BTreeSet<_>>();
        let both = cfg!(any(target_arch = "x86_64", target_arch = "aarch64")) && kernel != "read";
        assert_eq!(stores.len(), if both { 2 } else { 1 }, "{kernel}: {stores:?}");
    }
    let ways = rows(folder.path(), "stream_nodes.csv");
    assert_eq!(ways.len(), stream["routes"].as_array().unwrap().len());
    for way in &ways {
        assert!(number(&way[3]) > 1e7 && (1.0..1e6).contains(&number(&way[6])), "{way:?}");
        // A single CPU has no other CPUs that could read meanwhile.
        let workers = number(&way[2]);
        assert!(workers < 2.0 || number(&way[9]) > 1.0 && number(&way[12]) >= 0.0, "{way:?}");
    }
    let page = fs::read_to_string(folder.path().join("report.html")).unwrap();
    // A single route is a figure in the table, and no map.
    let maps = ways.len() > 1;
    assert_eq!([page.contains("chart-stream-nodes-1"), page.contains("chart-stream-idle-1")], [maps, maps]);
    let text = manycore().arg("report").arg(folder.path().join("record.json")).assert().success();
    let text = String::from_utf8_lossy(&text.get_output().stdout).into_owned();
    assert!(
        text.contains("MEMORY BANDWIDTH AND LATENCY") && text.contains("Each of the three arrays has 16 MiB")
    );
    assert!(text.lines().all(|line| line.chars().count() <= 110), "{text}");
}

#[test]
fn only_named_kernels_and_nodes_are_measured() {
    let (judged, _folder) =
        bench(&["--kernel", "triad,copy", "--workers", "1", "--cpus", &first_cpu(), "--nodes", "0"]);
    let points = judged["stream"]["points"].as_array().unwrap();
    let names: Vec<&str> = points.iter().map(|point| point["kernel"].as_str().unwrap()).collect();
    assert!(names.starts_with(&["triad"]) && names.ends_with(&["copy"]), "{names:?}");
    assert!(points.iter().all(|point| point["workers"] == 1 && point["speedup"].is_null()));
    let route = &judged["stream"]["routes"][0];
    assert!(route["loaded_ns"].is_null() && route["idle_ns"]["median"].as_f64().unwrap() > 1.0, "{route}");
}

#[test]
fn a_section_of_eval_is_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let run = manycore().args(["eval", "--only", "stream", "--quiet", "--out"]).arg(folder.path()).assert();
    let run = run.success();
    assert!(String::from_utf8_lossy(&run.get_output().stdout).contains("MEMORY BANDWIDTH AND LATENCY"));
    let record: Value =
        serde_json::from_slice(&fs::read(folder.path().join("record.json")).unwrap()).unwrap();
    let ids: Vec<&Value> =
        record["experiments"].as_array().unwrap().iter().map(|experiment| &experiment["id"]).collect();
    assert_eq!(ids, ["stream", "stream-nodes", "stream-latency"]);
    // Either the arrays are large compared with the caches, or the record states why they are not.
    let parameters = &record["experiments"][0]["parameters"];
    let size = |name: &str| parameters[name].as_str().and_then(|text| text.parse::<u64>().ok());
    let small =
        size("array_bytes").zip(size("caches_bytes")).is_some_and(|(array, caches)| array < 4 * caches);
    assert_eq!(
        record["not_measured"].to_string().contains("times the last-level caches"),
        small,
        "{parameters}"
    );
}

#[test]
fn invalid_options_are_refused_before_anything_is_measured() {
    for (arguments, expected) in [
        (&["--array", "64k"][..], "is too small: "),
        (&["--array", "4096T"], "a quarter of the available memory"),
        (&["--array", "-1"], "--array"),
        (&["--array", "much"], "expected a size"),
        (&["--kernel", "daxpy"], "expected one of copy, scale, add, triad, read"),
        (&["--nodes", "4000"], "there is no node 4000; this machine has nodes"),
        (&["--nodes", "x"], "--nodes"),
        (&["--nodes", ""], "the list is empty"),
        (&["--workers", "4000"], "each worker gets its own CPU"),
        (&["--workers", "0"], "--workers"),
        (&["--unixbench"], "--unixbench applies to pipe"),
    ] {
        assert_bench_refuses(&[&["stream"], arguments].concat(), expected);
    }
}

#[test]
fn too_little_memory_is_reported() {
    let folder = tempfile::tempdir().unwrap();
    // Limits the address space of the process, not the memory of the machine: large enough to start, too
    // small for arrays.
    let script = "ulimit -v 3000000; exec \"$0\" bench stream --array 1G --quiet --out \"$1\"";
    let run = Command::new("bash")
        .args(["-c", script])
        .arg(cargo_bin("manycore"))
        .arg(folder.path().join("out"))
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    if run.status.code() == Some(2) {
        eprintln!("SKIPPED: too little memory is available: {said}");
        return;
    }
    assert_eq!(run.status.code(), Some(3), "{said}");
    assert!(said.contains("memory of node") && said.lines().count() == 1, "{said}");
}

#[test]
fn an_interrupted_run_keeps_its_exit_code() {
    let folder = tempfile::tempdir().unwrap();
    let mut child = Command::new(cargo_bin("manycore"))
        .args(["bench", "stream", "--array", "16M", "--budget", "60", "--out"])
        .arg(folder.path().join("out"))
        .stdin(Stdio::null())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(child.stderr.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
