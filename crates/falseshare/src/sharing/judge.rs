//! Evaluation of shared lines: groups them into findings and classifies them.

use super::{
    Class, Cure, FINDINGS_SCHEMA, Finding, Findings, Frame, Holder, Line, Observation, Party, Settings, Site,
    Thread, Touch, fields,
    spot::{self, Named, Spot, called},
};
use std::collections::{BTreeMap, BTreeSet};

/// Lines with at least this share of false-sharing transfers are false sharing and little else.
const MOSTLY: f64 = 0.8;

/// Lines below this share are true sharing. A lock has some false-sharing transfers: its holder takes the
/// line from a thread that has so far only read another field of the lock. Locks with their data were seen
/// with shares of up to a quarter.
const PARTLY: f64 = 0.5;

/// A line is part of a finding if it has at least this fraction of the threshold, because each line of a
/// large array may have few transfers.
const PART_OF_THRESHOLD: u64 = 16;

/// Most findings of true sharing that are reported.
const MOST_TRUE: usize = 5;

/// Note for observations of several processes: no engine compares the accesses of different processes.
const UNCOMPARED: &str = "several processes ran: memory that they share with each other was observed in each process \
                          separately, so transfers between processes are not counted";

impl Findings {
    /// Evaluates an observation.
    pub fn of(seen: &Observation, settings: Settings) -> Self {
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
            unfollowed: seen.processes.iter().fold(0, |sum, process| process.unfollowed.saturating_add(sum)),
            escaped: seen.unobserved.saturating_add(seen.processes.iter().filter(|it| it.escaped).count()),
            notes: seen.notes.clone(),
            ..Self::default()
        };
        if seen.processes.len() > 1 {
            findings.notes.push(UNCOMPARED.to_owned());
        }
        let processes: Vec<Named<'_>> = seen.processes.iter().map(Named::of).collect();
        let mut groups: BTreeMap<(bool, Key), Vec<Spot<'_>>> = BTreeMap::new();
        for named in &processes {
            for line in &named.process.lines {
                let Some(layout) = seen.layouts.get(line.layout) else { continue };
                let class = Class::of(line.needless, line.hand_overs);
                let counts = line.needless >= (settings.threshold / PART_OF_THRESHOLD).max(1);
                let is_false = class != Class::True && counts;
                if !is_false && line.hand_overs < settings.threshold {
                    continue;
                }
                let spot = Spot::of(named, line, *layout);
                groups.entry((is_false, Key::of(&spot, line.layout))).or_default().push(spot);
            }
        }
        let mut told: BTreeSet<Key> = BTreeSet::new();
        for ((is_false, key), spots) in groups {
            findings.take(is_false, key, &spots, settings, &mut told);
        }
        for list in [&mut findings.false_sharing, &mut findings.latent, &mut findings.in_libraries] {
            list.sort_by_key(|finding| std::cmp::Reverse(finding.needless));
        }
        findings.true_sharing.sort_by_key(|finding| std::cmp::Reverse(finding.hand_overs));
        findings.true_sharing.truncate(MOST_TRUE);
        findings
    }

    /// Adds a group of lines to the list that it belongs to. Groups with the machine's own layout have to come first.
    fn take(
        &mut self,
        is_false: bool,
        key: Key,
        spots: &[Spot<'_>],
        settings: Settings,
        told: &mut BTreeSet<Key>,
    ) {
        let needless = spots.iter().fold(0_u64, |sum, spot| sum.saturating_add(spot.line.needless));
        let own = spots.iter().any(Spot::is_own);
        match (is_false, key.layout) {
            (true, _) if needless < settings.threshold => {}
            (true, 0) => {
                if !own && spots.iter().any(Spot::is_unattributed) {
                    self.unattributed += 1;
                }
                let list = if own { &mut self.false_sharing } else { &mut self.in_libraries };
                list.push(Finding::of(spots, settings));
                told.insert(key);
            }
            // Sharing that is already real is not latent, and sharing under several layouts is reported once.
            (true, _) if own && told.insert(key.on_machine()) => {
                self.latent.push(Finding::of(spots, settings));
            }
            (false, 0) if own => self.true_sharing.push(Finding::of(spots, settings)),
            _ => {}
        }
    }
}

