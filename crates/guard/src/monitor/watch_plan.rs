//! What is watched, with the state of each watch.

use crate::decision::{
    assessment::{Assessment, MemoryReading, Stage, StageReason, Thresholds, has_moved},
    pattern::Pattern,
    process_table::{ProcessEntry, ProcessTable, Protection},
    shortage::ShortageState,
    trend::Trend,
};
use crate::error::{Error, Result};
use crate::monitor::{
    evidence::{GROUP_WAIT_NS, HOLDER_WAIT_NS},
    signal::SignalledProcess,
};
use crate::rules::{LastResort, ProtectRules, Rules, SlowdownMethod, WatchRule, WatchSubject};
use manycore_linux::available_memory::{GroupMemory, MachineMemory, PressureTrigger};
use std::path::{Path, PathBuf};

/// The monitor is woken up when tasks have waited for memory for this part of [`TRIGGER_WINDOW_US`], in
/// microseconds.
const TRIGGER_STALL_US: u32 = 50_000;
/// The shortest window that the kernel accepts, in microseconds.
const TRIGGER_WINDOW_US: u32 = 500_000;

/// Longest grace period of a family, in nanoseconds.
const FAMILY_GRACE_NS: u64 = 1_000_000_000;

/// All watches and rules.
pub struct WatchPlan {
    /// Number of plans before this one.
    pub number: u32,
    /// The watches in the order of the rules.
    pub watches: Vec<WatchState>,
    /// Which processes are protected.
    pub protect: ProtectRules,
    /// Bit `n` is set if the `n`-th watch is a control group.
    pub group_watches: u32,
    /// Bit `n` is set if the `n`-th watch is processes of a name.
    pub named_watches: u32,
    own: u32,
}

/// One watch.
pub struct WatchState {
    /// Name in the rules.
    pub name: String,
    source: Source,
    /// When the guard acts.
    pub limits: Thresholds,
    grace_ns: u64,
    /// Whether the whole control group of the cause is ended.
    pub end_group: bool,
    /// How the cause is slowed down.
    pub slow: SlowdownMethod,
    /// State of the current shortage.
    pub shortage: ShortageState,
    /// Trend of the available memory.
    pub trend: Trend,
    /// The last reading.
    pub reading: MemoryReading,
    /// The assessment of the last reading.
    pub assessment: Assessment,
    /// The process that was sent a signal.
    pub target: Option<SignalledProcess>,
    /// Notification of memory stalls, which wakes the monitor.
    pub pressure_trigger: Option<PressureTrigger>,
    /// Available memory with swap, in bytes, at the last survey of all processes.
    pub surveyed_available: u64,
    /// Whether the last reading failed.
    pub is_unreadable: bool,
    /// Time since when the trend alone calls for a signal.
    trend_start_ns: Option<u64>,
    /// What is done if no process is shown to be the cause and memory is nearly exhausted.
    pub last_resort: LastResort,
    /// Start of the search for the holders of memory that is not in the pages of any process.
    pub holder_wait_ns: Option<u64>,
    /// Start of the wait for the control groups of new processes.
    pub group_wait_ns: Option<u64>,
}

enum Source {
    Machine(MachineMemory),
    /// Absent until the group is created.
    Group(Option<GroupMemory>),
    Processes {
        name: Pattern,
        limit: u64,
    },
}

impl WatchPlan {
    /// Opens everything that the rules name. Also returns notes about what could not be opened.
    ///
    /// # Errors
    /// [`Error::System`] if a watch cannot be read at all.
    pub fn open(rules: &Rules) -> Result<(Self, Vec<String>)> {
        let mut notes = Vec::new();
        let mut plan = Self {
            number: 0,
            watches: Vec::new(),
            protect: rules.protect.clone(),
            group_watches: 0,
            named_watches: 0,
            own: std::process::id(),
        };
        for (at, rule) in rules.watches.iter().enumerate() {
            match rule.of {
                WatchSubject::Machine => {}
                WatchSubject::Group { .. } => plan.group_watches |= 1 << at,
                WatchSubject::Processes { .. } => plan.named_watches |= 1 << at,
            }
            plan.watches.push(WatchState::open(rule, &mut notes)?);
        }
        Ok((plan, notes))
    }

    /// Whether the rules refer to control groups.
    pub fn has_groups(&self) -> bool {
        self.group_watches != 0 || self.protects_groups()
    }

    /// Whether the rules protect whole control groups or units.
    pub fn protects_groups(&self) -> bool {
        !self.protect.units.is_empty() || !self.protect.groups.is_empty()
    }

    /// Whether the process's control group or program, not yet known, may decide about it.
    pub fn needs_lookup(&self, process: &ProcessEntry) -> bool {
        !process.is_known
            && process.protection.is_none()
            && (self.has_groups() || self.protect.needs_lookup_for(process))
    }

