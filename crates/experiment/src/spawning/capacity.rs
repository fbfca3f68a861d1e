//! How many light processes fit: memory as a linear function of their number, and the lowest limit.
//!
//! A [`MemoryLine`] has a fixed part and a number of bytes per light process. The count that fits into memory is
//! `(memory - fixed) / bytes`. The count of a [`RuntimeRuns`] is the minimum of that and of what each [`CountLimit`]
//! allows.

use super::{CountLimit, Ending, Memory, Purpose, RuntimeRuns, SpawnRun};
use manycore_stats::median;
use manycore_text::units::{count, decimal};
use serde::Serialize;

/// Largest acceptable difference between measured figures and the runtime's own, as a share.
pub const GOAL: f64 = 0.05;

/// Growth in bytes below which a control group's charge is too imprecise: the kernel charges in batches of 64
/// pages per CPU (`MEMCG_CHARGE_BATCH`, `mm/memcontrol.c`).
const LITTLE_CHARGE: f64 = 16e6;

/// The figure of a [`Memory`] that a line is based on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum MemoryMeasure {
    /// Charge of the runtime's control group: everything that counts towards the group's limit.
    Charge,
    /// PSS, and kernel memory that is not part of it.
    Pss,
    /// RSS, and kernel memory that is not part of it.
    Rss,
    /// What the runtime itself reports.
    Reported,
}

/// Memory of a runtime as a linear function of the number of light processes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct MemoryLine {
    /// Bytes per light process.
    pub bytes_each: f64,
    /// Bytes that the runtime takes without any light process.
    pub fixed_bytes: f64,
    /// Smallest and largest slope between two adjacent points, in bytes. Absent with fewer than three points,
    /// which cannot show how straight the line is.
    pub bytes_each_range: Option<(f64, f64)>,
    /// Number of points that the line is based on.
    pub points: usize,
    /// The figure that was measured.
    pub measure: MemoryMeasure,
}

/// The lowest limit of the number of light processes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum LowestLimit {
    /// Available memory.
    Memory,
    /// Another limit.
    Limit(CountLimit),
}

/// How many light processes fit, as predicted and as observed.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Capacity {
    /// Memory as a function of their number.
    pub line: MemoryLine,
    /// How many fit into memory.
    pub by_memory: u64,
    /// Smallest and largest number that fit into memory, from [`MemoryLine::bytes_each_range`]; absent without it.
    pub by_memory_range: Option<(u64, u64)>,
    /// How many fit: the minimum over memory and limits.
    pub count: u64,
    /// The lowest limit of their number.
    pub lowest_limit: LowestLimit,
    /// Each run that tested the prediction.
    pub tests: Vec<CapacityTest>,
}

/// A run that started light processes until a limit was reached.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CapacityTest {
    /// Memory limit of the run, in bytes.
    pub memory_bytes: u64,
    /// Number that was predicted for this memory limit.
    pub predicted: u64,
    /// Number that were alive.
    pub alive: u64,
    /// Alive over predicted; above 1 if more fit than predicted.
    pub ratio: f64,
    /// How the run ended.
    pub ending: Ending,
}

impl Memory {
    /// Returns one figure in bytes; absent if it was not measured.
    pub fn of(&self, measure: MemoryMeasure) -> Option<u64> {
        let kernel = self.kernel_bytes.unwrap_or(0);
        match measure {
            MemoryMeasure::Charge => self.cgroup_bytes,
            MemoryMeasure::Pss => self.pss_bytes?.checked_add(kernel),
            MemoryMeasure::Rss => self.rss_bytes.checked_add(kernel),
            MemoryMeasure::Reported => self.reported_bytes,
        }
    }
}

impl MemoryMeasure {
    /// Returns the name of the figure for reports.
    pub fn words(self) -> &'static str {
        match self {
            Self::Charge => "charge of its control group",
            Self::Pss => "PSS and the kernel's part",
            Self::Rss => "RSS and the kernel's part",
            Self::Reported => "the runtime's own figure",
        }
    }
}

