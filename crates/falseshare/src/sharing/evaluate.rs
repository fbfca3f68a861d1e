//! Evaluation of shared lines: groups them into findings and classifies them.

use super::{
    CodeSite, DataOwner, FINDINGS_SCHEMA, Finding, Findings, Fix, Frame, Observation, Settings, SharedLine,
    SharingClass, Thread, ThreadAccess, ThreadGroup, fields,
    hot_line::{self, HotLine, NamedProcess, thread_name},
};
use std::collections::{BTreeMap, BTreeSet};

/// Lines with at least this share of false-sharing transfers are classified as false sharing.
const FALSE_SHARE: f64 = 0.8;

/// Lines below this share are true sharing. A lock has some false-sharing transfers: its data takes the
/// line from a thread that has so far only read another field of the lock. Locks with their data were seen
/// with shares of up to a quarter.
const MIXED_SHARE: f64 = 0.5;

/// A line is part of a finding if it has at least this fraction of the threshold, because each line of a
/// large array may have few transfers.
const PART_OF_THRESHOLD: u64 = 16;

/// Maximum number of findings of true sharing that are reported.
const MAX_TRUE_FINDINGS: usize = 5;

/// Note for observations of several processes: no engine compares the accesses of different processes.
const SEPARATE_PROCESSES_NOTE: &str = "several processes ran: memory that they share with each other was observed in each process \
                          separately, so transfers between processes are not counted";

impl Findings {
    /// Evaluates an observation.
    pub fn from_observation(seen: &Observation, settings: Settings) -> Self {
        let mut findings = Self {
            schema: FINDINGS_SCHEMA.to_owned(),
            threshold: settings.threshold,
            engine: seen.engine.clone(),
            command: seen.command.clone(),
            seconds: seen.seconds,
            end: seen.end,
            processes: seen.processes.len(),
            threads: seen.processes.iter().map(|process| process.threads.len()).sum(),
            accesses: seen.processes.iter().fold(0, |sum, process| process.accesses.saturating_add(sum)),
            unfollowed_accesses: seen
                .processes
                .iter()
                .fold(0, |sum, process| process.unfollowed_accesses.saturating_add(sum)),
            unobserved_processes: seen
                .unobserved_processes
                .saturating_add(seen.processes.iter().filter(|it| it.ran_unobserved).count()),
            notes: seen.notes.clone(),
            ..Self::default()
        };
        if seen.processes.len() > 1 {
            findings.notes.push(SEPARATE_PROCESSES_NOTE.to_owned());
        }
        let processes: Vec<NamedProcess<'_>> = seen.processes.iter().map(NamedProcess::new).collect();
        let mut groups: BTreeMap<(bool, FindingKey), Vec<HotLine<'_>>> = BTreeMap::new();
        for named in &processes {
            for line in &named.process.lines {
                let Some(layout) = seen.layouts.get(line.layout) else { continue };
                let class = SharingClass::from_counts(line.false_transfers, line.transfers);
                let counts = line.false_transfers >= (settings.threshold / PART_OF_THRESHOLD).max(1);
                let is_false = class != SharingClass::True && counts;
                if !is_false && line.transfers < settings.threshold {
                    continue;
                }
                let hot_line = HotLine::new(named, line, *layout);
                groups.entry((is_false, FindingKey::new(&hot_line, line.layout))).or_default().push(hot_line);
            }
        }
        let mut reported: BTreeSet<FindingKey> = BTreeSet::new();
        for ((is_false, key), hot_lines) in groups {
            findings.add_group(is_false, key, &hot_lines, settings, &mut reported);
        }
        for list in [&mut findings.false_sharing, &mut findings.latent, &mut findings.in_libraries] {
            list.sort_by_key(|finding| std::cmp::Reverse(finding.false_transfers));
        }
        findings.true_sharing.sort_by_key(|finding| std::cmp::Reverse(finding.transfers));
        findings.true_sharing.truncate(MAX_TRUE_FINDINGS);
        findings
    }

