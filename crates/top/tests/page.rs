//! The page of a recording.

use crate::invented::{Invented, Load};
use manycore_top::{
    BandwidthSample, GuestSample, InterruptSample, Picture, ProcessSample, Sample, TaskId, TaskName,
    TaskSample,
    history::{Recorder, RecordingHead, Replay},
    page::{Courses, page},
    snapshot::{Order, Part, SnapshotOptions, TopSnapshot},
};
use manycore_topology::{SysTree, read, synthetic::MachineSpec};
use std::{cell::Cell, fs, path::Path};

const LOAD: Load = Load { cpus: 16, nodes: 2, threads: 60, busy: 6, waking: 20, groups: 3 };

fn recorded(
    name: &str,
    count: usize,
    change: impl Fn(&mut Sample),
) -> (tempfile::TempDir, std::path::PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    let spec = MachineSpec { packages: 2, clusters: 2, cores: 4, ..MachineSpec::default() };
    let machine = read(&SysTree::from_capture(spec.capture())).unwrap();
    let mut invented = Invented::new(LOAD, 1);
    let mut recorder = Recorder::create(&path, &RecordingHead::new(machine, 0, 1000)).unwrap();
    for _ in 0..count {
        let mut sample = invented.step().clone();
        change(&mut sample);
        recorder.append(&sample).unwrap();
    }
    recorder.finish().unwrap();
    (folder, path)
}

fn shown(path: &Path, findings: &[&str]) -> String {
    let mut replay = Replay::open(path).unwrap();
    let courses = Courses::of(&mut replay).unwrap();
    page(&replay, &courses, &findings.iter().map(|&one| one.to_owned()).collect::<Vec<_>>())
}

#[test]
fn a_page_has_what_was_recorded() {
    let (_folder, path) = recorded("a", 400, |sample| {
        // 50 a second on CPU 3, and one that is never handled.
        let seconds = sample.at_ns / 1_000_000_000;
        sample.interrupts = [("24", "nvme0q1", 50 * seconds), ("25", "never", 7)]
            .map(|(name, handlers, count)| InterruptSample {
                name: name.into(),
                handlers: handlers.into(),
                counts: vec![0, 0, 0, count],
            })
            .into();
    });
    let text = shown(&path, &["A thread waits."]);
    for part in
        ["A thread waits.", "400 samples in 7 min", "id=\"memory\"", "id=\"pressure\"", "unit-001.service"]
    {
        assert!(text.contains(part), "{part} is not in the page");
    }
    assert!(text.contains("24 nvme0q1") && text.contains("mean 50.00, max 5") && !text.contains("25 never"));
    assert!(!text.contains("NaN") && !text.contains("inf\""), "a figure is not finite");
    // The mean of the map and of the first sentence are those of the invented machine.
    let busy: f64 = text.split("On average ").nth(1).unwrap().split(' ').next().unwrap().parse().unwrap();
    let (first, last) = (0, 399);
    let mut replay = Replay::open(&path).unwrap();
    let mut ticks = |number: usize| {
        let cpus = &replay.at(number).unwrap().unwrap().cpus;
        let idle: u64 = cpus.iter().map(|cpu| cpu.idle + cpu.iowait + cpu.steal).sum();
        let all: u64 = cpus.iter().map(|cpu| cpu.user + cpu.system + cpu.irq + cpu.softirq).sum();
        (all, idle)
    };
    let (before, now) = (ticks(first), ticks(last));
    let (used, idle) = ((now.0 - before.0) as f64, (now.1 - before.1) as f64);
    assert!((busy - 16.0 * used / (used + idle)).abs() < 0.06, "{busy}");
    // All clusters have the same size.
    let shares = ["0-3", "4-7", "8-11", "12-15"].map(|cpus| {
        let row = text.split(&format!(">{cpus}</th>")).nth(1).unwrap().split("</tr>").next().unwrap();
        let cells: Vec<f64> =
            row.split(" %</td>").filter_map(|cell| cell.rsplit('>').next()?.parse().ok()).collect();
        assert!(cells.len() == 6 && cells.chunks(2).all(|pair| 0.0 < pair[0] && pair[0] < pair[1]), "{row}");
        cells[0]
    });
    assert!((shares.iter().sum::<f64>() / 4.0 - busy * 100.0 / 16.0).abs() < 1.0, "{shares:?} {busy}");
}

/// Regression: moments in which no interval had its middle were empty.
#[test]
fn intervals_of_other_lengths_leave_no_gap_in_the_map() {
    let number = Cell::new(0);
    let (_folder, path) = recorded("a", 12, |sample| {
        // The first interval is one of 0.2 s.
        sample.at_ns += if number.replace(number.get() + 1) == 0 { 800_000_000 } else { 0 };
    });
    let text = shown(&path, &[]);
    let map = text.split_once("<svg id=\"chart-cpus\"").unwrap().1.split_once("</svg>").unwrap().0;
    // `M`, column and row, `h` and the number of cells of one colour.
    let runs = map.split("d=\"M").skip(1).map(|rest| rest.split_once('"').unwrap().0);
    let cells = runs.flat_map(|path| path.split('M')).map(|run| run.split_once('h').unwrap().1);
    assert_eq!(cells.map(|cells| cells.parse::<u32>().unwrap()).sum::<u32>(), 11 * 16);
}

