//! Who has caused it: the process, or the family of young processes, whose growth took the memory.
//!
//! The biggest process is often the one that the machine is for. What counts is growth: over the shortest time in which
//! a tenth of the memory went, and over the whole fall since there was most room, each as a share of that fall.

use super::{
    stage::Reading,
    table::{Process, Shield, Table, Window},
};

/// Whoever took less than this share of the recent fall has not caused it.
const LEAST_SHARE: f64 = 0.1;

/// Whoever grew by less than this share of all memory has not caused it either, whatever the fall: a machine that is
/// always full always falls a little.
const LEAST_GROWTH: f64 = 0.01;

/// See [`LEAST_GROWTH`]: in bytes at most.
const MOST_GROWTH: u64 = 64 << 20;

/// The recent fall is the one in which this share of all memory went.
const RECENT_SHARE: f64 = 0.1;

/// Young processes are a family from this number on.
const LEAST_FAMILY: usize = 4;

/// A family is chosen where it took this many times what the worst process took.
const FAMILY_FACTOR: f64 = 2.0;

/// A process is no cause where this many times what it took is explained by no process. Stacks and page tables of its
/// threads may be twice as much.
const LARGEST_UNEXPLAINED: u64 = 3;

/// What was found.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Finding {
    /// This process.
    Process(Suspect),
    /// The young processes of a session or control group, none of which is much by itself.
    Family(Suspect, Kin),
    /// Shared memory or files of `tmpfs` that no process is shown to have taken: bytes that they grew by.
    Files(u64),
    /// No process that may be chosen is shown to have taken much.
    Nobody,
}

impl Finding {
    /// Who it is, and what they have in common where they are several; `None` where it is nobody.
    pub fn suspect(&self) -> Option<(Suspect, Option<Kin>)> {
        match *self {
            Self::Process(suspect) => Some((suspect, None)),
            Self::Family(suspect, kin) => Some((suspect, Some(kin))),
            Self::Files(_) | Self::Nobody => None,
        }
    }
}

/// What the members of a family have in common.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kin {
    /// A session (`setsid(2)`).
    Session(u32),
    /// A control group, by its number in [`Process::group`].
    Group(u16),
    /// The same, with all who are in it, old or young.
    Whole(u16),
}

/// The one that was chosen; of a family, the process that makes the others, or the youngest of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Suspect {
    /// The process.
    pub process: Process,
    /// Bytes that would come back; of a family: of all members.
    pub bytes: u64,
    /// Number of members; 1 for a process.
    pub members: u32,
    /// Bytes that it grew by in the recent fall.
    pub growth: u64,
    /// Bytes that went in the recent fall.
    pub fall: u64,
    /// Bytes that it grew by in the whole fall.
    pub whole_growth: u64,
    /// When the recent fall began, in nanoseconds of `CLOCK_MONOTONIC`.
    pub from_ns: u64,
    /// When the whole fall began.
    pub whole_ns: u64,
    /// Share of the recent and of the whole fall, added: 0 to 2, more where others gave memory back meanwhile.
    pub score: f64,
}

/// Chooses, with room for its work that is made once.
#[derive(Debug)]
pub struct Chooser {
    young: Vec<(u32, u32)>,
}

/// Which processes may be chosen.
#[derive(Clone, Copy, Debug)]
pub struct Among<'a> {
    /// Number of the watch.
    pub watch: usize,
    /// Those that were tried already: id and start.
    pub except: &'a [(u32, u64)],
}

impl Among<'_> {
    /// Whether a process may be chosen.
    pub fn allows(&self, process: &Process) -> bool {
        process.may_end(self.watch) && !self.except.contains(&(process.seen.pid, process.seen.start))
    }
}

impl Chooser {
    /// For tables of this capacity.
    pub fn new(capacity: usize) -> Self {
        let mut young = vec![(1, 1); capacity];
        young.clear();
        Self { young }
    }

    /// Who has caused the fall of the watch's room to `now`.
    pub fn choose(&mut self, table: &Table, now: &Reading, among: &Among) -> Finding {
        let least = (now.total as f64 * RECENT_SHARE) as u64;
        let windows = table.recent(among.watch, now, least).zip(table.whole(among.watch, now));
        let Some((recent, whole)) = windows else {
            return Finding::Nobody;
        };
        let least_growth = MOST_GROWTH.min((now.total as f64 * LEAST_GROWTH) as u64);
        let weigh = Weigh { recent, whole, least_growth };
        let allowed = || table.processes().iter().filter(|process| among.allows(process));
        let worst = allowed()
            .map(|process| weigh.suspect(process))
            .filter(|suspect| suspect.is_cause(&weigh))
            .max_by(|a, b| a.score.total_cmp(&b.score).then(a.bytes.cmp(&b.bytes)));
        let by_session = self.family(table, &weigh, among, |process| process.seen.session, Kin::Session);
        let by_group =
            self.family(table, &weigh, among, |process| process.group.into(), |key| Kin::Group(key as u16));
        let score = |family: &Option<(Suspect, Kin)>| family.map_or(0.0, |(suspect, _)| suspect.score);
        let family = if score(&by_group) > score(&by_session) * 1.2 { by_group } else { by_session };

        let alone = worst.map_or(0.0, |suspect| suspect.score);
        let together = score(&family);
        let unexplained = table.unexplained(among.watch, &recent);
        let taken =
            family.map_or(0, |(suspect, _)| suspect.growth).max(worst.map_or(0, |suspect| suspect.growth));
        if recent.shmem >= recent.fall / 2 && taken < recent.shmem / 2 && recent.fall > 0 {
            return Finding::Files(recent.shmem);
        }
        match (worst, family) {
            (_, Some((suspect, kin))) if together >= FAMILY_FACTOR * alone && suspect.is_cause(&weigh) => {
                Finding::Family(suspect, kin)
            }
            // Where no process is shown to have taken most of it, one that took a little is not the cause.
            (Some(suspect), _) if unexplained > LARGEST_UNEXPLAINED * suspect.growth => Finding::Nobody,
            (Some(suspect), _) => Finding::Process(suspect),
            (None, _) => Finding::Nobody,
        }
    }

