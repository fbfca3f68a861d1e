//! Recordings in files.

use crate::compared::assert_same;
use crate::invented::{Invented, Load, SERVER};
use manycore_top::{
    CpuTimes, GroupSample, ProcessDetails, ProcessSample, Sample, TaskId, TaskSample,
    history::{Error, Recorder, RecordingEnd, RecordingHead, Replay},
};
use manycore_topology::{Machine, SysTree, read, synthetic::MachineSpec};
use std::{fs, path::Path};

fn machine(clusters: u32, cores: u32) -> Machine {
    let spec = MachineSpec { packages: 2, clusters, cores, ..MachineSpec::default() };
    read(&SysTree::from_capture(spec.capture())).unwrap()
}

fn recorded(path: &Path, samples: &[Sample]) -> Recorder {
    let head = RecordingHead::new(machine(2, 4), samples[0].unix_ms, 1000);
    let mut recorder = Recorder::create(path, &head).unwrap();
    for sample in samples {
        recorder.append(sample).unwrap();
    }
    recorder
}

fn some_samples(count: usize) -> Vec<Sample> {
    let mut invented = Invented::new(Load { threads: 40, busy: 5, waking: 20, ..SERVER }, 7);
    (0..count).map(|_| invented.step().clone()).collect()
}

#[test]
fn a_recording_is_replayed_in_any_order() {
    let folder = tempfile::tempdir().unwrap();
    let (path, samples) = (folder.path().join("a"), some_samples(1500));
    let (count, bytes) = recorded(&path, &samples).finish().unwrap();
    assert_eq!((count, bytes), (1500, fs::metadata(&path).unwrap().len()));
    let mut replay = Replay::open(&path).unwrap();
    assert_eq!((replay.len(), replay.end()), (1500, &RecordingEnd::Finished));
    assert_eq!(replay.unix_ms(), Some((samples[0].unix_ms, samples[1499].unix_ms)));
    assert_eq!(replay.head().machine, machine(2, 4));
    for number in (0..1500).chain([3, 1499, 700, 699, 601, 600, 599, 0]).chain((0..1500).rev().step_by(97)) {
        assert_same(replay.at(number).unwrap().unwrap(), &samples[number]);
    }
    assert!(replay.at(1500).unwrap().is_none());
    for (time, number) in [(0, 0), (samples[77].unix_ms, 77), (samples[78].unix_ms - 1, 77), (u64::MAX, 1499)]
    {
        assert_eq!(replay.number_at(time).unwrap(), Some(number));
    }
    assert!(matches!(Recorder::create(&path, replay.head()), Err(Error::Exists(_))));
}

#[test]
fn a_recording_that_was_cut_off_is_read_up_to_there() {
    let folder = tempfile::tempdir().unwrap();
    let (path, samples) = (folder.path().join("a"), some_samples(200));
    // As after a kill: the last chunk was not written.
    drop(recorded(&path, &samples));
    let mut replay = Replay::open(&path).unwrap();
    assert_eq!((replay.len(), replay.end()), (180, &RecordingEnd::Interrupted));
    assert_same(replay.at(179).unwrap().unwrap(), &samples[179]);
    let whole = fs::read(&path).unwrap();
    for cut in [whole.len() - 1, whole.len() - 700] {
        fs::write(&path, &whole[..cut]).unwrap();
        let mut replay = Replay::open(&path).unwrap();
        assert_eq!(replay.len(), 120);
        assert!(matches!(replay.end(), RecordingEnd::Damaged { why: "the last chunk is cut off", .. }));
        assert_same(replay.at(119).unwrap().unwrap(), &samples[119]);
    }
    let mut damaged = whole.clone();
    let at = whole.len() - 100;
    damaged[at] ^= 1;
    fs::write(&path, &damaged).unwrap();
    let replay = Replay::open(&path).unwrap();
    assert_eq!(replay.len(), 120);
    assert!(matches!(replay.end(), RecordingEnd::Damaged { why: "a chunk is damaged", .. }));
    for text in [&b""[..], b"MCTOPREC", &whole[..50], b"something else that is long enough"] {
        fs::write(&path, text).unwrap();
        assert!(matches!(Replay::open(&path), Err(Error::NotARecording { .. })), "{text:?}");
    }
    assert!(matches!(Replay::open(folder.path()), Err(Error::NotARecording { .. })));
}

#[test]
fn samples_are_in_the_file_within_a_minute() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("a");
    // One sample in 25 s.
    let samples: Vec<Sample> = some_samples(126).into_iter().step_by(25).collect();
    let recorder = recorded(&path, &samples[..3]);
    assert_eq!(Replay::open(&path).unwrap().len(), 0);
    // Without a sample in it, the file would only be in the way of the next recording.
    drop(recorder);
    assert!(!path.exists());
    let _recorder = recorded(&path, &samples[..5]);
    assert_eq!(Replay::open(&path).unwrap().len(), 4);
}

#[test]
fn groups_that_are_throttled_alike_are_reported_each() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("throttled");
    let group = |name: &str, second: u64| GroupSample {
        path: name.into(),
        cpu_ns: Some(second * 500_000_000),
        throttled_ns: Some(second * 300_000_000),
        quota_milli: Some(500),
        memory_bytes: None,
        memory_limit: None,
        processes: 1,
        pressure: None,
    };
    let sample = |second: u64| Sample {
        at_ns: second * 1_000_000_000,
        unix_ms: second * 1000,
        cpus: vec![CpuTimes { cpu: 0, user: 100 * second, ..CpuTimes::default() }],
        groups: vec![group("/pods/a", second), group("/pods/b", second)],
        ..Sample::default()
    };
    recorded(&path, &(1..10).map(sample).collect::<Vec<_>>()).finish().unwrap();
    let found = manycore_top::findings::of_recording(&mut Replay::open(&path).unwrap()).unwrap();
    let names = ["/pods/a", "/pods/b"].map(|name| found.iter().filter(|line| line.contains(name)).count());
    assert_eq!(names, [1, 1], "{found:?}");
}

#[test]
fn far_memory_of_a_recording_is_found_though_one_sample_has_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("far");
    let sample = |second: u64| Sample {
        at_ns: second * 1_000_000_000,
        unix_ms: second * 1000,
        cpus: vec![CpuTimes { cpu: 0, user: 100 * second, ..CpuTimes::default() }],
        tasks: vec![TaskSample {
            id: TaskId { pid: 7, tid: 7, start: 1 },
            state: 'R',
            run_ns: second * 900_000_000,
            ..TaskSample::default()
        }]
        .into(),
        processes: vec![ProcessSample { pid: 7, start: 1, cpu_ns: Some(second * 900_000_000), threads: 1 }],
        details: (second == 3)
            .then(|| ProcessDetails { node_kib: Some([(1, 1 << 20)].into()), ..ProcessDetails::default() })
            .map(|details| (7, details))
            .into_iter()
            .collect(),
        ..Sample::default()
    };
    recorded(&path, &(1..20).map(sample).collect::<Vec<_>>()).finish().unwrap();
    let found = manycore_top::findings::of_recording(&mut Replay::open(&path).unwrap()).unwrap();
    assert_eq!(found.len(), 1, "{found:?}");
    assert!(
        found[0].contains("on other nodes than its busy threads") && found[0].contains("for 17 s"),
        "{found:?}"
    );
}
