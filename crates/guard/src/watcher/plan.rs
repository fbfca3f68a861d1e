//! What is watched, with everything that is kept of it.

use crate::decision::{
    incident::Incident,
    pattern::Pattern,
    stage::{Assessment, Cause, Limits, Reading, Stage},
    table::{Process, Shield, Table},
    trend::Trend,
};
use crate::memory_room::{Bell, GroupRoom, MachineRoom};
use crate::rules::{LastResort, Of, Protect, Rules, Slow};
use crate::watcher::{
    act::Target,
    doubt::{ASKING_NS, SEEKING_NS},
};
use std::{io, path::Path};

/// Tasks that have waited for memory for this part of [`BELL_WINDOW_US`] wake us, in microseconds.
const BELL_STALL_US: u32 = 50_000;
/// The shortest window that the kernel takes, in microseconds.
const BELL_WINDOW_US: u32 = 500_000;

/// The grace of a family at most, in nanoseconds.
const FAMILY_GRACE_NS: u64 = 1_000_000_000;

/// All watches and rules.
pub struct Plan {
    /// How many there were before.
    pub number: u32,
    /// In the order of the rules.
    pub watches: Vec<Watched>,
    /// Who is spared.
    pub protect: Protect,
    /// Bits of the watches that are control groups.
    pub group_watches: u32,
    /// Bits of those that are processes by name.
    pub named_watches: u32,
    own: u32,
}

/// One of them.
pub struct Watched {
    /// As the rules call it.
    pub name: String,
    source: Source,
    /// When something is done.
    pub limits: Limits,
    grace_ns: u64,
    /// Whether all of a control group is ended.
    pub end_group: bool,
    /// How a cause is slowed down.
    pub slow: Slow,
    /// Its course.
    pub incident: Incident,
    /// Of its room.
    pub trend: Trend,
    /// The last one.
    pub reading: Reading,
    /// What follows from it.
    pub told: Assessment,
    /// Whoever was sent a signal.
    pub target: Option<Target>,
    /// Wakes us.
    pub bell: Option<Bell>,
    /// Whether it could not be read.
    pub is_blind: bool,
    /// Since when the trend alone says that something is to be done.
    trend_ns: Option<u64>,
    /// What is done where no process is shown to be the cause and memory is nearly gone.
    pub last_resort: LastResort,
    /// Since when the holders of memory that is in no process's pages are searched for.
    pub seeking_ns: Option<u64>,
    /// Since when a cause is looked for among processes that the clerk has not told about yet.
    pub asking_ns: Option<u64>,
}

enum Source {
    Machine(MachineRoom),
    /// Absent until the group is made.
    Group(Option<GroupRoom>),
    Processes {
        name: Pattern,
        limit: u64,
    },
}

impl Plan {
    /// Opens what the rules name. What had to be left out is told.
    ///
    /// # Errors
    /// A watch cannot be read at all.
    pub fn open(rules: &Rules) -> io::Result<(Self, Vec<String>)> {
        let mut notes = Vec::new();
        let mut watches = Vec::new();
        let (mut group_watches, mut named_watches) = (0, 0);
        for (at, rule) in rules.watches.iter().enumerate() {
            let (source, pressure) = match &rule.of {
                Of::Machine => {
                    let room = MachineRoom::open(Path::new("/"))?;
                    let pressure = room.tells_stalls().then(|| Path::new("/proc/pressure/memory").to_owned());
                    (Source::Machine(room), Some(pressure))
                }
                Of::Group { folder, mount } => {
                    group_watches |= 1 << at;
                    let mut room = match GroupRoom::open(folder, mount) {
                        Err(_) if !folder.exists() => None,
                        room => Some(room?),
                    };
                    let limit = room.as_mut().map(|room| room.read(0));
                    let trouble = match limit {
                        None => Some("there is no such control group yet; it is watched when there is"),
                        Some(Some(_)) => None,
                        Some(None) => Some("no limit is set, so nothing is done until there is one"),
                    };
                    notes.extend(trouble.map(|trouble| format!("{}: {trouble}", rule.name)));
                    let tells = room.as_ref().map(GroupRoom::tells_stalls);
                    let pressure = tells.map(|tells| tells.then(|| folder.join("memory.pressure")));
                    (Source::Group(room), pressure)
                }
                Of::Processes { name, limit } => {
                    named_watches |= 1 << at;
                    (Source::Processes { name: name.clone(), limit: *limit }, None)
                }
            };
            if pressure == Some(None) {
                notes.push(format!(
                    "{}: the kernel does not tell how long tasks stall for memory (PSI): levels and trends alone decide",
                    rule.name
                ));
            }
            let bell = pressure.flatten().and_then(|path| Bell::set(&path, BELL_STALL_US, BELL_WINDOW_US));
            watches.push(Watched {
                name: rule.name.clone(),
                source,
                limits: rule.limits,
                grace_ns: rule.grace.as_nanos() as u64,
                end_group: rule.end_group,
                slow: rule.slow,
                incident: Incident::default(),
                trend: Trend::default(),
                reading: Reading::default(),
                told: Assessment::default(),
                target: None,
                bell,
                is_blind: false,
                trend_ns: None,
                asking_ns: None,
                last_resort: rule.last_resort,
                seeking_ns: None,
            });
        }
        let (protect, own) = (rules.protect.clone(), std::process::id());
        Ok((Self { number: 0, watches, protect, group_watches, named_watches, own }, notes))
    }

