//! Finds the cause of a memory shortage: the process, or the family of young processes, whose growth took the
//! memory.
//!
//! The largest process is often the one that the machine is meant to run. What counts is growth. It is
//! measured over two windows: the shortest time in which available memory fell by a tenth of the total, and
//! the whole decrease since available memory was largest. In each window, growth counts as a share of that
//! decrease.

use super::{
    assessment::MemoryReading,
    process_table::{GrowthWindow, ProcessEntry, ProcessTable, Protection},
};

/// A process that took less than this share of the recent decrease is not its cause.
const LEAST_SHARE: f64 = 0.1;

/// A process that grew by less than this share of all memory is not the cause either, whatever the decrease:
/// on a machine that is always full, available memory always falls a little.
const LEAST_GROWTH: f64 = 0.01;

/// Upper bound of [`LEAST_GROWTH`] in bytes.
const MOST_GROWTH: u64 = 64 << 20;

/// The recent decrease is the one in which available memory fell by this share of all memory.
const RECENT_SHARE: f64 = 0.1;

/// Least number of young processes that form a family.
const LEAST_FAMILY: usize = 4;

/// A family is selected if it took at least this many times as much as the worst single process.
const FAMILY_FACTOR: f64 = 2.0;

/// A process is not the cause if the memory that the growth of no process explains is more than this many
/// times what the process took. The stacks and page tables of its own threads may take twice as much.
const LARGEST_UNEXPLAINED: u64 = 3;

/// The result of the search for the cause.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum CauseFinding {
    /// One process.
    Process(Suspect),
    /// The young processes of a session or control group, none of which is large by itself.
    Family(Suspect, FamilyKey),
    /// Shared memory or files of `tmpfs` that no process is shown to have taken: their growth in bytes.
    Files(u64),
    /// No eligible process is shown to have taken much.
    NoCause,
}

impl CauseFinding {
    /// Returns the suspect and, for a family, what its members have in common. `None` if there is no suspect.
    pub fn suspect(&self) -> Option<(Suspect, Option<FamilyKey>)> {
        match *self {
            Self::Process(suspect) => Some((suspect, None)),
            Self::Family(suspect, family) => Some((suspect, Some(family))),
            Self::Files(_) | Self::NoCause => None,
        }
    }
}

/// What the members of a family have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FamilyKey {
    /// A session (`setsid(2)`).
    Session(u32),
    /// A control group, by its number in [`ProcessEntry::group`]. Only young processes belong to the family.
    Group(u16),
    /// A control group with all its processes, old or young.
    WholeGroup(u16),
}

/// The suspected cause. For a family, `process` is the parent of the other members, or the youngest member.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Suspect {
    /// The process.
    pub process: ProcessEntry,
    /// Bytes that would be freed if it ended; for a family, the sum of all members.
    pub bytes: u64,
    /// Number of members; 1 for a single process.
    pub members: u32,
    /// Growth in bytes in the recent decrease of available memory.
    pub growth: u64,
    /// Bytes that available memory fell by in the recent decrease.
    pub decrease: u64,
    /// Growth in bytes over the whole decrease.
    pub whole_growth: u64,
    /// Start of the recent decrease, in nanoseconds of `CLOCK_MONOTONIC`.
    pub recent_start_ns: u64,
    /// Start of the whole decrease.
    pub whole_start_ns: u64,
    /// Sum of the shares of the recent and of the whole decrease: 0 to 2, or more if other processes freed
    /// memory meanwhile.
    pub score: f64,
}

/// Selects the cause. Its working memory is allocated once.
#[derive(Debug)]
pub struct CauseFinder {
    young: Vec<(u32, u32)>,
}

/// Which processes are eligible.
#[derive(Clone, Copy, Debug)]
pub struct Candidates<'a> {
    /// Number of the watch.
    pub watch: usize,
    /// Processes that were already tried: id and start time.
    pub excluded: &'a [(u32, u64)],
}

impl Candidates<'_> {
    /// Whether a process may be selected.
    pub fn is_eligible(&self, process: &ProcessEntry) -> bool {
        process.is_eligible(self.watch)
            && !self.excluded.contains(&(process.reading.pid, process.reading.start))
    }
}