#[test]
fn names_of_processes_are_text() {
    let name = TaskName::new(b"<b>\"&\x1b[2J");
    let (_folder, path) = recorded("a", 20, |sample| {
        for task in sample.tasks.iter_mut() {
            task.name = name;
        }
    });
    let text = shown(&path, &[]);
    assert!(text.contains("&lt;b&gt;&quot;&amp;\u{fffd}[2J"), "the name is not in the page");
    assert!(!text.contains("<b>") && !text.contains('\x1b'));
}

#[test]
fn a_short_or_damaged_recording_has_a_page_that_says_so() {
    for count in [0, 1] {
        let (_folder, path) = recorded("a", count, |_| ());
        let text = shown(&path, &[]);
        assert!(text.contains("fewer than two samples") && !text.contains("<svg"), "{count}");
    }
    let (_folder, path) = recorded("a", 200, |_| ());
    let mut bytes = fs::read(&path).unwrap();
    let at = bytes.len() - 500;
    bytes[at] ^= 1;
    fs::write(&path, &bytes).unwrap();
    let text = shown(&path, &[]);
    assert!(text.contains("The recording is damaged at byte"), "it does not say so");
}

/// Adds a process that runs half of the time from the start of counting on, until it ends after 300 seconds.
fn add_ending(sample: &mut Sample, began_ns: u64) {
    let since = sample.at_ns - began_ns;
    sample.processes.retain(|one| one.pid != 1_000_000);
    if since > 300_000_000_000 {
        return;
    }
    let id = TaskId { pid: 1_000_000, tid: 1_000_000, start: 9 };
    let name = TaskName::new(b"ends-early");
    sample.tasks.extend([TaskSample {
        id,
        name,
        run_ns: since / 2,
        wait_ns: Some(since / 4),
        ..TaskSample::default()
    }]);
    sample.processes.push(ProcessSample {
        pid: id.pid,
        start: id.start,
        cpu_ns: Some(since / 2),
        threads: 1,
    });
}

#[test]
fn a_process_that_ended_midway_has_its_time() {
    let began = Cell::new(0);
    let (_folder, path) = recorded("a", 400, |sample| {
        if began.get() == 0 {
            began.set(sample.at_ns);
        }
        add_ending(sample, began.get());
    });
    let mut replay = Replay::open(&path).unwrap();
    let courses = Courses::of(&mut replay).unwrap();
    let machine = replay.head().machine.clone();
    let first = replay.at(0).unwrap().unwrap().clone();
    let last = Picture::new(&machine, &first, replay.at(399).unwrap().unwrap()).unwrap();
    let ended = courses.ended(&last);
    let one = ended.iter().find(|one| one.pid == 1_000_000).unwrap();
    assert_eq!(one.name, "ends-early");
    assert!((one.run_seconds - 150.0).abs() < 1.0 && (one.wait_seconds - 75.0).abs() < 1.0, "{one:?}");
    assert!(ended.iter().all(|one| last.processes.iter().all(|other| other.pid != one.pid)), "{ended:?}");
    let options = SnapshotOptions { parts: vec![Part::Processes], order: Order::Cpu, rows: 500 };
    let mut snapshot = TopSnapshot::new(&last, &[], &options);
    assert!(snapshot.processes.iter().all(|row| row.name != "ends-early"));
    snapshot.add_ended(&ended, &options);
    let row = snapshot.processes.iter().find(|row| row.name == "ends-early").unwrap();
    assert!((row.cpu_percent - 15000.0 / 399.0).abs() < 0.5 && row.state == 'X', "{row:?}");
    assert!(snapshot.processes.is_sorted_by(|a, b| a.cpu_percent >= b.cpu_percent));
}

#[test]
fn virtual_machines_and_bandwidth_have_courses() {
    let (_folder, path) = recorded("a", 100, |sample| {
        let second = sample.at_ns / 1_000_000_000;
        let id = TaskId { pid: 1_000_000, tid: 1_000_000, start: 9 };
        let run_ns = second * 500_000_000;
        let (name, wait_ns) = (TaskName::new(b"CPU 0/KVM"), Some(run_ns / 2));
        sample.tasks.extend([TaskSample { id, name, run_ns, wait_ns, ..TaskSample::default() }]);
        sample.guests =
            vec![GuestSample { name: "<b>web1".into(), pid: id.pid, vcpus: [(0, id.tid)].into() }];
        let (group, total) = ("web".into(), second * 2_000_000_000);
        sample.bandwidth = vec![BandwidthSample {
            group,
            domain: 3,
            total_bytes: Some(total),
            local_bytes: Some(total / 4),
            cache_bytes: None,
        }];
    });
    let text = shown(&path, &[]);
    assert!(!text.contains("<b>") && text.contains("&lt;b&gt;web1 (1000000)"));
    assert!(text.contains("mean 0.50, max 0.50 CPUs") && text.contains("Virtual CPUs that waited for a CPU"));
    assert!(
        text.contains("web in domain 3") && text.contains("max 2.00 GB/s") && text.contains("max 0.50 GB/s")
    );
    let (_folder, path) = recorded("a", 20, |_| ());
    let text = shown(&path, &[]);
    assert!(!text.contains("id=\"guests\"") && !text.contains("id=\"bandwidth\""));
}
