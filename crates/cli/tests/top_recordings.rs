//! Tests of `manycore top` with the real binary: recordings, and what is printed of them.

use crate::common;
use crate::common::{manycore, schema, sh, text};
use crate::top::snapshots;
use manycore_top::{
    Sample, Sampler, SamplerOptions,
    history::{Recorder, RecordingHead, Replay},
};
use manycore_topology::{SysTree, read};
use std::{fs, path::Path};
use tempfile::TempDir;

#[test]
fn a_recording_is_replayed_and_reported() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (day, page) = (path("day.top"), path("day.html"));
    let options = ["top", "--record", &day, "--interval", "300ms", "--count", "5"];
    let run = manycore().args(options).assert().success();
    assert_eq!(text(&run.get_output().stdout), "");
    assert!(text(&run.get_output().stderr).contains("Recorded 6 samples"));

    let replayed = ["top", "--replay", &day, "--interval", "100ms", "--format", "json", "--show", "cpus"];
    let output = manycore().args(replayed).output().unwrap();
    // All of its time, in up to five parts: a sample that was late is followed by one that is nearer than the interval.
    let shown = snapshots(&output);
    let seconds: f64 = shown.iter().map(|one| one["seconds"].as_f64().unwrap()).sum();
    let (begin, end) = Replay::open(Path::new(&day)).unwrap().unix_ms().unwrap();
    let recorded = (end - begin) as f64 / 1000.0;
    assert!((1..=5).contains(&shown.len()) && (seconds - recorded).abs() < 0.1, "{seconds} of {recorded} s");
    let report = manycore().args(["report", &day, "--html", &page, "--format", "json"]).assert().success();
    schema::parse("top", &report.get_output().stdout);
    assert!(fs::read_to_string(page).unwrap().trim_end().ends_with("</html>"));

    // What was recorded is never replaced, and a command is not started in vain.
    let marker = path("started");
    let words = ["top", "--once", "--record", &day, "--", "touch", &marker];
    let refused = manycore().args(words).assert().code(3);
    assert!(text(&refused.get_output().stderr).contains("exists"));
    assert!(!Path::new(&marker).exists());

    // Nor is there a recording if the command cannot be started.
    let vain = path("vain.top");
    manycore().args(["top", "--record", &vain, "--", "./no-such-command"]).assert().code(2);
    assert!(!Path::new(&vain).exists());

    let begin = fs::read(&day).unwrap();
    let cut = path("cut.top");
    fs::write(&cut, &begin[..begin.len() - 20]).unwrap();
    let cut = manycore().args(["top", "--replay", &cut, "--once"]).assert().success();
    assert!(text(&cut.get_output().stderr).contains("recording"));
    fs::write(path("none.top"), &begin[..6]).unwrap();
    manycore().args(["top", "--replay", &path("none.top"), "--once"]).assert().code(2);
}

#[test]
fn tables_go_on_when_the_recording_cannot() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (short, long) = (path("short.top"), path("long.top"));
    manycore().args(["top", "--once", "--interval", "100ms", "--record", &short]).assert().success();
    // No larger file: as with a full disk, writing the 60 samples of the first chunk fails.
    let size = fs::metadata(&short).unwrap().len();
    let script = format!(
        "trap '' XFSZ; exec prlimit --fsize={size} -- {} top --record {long} --interval 100ms --count 65 \
         --show cpus --format csv",
        common::program().display()
    );
    let output = sh(&script);
    let said = text(&output.stderr);
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert_eq!(said.matches("The recording has ended early").count(), 1, "{said}");
    let cpus = text(&sh("getconf _NPROCESSORS_ONLN").stdout).trim().parse::<usize>().unwrap();
    assert_eq!(text(&output.stdout).lines().count(), 1 + 65 * cpus, "{said}");
}

#[test]
fn a_process_that_ended_before_the_recording_is_reported() {
    let folder = TempDir::new().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (recording, worker) = (path("day.top"), path("ends-early"));
    std::os::unix::fs::symlink("/bin/sh", &worker).unwrap();
    let script = format!("{worker} -c 'i=0; while [ $i -lt 600000 ]; do i=$((i+1)); done; :'; sleep 1");
    let words = ["top", "--record", &recording, "--interval", "100ms", "--", "sh", "-c", &script];
    manycore().args(words).assert().success();
    let json = manycore().args(["report", &recording, "--format", "json"]).assert().success();
    let report = schema::parse("top", &json.get_output().stdout);
    let rows = report["processes"].as_array().unwrap();
    let row = rows.iter().find(|row| row["name"] == "ends-early").unwrap();
    assert!(row["state"] == "X" && row["cpu_percent"].as_f64().unwrap() > 0.0, "{row}");
    let csv = manycore().args(["report", &recording, "--format", "csv"]).assert().success();
    assert!(text(&csv.get_output().stdout).contains(",rss_kib"), "{}", text(&csv.get_output().stdout));
    let shown = manycore().args(["report", &recording]).assert().success();
    assert!(text(&shown.get_output().stdout).contains("State X: the process ended"));
}

/// Writes a recording of samples that are 200 ms apart.
fn even_recording(path: &str, count: u64) {
    let machine = read(&SysTree::open(Path::new("/")).unwrap()).unwrap();
    let mut sampler = Sampler::new(Path::new("/"), SamplerOptions::default()).unwrap();
    let mut sample = Sample::default();
    sampler.sample(&mut sample).unwrap();
    let (started_ns, unix_ms) = (sample.at_ns, sample.unix_ms);
    let mut recorder = Recorder::create(Path::new(path), &RecordingHead::new(machine, unix_ms, 200)).unwrap();
    for number in 0..count {
        sampler.sample(&mut sample).unwrap();
        (sample.at_ns, sample.unix_ms) = (started_ns + number * 200_000_000, unix_ms + number * 200);
        recorder.append(&sample).unwrap();
    }
    recorder.finish().unwrap();
}

#[test]
fn what_an_interval_leaves_out_of_a_recording_is_said() {
    let folder = TempDir::new().unwrap();
    let day = folder.path().join("day.top").to_str().unwrap().to_owned();
    even_recording(&day, 6);
    let replayed = |interval: &str| {
        let words = ["top", "--replay", &day, "--interval", interval, "--show", "system"];
        let run = manycore().args(words).output().unwrap();
        (run.status.code(), text(&run.stderr))
    };
    let (code, said) = replayed("1h");
    assert!(code == Some(2) && said.contains("choose a shorter one with --interval"), "{said}");
    let (code, said) = replayed("700ms");
    assert!(code == Some(0) && said.contains("of the recording are left out"), "{said}");
    // No sample is nearer to the previous one.
    assert_eq!(replayed("100ms"), (Some(0), String::new()));
}