impl CauseFinder {
    /// Creates a chooser for tables of this capacity.
    pub fn new(capacity: usize) -> Self {
        let mut young = vec![(1, 1); capacity];
        young.clear();
        Self { young }
    }

    /// Returns the cause of the decrease of the watch's available memory up to `now`.
    pub fn find_cause(
        &mut self,
        table: &ProcessTable,
        now: &MemoryReading,
        among: &Candidates,
    ) -> CauseFinding {
        let least = (now.total_bytes as f64 * RECENT_SHARE) as u64;
        let windows = table.recent_window(among.watch, now, least).zip(table.whole_window(among.watch, now));
        let Some((recent, whole)) = windows else {
            return CauseFinding::NoCause;
        };
        let least_growth = MOST_GROWTH.min((now.total_bytes as f64 * LEAST_GROWTH) as u64);
        let weigh = GrowthWindows { recent, whole, least_growth };
        let allowed = || table.processes().iter().filter(|process| among.is_eligible(process));
        let worst = allowed()
            .map(|process| weigh.suspect(process))
            .filter(|suspect| suspect.is_cause(&weigh))
            .max_by(|a, b| a.score.total_cmp(&b.score).then(a.bytes.cmp(&b.bytes)));
        let by_session =
            self.family(table, &weigh, among, |process| process.reading.session, FamilyKey::Session);
        let by_group = self.family(
            table,
            &weigh,
            among,
            |process| process.group.into(),
            |key| FamilyKey::Group(key as u16),
        );
        let score = |family: &Option<(Suspect, FamilyKey)>| family.map_or(0.0, |(suspect, _)| suspect.score);
        let family = if score(&by_group) > score(&by_session) * 1.2 { by_group } else { by_session };

        let alone = worst.map_or(0.0, |suspect| suspect.score);
        let together = score(&family);
        let unexplained = table.unexplained(among.watch, &recent);
        let taken =
            family.map_or(0, |(suspect, _)| suspect.growth).max(worst.map_or(0, |suspect| suspect.growth));
        if recent.shmem >= recent.decrease / 2 && taken < recent.shmem / 2 && recent.decrease > 0 {
            return CauseFinding::Files(recent.shmem);
        }
        match (worst, family) {
            (_, Some((suspect, family))) if together >= FAMILY_FACTOR * alone && suspect.is_cause(&weigh) => {
                CauseFinding::Family(suspect, family)
            }
            // If most of the decrease is explained by no process, one that took a little is not its cause.
            (Some(suspect), _) if unexplained > LARGEST_UNEXPLAINED * suspect.growth => CauseFinding::NoCause,
            (Some(suspect), _) => CauseFinding::Process(suspect),
            (None, _) => CauseFinding::NoCause,
        }
    }

    /// Returns the family of young processes with the same `key` that took most, if there is a family.
    fn family(
        &mut self,
        table: &ProcessTable,
        weigh: &GrowthWindows,
        among: &Candidates,
        key: impl Fn(&ProcessEntry) -> u32,
        family: impl Fn(u32) -> FamilyKey,
    ) -> Option<(Suspect, FamilyKey)> {
        let processes = table.processes();
        self.young.clear();
        for (at, process) in processes.iter().enumerate() {
            let key = key(process);
            if key != 0 && among.is_eligible(process) && ProcessTable::is_young(process, &weigh.recent) {
                self.young.push((key, at as u32));
            }
        }
        self.young.sort_unstable();
        let families = self.young.chunk_by(|a, b| a.0 == b.0).filter(|members| members.len() >= LEAST_FAMILY);
        families
            .filter_map(|members| {
                let of = || members.iter().map(|&(_, at)| &processes[at as usize]);
                let head = common_parent(table, among, of())
                    .or_else(|| of().max_by_key(|process| process.reading.start))?;
                let mut sum = weigh.suspect(head);
                let is_outside = !ProcessTable::is_young(head, &weigh.recent);
                sum.members = u32::from(is_outside);
                (sum.bytes, sum.growth, sum.whole_growth, sum.score) = (0, 0, 0, 0.0);
                for one in of().map(|process| weigh.suspect(process)) {
                    sum.bytes += one.bytes;
                    sum.members += 1;
                    sum.growth += one.growth;
                    sum.whole_growth += one.whole_growth;
                    sum.score += one.score;
                }
                Some((sum, family(members[0].0)))
            })
            .max_by(|a, b| a.0.score.total_cmp(&b.0.score))
    }
}

