//! Samples as differences, in memory and in files.

use crate::compared::assert_same;
use crate::disturbed::disturbed;
use crate::invented::{Invented, Load, SERVER};
use manycore_top::{
    BandwidthSample, CpuTimes, CpuUse, GuestSample, Picture, Sample, TaskName, TaskSample,
    history::{
        History, HistoryLimits,
        codec::{Chunk, Decoder, Encoder},
    },
};
use manycore_topology::{CpuSet, Machine, SysTree, read, synthetic::MachineSpec};
use proptest::prelude::*;
use std::sync::Arc;

fn chunks(samples: impl Iterator<Item = Sample>, each: usize) -> Vec<Chunk> {
    let mut encoder = Encoder::default();
    let mut chunks = Vec::new();
    for sample in samples {
        encoder.push(&sample);
        if encoder.len() == each {
            chunks.push(encoder.end_chunk());
        }
    }
    if !encoder.is_empty() {
        chunks.push(encoder.end_chunk());
    }
    chunks
}

#[test]
fn a_day_of_64_cpus_takes_less_than_50_mb() {
    let mut machine = Invented::new(SERVER, 1);
    let samples = (0..600).map(|_| machine.step().clone());
    let chunks = chunks(samples, 60);
    let sizes: Vec<usize> = chunks.iter().map(|chunk| chunk.bytes.len()).collect();
    let each = sizes.iter().sum::<usize>() as f64 / 600.0;
    println!("{each:.1} bytes per sample, {:.1} MB per day; chunks {sizes:?}", each * 86_400.0 / 1e6);
    assert!(each < 578.0, "{each}");
}

/// Virtual machines are recorded always, bandwidth only on request.
#[test]
fn virtual_machines_take_no_room_and_bandwidth_fits_into_the_day() {
    let size = |add: &dyn Fn(&mut Sample, u64)| {
        let mut machine = Invented::new(SERVER, 1);
        let samples = (0..600).map(|second| {
            let mut sample = machine.step().clone();
            add(&mut sample, second);
            sample
        });
        let chunks = chunks(samples, 60);
        chunks.iter().map(|chunk| chunk.bytes.len()).sum::<usize>() as f64 / 600.0
    };
    let plain = size(&|_, _| ());
    let guests = size(&|sample, _| {
        let vcpus = |guest: u32| (0..16).map(move |vcpu| (vcpu, 1000 * guest + vcpu)).collect();
        let guest =
            |at: u32| GuestSample { name: format!("vm{at}").into(), pid: 1000 * at, vcpus: vcpus(at) };
        sample.guests = (1..9).map(guest).collect();
    });
    // The default group alone, in each of eight last-level caches, with figures that no difference predicts.
    let bandwidth = size(&|sample, second| {
        let noise = |domain: u64| {
            let mixed = (second * 97 + domain).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9) >> 34
        };
        let one = |domain: u64| BandwidthSample {
            group: "/".into(),
            domain: domain as u32,
            total_bytes: Some(second * 5_000_000_000 + noise(domain)),
            local_bytes: Some(second * 4_000_000_000 + noise(domain + 8)),
            cache_bytes: Some((20 << 20) + (noise(domain) & 0xfff) * 65_536),
        };
        sample.bandwidth = (0..8).map(one).collect();
    });
    println!("{plain:.1} bytes per sample, {guests:.1} with machines, {bandwidth:.1} with bandwidth");
    assert!(guests < plain + 10.0, "{plain} {guests}");
    assert!(bandwidth < plain + 160.0, "{plain} {bandwidth}");
}

fn decoded(chunks: &[Chunk]) -> Vec<Sample> {
    let (mut decoder, mut samples) = (Decoder::default(), Vec::new());
    for chunk in chunks {
        decoder.begin(chunk).unwrap();
        let mut sample = Sample::default();
        while decoder.next_sample(&mut sample).unwrap() {
            samples.push(sample.clone());
        }
    }
    samples
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_samples_are_decoded_as_they_were(seed in any::<u64>(), count in 1_usize..40, each in 1_usize..20) {
        let samples = disturbed(seed, count);
        let found = decoded(&chunks(samples.iter().cloned(), each));
        prop_assert_eq!(found.len(), samples.len());
        for (found, sample) in found.iter().zip(&samples) {
            assert_same(found, sample);
        }
    }

    #[test]
    fn a_damaged_chunk_is_an_error_or_samples(seed in any::<u64>(), at in any::<prop::sample::Index>(), bit in 0_u8..8) {
        let mut chunk = chunks(disturbed(seed, 8).into_iter(), 8).remove(0);
        let at = at.index(chunk.bytes.len());
        chunk.bytes[at] ^= 1 << bit;
        let mut decoder = Decoder::default();
        if decoder.begin(&chunk).is_ok() {
            let mut sample = Sample::default();
            while let Ok(true) = decoder.next_sample(&mut sample) {}
        }
    }
}