/// What the lines of one finding have in common.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    layout: usize,
    program: String,
    holder: Holder,
    /// The code, where the holder has no name.
    code: Vec<Frame>,
}

impl Key {
    fn of(spot: &Spot<'_>, layout: usize) -> Self {
        let mut holder = spot.holder.clone();
        match &mut holder {
            // Elements of an array of pointers, and the adjacent blocks at its ends, belong together.
            Holder::Heap { blocks } => {
                for block in blocks.iter_mut() {
                    block.bytes = 0;
                }
                blocks.sort();
                blocks.dedup();
            }
            // So do the stacks of threads that run the same code.
            Holder::Stack { tid, .. } => *tid = None,
            _ => {}
        }
        let named = match &holder {
            Holder::Globals { .. } => true,
            Holder::Heap { blocks } => !blocks.is_empty() && blocks.iter().all(|block| block.own),
            _ => false,
        };
        let code = if named { Vec::new() } else { spot.frames() };
        Self { layout, program: spot.process.program.clone(), holder, code }
    }

    fn on_machine(self) -> Self {
        Self { layout: 0, ..self }
    }
}

impl Class {
    /// Classifies a line by its share of false-sharing transfers.
    pub fn of(needless: u64, hand_overs: u64) -> Self {
        match needless as f64 / hand_overs.max(1) as f64 {
            share if share >= MOSTLY => Self::False,
            share if share >= PARTLY => Self::Mixed,
            _ => Self::True,
        }
    }
}

impl Finding {
    fn of(spots: &[Spot<'_>], settings: Settings) -> Self {
        let rank = |spot: &&Spot<'_>| (spot.line.needless, spot.line.hand_overs);
        let worst = spots.iter().max_by_key(rank).unwrap_or(&spots[0]);
        let sum = |count: fn(&Line) -> u64| {
            spots.iter().fold(0_u64, |sum, spot| sum.saturating_add(count(&spot.line)))
        };
        let (hand_overs, needless) = (sum(|line| line.hand_overs), sum(|line| line.needless));
        let class = Class::of(needless, hand_overs);
        let sites = sites(spots, worst);
        let pids: BTreeSet<i32> = spots.iter().map(|spot| spot.process.pid).collect();
        let all = spots.iter().flat_map(|spot| {
            spot.line
                .accesses
                .iter()
                .filter_map(move |access| Some((spot, spot.process.threads.get(access.thread)?)))
        });
        let fields = match class {
            Class::True => fields::apart(worst, needless, hand_overs, settings.threshold),
            _ => Vec::new(),
        };
        let cure = match class {
            Class::True => Cure::of_true(&worst.holder, &sites, &fields),
            _ => Cure::of_false(&worst.holder, &to_change(spots, &sites), worst.layout.line_bytes),
        };
        Self {
            class,
            layout: worst.layout,
            hand_overs,
            needless,
            lines: spots.len(),
            pids: pids.into_iter().collect(),
            holder: holder(spots, worst),
            address: worst.line.address,
            threads: parties(all.map(|(spot, thread)| (spot.process.pid, thread))),
            touches: touches(worst),
            sites,
            fields,
            cure,
        }
    }
}

/// Returns what contains the bytes of the worst line. If several stacks are involved, no thread id is given.
fn holder(spots: &[Spot<'_>], worst: &Spot<'_>) -> Holder {
    let mut holder = worst.holder.clone();
    if let Holder::Stack { tid, .. } = &mut holder
        && spots.iter().any(|spot| spot.holder != worst.holder)
    {
        *tid = None;
    }
    holder
}

fn parties<'a>(threads: impl Iterator<Item = (i32, &'a Thread)>) -> Vec<Party> {
    let mut named: BTreeMap<String, BTreeSet<i32>> = BTreeMap::new();
    for (pid, thread) in threads {
        named.entry(called(pid, thread)).or_default().insert(thread.tid);
    }
    named.into_iter().map(|(name, tids)| Party { name, tids: tids.into_iter().collect() }).collect()
}