    /// Applies the rules to a process.
    pub fn apply_rules(&self, process: &mut ProcessEntry) {
        let seen = process.reading;
        process.protection = match seen.pid {
            1 => Some(Protection::Init),
            pid if pid == self.own => Some(Protection::Guard),
            _ if process.protection == Some(Protection::Kernel) => process.protection,
            _ if process.protection == Some(Protection::OomExempt) => process.protection,
            _ => self.protect.protection(process).or(process.group_protection),
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

impl Source {
    /// Opens what a rule watches. Returns it with the file that reports memory stalls, if the kernel has one.
    fn open(rule: &WatchRule, notes: &mut Vec<String>) -> Result<(Self, Option<PathBuf>)> {
        let cannot_watch = || Error::system(format!("cannot watch {}", rule.name));
        let (source, pressure) = match &rule.of {
            WatchSubject::Processes { name, limit } => {
                return Ok((Self::Processes { name: name.clone(), limit: *limit }, None));
            }
            WatchSubject::Machine => {
                let memory = MachineMemory::open(Path::new("/")).map_err(cannot_watch())?;
                let pressure = memory.has_pressure().then(|| PathBuf::from("/proc/pressure/memory"));
                (Self::Machine(memory), pressure)
            }
            WatchSubject::Group { folder, mount } => {
                let mut memory = match GroupMemory::open(folder, mount) {
                    Err(_) if !folder.exists() => None,
                    memory => Some(memory.map_err(cannot_watch())?),
                };
                let trouble = match memory.as_mut().map(|memory| memory.read(0)) {
                    None => Some("there is no such control group yet; it is watched once it exists"),
                    Some(Some(_)) => None,
                    Some(None) => Some("no limit is set; it is not watched until there is one"),
                };
                notes.extend(trouble.map(|trouble| format!("{}: {trouble}", rule.name)));
                let Some(memory) = memory else { return Ok((Self::Group(None), None)) };
                let pressure = memory.has_pressure().then(|| folder.join("memory.pressure"));
                (Self::Group(Some(memory)), pressure)
            }
        };
        if pressure.is_none() {
            notes.push(format!(
                "{}: the kernel does not report how long tasks stall for memory (PSI); only levels and trends \
                are used",
                rule.name
            ));
        }
        Ok((source, pressure))
    }
}

impl WatchState {
    /// Opens what a rule watches.
    fn open(rule: &WatchRule, notes: &mut Vec<String>) -> Result<Self> {
        let (source, pressure) = Source::open(rule, notes)?;
        let trigger = |path: PathBuf| PressureTrigger::set(&path, TRIGGER_STALL_US, TRIGGER_WINDOW_US);
        Ok(Self {
            name: rule.name.clone(),
            source,
            limits: rule.limits,
            grace_ns: rule.grace.as_nanos() as u64,
            end_group: rule.end_group,
            slow: rule.slow,
            shortage: ShortageState::default(),
            trend: Trend::default(),
            reading: MemoryReading::default(),
            assessment: Assessment::default(),
            target: None,
            pressure_trigger: pressure.and_then(trigger),
            surveyed_available: 0,
            is_unreadable: false,
            trend_start_ns: None,
            last_resort: rule.last_resort,
            holder_wait_ns: None,
            group_wait_ns: None,
        })
    }

    /// Returns the nanoseconds between SIGTERM and SIGKILL. A family has less time, because it may go on
    /// creating members.
    pub fn grace_ns(&self) -> u64 {
        match self.target.as_ref().and_then(|target| target.family) {
            Some(_) => self.grace_ns.min(FAMILY_GRACE_NS),
            None => self.grace_ns,
        }
    }

    /// Lowers the stage to a warning until the trend has called for a signal for some time: a quarter of the
    /// time left, at most half a second. A single step is not a trend.
    pub fn confirm_trend(&mut self, now_ns: u64) {
        if self.assessment.reason != StageReason::Trend || self.assessment.stage < Stage::Term {
            self.trend_start_ns = None;
            return;
        }
        let since = *self.trend_start_ns.get_or_insert(now_ns);
        let left = self.assessment.seconds_left.unwrap_or(0.0);
        let enough = (left / 4.0).min(0.5) * 1e9;
        if (now_ns.saturating_sub(since) as f64) < enough {
            self.assessment.stage = Stage::Warn;
        }
    }

    /// Whether available memory has changed so much since the last survey of all processes that their growth may
    /// matter.
    pub fn has_moved(&self) -> bool {
        has_moved(self.surveyed_available, &self.reading, &self.limits)
    }

    /// Whether available memory does not decrease, or only slowly.
    pub fn is_steady(&self) -> bool {
        self.assessment.seconds_left.is_none_or(|left| left > 60.0)
    }

    /// Whether the control group of a new process is still awaited.
    pub fn is_awaiting_groups(&self, now_ns: u64) -> bool {
        self.group_wait_ns.is_some_and(|since| now_ns.saturating_sub(since) < GROUP_WAIT_NS)
    }

    /// Whether a search for the holders of memory outside of all processes' pages is under way and there is
    /// time to wait for it: half of the time left, at most `HOLDER_WAIT_NS`.
    pub fn is_awaiting_holders(&self, now_ns: u64) -> bool {
        let left = self.assessment.seconds_left.map_or(u64::MAX, |left| (left * 5e8) as u64);
        self.holder_wait_ns.is_some_and(|since| now_ns.saturating_sub(since) < HOLDER_WAIT_NS.min(left))
    }

    /// Takes a reading.
    pub fn read(&mut self, now_ns: u64, table: &ProcessTable) -> Option<MemoryReading> {
        match &mut self.source {
            Source::Machine(memory) => memory.read(now_ns),
            Source::Group(memory) => memory.as_mut()?.read(now_ns),
            Source::Processes { name, limit } => {
                let members = || {
                    let all = table.processes().iter();
                    all.filter(|process| name.matches(process.reading.name.as_bytes()))
                };
                // Memory that they share is counted once.
                let own: u64 = members().map(|process| u64::from(process.reading.kib) << 10).sum();
                let shared = members().map(|process| process.reading.shmem_kib).max().unwrap_or(0);
                let shmem = u64::from(shared) << 10;
                let used = own + shmem;
                let available = limit.saturating_sub(used);
                Some(MemoryReading {
                    at_ns: now_ns,
                    available_bytes: available,
                    total_bytes: *limit,
                    shmem_bytes: shmem,
                    ..MemoryReading::default()
                })
            }
        }
    }
}