    /// The family of young processes with the same `key` that took most, if it is one.
    fn family(
        &mut self,
        table: &Table,
        weigh: &Weigh,
        among: &Among,
        key: impl Fn(&Process) -> u32,
        kin: impl Fn(u32) -> Kin,
    ) -> Option<(Suspect, Kin)> {
        let processes = table.processes();
        self.young.clear();
        for (at, process) in processes.iter().enumerate() {
            let key = key(process);
            if key != 0 && among.allows(process) && Table::is_young(process, &weigh.recent) {
                self.young.push((key, at as u32));
            }
        }
        self.young.sort_unstable();
        let families = self.young.chunk_by(|a, b| a.0 == b.0).filter(|members| members.len() >= LEAST_FAMILY);
        families
            .filter_map(|members| {
                let of = || members.iter().map(|&(_, at)| &processes[at as usize]);
                let head =
                    maker(table, among, of()).or_else(|| of().max_by_key(|process| process.seen.start))?;
                let mut sum = weigh.suspect(head);
                let is_outside = !Table::is_young(head, &weigh.recent);
                sum.members = u32::from(is_outside);
                (sum.bytes, sum.growth, sum.whole_growth, sum.score) = (0, 0, 0, 0.0);
                for one in of().map(|process| weigh.suspect(process)) {
                    sum.bytes += one.bytes;
                    sum.members += 1;
                    sum.growth += one.growth;
                    sum.whole_growth += one.whole_growth;
                    sum.score += one.score;
                }
                Some((sum, kin(members[0].0)))
            })
            .max_by(|a, b| a.0.score.total_cmp(&b.0.score))
    }
}

/// Whether a process belongs to the family that `suspect` stands for: it is that one, or has the same session or control
/// group and was born in the fall. Those that were born before the recent fall, and those that have only the group in
/// common, have to be children of that one or have its name. The leader of a session on a terminal, a shell that somebody
/// works in, belongs to it only as the one that makes the others.
pub fn belongs(process: &Process, kin: Kin, suspect: &Suspect) -> bool {
    let (seen, head) = (&process.seen, &suspect.process.seen);
    if (seen.pid, seen.start) == (head.pid, head.start) {
        return true;
    }
    let is_like =
        process.maker == head.pid && process.first_ns >= suspect.process.first_ns || seen.name == head.name;
    // Those that were first seen when the window began are older than it.
    let is_recent = process.first_ns > suspect.from_ns;
    let is_young = process.first_ns > suspect.whole_ns && is_like;
    let is_shell = seen.pid == seen.session && seen.has_terminal;
    match kin {
        Kin::Session(session) => seen.session == session && (is_recent || is_young) && !is_shell,
        Kin::Group(group) => process.group == group && is_young && !is_shell,
        Kin::Whole(group) => process.group == group,
    }
}

/// The process that made more than half of these, where it may be chosen (Boyer and Moore's majority vote).
fn maker<'a>(
    table: &'a Table,
    among: &Among,
    members: impl Iterator<Item = &'a Process> + Clone,
) -> Option<&'a Process> {
    let (mut parent, mut lead) = (0, 0usize);
    for process in members.clone() {
        match process.seen.parent == parent {
            true => lead += 1,
            false if lead == 0 => (parent, lead) = (process.seen.parent, 1),
            false => lead -= 1,
        }
    }
    let made = members.clone().filter(|process| process.seen.parent == parent).count();
    let is_most = made * 2 > members.count();
    table.find(parent).filter(|process| is_most && among.allows(process))
}

struct Weigh {
    recent: Window,
    whole: Window,
    least_growth: u64,
}

impl Weigh {
    fn suspect(&self, process: &Process) -> Suspect {
        let share = |window: &Window| Table::growth(process, window) as f64 / window.fall.max(1) as f64;
        Suspect {
            process: *process,
            bytes: process.bytes(),
            members: 1,
            growth: Table::growth(process, &self.recent),
            fall: self.recent.fall,
            whole_growth: Table::growth(process, &self.whole),
            from_ns: self.recent.from_ns,
            whole_ns: self.whole.from_ns,
            score: share(&self.recent) + share(&self.whole),
        }
    }
}

impl Suspect {
    /// One that is chosen for another reason than its growth.
    pub fn by_policy(process: &Process) -> Self {
        Self {
            process: *process,
            bytes: process.bytes(),
            members: 1,
            growth: 0,
            fall: 0,
            whole_growth: 0,
            from_ns: process.first_ns,
            whole_ns: process.first_ns,
            score: 0.0,
        }
    }

    /// Whether it took enough to have caused a fall.
    fn is_cause(&self, weigh: &Weigh) -> bool {
        let growth = self.growth.max(self.whole_growth);
        let share = self.growth as f64 / weigh.recent.fall.max(1) as f64;
        weigh.recent.fall > 0 && share >= LEAST_SHARE && growth >= weigh.least_growth
    }
}

/// Why a process is not chosen, in words.
impl Shield {
    /// `it is process 1`.
    pub fn why(self) -> &'static str {
        match self {
            Self::Init => "it is process 1",
            Self::Guard => "it is the guard",
            Self::Kernel => "it is a thread of the kernel",
            Self::Spared => "its oom_score_adj is -1000",
            Self::Rule(_) => "a rule protects it",
        }
    }
}
