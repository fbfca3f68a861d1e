//! The result of evaluating an observation: the shared lines that matter, with their names and advice.

use super::{CommandEnd, DataOwner, Engine, Fix, Frame, LineLayout, hot_line::is_negligible};
use serde::{Deserialize, Serialize};

/// Value of `schema` in the JSON that this version writes.
pub const FINDINGS_SCHEMA: &str = "manycore/falseshare/1";

/// Settings of the evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Settings {
    /// Minimum number of false-sharing transfers of a finding.
    pub threshold: u64,
}

/// The result of evaluating an observation.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Findings {
    /// Always [`FINDINGS_SCHEMA`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = FINDINGS_SCHEMA)))]
    pub schema: String,
    /// False sharing, the most transfers first.
    pub false_sharing: Vec<Finding>,
    /// Sharing that would be false sharing with other lines: longer ones, or with data at other addresses.
    pub latent: Vec<Finding>,
    /// False sharing of data of libraries and of the language's runtime, which the program cannot change.
    pub in_libraries: Vec<Finding>,
    /// Lines on which threads access the same bytes, only the busiest.
    pub true_sharing: Vec<Finding>,
    /// Minimum number of false-sharing transfers of a finding.
    pub threshold: u64,
    /// How it was observed.
    pub engine: Engine,
    /// The command line that was observed.
    pub command: Vec<String>,
    /// Elapsed time in seconds.
    pub seconds: f64,
    /// How the command ended.
    pub end: CommandEnd,
    /// Processes that were observed.
    pub processes: usize,
    /// Number of their threads.
    pub threads: usize,
    /// Number of memory accesses that were followed.
    pub accesses: u64,
    /// Number of accesses that were not followed, because the memory for that was used up or there were too
    /// many threads.
    #[serde(default)]
    pub unfollowed_accesses: u64,
    /// Number of processes that were not observed, or that executed a program that was not.
    #[serde(default)]
    pub unobserved_processes: usize,
    /// Number of findings of [`Findings::in_libraries`] that may belong to the program: an interpreter took
    /// part in them, or code that was generated at run time and has no name.
    #[serde(default)]
    pub possibly_own: usize,
    /// What could not be observed, one sentence each.
    pub notes: Vec<String>,
}

/// The kind of sharing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SharingClass {
    /// Threads access different bytes.
    False,
    /// Threads access the same bytes and also different bytes.
    Mixed,
    /// Threads access the same bytes.
    True,
}

/// Lines that are shared in the same way: a single line, the lines of an array, or those of many instances of a type.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Finding {
    /// The kind of sharing.
    pub class: SharingClass,
    /// The line layout.
    pub layout: LineLayout,
    /// Number of cache-line transfers.
    pub transfers: u64,
    /// Number of transfers that are due to false sharing.
    pub false_transfers: u64,
    /// Number of lines.
    pub lines: usize,
    /// Process ids of the processes in which it was seen.
    pub pids: Vec<i32>,
    /// What contains the shared bytes of the worst line.
    pub data: DataOwner,
    /// Address of the first byte of the worst line.
    pub address: u64,
    /// The threads, grouped by name.
    pub threads: Vec<ThreadGroup>,
    /// Accesses to the worst line, by thread and bytes.
    pub accesses: Vec<ThreadAccess>,
    /// The lines of code, busiest first.
    pub sites: Vec<CodeSite>,
    /// For true sharing that is partly false: the fields of the worst line that are written by different
    /// threads. On lines of their own they would not cause the false-sharing transfers.
    #[serde(default)]
    pub fields: Vec<SeparableField>,
    /// What to do.
    pub fix: Fix,
}

/// Threads of the same name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadGroup {
    /// Their name; `main thread` for the first thread of a process.
    pub name: String,
    /// Their kernel thread ids.
    pub tids: Vec<i32>,
}

/// Accesses of a thread to the same bytes of a line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ThreadAccess {
    /// The thread's kernel thread id.
    pub tid: i32,
    /// Its name.
    pub name: String,
    /// Offset of the first byte from the start of the line.
    pub offset: u32,
    /// Number of bytes; 0 where the engine does not record it.
    pub bytes: u32,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
}

/// A line of code that accesses shared lines.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CodeSite {
    /// Function, file and line.
    pub frame: Frame,
    /// Number of reads.
    pub reads: u64,
    /// Number of writes.
    pub writes: u64,
    /// Ranges of bytes that it accesses on the worst line; the end of a range is exclusive.
    pub bytes: Vec<(u32, u32)>,
    /// Number of threads that run it.
    pub threads: usize,
    /// These threads.
    pub thread_groups: Vec<ThreadGroup>,
    /// Whether it belongs to the program and not to a library or runtime.
    #[serde(default)]
    pub is_own: bool,
    /// Whether it takes or releases a lock: a function of the C library, or an instruction that exchanges values.
    #[serde(default)]
    pub is_lock: bool,
}

/// Bytes of a line that the same threads write.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SeparableField {
    /// The ranges of bytes; the end of a range is exclusive.
    pub bytes: Vec<(u32, u32)>,
    /// The code that writes them most often.
    pub frame: Frame,
}

impl Finding {
    /// Returns the lines of code that may have contributed to the finding, busiest first. Code is left out if
    /// it made less than 0.1 % of the accesses of the busiest one and could not have caused a tenth of the
    /// transfers, such as code of the C library that runs when threads start and exit.
    pub fn significant_sites(&self) -> Vec<&CodeSite> {
        let busiest = self.sites.iter().map(CodeSite::accesses).max().unwrap_or(0);
        let has_part = |site: &&CodeSite| {
            let accesses = site.accesses();
            !is_negligible(accesses, busiest) || accesses.saturating_mul(10) >= self.transfers
        };
        self.sites.iter().filter(has_part).collect()
    }
}

impl CodeSite {
    /// Returns the number of reads and writes.
    pub fn accesses(&self) -> u64 {
        self.reads.saturating_add(self.writes)
    }

    /// Returns whether it reads whenever it writes, such as `counter += 1`.
    pub fn is_counting(&self) -> bool {
        self.writes > 0
            && self.reads >= self.writes - self.writes / 10
            && self.reads <= self.writes.saturating_mul(2)
    }
}