#[test]
fn impossible_cpus_are_not_decoded() {
    let cpu = |cpu| CpuTimes { cpu, ..CpuTimes::default() };
    let task = |cpu, last| TaskSample {
        cpu,
        name: TaskName::new(b"x"),
        state: 'R',
        allowed: Some(Arc::new(CpuSet::single(last))),
        ..TaskSample::default()
    };
    let error = |cpus: Vec<CpuTimes>, tasks: Vec<TaskSample>| {
        let sample = Sample { cpus, tasks: tasks.into(), ..Sample::default() };
        let mut decoder = Decoder::default();
        decoder.begin(&chunks([sample].into_iter(), 1)[0]).unwrap();
        decoder.next_sample(&mut Sample::default()).map_err(|error| error.to_string())
    };
    assert_eq!(error(vec![cpu(0), cpu(65_535)], vec![task(65_535, 65_535)]), Ok(true));
    assert_eq!(error(vec![], vec![]).unwrap_err(), "it has no CPUs");
    assert!(error(vec![cpu(65_536)], vec![]).unwrap_err().contains("number of a CPU"));
    assert!(error(vec![cpu(0)], vec![task(65_536, 1)]).unwrap_err().contains("number of a CPU"));
    assert!(error(vec![cpu(0)], vec![task(1, 65_536)]).unwrap_err().contains("set of CPUs"));
}

fn machine(clusters: u32, cores: u32) -> Machine {
    let spec = MachineSpec { packages: 2, clusters, cores, ..MachineSpec::default() };
    read(&SysTree::from_capture(spec.capture())).unwrap()
}

/// Errors of many samples do not add up: each picture is that of the samples, up to the rounding of two of them.
#[test]
fn pictures_are_those_of_the_samples() {
    let machine = machine(8, 4);
    let mut invented = Invented::new(SERVER, 3);
    let samples: Vec<Sample> = (0..200).map(|_| invented.step().clone()).collect();
    let found = decoded(&chunks(samples.iter().cloned(), 60));
    for (found, live) in found.windows(2).zip(samples.windows(2)) {
        let [found, live] = [found, live].map(|pair| Picture::new(&machine, &pair[0], &pair[1]).unwrap());
        // Run times and waits of CPUs are sums of those of the tasks below.
        let without_sums = |picture: &Picture| -> Vec<CpuUse> {
            picture.cpus.iter().map(|one| CpuUse { task_run: 0.0, wait: None, ..*one }).collect()
        };
        assert_eq!(without_sums(&found), without_sums(&live));
        let run = |picture: &Picture| picture.cpus.iter().map(|one| one.task_run).sum::<f64>();
        assert!((run(&found) - run(&live)).abs() < 1e-4 * live.tasks.len() as f64);
        assert!((found.wait().unwrap() - live.wait().unwrap()).abs() < 1e-4 * live.tasks.len() as f64);
        for (a, b) in found.tasks.iter().zip(&live.tasks) {
            assert_eq!((a.id, a.migration, a.cpu, a.state), (b.id, b.migration, b.cpu, b.state));
            assert!(
                (a.run - b.run).abs() < 1e-4 && (a.wait.unwrap() - b.wait.unwrap()).abs() < 1e-4,
                "{a:?} {b:?}"
            );
            assert!((a.slices.unwrap() - b.slices.unwrap()).abs() < 1e-2);
        }
        for (a, b) in found.processes.iter().zip(&live.processes) {
            assert!((a.run.unwrap() - b.run.unwrap()).abs() < 5e-4, "{a:?} {b:?}");
        }
    }
}

#[test]
fn the_last_ten_minutes_are_found_in_any_order() {
    let mut invented = Invented::new(Load { threads: 60, busy: 5, waking: 20, ..SERVER }, 5);
    let mut history = History::new(HistoryLimits::default());
    let mut samples = Vec::new();
    for step in 0..1500 {
        samples.push(invented.step().clone());
        history.push(&samples[step]);
        // The newest one and one further back, in a chunk that is open.
        for number in [step, step.saturating_sub(step % 7)] {
            assert_same(history.at(number).unwrap(), &samples[number]);
        }
    }
    let numbers = history.numbers();
    assert!(numbers.end == 1500 && (600..=680).contains(&numbers.len()), "{numbers:?}");
    assert!(history.at(numbers.start - 1).is_none() && history.at(1500).is_none());
    assert_eq!(history.unix_ms(1400), Some(samples[1400].unix_ms));
    for number in numbers.clone().rev().chain(numbers.clone()).step_by(3) {
        assert_same(history.at(number).unwrap(), &samples[number]);
    }
}

#[test]
fn ten_thousand_threads_take_a_few_megabytes() {
    let load = Load { cpus: 64, nodes: 2, threads: 10_000, busy: 64, waking: 600, groups: 0 };
    let mut invented = Invented::new(load, 6);
    let mut history = History::new(HistoryLimits::default());
    for _ in 0..660 {
        history.push(invented.step());
    }
    println!("{} bytes, {} samples", history.bytes(), history.numbers().len());
    assert!(history.bytes() < 5 << 20 && history.numbers().len() >= 600, "{}", history.bytes());
    // Where that is not enough, old samples are forgotten.
    let mut small = History::new(HistoryLimits { bytes: 1 << 20, ..HistoryLimits::default() });
    for _ in 0..400 {
        small.push(invented.step());
        assert!(small.bytes() <= 1 << 20 || small.numbers().len() <= 60, "{}", small.bytes());
    }
    assert!((60..400).contains(&small.numbers().len()), "{:?}", small.numbers());
}