/// Returns the accesses to a line, by thread and bytes.
fn touches(spot: &Spot<'_>) -> Vec<Touch> {
    let mut seen: BTreeMap<(usize, u32, u32), (u64, u64)> = BTreeMap::new();
    for access in &spot.line.accesses {
        let (reads, writes) = seen.entry((access.thread, access.offset, access.bytes)).or_default();
        *reads = reads.saturating_add(access.reads);
        *writes = writes.saturating_add(access.writes);
    }
    let touch = |((thread, offset, bytes), (reads, writes))| {
        let thread = spot.process.threads.get(thread)?;
        let name = called(spot.process.pid, thread);
        Some(Touch { tid: thread.tid, name, offset, bytes, reads, writes })
    };
    seen.into_iter().filter_map(touch).collect()
}

/// Returns the code that accesses these lines. Byte ranges are those of the worst line.
fn sites(spots: &[Spot<'_>], worst: &Spot<'_>) -> Vec<Site> {
    #[derive(Default)]
    struct Sum<'a> {
        reads: u64,
        writes: u64,
        bytes: Vec<(u32, u32)>,
        threads: Vec<(i32, &'a Thread)>,
        is_own: bool,
        is_lock: bool,
    }
    let mut sums: BTreeMap<&Frame, Sum<'_>> = BTreeMap::new();
    for spot in spots {
        for access in &spot.line.accesses {
            let (frame, is_own) = spot.code(access);
            let sum = sums.entry(frame).or_default();
            sum.is_own |= is_own;
            sum.is_lock |= spot.is_of_lock(access);
            sum.reads = sum.reads.saturating_add(access.reads);
            sum.writes = sum.writes.saturating_add(access.writes);
            sum.threads.extend(spot.process.threads.get(access.thread).map(|it| (spot.process.pid, it)));
            if std::ptr::eq(spot, worst) {
                sum.bytes.push((access.offset, access.offset.saturating_add(access.bytes.max(1))));
            }
        }
    }
    let site = |(frame, sum): (&Frame, Sum<'_>)| {
        let frame = frame.clone();
        let parties = parties(sum.threads.iter().copied());
        let threads = parties.iter().map(|party| party.tids.len()).sum();
        let Sum { reads, writes, bytes, is_own, is_lock, .. } = sum;
        Site { frame, reads, writes, bytes: merged(bytes), threads, parties, is_own, is_lock }
    };
    let mut sites: Vec<Site> = sums.into_iter().map(site).collect();
    sites.sort_by_key(|site| std::cmp::Reverse(site.accesses()));
    sites
}

/// Returns the code that a fix should change, most writes first: the program's own code, if there is any.
fn to_change(spots: &[Spot<'_>], sites: &[Site]) -> Vec<Site> {
    let accesses =
        spots.iter().flat_map(|spot| spot.line.accesses.iter().map(move |access| spot.code(access)));
    let own: BTreeSet<&Frame> = accesses.filter_map(|(frame, own)| own.then_some(frame)).collect();
    let total = sites.iter().fold(0_u64, |sum, site| sum.saturating_add(site.accesses()));
    let mut all: Vec<Site> =
        sites.iter().filter(|site| !spot::is_negligible(site.accesses(), total)).cloned().collect();
    if all.iter().any(|site| own.contains(&site.frame)) {
        all.retain(|site| own.contains(&site.frame));
    }
    all.sort_by_key(|site| std::cmp::Reverse(site.writes));
    all
}

/// Returns the ranges in order, with adjacent and overlapping ones merged.
pub(super) fn merged(mut ranges: Vec<(u32, u32)>) -> Vec<(u32, u32)> {
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
