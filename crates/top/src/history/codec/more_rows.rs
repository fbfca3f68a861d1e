//! The rows of what samples have beside CPUs and tasks.

use super::{
    Malformed, RUN_UNIT_NS,
    table::{
        Entry,
        Kind::{self, Counter, Level, Plain},
    },
    texts::Texts,
};
use crate::{
    details::{Pressure, ProcessDetails},
    resources::{
        BandwidthSample, GroupSample, GuestSample, InterruptSample, LATENCY_CLASSES, LatencyHistogram,
        LatencySample, NodeSample,
    },
};
use std::{collections::BTreeMap, sync::Arc};

/// Unit of times of control groups, in nanoseconds: the kernel counts microseconds.
pub(super) const GROUP_UNIT_NS: u64 = 1000;

pub(super) const INTERRUPT: [Kind; 1] = [Level];
pub(super) const COUNT: [Kind; 1] = [Counter];

/// An interrupt: its name, its handlers, and how many counts it has. Its counts are rows of their own.
pub(super) fn interrupt_entry(one: &InterruptSample, texts: &mut Texts) -> Entry<1> {
    let key = [texts.number(one.name.as_bytes()), texts.number(one.handlers.as_bytes()), 0];
    Entry::new(key, [Some(one.counts.len() as u64)])
}

pub(super) fn count_entries(at: usize, one: &InterruptSample) -> impl Iterator<Item = Entry<1>> {
    let row = move |(cpu, count): (usize, &u64)| Entry::new([at as u64, cpu as u64, 0], [Some(*count)]);
    one.counts.iter().enumerate().map(row)
}

/// Returns an interrupt whose counts are the next ones of `counts`.
pub(super) fn interrupt<'a>(
    entry: &Entry<1>,
    counts: &mut impl Iterator<Item = &'a Entry<1>>,
    texts: &mut Texts,
) -> Result<InterruptSample, Malformed> {
    let length: usize = entry.must(0)?;
    let counts: Vec<u64> = counts.take(length).map(|count| count.values[0]).collect();
    if counts.len() < length {
        return Err(Malformed("an interrupt has fewer counts than it says"));
    }
    Ok(InterruptSample { name: texts.shown(entry.key[0])?, handlers: texts.shown(entry.key[1])?, counts })
}

pub(super) const NODE: [Kind; 6] = [Level, Level, Level, Counter, Counter, Counter];

pub(super) fn node_entry(node: &NodeSample) -> Entry<6> {
    let kib = [node.total_kib, node.free_kib, node.file_kib].map(Some);
    let [total, free, file] = kib;
    let values = [total, free, file, node.local_pages, node.other_pages, node.missed_pages];
    Entry::new([node.node.into(), 0, 0], values)
}

pub(super) fn node(entry: &Entry<6>) -> Result<NodeSample, Malformed> {
    let [total_kib, free_kib, file_kib, ..] = entry.values;
    Ok(NodeSample {
        node: entry.key(0)?,
        total_kib,
        free_kib,
        file_kib,
        local_pages: entry.value(3),
        other_pages: entry.value(4),
        missed_pages: entry.value(5),
    })
}

/// Waiting time and percentage. The kernel has two decimals of the percentage.
fn pressure_values(pressure: Option<&Pressure>) -> [Option<u64>; 2] {
    [
        pressure.map(|one| one.some_ns / GROUP_UNIT_NS),
        pressure.map(|one| (one.some_percent * 100.0).round() as u64),
    ]
}

fn pressure<const N: usize>(entry: &Entry<N>, at: usize) -> Option<Pressure> {
    let (us, percent) = entry.value(at).zip(entry.value(at + 1))?;
    Some(Pressure { some_ns: us.saturating_mul(GROUP_UNIT_NS), some_percent: percent as f64 / 100.0 })
}

pub(super) const GROUP: [Kind; 12] =
    [Counter, Counter, Level, Level, Level, Level, Counter, Level, Counter, Level, Counter, Level];

