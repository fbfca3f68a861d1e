//! Records this machine or an invented one, and prints how much space and time it takes.
//!
//! `cargo run --release -p manycore-top --example record -- FILE SECONDS`
//! `cargo run --release -p manycore-top --example record -- FILE --invented CPUS SAMPLES`
//! `cargo run --release -p manycore-top --example record -- FILE --page PAGE`
#![allow(clippy::unwrap_used, reason = "an example may stop anywhere")]

#[path = "../tests/invented/mod.rs"]
mod invented;

use invented::{Invented, Load};
use manycore_linux::clock;
use manycore_top::{
    GroupParts, Sample, Sampler, SamplerOptions, Wanted,
    history::{Recorder, RecordingHead, Replay},
    page::{Courses, page},
};
use manycore_topology::{Machine, SysTree, read, synthetic::MachineSpec};
use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Records samples and prints the mean CPU time of recording one of them.
fn record(path: &Path, machine: &Machine, samples: impl Iterator<Item = Sample>) {
    let mut recorder: Option<Recorder> = None;
    let (mut count, mut used) = (0, Duration::ZERO);
    for sample in samples {
        let before = clock::thread_cpu();
        let recorder = recorder.get_or_insert_with(|| {
            Recorder::create(path, &RecordingHead::new(machine.clone(), sample.unix_ms, 1000)).unwrap()
        });
        recorder.append(&sample).unwrap();
        used += clock::thread_cpu().saturating_sub(before);
        count += 1;
    }
    let (samples, bytes) = recorder.unwrap().finish().unwrap();
    let head = serde_json::to_vec(&machine).unwrap().len();
    let each = (bytes as f64 - head as f64) / samples as f64;
    println!("{samples} samples, {bytes} bytes, of which {head} describe the machine");
    println!("{each:.1} bytes per sample, {:.1} MB per day at 1 Hz", each * 86_400.0 / 1e6);
    println!("{:.3} ms of CPU time per sample", used.as_secs_f64() * 1e3 / f64::from(count));
    let began = Instant::now();
    let mut replay = Replay::open(path).unwrap();
    let opened = began.elapsed();
    let mut last = 0;
    for number in 0..replay.len() {
        last = replay.at(number).unwrap().unwrap().tasks.len();
    }
    println!("opened in {opened:?}, all samples read in {:?}; {last} tasks in the last one", began.elapsed());
    let began = Instant::now();
    replay.at(samples / 2).unwrap();
    println!("a sample in the middle found in {:?}", began.elapsed());
}

fn live(seconds: u64) -> impl Iterator<Item = Sample> {
    let mut sampler = Sampler::new(Path::new("/"), SamplerOptions::default()).unwrap();
    sampler.want(Wanted { nodes: true, groups: GroupParts::All, ..Wanted::default() });
    let began = Instant::now();
    (0..seconds).map(move |second| {
        thread::sleep(Duration::from_secs(second).saturating_sub(began.elapsed()));
        let mut sample = Sample::default();
        sampler.sample(&mut sample).unwrap();
        sample
    })
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match &arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        [path, "--invented", cpus, samples] => {
            let cpus: u32 = cpus.parse().unwrap();
            let spec = match cpus {
                2 => MachineSpec::default(),
                _ => MachineSpec {
                    packages: 2,
                    nodes: 2,
                    clusters: cpus / 16,
                    cores: 4,
                    ..MachineSpec::default()
                },
            };
            let machine = read(&SysTree::from_capture(spec.capture())).unwrap();
            assert_eq!(machine.online.len(), cpus as usize);
            let nodes = machine.nodes.len() as u32;
            let (threads, busy, waking) = (cpus * 4 + 544, cpus / 2 - cpus / 64, 22 + cpus * 2);
            let mut invented = Invented::new(Load { cpus, nodes, threads, busy, waking, groups: 6 }, 1);
            let samples = (0..samples.parse().unwrap()).map(|_| invented.step().clone());
            record(Path::new(path), &machine, samples);
        }
        [path, "--page", to] => {
            let mut replay = Replay::open(Path::new(path)).unwrap();
            let began = Instant::now();
            let courses = Courses::of(&mut replay).unwrap();
            let text = page(&replay, &courses, &["A finding of the caller.".to_owned()]);
            println!("{} bytes in {:?}", text.len(), began.elapsed());
            std::fs::write(to, text).unwrap();
        }
        [path, seconds] => {
            let machine = read(&SysTree::open(Path::new("/")).unwrap()).unwrap();
            record(Path::new(path), &machine, live(seconds.parse().unwrap()));
        }
        _ => println!("record FILE SECONDS | record FILE --invented CPUS SAMPLES"),
    }
}
