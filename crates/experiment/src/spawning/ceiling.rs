//! How many light processes fit: memory as a straight line over their number, and the first bound that it meets.
//!
//! A [`Line`] has a fixed part and so many bytes for each; the ceiling by memory is `(memory - fixed) / bytes`, and the
//! ceiling of a [`Spawning`] the smallest of that and of the room that each [`Limit`] leaves.

use super::{Ending, Limit, Memory, Purpose, Run, Spawning};
use manycore_stats::median;
use manycore_text::units::{count, decimal};
use serde::Serialize;

/// Our figures and the runtime's own should differ by no more than this share.
pub const GOAL: f64 = 0.05;

/// Growth below which a control group's charge says little, in bytes: it is counted in batches of 64 pages on each CPU
/// (`MEMCG_CHARGE_BATCH`, `mm/memcontrol.c`).
const LITTLE_CHARGE: f64 = 16e6;

/// Which figure of a [`Memory`] a line rests on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Measure {
    /// The charge of the runtime's control group: all that a limit of such a group counts.
    Charge,
    /// `Pss` and what the kernel holds beside it.
    Pss,
    /// Resident sets, and what the kernel holds beside them.
    Rss,
    /// What the runtime itself says.
    Own,
}

/// Memory of a runtime over the number of its light processes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Line {
    /// Bytes for each light process.
    pub bytes: f64,
    /// Bytes that the runtime takes without any.
    pub fixed_bytes: f64,
    /// Least and greatest bytes for each that two neighbouring points give; absent below three points, which say nothing
    /// of how straight the line is.
    pub spread: Option<(f64, f64)>,
    /// Counts that it was drawn through.
    pub points: usize,
    /// What was measured.
    pub measure: Measure,
}

/// What bounds the number of light processes first.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase", tag = "kind")]
pub enum Bound {
    /// Memory.
    Memory,
    /// A limit.
    Limit(Limit),
}

/// How many light processes fit, and what was seen of it.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Ceiling {
    /// Memory over their number.
    pub line: Line,
    /// Most that memory holds.
    pub by_memory: u64,
    /// The same at both ends of the line's spread; absent where there is none.
    pub by_memory_range: Option<(u64, u64)>,
    /// Most that can live: the smaller of memory and limits.
    pub count: u64,
    /// What stands there.
    pub bound: Bound,
    /// Each run that went there.
    pub reached: Vec<Reached>,
}

/// A run that was made to see whether the ceiling is there.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Reached {
    /// Memory that it had, in bytes.
    pub memory_bytes: u64,
    /// How many the line and the limits foretold for this memory.
    pub predicted: u64,
    /// How many lived.
    pub alive: u64,
    /// Lived over foretold; above 1 where more fitted than foretold.
    pub ratio: f64,
    /// How it ended.
    pub ending: Ending,
}

impl Memory {
    /// One figure of it in bytes; absent where it was not measured.
    pub fn of(&self, measure: Measure) -> Option<u64> {
        let kernel = self.kernel_bytes.unwrap_or(0);
        match measure {
            Measure::Charge => self.group_bytes,
            Measure::Pss => self.pss_bytes?.checked_add(kernel),
            Measure::Rss => self.rss_bytes.checked_add(kernel),
            Measure::Own => self.own_bytes,
        }
    }
}

impl Measure {
    /// What it is, in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Charge => "charge of its control group",
            Self::Pss => "PSS and the kernel's part",
            Self::Rss => "RSS and the kernel's part",
            Self::Own => "the runtime's own figure",
        }
    }
}

impl Run {
    /// Bytes that each light process took: by how much a figure grew from before to held. Absent where it was not
    /// measured, did not grow, or none lived.
    pub fn bytes_each(&self, grown: impl Fn(&Memory) -> Option<u64>) -> Option<f64> {
        let more = grown(&self.held)?.checked_sub(grown(&self.before)?)?;
        (self.alive > 0 && more > 0).then(|| more as f64 / self.alive as f64)
    }

    /// Seconds that the start of each took; absent where none lived, or
    /// the run ended before all did.
    pub fn seconds_each(&self) -> Option<f64> {
        (self.alive > 0 && self.start_seconds > 0.0).then(|| self.start_seconds / self.alive as f64)
    }

    /// Growth of PSS (of resident sets where there is none) over the growth that the runtime tells; absent where it tells
    /// none.
    pub fn memory_over_own(&self) -> Option<f64> {
        let ours = self
            .bytes_each(|memory| memory.pss_bytes)
            .or_else(|| self.bytes_each(|memory| Some(memory.rss_bytes)))?;
        Some(ours / self.bytes_each(|memory| memory.own_bytes)?)
    }

    /// Seconds of the start as seen by us over those by the runtime's clock; absent where it tells none.
    pub fn start_over_own(&self) -> Option<f64> {
        let own = self.own_start_seconds.filter(|&seconds| seconds > 0.0)?;
        Some(self.start_seconds / own)
    }
}

