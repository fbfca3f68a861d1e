//! What is watched, with the state of each watch.

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

/// The monitor is woken up when tasks have waited for memory for this part of [`BELL_WINDOW_US`], in
/// microseconds.
const BELL_STALL_US: u32 = 50_000;
/// The shortest window that the kernel accepts, in microseconds.
const BELL_WINDOW_US: u32 = 500_000;

/// Longest grace period of a family, in nanoseconds.
const FAMILY_GRACE_NS: u64 = 1_000_000_000;

/// All watches and rules.
pub struct Plan {
    /// Number of plans before this one.
    pub number: u32,
    /// The watches in the order of the rules.
    pub watches: Vec<Watched>,
    /// Which processes are protected.
    pub protect: Protect,
    /// Bit `n` is set if the `n`-th watch is a control group.
    pub group_watches: u32,
    /// Bit `n` is set if the `n`-th watch is processes of a name.
    pub named_watches: u32,
    own: u32,
}

/// One watch.
pub struct Watched {
    /// Name in the rules.
    pub name: String,
    source: Source,
    /// When the guard acts.
    pub limits: Limits,
    grace_ns: u64,
    /// Whether the whole control group of the cause is ended.
    pub end_group: bool,
    /// How the cause is slowed down.
    pub slow: Slow,
    /// State of the current shortage.
    pub incident: Incident,
    /// Trend of the available memory.
    pub trend: Trend,
    /// The last reading.
    pub reading: Reading,
    /// The assessment of the last reading.
    pub told: Assessment,
    /// The process that was sent a signal.
    pub target: Option<Target>,
    /// Notification of memory stalls, which wakes the monitor.
    pub bell: Option<Bell>,
    /// Whether the last reading failed.
    pub is_blind: bool,
    /// Time since when the trend alone calls for a signal.
    trend_ns: Option<u64>,
    /// What is done if no process is shown to be the cause and memory is nearly exhausted.
    pub last_resort: LastResort,
    /// Start of the search for the holders of memory that is not in the pages of any process.
    pub seeking_ns: Option<u64>,
    /// Start of the wait for the control groups of new processes.
    pub asking_ns: Option<u64>,
}

enum Source {
    Machine(MachineRoom),
    /// Absent until the group is created.
    Group(Option<GroupRoom>),
    Processes {
        name: Pattern,
        limit: u64,
    },
}

impl Plan {
    /// Opens everything that the rules name. Also returns notes about what could not be opened.
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
                        None => Some("there is no such control group yet; it is watched once it exists"),
                        Some(Some(_)) => None,
                        Some(None) => Some("no limit is set; it is not watched until there is one"),
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
                    "{}: the kernel does not report how long tasks stall for memory (PSI); only levels \
                    and trends are used",
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

    /// Whether the rules refer to control groups.
    pub fn has_groups(&self) -> bool {
        self.group_watches != 0 || self.spares_groups()
    }

    /// Whether the rules protect whole control groups or units.
    pub fn spares_groups(&self) -> bool {
        !self.protect.units.is_empty() || !self.protect.groups.is_empty()
    }

    /// Whether the process's control group or program, not yet known, may decide about it.
    pub fn waits_for(&self, process: &Process) -> bool {
        !process.is_known
            && process.shield.is_none()
            && (self.has_groups() || self.protect.asks_for_proof(process))
    }

    /// Applies the rules to a process.
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
    /// Returns the nanoseconds between SIGTERM and SIGKILL. A family has less time, because it may go on
    /// creating members.
    pub fn grace_ns(&self) -> u64 {
        match self.target.as_ref().and_then(|target| target.kin) {
            Some(_) => self.grace_ns.min(FAMILY_GRACE_NS),
            None => self.grace_ns,
        }
    }

    /// Lowers the stage to a warning until the trend has called for a signal for some time: a quarter of the
    /// time left, at most half a second. A single step is not a trend.
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

    /// Whether available memory does not decrease, or only slowly.
    pub fn is_steady(&self) -> bool {
        self.told.seconds_left.is_none_or(|left| left > 60.0)
    }

    /// Whether the control group of a new process is still awaited.
    pub fn is_asking(&self, now_ns: u64) -> bool {
        self.asking_ns.is_some_and(|since| now_ns.saturating_sub(since) < ASKING_NS)
    }

    /// Whether a search for the holders of memory outside of all processes' pages is under way and there is
    /// time to wait for it: half of the time left, at most `SEEKING_NS`.
    pub fn is_seeking(&self, now_ns: u64) -> bool {
        let left = self.told.seconds_left.map_or(u64::MAX, |left| (left * 5e8) as u64);
        self.seeking_ns.is_some_and(|since| now_ns.saturating_sub(since) < SEEKING_NS.min(left))
    }

    /// Stores a reading.
    pub fn read(&mut self, now_ns: u64, table: &Table) -> Option<Reading> {
        match &mut self.source {
            Source::Machine(room) => room.read(now_ns),
            Source::Group(room) => room.as_mut()?.read(now_ns),
            Source::Processes { name, limit } => {
                let members = || {
                    let all = table.processes().iter();
                    all.filter(|process| name.matches(process.seen.name.as_bytes()))
                };
                // Memory that they share is counted once.
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