    /// Adds a group of lines to the list that it belongs to. Groups with the machine's own layout have to come first.
    fn add_group(
        &mut self,
        is_false: bool,
        key: FindingKey,
        hot_lines: &[HotLine<'_>],
        settings: Settings,
        reported: &mut BTreeSet<FindingKey>,
    ) {
        let false_transfers =
            hot_lines.iter().fold(0_u64, |sum, hot_line| sum.saturating_add(hot_line.line.false_transfers));
        let own = hot_lines.iter().any(HotLine::is_own);
        match (is_false, key.layout) {
            (true, _) if false_transfers < settings.threshold => {}
            (true, 0) => {
                if !own && hot_lines.iter().any(HotLine::is_possibly_own) {
                    self.possibly_own += 1;
                }
                let list = if own { &mut self.false_sharing } else { &mut self.in_libraries };
                list.push(Finding::new(hot_lines, settings));
                reported.insert(key);
            }
            // Sharing that is already real is not latent, and sharing under several layouts is reported once.
            (true, _) if own && reported.insert(key.on_machine()) => {
                self.latent.push(Finding::new(hot_lines, settings));
            }
            (false, 0) if own => self.true_sharing.push(Finding::new(hot_lines, settings)),
            _ => {}
        }
    }
}

/// What the lines of one finding have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FindingKey {
    layout: usize,
    program: String,
    data: DataOwner,
    /// The code, where the data has no name.
    code: Vec<Frame>,
}

impl FindingKey {
    fn new(hot_line: &HotLine<'_>, layout: usize) -> Self {
        let mut data = hot_line.data.clone();
        match &mut data {
            // Elements of an array of pointers, and the adjacent blocks at its ends, belong together.
            DataOwner::Heap { blocks } => {
                for block in blocks.iter_mut() {
                    block.bytes = 0;
                }
                blocks.sort();
                blocks.dedup();
            }
            // So do the stacks of threads that run the same code.
            DataOwner::Stack { tid, .. } => *tid = None,
            _ => {}
        }
        let named = match &data {
            DataOwner::Globals { .. } => true,
            DataOwner::Heap { blocks } => !blocks.is_empty() && blocks.iter().all(|block| block.is_own),
            _ => false,
        };
        let code = if named { Vec::new() } else { hot_line.frames() };
        Self { layout, program: hot_line.process.program.clone(), data, code }
    }

    fn on_machine(self) -> Self {
        Self { layout: 0, ..self }
    }
}

impl SharingClass {
    /// Classifies a line by its share of false-sharing transfers.
    pub fn from_counts(false_transfers: u64, transfers: u64) -> Self {
        match false_transfers as f64 / transfers.max(1) as f64 {
            share if share >= FALSE_SHARE => Self::False,
            share if share >= MIXED_SHARE => Self::Mixed,
            _ => Self::True,
        }
    }
}

impl Finding {
    fn new(hot_lines: &[HotLine<'_>], settings: Settings) -> Self {
        let rank = |hot_line: &&HotLine<'_>| (hot_line.line.false_transfers, hot_line.line.transfers);
        let worst = hot_lines.iter().max_by_key(rank).unwrap_or(&hot_lines[0]);
        let sum = |count: fn(&SharedLine) -> u64| {
            hot_lines.iter().fold(0_u64, |sum, hot_line| sum.saturating_add(count(&hot_line.line)))
        };
        let (transfers, false_transfers) = (sum(|line| line.transfers), sum(|line| line.false_transfers));
        let class = SharingClass::from_counts(false_transfers, transfers);
        let sites = sites(hot_lines, worst);
        let pids: BTreeSet<i32> = hot_lines.iter().map(|hot_line| hot_line.process.pid).collect();
        let all = hot_lines.iter().flat_map(|hot_line| {
            hot_line
                .line
                .accesses
                .iter()
                .filter_map(move |access| Some((hot_line, hot_line.process.threads.get(access.thread)?)))
        });
        let fields = match class {
            SharingClass::True => {
                fields::separable_fields(worst, false_transfers, transfers, settings.threshold)
            }
            _ => Vec::new(),
        };
        let fix = match class {
            SharingClass::True => Fix::advice_for_true_sharing(&worst.data, &sites, &fields),
            _ => Fix::fix_for_false_sharing(
                &worst.data,
                &sites_to_fix(hot_lines, &sites),
                worst.layout.line_bytes,
            ),
        };
        Self {
            class,
            layout: worst.layout,
            transfers,
            false_transfers,
            lines: hot_lines.len(),
            pids: pids.into_iter().collect(),
            data: data_owner(hot_lines, worst),
            address: worst.line.address,
            threads: thread_groups(all.map(|(hot_line, thread)| (hot_line.process.pid, thread))),
            accesses: thread_accesses(worst),
            sites,
            fields,
            fix,
        }
    }
}

/// Returns what contains the bytes of the worst line. If several stacks are involved, no thread id is given.
fn data_owner(hot_lines: &[HotLine<'_>], worst: &HotLine<'_>) -> DataOwner {
    let mut data = worst.data.clone();
    if let DataOwner::Stack { tid, .. } = &mut data
        && hot_lines.iter().any(|hot_line| hot_line.data != worst.data)
    {
        *tid = None;
    }
    data
}

fn thread_groups<'a>(threads: impl Iterator<Item = (i32, &'a Thread)>) -> Vec<ThreadGroup> {
    let mut named: BTreeMap<String, BTreeSet<i32>> = BTreeMap::new();
    for (pid, thread) in threads {
        named.entry(thread_name(pid, thread)).or_default().insert(thread.tid);
    }
    named.into_iter().map(|(name, tids)| ThreadGroup { name, tids: tids.into_iter().collect() }).collect()
}