impl Line {
    /// The line that runs of counts give: by the charge of the control group where each has one and it grew enough, else
    /// by PSS, else by resident sets. Absent where nothing grew.
    pub fn of(runs: &[Run]) -> Option<Self> {
        let everywhere = |measure: &Measure| {
            counts(runs)
                .all(|run| run.held.of(*measure).is_some_and(|held| Some(held) > run.before.of(*measure)))
        };
        let enough = |measure: &Measure| {
            let grown = |run: &Run| Some(run.bytes_each(|memory| memory.of(*measure))? * run.alive as f64);
            *measure != Measure::Charge || counts(runs).filter_map(grown).any(|grown| grown >= LITTLE_CHARGE)
        };
        let measures = [Measure::Charge, Measure::Pss, Measure::Rss];
        let measure = measures
            .into_iter()
            .find(|measure| everywhere(measure) && enough(measure))
            .unwrap_or(Measure::Rss);
        Self::by(runs, measure)
    }

    /// The same by one figure.
    ///
    /// The slope is the median of those between all pairs of points (Theil and Sen), each point being by how much memory
    /// grew from before to held; the fixed part is what was there before, and the median of what the slope leaves over.
    /// One point gives its own growth over its count. Absent where nothing grew.
    pub fn by(runs: &[Run], measure: Measure) -> Option<Self> {
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
        Some(Self { bytes, fixed_bytes, spread, points: neighbours.len() + 1, measure })
    }

    /// Bytes that `count` light processes and the runtime take.
    pub fn bytes_of(&self, count: u64) -> f64 {
        self.fixed_bytes + self.bytes * count as f64
    }

    /// How many `memory_bytes` hold.
    pub fn most(&self, memory_bytes: u64) -> u64 {
        self.most_at(self.bytes, memory_bytes)
    }

    fn most_at(&self, bytes: f64, memory_bytes: u64) -> u64 {
        // A float beyond the largest integer becomes that, and a negative one 0.
        if bytes > 0.0 { ((memory_bytes as f64 - self.fixed_bytes) / bytes) as u64 } else { u64::MAX }
    }

    /// [`Line::most`] at the two ends of the spread, smaller first.
    pub fn range(&self, memory_bytes: u64) -> Option<(u64, u64)> {
        let (low, high) = self.spread?;
        Some((self.most_at(high, memory_bytes), self.most_at(low, memory_bytes)))
    }

    /// Whether `asked` light processes called `unit` fit in `memory_bytes`, which `source` allows.
    ///
    /// # Errors
    /// They do not: the arithmetic as a sentence without a full stop, with how many do.
    pub fn fits(&self, asked: u64, unit: &str, memory_bytes: u64, source: &str) -> Result<(), String> {
        let most = self.most(memory_bytes);
        if asked <= most {
            return Ok(());
        }
        Err(format!(
            "{} {} x {} + {} = {}, but {} may be used ({source}): at most {} fit",
            count(asked),
            plural(unit),
            each(self.bytes),
            decimal(self.fixed_bytes),
            decimal(self.bytes_of(asked)),
            decimal(memory_bytes as f64),
            count(most)
        ))
    }
}

/// Runs of counts, in which some lived until they were looked at.
fn counts(runs: &[Run]) -> impl Iterator<Item = &Run> {
    let held = |run: &&Run| run.alive > 0 && run.held != Memory::default();
    runs.iter().filter(|run| run.purpose != Purpose::Ceiling).filter(held)
}

/// Bytes of one light process in words: `2,670 bytes`, `312 kB`.
pub fn each(bytes: f64) -> String {
    if bytes < 99_999.5 { format!("{} bytes", count(bytes.round() as u64)) } else { decimal(bytes) }
}

/// More than one of what a light process is called: `processes`, `virtual threads`.
pub fn plural(unit: &str) -> String {
    format!("{unit}{}", if unit.ends_with('s') { "es" } else { "s" })
}

impl Ceiling {
    /// The ceiling of a spawning; absent where no run shows what a light process takes.
    pub fn of(spawning: &Spawning) -> Option<Self> {
        let line = Line::of(&spawning.runs)?;
        let by_memory = line.most(spawning.memory_bytes);
        let lowest = spawning.limits.iter().min_by_key(|limit| limit.room);
        let room = lowest.map_or(u64::MAX, |limit| limit.room);
        let bound = match lowest {
            Some(limit) if limit.room < by_memory => Bound::Limit(limit.clone()),
            _ => Bound::Memory,
        };
        let reached = spawning.runs.iter().filter(|run| run.purpose == Purpose::Ceiling).map(|run| {
            let memory_bytes = run.memory_limit_bytes.unwrap_or(spawning.memory_bytes);
            let predicted = line.most(memory_bytes).min(room);
            let ratio = run.alive as f64 / predicted.max(1) as f64;
            Reached { memory_bytes, predicted, alive: run.alive, ratio, ending: run.ending.clone() }
        });
        Some(Self {
            by_memory,
            by_memory_range: line.range(spawning.memory_bytes),
            count: by_memory.min(room),
            bound,
            reached: reached.collect(),
            line,
        })
    }
}

#[cfg(test)]
mod tests;