    /// Whether rules speak of control groups.
    pub fn has_groups(&self) -> bool {
        self.group_watches != 0 || self.spares_groups()
    }

    /// Whether rules spare whole control groups or units.
    pub fn spares_groups(&self) -> bool {
        !self.protect.units.is_empty() || !self.protect.groups.is_empty()
    }

    /// Whether the clerk's word on a process that is not known yet decides about it.
    pub fn waits_for(&self, process: &Process) -> bool {
        !process.is_known
            && process.shield.is_none()
            && (self.has_groups() || self.protect.asks_for_proof(process))
    }

    /// Sets what the rules say of a process.
    pub fn judge(&self, process: &mut Process) {
        let seen = process.seen;
        process.shield = match seen.pid {
            1 => Some(Shield::Init),
            pid if pid == self.own => Some(Shield::Guard),
            _ if process.shield == Some(Shield::Kernel) => process.shield,
            _ if process.shield == Some(Shield::Spared) => process.shield,
            _ => self.protect.shield(process).or(process.group_shield),
        };
        for (at, watch) in self.watches.iter().enumerate() {
            let bit = 1 << at;
            match &watch.source {
                Source::Machine(_) => process.watches |= bit,
                Source::Group(_) => {}
                Source::Processes { name, .. } if name.matches(seen.name.as_bytes()) => {
                    process.watches |= bit;
                }
                Source::Processes { .. } => process.watches &= !bit,
            }
        }
    }
}

impl Watched {
    /// Nanoseconds between SIGTERM and SIGKILL: a family that goes on making new members has little.
    pub fn grace_ns(&self) -> u64 {
        match self.target.as_ref().and_then(|target| target.kin) {
            Some(_) => self.grace_ns.min(FAMILY_GRACE_NS),
            None => self.grace_ns,
        }
    }

    /// Takes back what the trend alone says until it has said so for a while: a quarter of the time that is left, half a
    /// second at most. One step down is no trend.
    pub fn settle(&mut self, now_ns: u64) {
        if self.told.cause != Cause::Trend || self.told.stage < Stage::Term {
            self.trend_ns = None;
            return;
        }
        let since = *self.trend_ns.get_or_insert(now_ns);
        let left = self.told.seconds_left.unwrap_or(0.0);
        let enough = (left / 4.0).min(0.5) * 1e9;
        if (now_ns.saturating_sub(since) as f64) < enough {
            self.told.stage = Stage::Warn;
        }
    }

    /// Whether memory does not go, or only slowly.
    pub fn is_steady(&self) -> bool {
        self.told.seconds_left.is_none_or(|left| left > 60.0)
    }

    /// Whether the clerk's word on a new process is waited for.
    pub fn is_asking(&self, now_ns: u64) -> bool {
        self.asking_ns.is_some_and(|since| now_ns.saturating_sub(since) < ASKING_NS)
    }

    /// Whether it is looked for who holds what no process has in its pages, and there is time for that: half of what is
    /// left, and `SEEKING_NS` at most.
    pub fn is_seeking(&self, now_ns: u64) -> bool {
        let left = self.told.seconds_left.map_or(u64::MAX, |left| (left * 5e8) as u64);
        self.seeking_ns.is_some_and(|since| now_ns.saturating_sub(since) < SEEKING_NS.min(left))
    }

    /// What is left now.
    pub fn read(&mut self, now_ns: u64, table: &Table) -> Option<Reading> {
        match &mut self.source {
            Source::Machine(room) => room.read(now_ns),
            Source::Group(room) => room.as_mut()?.read(now_ns),
            Source::Processes { name, limit } => {
                let members = || {
                    let all = table.processes().iter();
                    all.filter(|process| name.matches(process.seen.name.as_bytes()))
                };
                // Memory that they share is there once.
                let own: u64 = members().map(|process| u64::from(process.seen.kib) << 10).sum();
                let shared = members().map(|process| process.seen.shmem_kib).max().unwrap_or(0);
                let shmem = u64::from(shared) << 10;
                let used = own + shmem;
                let available = limit.saturating_sub(used);
                Some(Reading { at_ns: now_ns, available, total: *limit, shmem, ..Reading::default() })
            }
        }
    }
}