pub(super) fn group_entry(group: &GroupSample, texts: &mut Texts) -> Entry<12> {
    let us = |ns: Option<u64>| ns.map(|ns| ns / GROUP_UNIT_NS);
    let [a, b, c] = [0, 1, 2].map(|at| pressure_values(group.pressure.as_ref().map(|all| &all[at])));
    let values = [
        us(group.cpu_ns),
        us(group.throttled_ns),
        group.quota_milli,
        group.memory_bytes,
        group.memory_limit,
        Some(group.processes.into()),
        a[0],
        a[1],
        b[0],
        b[1],
        c[0],
        c[1],
    ];
    Entry::new([texts.number(group.path.as_bytes()), 0, 0], values)
}

pub(super) fn group(entry: &Entry<12>, texts: &mut Texts) -> Result<GroupSample, Malformed> {
    let ns = |at: usize| entry.value(at).map(|us| us.saturating_mul(GROUP_UNIT_NS));
    let all = pressure(entry, 6).zip(pressure(entry, 8)).zip(pressure(entry, 10));
    Ok(GroupSample {
        path: texts.shown(entry.key[0])?,
        cpu_ns: ns(0),
        throttled_ns: ns(1),
        quota_milli: entry.value(2),
        memory_bytes: entry.value(3),
        memory_limit: entry.value(4),
        processes: entry.must(5)?,
        pressure: all.map(|((cpu, memory), io)| [cpu, memory, io]),
    })
}

pub(super) const GUEST: [Kind; 1] = [Level];
pub(super) const VCPU: [Kind; 1] = [Plain];

/// A virtual machine and the number of its virtual CPUs, which are rows of their own.
pub(super) fn guest_entry(guest: &GuestSample, texts: &mut Texts) -> Entry<1> {
    let key = [guest.pid.into(), texts.number(guest.name.as_bytes()), 0];
    Entry::new(key, [Some(guest.vcpus.len() as u64)])
}

pub(super) fn vcpu_entries(guest: &GuestSample) -> impl Iterator<Item = Entry<1>> {
    let row =
        |(&number, &tid): (&u32, &u32)| Entry::new([guest.pid.into(), number.into(), 0], [Some(tid.into())]);
    guest.vcpus.iter().map(row)
}

/// Returns a virtual machine whose virtual CPUs are the next ones of `vcpus`.
pub(super) fn guest<'a>(
    entry: &Entry<1>,
    vcpus: &mut impl Iterator<Item = &'a Entry<1>>,
    texts: &mut Texts,
) -> Result<GuestSample, Malformed> {
    let all = vcpus.take(entry.must(0)?).map(|vcpu| Ok((vcpu.key(1)?, vcpu.must(0)?)));
    Ok(GuestSample {
        name: texts.shown(entry.key[1])?,
        pid: entry.key(0)?,
        vcpus: all.collect::<Result<_, _>>()?,
    })
}

pub(super) const BANDWIDTH: [Kind; 3] = [Counter, Counter, Level];

pub(super) fn bandwidth_entry(one: &BandwidthSample, texts: &mut Texts) -> Entry<3> {
    let key = [texts.number(one.group.as_bytes()), one.domain.into(), 0];
    Entry::new(key, [one.total_bytes, one.local_bytes, one.cache_bytes])
}

pub(super) fn bandwidth(entry: &Entry<3>, texts: &mut Texts) -> Result<BandwidthSample, Malformed> {
    Ok(BandwidthSample {
        group: texts.shown(entry.key[0])?,
        domain: entry.key(1)?,
        total_bytes: entry.value(0),
        local_bytes: entry.value(1),
        cache_bytes: entry.value(2),
    })
}

pub(super) const DETAILS: [Kind; 9] = [Plain, Counter, Level, Counter, Level, Counter, Level, Level, Plain];
pub(super) const NODE_MEMORY: [Kind; 1] = [Level];

/// The details of a process, and the number of nodes of which its memory is known: rows of their own.
pub(super) fn details_entry(pid: u32, details: &ProcessDetails, texts: &mut Texts) -> Entry<9> {
    let [cpu, memory, io] =
        [&details.cpu, &details.memory, &details.io].map(|one| pressure_values(one.as_ref()));
    let group = details.cgroup.as_ref().map(|path| texts.number(path.as_bytes()));
    let nodes = details.node_kib.as_ref().map(|nodes| nodes.len() as u64);
    let monitor = details.monitor.as_ref().map(|path| texts.number(path.as_bytes()));
    let values = [group, cpu[0], cpu[1], memory[0], memory[1], io[0], io[1], nodes, monitor];
    Entry::new([pid.into(), 0, 0], values)
}