impl SpawnRun {
    /// Returns the bytes per light process: the growth of a figure from `before` to `held`, divided by the
    /// number. Absent if it was not measured, did not grow, or none was alive.
    pub fn bytes_each(&self, grown: impl Fn(&Memory) -> Option<u64>) -> Option<f64> {
        let more = grown(&self.held)?.checked_sub(grown(&self.before)?)?;
        (self.alive > 0 && more > 0).then(|| more as f64 / self.alive as f64)
    }

    /// Returns the start time per light process in seconds; absent if none was alive or the run ended before
    /// all were.
    pub fn seconds_each(&self) -> Option<f64> {
        (self.alive > 0 && self.start_seconds > 0.0).then(|| self.start_seconds / self.alive as f64)
    }

    /// Returns the growth of PSS (or RSS without PSS) over the growth that the runtime reports; absent if it
    /// reports none.
    pub fn memory_over_reported(&self) -> Option<f64> {
        let ours = self
            .bytes_each(|memory| memory.pss_bytes)
            .or_else(|| self.bytes_each(|memory| Some(memory.rss_bytes)))?;
        Some(ours / self.bytes_each(|memory| memory.reported_bytes)?)
    }

    /// Returns the measured start time over that by the runtime's own clock; absent if the runtime reports
    /// none.
    pub fn start_over_reported(&self) -> Option<f64> {
        let own = self.reported_start_seconds.filter(|&seconds| seconds > 0.0)?;
        Some(self.start_seconds / own)
    }
}

impl MemoryLine {
    /// Returns the line through runs of counts. It is based on the charge of the control group if each run
    /// has one that grew enough, else on PSS, else on RSS. Absent if nothing grew.
    pub fn of(runs: &[SpawnRun]) -> Option<Self> {
        let everywhere = |measure: &MemoryMeasure| {
            counts(runs)
                .all(|run| run.held.of(*measure).is_some_and(|held| Some(held) > run.before.of(*measure)))
        };
        let enough = |measure: &MemoryMeasure| {
            let grown =
                |run: &SpawnRun| Some(run.bytes_each(|memory| memory.of(*measure))? * run.alive as f64);
            *measure != MemoryMeasure::Charge
                || counts(runs).filter_map(grown).any(|grown| grown >= LITTLE_CHARGE)
        };
        let measures = [MemoryMeasure::Charge, MemoryMeasure::Pss, MemoryMeasure::Rss];
        let measure = measures
            .into_iter()
            .find(|measure| everywhere(measure) && enough(measure))
            .unwrap_or(MemoryMeasure::Rss);
        Self::by(runs, measure)
    }

    /// Returns the line based on one figure.
    ///
    /// The slope is the median of the slopes between all pairs of points (Theil-Sen estimator); each point is
    /// the growth of memory from `before` to `held`. The fixed part is the median memory before the start
    /// plus the median residual. A single point gives its growth divided by its count. Absent if nothing
    /// grew.
    pub fn by(runs: &[SpawnRun], measure: MemoryMeasure) -> Option<Self> {
        let mut points: Vec<(f64, f64)> = counts(runs)
            .filter_map(|run| {
                let grown = run.bytes_each(|memory| memory.of(measure))?;
                Some((run.alive as f64, grown * run.alive as f64))
            })
            .collect();
        points.sort_by(|a, b| a.0.total_cmp(&b.0));
        let before: Vec<f64> = counts(runs).filter_map(|run| Some(run.before.of(measure)? as f64)).collect();
        let between = |a: &(f64, f64), b: &(f64, f64)| (b.0 > a.0).then(|| (b.1 - a.1) / (b.0 - a.0));
        let all = points.iter().enumerate();
        let slopes: Vec<f64> =
            all.flat_map(|(at, a)| points[at + 1..].iter().filter_map(move |b| between(a, b))).collect();
        let &(alive, grown) = points.last()?;
        let bytes = median(&slopes).filter(|&slope| slope > 0.0).unwrap_or(grown / alive);
        let over: Vec<f64> = points.iter().map(|point| point.1 - bytes * point.0).collect();
        let left = if slopes.is_empty() { 0.0 } else { median(&over)? };
        let neighbours: Vec<f64> = points.windows(2).filter_map(|pair| between(&pair[0], &pair[1])).collect();
        let spread = (neighbours.len() > 1).then(|| {
            neighbours.iter().fold((bytes, bytes), |(low, high), &slope| (low.min(slope), high.max(slope)))
        });
        let fixed_bytes = (median(&before)? + left).max(0.0);
        Some(Self {
            bytes_each: bytes,
            fixed_bytes,
            bytes_each_range: spread,
            points: neighbours.len() + 1,
            measure,
        })
    }

