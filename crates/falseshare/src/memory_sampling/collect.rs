//! Converts samples into shared lines.
//!
//! A load that found its line modified in another core's cache is a cache-line transfer. So is a store to a
//! line that other threads accessed, if its own core's cache did not have the line. The transfer is counted
//! as false sharing if no other thread was seen to write that address (for a store: to access it).

use super::record::{Record, Sample};
use crate::sharing::{LineAccess, LineLayout, MappedFile, MemoryKind, Process, SharedLine, Thread};
use std::collections::{BTreeMap, BTreeSet};

/// Records of all CPUs.
#[derive(Default)]
pub struct SampleCollector {
    /// The records with their times. They are only evaluated at the end, because the buffers of CPUs are read
    /// one after the other and a program may migrate between CPUs.
    records: Vec<(u64, Record)>,
    /// Number of lost records.
    pub lost: u64,
}

/// What was recorded of one process.
#[derive(Default)]
struct SampledProcess {
    /// Names, by task id.
    names: BTreeMap<i32, String>,
    /// Mappings, by start address.
    maps: BTreeMap<u64, MappedFile>,
    samples: Vec<Sample>,
}

impl SampleCollector {
    /// Adds records with their times. Records of one buffer have to be in order.
    pub fn take(&mut self, records: Vec<(u64, Record)>) {
        for (time, record) in records {
            match record {
                Record::Lost(count) => self.lost = self.lost.saturating_add(count),
                // Many operations do not access memory, and kernel addresses do not belong to the program.
                Record::Sample(sample)
                    if sample.address == 0 || sample.address >> 63 == 1 || sample.ip >> 63 == 1 => {}
                record => self.records.push((time, record)),
            }
        }
    }

    /// Returns the processes with their lines in `layout`; the process `first` comes first.
    pub fn processes(mut self, first: i32, layout: LineLayout) -> Vec<Process> {
        self.records.sort_by_key(|(time, _)| *time);
        let mut processes = BTreeMap::new();
        for (_, record) in self.records {
            apply_record(&mut processes, record);
        }
        let mut processes: Vec<Process> =
            processes.into_iter().map(|(pid, seen)| seen.process(pid, layout)).collect();
        processes.sort_by_key(|process| (process.pid != first, process.pid));
        processes
    }
}

/// Applies one record to the processes.
fn apply_record(processes: &mut BTreeMap<i32, SampledProcess>, record: Record) {
    match record {
        Record::Sample(sample) => {
            let seen = processes.entry(sample.pid).or_default();
            seen.names.entry(sample.tid).or_default();
            seen.samples.push(sample);
        }
        Record::Map { pid, start, bytes, offset, path } => {
            let end = start.saturating_add(bytes);
            let module = MappedFile { start, end, file_offset: offset, path };
            processes.entry(pid).or_default().maps.insert(start, module);
        }
        Record::Comm { pid, tid, name, exec } => {
            let seen = processes.entry(pid).or_default();
            if exec {
                *seen = SampledProcess::default();
            }
            seen.names.insert(tid, name);
        }
        Record::Fork { pid, parent, tid } => {
            let from = processes.get(&parent);
            let name = from.and_then(|from| from.names.get(&parent)).cloned().unwrap_or_default();
            let maps = from.filter(|_| parent != pid).map(|from| from.maps.clone());
            let seen = processes.entry(pid).or_default();
            seen.names.entry(tid).or_insert(name);
            seen.maps.extend(maps.into_iter().flatten());
        }
        Record::Lost(_) => {}
    }
}

impl SampledProcess {
    fn process(self, pid: i32, layout: LineLayout) -> Process {
        let is_file = |module: &&MappedFile| module.path.starts_with('/') && !module.path.starts_with("//");
        let modules: Vec<MappedFile> = self.maps.values().filter(is_file).cloned().collect();
        let tasks: Vec<i32> = self.names.keys().copied().collect();
        let mut lines: BTreeMap<u64, Vec<&Sample>> = BTreeMap::new();
        for sample in &self.samples {
            lines.entry(sample.address & !(u64::from(layout.line_bytes) - 1)).or_default().push(sample);
        }
        let line = |(address, samples): (u64, Vec<&Sample>)| {
            let place = self.place(address, &modules);
            shared(address, &samples, &tasks).map(|line| SharedLine { memory: place, ..line })
        };
        let lines = lines.into_iter().filter_map(line).collect();
        Process {
            pid,
            // The program is mapped first, before its interpreter and libraries.
            program: modules.first().map(|module| module.path.clone()).unwrap_or_default(),
            threads: self.names.iter().map(|(tid, name)| Thread { tid: *tid, name: name.clone() }).collect(),
            accesses: self.samples.len() as u64,
            modules,
            lines,
            ..Process::default()
        }
    }

    fn place(&self, address: u64, modules: &[MappedFile]) -> MemoryKind {
        let Some((_, map)) = self.maps.range(..=address).next_back().filter(|(_, map)| address < map.end)
        else {
            return MemoryKind::Unknown;
        };
        let module = |end: u64, path: &str| {
            modules.iter().position(|module| module.end == end && (path.is_empty() || module.path == path))
        };
        match map.path.as_str() {
            path if path.starts_with('/') && !path.starts_with("//") => {
                module(map.end, path).map_or(MemoryKind::Unknown, |module| MemoryKind::Module { module })
            }
            "[heap]" => MemoryKind::Heap { blocks: Vec::new() },
            // Variables that are initialized with zero (`.bss`) follow the initialized ones.
            _ => module(map.start, "")
                .map_or(MemoryKind::Mapping { start: map.start, bytes: map.end - map.start }, |module| {
                    MemoryKind::Module { module }
                }),
        }
    }
}

/// Returns a line if several threads accessed it and at least one wrote it.
fn shared(address: u64, samples: &[&Sample], tasks: &[i32]) -> Option<SharedLine> {
    let threads: BTreeSet<i32> = samples.iter().map(|sample| sample.tid).collect();
    if threads.len() < 2 || !samples.iter().any(|sample| sample.source.is_store()) {
        return None;
    }
    let mut line = SharedLine { address, ..SharedLine::default() };
    let mut accesses: BTreeMap<(usize, u64, u64), LineAccess> = BTreeMap::new();
    for sample in samples {
        let source = sample.source;
        let others =
            || samples.iter().filter(|other| other.tid != sample.tid && other.address == sample.address);
        let (is_transfer, is_needed) = match (source.is_load(), source.is_store()) {
            (_, true) => (source.misses_l1() || source.is_modified_elsewhere(), others().next().is_some()),
            _ => (source.is_modified_elsewhere(), others().any(|other| other.source.is_store())),
        };
        line.transfers += u64::from(is_transfer);
        line.false_transfers += u64::from(is_transfer && !is_needed);
        let thread = tasks.binary_search(&sample.tid).unwrap_or_default();
        let offset = (sample.address - address) as u32;
        let new = LineAccess { thread, code: sample.ip, offset, ..LineAccess::default() };
        let access = accesses.entry((thread, sample.ip, sample.address)).or_insert(new);
        access.reads += u64::from(source.is_load());
        access.writes += u64::from(source.is_store());
    }
    line.accesses = accesses.into_values().collect();
    Some(line)
}
