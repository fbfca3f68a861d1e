//! What an observation means: which shared lines matter, and what they are.

use super::{Cure, End, Engine, Frame, Holder, Layout, spot::is_negligible};
use serde::{Deserialize, Serialize};

/// Value of `schema` in the JSON that this version writes.
pub const FINDINGS_SCHEMA: &str = "manycore/falseshare/1";

/// What counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Needless hand-overs from which on a finding is one.
    pub threshold: u64,
}

/// What an observation means.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Findings {
    /// Always [`FINDINGS_SCHEMA`].
    pub schema: String,
    /// False sharing, the worst first.
    pub false_sharing: Vec<Finding>,
    /// What would be false sharing on other lines: longer ones, or with data laid out otherwise.
    pub latent: Vec<Finding>,
    /// False sharing among data of libraries and of the language's runtime, which the program cannot change.
    pub in_libraries: Vec<Finding>,
    /// Lines on which threads hand over the same bytes, the busiest only.
    pub true_sharing: Vec<Finding>,
    /// Needless hand-overs from which on a finding is one.
    pub threshold: u64,
    /// How it was observed.
    pub engine: Engine,
    /// The command line that was observed.
    pub command: Vec<String>,
    /// Wall time in seconds.
    pub seconds: f64,
    /// How the command ended.
    pub end: End,
    /// Processes that were observed.
    pub processes: usize,
    /// Their threads.
    pub threads: usize,
    /// Memory accesses that were followed.
    pub accesses: u64,
    /// Accesses that were not, as the memory for that was used up or there were too many threads.
    #[serde(default)]
    pub unfollowed: u64,
    /// Processes that were not observed, or became a program that was not.
    #[serde(default)]
    pub escaped: usize,
    /// Findings of [`Findings::in_libraries`] that may be the program's own: an interpreter took part in them, or code
    /// without a name that was generated at run time.
    #[serde(default)]
    pub unattributed: usize,
    /// What could not be observed.
    pub notes: Vec<String>,
}

/// What kind of sharing it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Class {
    /// Threads use different bytes.
    False,
    /// Threads use the same bytes, and different ones beside them.
    Mixed,
    /// Threads use the same bytes.
    True,
}

/// Lines that are shared in the same way: one, those of an array, or those of many instances.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Finding {
    /// What kind of sharing it is.
    pub class: Class,
    /// The lines that it is about.
    pub layout: Layout,
    /// Times that the lines changed hands.
    pub hand_overs: u64,
    /// Those that the bytes did not ask for.
    pub needless: u64,
    /// How many lines.
    pub lines: usize,
    /// Processes in which it was seen.
    pub pids: Vec<i32>,
    /// What holds the bytes, on the worst line.
    pub holder: Holder,
    /// Where the first byte of the worst line is.
    pub address: u64,
    /// The threads, those of one name together.
    pub threads: Vec<Party>,
    /// Who touched what on the worst line.
    pub touches: Vec<Touch>,
    /// The code lines, the busiest first.
    pub sites: Vec<Site>,
    /// Where it is true sharing that is needless in part: the fields of the worst line that other threads write than
    /// those of the others. On lines of their own they would spare the needless hand-overs.
    #[serde(default)]
    pub fields: Vec<Field>,
    /// What to do.
    pub cure: Cure,
}

/// Threads of one name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Party {
    /// Their name; `main thread` for the first of a process.
    pub name: String,
    /// Their kernel ids.
    pub tids: Vec<i32>,
}

/// Accesses of a thread to the same bytes of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Touch {
    /// The thread's kernel id.
    pub tid: i32,
    /// Its name.
    pub name: String,
    /// First byte, counted from the start of the line.
    pub offset: u32,
    /// Bytes; 0 where the engine does not tell.
    pub bytes: u32,
    /// Times read.
    pub reads: u64,
    /// Times written.
    pub writes: u64,
}

/// A line of code that touches shared lines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Site {
    /// The code.
    pub frame: Frame,
    /// Times read.
    pub reads: u64,
    /// Times written.
    pub writes: u64,
    /// Bytes of the worst line that it touches, each from the first to behind the last.
    pub bytes: Vec<(u32, u32)>,
    /// How many threads run it.
    pub threads: usize,
    /// These threads.
    pub parties: Vec<Party>,
    /// Whether it is the program's own.
    #[serde(default)]
    pub is_own: bool,
    /// Whether it takes or gives back a lock: a function of the C library, or an instruction that exchanges values.
    #[serde(default)]
    pub is_lock: bool,
}

/// Bytes of a line that the same threads write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Field {
    /// The bytes, each range from the first to behind the last.
    pub bytes: Vec<(u32, u32)>,
    /// The code that writes them most.
    pub frame: Frame,
}

impl Finding {
    /// The code lines that may have part in it, the busiest first: without those whose accesses are less than 0.1 % of
    /// the busiest one's and could not make a tenth of the hand-overs, such as code of the C library that runs when
    /// threads begin and end.
    pub fn notable(&self) -> Vec<&Site> {
        let busiest = self.sites.iter().map(Site::accesses).max().unwrap_or(0);
        let has_part = |site: &&Site| {
            let accesses = site.accesses();
            !is_negligible(accesses, busiest) || accesses.saturating_mul(10) >= self.hand_overs
        };
        self.sites.iter().filter(has_part).collect()
    }
}

impl Site {
    /// Times read and times written together.
    pub fn accesses(&self) -> u64 {
        self.reads.saturating_add(self.writes)
    }

    /// Whether it reads what it writes, each time: `counter += 1`.
    pub fn is_counting(&self) -> bool {
        self.writes > 0
            && self.reads >= self.writes - self.writes / 10
            && self.reads <= self.writes.saturating_mul(2)
    }
}
