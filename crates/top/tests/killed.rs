//! A process that records is killed.

use crate::invented::{Invented, Load, SERVER};
use manycore_top::{
    Sample,
    history::{Error, Recorder, RecordingEnd, RecordingHead, Replay},
};
use manycore_topology::{SysTree, read, synthetic::MachineSpec};
use std::{
    io::Read,
    os::unix::process::ExitStatusExt,
    path::Path,
    process::{Command, Stdio},
};

/// Where the process that is killed records. Without it, this is a test.
const PATH: &str = "MANYCORE_TEST_RECORDING";
/// The name of the test in this binary.
const OWN: &str = "killed::a_recording_of_a_killed_process_has_all_but_the_last_minute";
/// Samples that it appends before it says so, of which two chunks are complete.
const APPENDED: usize = 150;
const COMPLETE: usize = 120;

fn samples(count: usize) -> Vec<Sample> {
    let mut invented = Invented::new(Load { threads: 40, busy: 5, waking: 20, ..SERVER }, 7);
    (0..count).map(|_| invented.step().clone()).collect()
}

/// Appends samples, says so by one line, and waits to be killed.
fn record(path: &Path) {
    let machine = read(&SysTree::from_capture(MachineSpec::default().capture())).unwrap();
    let samples = samples(APPENDED);
    let head = RecordingHead::new(machine, samples[0].unix_ms, 1000);
    let mut recorder = Recorder::create(path, &head).unwrap();
    for sample in &samples {
        recorder.append(sample).unwrap();
    }
    println!("\n{APPENDED} appended");
    // Until the test ends, should it not kill this process.
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// The test program runs itself as the process that is killed.
#[test]
fn a_recording_of_a_killed_process_has_all_but_the_last_minute() {
    if let Some(path) = std::env::var_os(PATH) {
        return record(Path::new(&path));
    }
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", OWN, "--nocapture"])
        .env(PATH, &path)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let (mut said, mut output) = (String::new(), child.stdout.take().unwrap());
    while !said.contains("150 appended") {
        let mut some = [0; 256];
        let count = output.read(&mut some).unwrap();
        assert!(count > 0, "it ended too early: {said}");
        said.push_str(&String::from_utf8_lossy(&some[..count]));
    }
    // It can be read while it grows, and after.
    let growing = Replay::open(&path).unwrap();
    assert_eq!((growing.len(), growing.end()), (COMPLETE, &RecordingEnd::Interrupted));
    child.kill().unwrap();
    assert_eq!(child.wait().unwrap().signal(), Some(9));
    let mut replay = Replay::open(&path).unwrap();
    assert_eq!((replay.len(), replay.end()), (COMPLETE, &RecordingEnd::Interrupted));
    for (number, sample) in samples(COMPLETE).iter().enumerate() {
        let found = replay.at(number).unwrap().unwrap();
        assert_eq!((found.unix_ms, &found.cpus), (sample.unix_ms, &sample.cpus));
        assert_eq!(found.tasks.len(), sample.tasks.len());
    }
    // Another one does not replace it.
    let created = Recorder::create(&path, replay.head());
    assert!(matches!(created, Err(Error::Exists(_))), "{created:?}");
}