/// Returns the accesses to a line, by thread and bytes.
fn thread_accesses(hot_line: &HotLine<'_>) -> Vec<ThreadAccess> {
    let mut seen: BTreeMap<(usize, u32, u32), (u64, u64)> = BTreeMap::new();
    for access in &hot_line.line.accesses {
        let (reads, writes) = seen.entry((access.thread, access.offset, access.bytes)).or_default();
        *reads = reads.saturating_add(access.reads);
        *writes = writes.saturating_add(access.writes);
    }
    let touch = |((thread, offset, bytes), (reads, writes))| {
        let thread = hot_line.process.threads.get(thread)?;
        let name = thread_name(hot_line.process.pid, thread);
        Some(ThreadAccess { tid: thread.tid, name, offset, bytes, reads, writes })
    };
    seen.into_iter().filter_map(touch).collect()
}

/// Returns the code that accesses these lines. Byte ranges are those of the worst line.
fn sites(hot_lines: &[HotLine<'_>], worst: &HotLine<'_>) -> Vec<CodeSite> {
    #[derive(Default)]
    struct SiteSum<'a> {
        reads: u64,
        writes: u64,
        bytes: Vec<(u32, u32)>,
        threads: Vec<(i32, &'a Thread)>,
        is_own: bool,
        is_lock: bool,
    }
    let mut sums: BTreeMap<&Frame, SiteSum<'_>> = BTreeMap::new();
    for hot_line in hot_lines {
        for access in &hot_line.line.accesses {
            let (frame, is_own) = hot_line.code(access);
            let sum = sums.entry(frame).or_default();
            sum.is_own |= is_own;
            sum.is_lock |= hot_line.is_of_lock(access);
            sum.reads = sum.reads.saturating_add(access.reads);
            sum.writes = sum.writes.saturating_add(access.writes);
            sum.threads
                .extend(hot_line.process.threads.get(access.thread).map(|it| (hot_line.process.pid, it)));
            if std::ptr::eq(hot_line, worst) {
                sum.bytes.push((access.offset, access.offset.saturating_add(access.bytes.max(1))));
            }
        }
    }
    let site = |(frame, sum): (&Frame, SiteSum<'_>)| {
        let frame = frame.clone();
        let parties = thread_groups(sum.threads.iter().copied());
        let threads = parties.iter().map(|party| party.tids.len()).sum();
        let SiteSum { reads, writes, bytes, is_own, is_lock, .. } = sum;
        CodeSite {
            frame,
            reads,
            writes,
            bytes: merge_ranges(bytes),
            threads,
            thread_groups: parties,
            is_own,
            is_lock,
        }
    };
    let mut sites: Vec<CodeSite> = sums.into_iter().map(site).collect();
    sites.sort_by_key(|site| std::cmp::Reverse(site.accesses()));
    sites
}

/// Returns the code that a fix should change, most writes first: the program's own code, if there is any.
fn sites_to_fix(hot_lines: &[HotLine<'_>], sites: &[CodeSite]) -> Vec<CodeSite> {
    let accesses = hot_lines
        .iter()
        .flat_map(|hot_line| hot_line.line.accesses.iter().map(move |access| hot_line.code(access)));
    let own: BTreeSet<&Frame> = accesses.filter_map(|(frame, own)| own.then_some(frame)).collect();
    let total = sites.iter().fold(0_u64, |sum, site| sum.saturating_add(site.accesses()));
    let mut all: Vec<CodeSite> =
        sites.iter().filter(|site| !hot_line::is_negligible(site.accesses(), total)).cloned().collect();
    if all.iter().any(|site| own.contains(&site.frame)) {
        all.retain(|site| own.contains(&site.frame));
    }
    all.sort_by_key(|site| std::cmp::Reverse(site.writes));
    all
}

/// Returns the ranges in order, with adjacent and overlapping ones merged.
pub(super) fn merge_ranges(mut ranges: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
    ranges.sort_unstable();
    let mut merged: Vec<(u32, u32)> = Vec::new();
    for (start, end) in ranges {
        match merged.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => merged.push((start, end)),
        }
    }
    merged
}