pub(super) fn memory_entries(pid: u32, details: &ProcessDetails) -> impl Iterator<Item = Entry<1>> {
    let row = move |(&node, &kib): (&u32, &u64)| Entry::new([pid.into(), node.into(), 0], [Some(kib)]);
    details.node_kib.iter().flatten().map(row)
}

/// Returns the details of a process whose memory by node is in the next rows of `memory`.
pub(super) fn details<'a>(
    entry: &Entry<9>,
    memory: &mut impl Iterator<Item = &'a Entry<1>>,
    texts: &mut Texts,
) -> Result<(u32, ProcessDetails), Malformed> {
    let nodes = entry.value(7).map(|_| {
        let rows = memory.take(entry.must(7)?).map(|row| Ok((row.key(1)?, row.values[0])));
        rows.collect::<Result<BTreeMap<u32, u64>, Malformed>>()
    });
    let mut text = |at: usize| -> Result<Option<String>, Malformed> {
        Ok(entry.value(at).map(|number| texts.shown(number)).transpose()?.map(|path| path.to_string()))
    };
    let details = ProcessDetails {
        cgroup: text(0)?,
        monitor: text(8)?,
        cpu: pressure(entry, 1),
        memory: pressure(entry, 3),
        io: pressure(entry, 5),
        node_kib: nodes.transpose()?,
    };
    Ok((entry.key(0)?, details))
}

pub(super) const LATENCY: [Kind; LATENCY_CLASSES] = [Counter; LATENCY_CLASSES];
pub(super) const LATENCY_SUMS: [Kind; 5] = [Counter; 5];
pub(super) const CLUSTER_RUN: [Kind; 1] = [Counter];

/// The histograms: wake-ups, displaced tasks, and one for each reason to be off a CPU.
pub(super) fn histogram_entries(latency: &LatencySample, texts: &mut Texts) -> Vec<Entry<LATENCY_CLASSES>> {
    let fixed = [(0, &latency.wakeup), (1, &latency.displaced)].map(|(at, one)| ([at, 0, 0], one));
    let reasons = latency.off_cpu.iter().map(|(reason, one)| ([2, texts.number(reason.as_bytes()), 0], one));
    fixed.into_iter().chain(reasons).map(|(key, one)| Entry::new(key, one.0.map(Some))).collect()
}

pub(super) fn latency_entry(latency: &LatencySample) -> Entry<5> {
    let [a, b, c, d] = latency.migrations;
    Entry::new([0; 3], [a, b, c, d, latency.conflict_ns].map(Some))
}

/// Time that tasks ran, by cluster.
pub(super) fn cluster_entries(latency: &LatencySample) -> impl Iterator<Item = Entry<1>> {
    let row = |(at, ns): (usize, &u64)| Entry::new([at as u64, 0, 0], [Some(ns / RUN_UNIT_NS)]);
    latency.run_ns.iter().enumerate().map(row)
}

pub(super) fn latency<'a>(
    entry: &Entry<5>,
    histograms: impl Iterator<Item = &'a Entry<LATENCY_CLASSES>>,
    clusters: impl Iterator<Item = &'a Entry<1>>,
    texts: &mut Texts,
) -> Result<LatencySample, Malformed> {
    let [a, b, c, d, conflict_ns] = entry.values;
    let run_ns = clusters.map(|one| one.values[0].saturating_mul(RUN_UNIT_NS)).collect();
    let migrations = [a, b, c, d];
    let mut latency = LatencySample { migrations, conflict_ns, run_ns, ..LatencySample::default() };
    let mut off_cpu: BTreeMap<Arc<str>, LatencyHistogram> = BTreeMap::new();
    for one in histograms {
        let histogram = LatencyHistogram(one.values);
        match one.key[0] {
            0 => latency.wakeup = histogram,
            1 => latency.displaced = histogram,
            _ => drop(off_cpu.insert(texts.shown(one.key[1])?, histogram)),
        }
    }
    latency.off_cpu = off_cpu;
    Ok(latency)
}