/// Whether a process belongs to the family that `suspect` represents: it is the suspect itself, or it has the
/// same session or control group and was created during the decrease.
///
/// A process created before the recent decrease, or one that shares only the control group, must also be a
/// child of the suspect or have its name. The leader of a session on a terminal, which is an interactive
/// shell, belongs to the family only if it is the suspect itself.
pub fn is_family_member(process: &ProcessEntry, family: FamilyKey, suspect: &Suspect) -> bool {
    let (reading, head) = (&process.reading, &suspect.process.reading);
    if (reading.pid, reading.start) == (head.pid, head.start) {
        return true;
    }
    let is_like = process.first_parent == head.pid && process.first_ns >= suspect.process.first_ns
        || reading.name == head.name;
    // Processes first seen when the window began are older than the window.
    let is_recent = process.first_ns > suspect.recent_start_ns;
    let is_young = process.first_ns > suspect.whole_start_ns && is_like;
    let is_shell = reading.pid == reading.session && reading.has_terminal;
    match family {
        FamilyKey::Session(session) => reading.session == session && (is_recent || is_young) && !is_shell,
        FamilyKey::Group(group) => process.group == group && is_young && !is_shell,
        FamilyKey::WholeGroup(group) => process.group == group,
    }
}

/// Returns the parent of more than half of these processes, if it is eligible (Boyer and Moore's majority
/// vote).
fn common_parent<'a>(
    table: &'a ProcessTable,
    among: &Candidates,
    members: impl Iterator<Item = &'a ProcessEntry> + Clone,
) -> Option<&'a ProcessEntry> {
    let (mut parent, mut lead) = (0, 0usize);
    for process in members.clone() {
        match process.reading.parent == parent {
            true => lead += 1,
            false if lead == 0 => (parent, lead) = (process.reading.parent, 1),
            false => lead -= 1,
        }
    }
    let made = members.clone().filter(|process| process.reading.parent == parent).count();
    let is_most = made * 2 > members.count();
    table.find(parent).filter(|process| is_most && among.is_eligible(process))
}

struct GrowthWindows {
    recent: GrowthWindow,
    whole: GrowthWindow,
    least_growth: u64,
}

impl GrowthWindows {
    fn suspect(&self, process: &ProcessEntry) -> Suspect {
        let share = |window: &GrowthWindow| {
            ProcessTable::growth(process, window) as f64 / window.decrease.max(1) as f64
        };
        Suspect {
            process: *process,
            bytes: process.freeable_bytes(),
            members: 1,
            growth: ProcessTable::growth(process, &self.recent),
            decrease: self.recent.decrease,
            whole_growth: ProcessTable::growth(process, &self.whole),
            recent_start_ns: self.recent.start_ns,
            whole_start_ns: self.whole.start_ns,
            score: share(&self.recent) + share(&self.whole),
        }
    }
}

impl Suspect {
    /// Returns a suspect that is selected for another reason than its growth.
    pub fn by_policy(process: &ProcessEntry) -> Self {
        Self {
            process: *process,
            bytes: process.freeable_bytes(),
            members: 1,
            growth: 0,
            decrease: 0,
            whole_growth: 0,
            recent_start_ns: process.first_ns,
            whole_start_ns: process.first_ns,
            score: 0.0,
        }
    }

    /// Whether the process took enough to have caused a decrease.
    fn is_cause(&self, weigh: &GrowthWindows) -> bool {
        let growth = self.growth.max(self.whole_growth);
        let share = self.growth as f64 / weigh.recent.decrease.max(1) as f64;
        weigh.recent.decrease > 0 && share >= LEAST_SHARE && growth >= weigh.least_growth
    }
}

/// The reasons why a process is never selected, as text.
impl Protection {
    /// Returns the reason, such as `it is process 1`.
    pub fn reason(self) -> &'static str {
        match self {
            Self::Init => "it is process 1",
            Self::Guard => "it is the guard",
            Self::Kernel => "it is a kernel thread",
            Self::OomExempt => "its oom_score_adj is -1000",
            Self::Rule(_) => "a rule protects it",
        }
    }
}