    /// Returns the bytes of `count` light processes and the runtime.
    pub fn bytes_of(&self, count: u64) -> f64 {
        self.fixed_bytes + self.bytes_each * count as f64
    }

    /// Returns how many fit into `memory_bytes`.
    pub fn most(&self, memory_bytes: u64) -> u64 {
        self.most_at(self.bytes_each, memory_bytes)
    }

    fn most_at(&self, bytes: f64, memory_bytes: u64) -> u64 {
        // The cast saturates: values above the largest integer become that, negative ones 0.
        if bytes > 0.0 { ((memory_bytes as f64 - self.fixed_bytes) / bytes) as u64 } else { u64::MAX }
    }

    /// Returns [`MemoryLine::most`] at both ends of [`MemoryLine::bytes_each_range`], smaller first.
    pub fn range(&self, memory_bytes: u64) -> Option<(u64, u64)> {
        let (low, high) = self.bytes_each_range?;
        Some((self.most_at(high, memory_bytes), self.most_at(low, memory_bytes)))
    }

    /// Checks that `requested` light processes called `unit` fit into `memory_bytes`, a limit given by `source`.
    ///
    /// # Errors
    /// If they do not fit: the arithmetic and how many do, as a sentence without a full stop.
    pub fn fits(&self, requested: u64, unit: &str, memory_bytes: u64, source: &str) -> Result<(), String> {
        let most = self.most(memory_bytes);
        if requested <= most {
            return Ok(());
        }
        Err(format!(
            "{} {} x {} + {} = {}, but {} may be used ({source}): at most {} fit",
            count(requested),
            plural(unit),
            each(self.bytes_each),
            decimal(self.fixed_bytes),
            decimal(self.bytes_of(requested)),
            decimal(memory_bytes as f64),
            count(most)
        ))
    }
}

/// Returns the runs of counts in which light processes were alive when memory was measured.
fn counts(runs: &[SpawnRun]) -> impl Iterator<Item = &SpawnRun> {
    let held = |run: &&SpawnRun| run.alive > 0 && run.held != Memory::default();
    runs.iter().filter(|run| run.purpose != Purpose::CapacityTest).filter(held)
}

/// Returns the bytes of one light process as text: `2,670 bytes`, `312 kB`.
pub fn each(bytes: f64) -> String {
    if bytes < 99_999.5 { format!("{} bytes", count(bytes.round() as u64)) } else { decimal(bytes) }
}

/// Returns the plural of the name of a light process: `processes`, `virtual threads`.
pub fn plural(unit: &str) -> String {
    format!("{unit}{}", if unit.ends_with('s') { "es" } else { "s" })
}

impl Capacity {
    /// Returns how many light processes of a spawning fit; absent if no run shows how much memory one takes.
    pub fn of(spawning: &RuntimeRuns) -> Option<Self> {
        let line = MemoryLine::of(&spawning.runs)?;
        let by_memory = line.most(spawning.memory_bytes);
        let lowest = spawning.limits.iter().min_by_key(|limit| limit.max_count);
        let max_count = lowest.map_or(u64::MAX, |limit| limit.max_count);
        let lowest_limit = match lowest {
            Some(limit) if limit.max_count < by_memory => LowestLimit::Limit(limit.clone()),
            _ => LowestLimit::Memory,
        };
        let tests = spawning.runs.iter().filter(|run| run.purpose == Purpose::CapacityTest).map(|run| {
            let memory_bytes = run.memory_limit_bytes.unwrap_or(spawning.memory_bytes);
            let predicted = line.most(memory_bytes).min(max_count);
            let ratio = run.alive as f64 / predicted.max(1) as f64;
            CapacityTest { memory_bytes, predicted, alive: run.alive, ratio, ending: run.ending.clone() }
        });
        Some(Self {
            by_memory,
            by_memory_range: line.range(spawning.memory_bytes),
            count: by_memory.min(max_count),
            lowest_limit,
            tests: tests.collect(),
            line,
        })
    }
}

#[cfg(test)]
mod tests;
