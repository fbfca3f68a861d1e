//! Findings about how many light processes fit, what limits their number, and whether the figures are
//! credible.

use super::{Finding, FindingKind};
use crate::{CpuBalance, LightProcessRun, LightProcesses, wording::percent};
use manycore_experiment::spawning::{
    CountLimit, Ending, Purpose, Runtime,
    capacity::{Capacity, CapacityTest, GOAL, LowestLimit, MemoryLine, each, plural},
};
use manycore_text::units::{count, decimal};

/// Jain's index below which the CPUs were not used evenly.
const MIN_FAIRNESS: f64 = 0.95;
/// Share of steal time above which it is reported.
const STEAL: f64 = 0.01;
/// Seconds of a start that do not depend on the number of light processes: the start message, and the check
/// that all are alive.
const FIXED_START_SECONDS: f64 = 0.05;
/// Bytes of growth below which the blocks of allocators outweigh the light processes.
const MIN_GROWTH_BYTES: f64 = 16e6;
/// Runs within this share of the predicted number confirm the prediction.
const PREDICTION_TOLERANCE: f64 = 0.1;

pub(super) fn find(all: &[LightProcesses]) -> Vec<Finding> {
    all.iter().flat_map(findings_of).collect()
}

fn findings_of(light: &LightProcesses) -> Vec<Finding> {
    let capacity = light.capacity.iter().flat_map(|found| {
        let tests = found.tests.iter().map(|reached| capacity_test(light, reached));
        std::iter::once(how_many(light, found)).chain(limit_before_memory(light, found)).chain(tests)
    });
    capacity
        .chain(schedulers(light))
        .chain(runtime_disagreement(light))
        .chain(unbalanced(light))
        .chain(stolen(light))
        .chain(light.runs.iter().filter_map(|run| ended(light, run)))
        .collect()
}

fn finding(kind: FindingKind, text: String, evidence: Vec<String>) -> Finding {
    Finding::new(kind, "spawn", text, evidence)
}

/// Names a run: `beam: 1e6 processes`.
fn of_run(light: &LightProcesses, run: &LightProcessRun) -> String {
    format!("{}: {} {}", light.name, count(run.requested), plural(&light.unit))
}

fn how_many(light: &LightProcesses, capacity: &Capacity) -> Finding {
    let (memory, source) = (&light.memory_bytes, &light.memory_source);
    let bound = match &capacity.lowest_limit {
        LowestLimit::Limit(first) => {
            format!(" under {} ({} in memory)", first.name, count(capacity.by_memory))
        }
        LowestLimit::Memory => String::new(),
    };
    let text = format!(
        "{}: {} {} fit{bound}. Each takes {}.",
        light.version,
        count(capacity.count),
        plural(&light.unit),
        each(capacity.line.bytes_each),
    );
    let holds = format!(
        "({} - {}) / {} = {} ({source})",
        decimal(*memory as f64),
        decimal(capacity.line.fixed_bytes),
        each(capacity.line.bytes_each),
        count(capacity.by_memory)
    );
    finding(FindingKind::Answer, text, vec![holds, uncertainty(&capacity.line)])
}

/// Describes the uncertainty of a fitted line.
fn uncertainty(line: &MemoryLine) -> String {
    let how = line.measure.words();
    match (line.bytes_each_range, line.points) {
        (Some((low, high)), points) => {
            format!("{} to {} between {points} counts; {how}", each(low), each(high))
        }
        (None, 1) => format!("from one count (growth over count): error unknown; {how}"),
        (None, _) => format!("from two counts, which a line always fits: error unknown; {how}"),
    }
}

fn how_to_raise(limit: &CountLimit) -> String {
    format!("{} ({})", limit.raise_command, limit.source)
}

/// Reports a limit that is reached before memory is exhausted.
fn limit_before_memory(light: &LightProcesses, capacity: &Capacity) -> Option<Finding> {
    let LowestLimit::Limit(first) = &capacity.lowest_limit else { return None };
    let text = format!(
        "{}: {} limits the number to {} {}; memory would hold {}.",
        light.name,
        first.name,
        count(first.max_count),
        plural(&light.unit),
        count(capacity.by_memory)
    );
    let below = light.limits.iter().filter(|limit| limit.max_count < capacity.by_memory);
    Some(finding(
        FindingKind::Advice,
        text,
        below.map(|limit| format!("{}: {}", limit.name, how_to_raise(limit))).collect(),
    ))
}

fn capacity_test(light: &LightProcesses, reached: &CapacityTest) -> Finding {
    let near = (reached.ratio - 1.0).abs() <= PREDICTION_TOLERANCE;
    let text = format!(
        "{}: with {}, {} {} were alive of {} predicted ({}).",
        light.name,
        decimal(reached.memory_bytes as f64),
        count(reached.alive),
        plural(&light.unit),
        count(reached.predicted),
        percent(reached.ratio),
    );
    let kind = if near { FindingKind::Fact } else { FindingKind::Warning };
    finding(kind, text, why(&reached.ending).into_iter().collect())
}

/// Returns why a run ended abnormally.
fn why(ending: &Ending) -> Option<String> {
    match ending {
        Ending::Refused { why } => Some(format!("refused: {why}")),
        Ending::Killed { why } => Some(format!("killed: {why}")),
        Ending::Failed { why } => Some(format!("failed: {why}")),
        Ending::Interrupted => Some("interrupted".to_owned()),
        Ending::Clean => None,
    }
}

fn ended(light: &LightProcesses, run: &LightProcessRun) -> Option<Finding> {
    // An interruption is a warning of the whole record.
    let is_reported = run.purpose == Purpose::Count && run.ending != Ending::Interrupted;
    let why = why(&run.ending).filter(|_| is_reported)?;
    let text = format!("{} were requested; {} were alive.", of_run(light, run), count(run.alive));
    Some(finding(FindingKind::Warning, text, vec![why]))
}

fn schedulers(light: &LightProcesses) -> Option<Finding> {
    let wrong = light.mismatch.as_ref()?;
    let has = light.schedulers.count.unwrap_or(0);
    let cpus = light.schedulers.cpus.len();
    let text = match (wrong.more, wrong.by_quota) {
        (true, true) => format!(
            "{}: {has} schedulers, and a quota limits CPU time to {:.2} CPUs: they use it up together and are then \
             all throttled.",
            light.name,
            light.schedulers.quota_cpus.unwrap_or(0.0)
        ),
        (true, false) => {
            format!("{}: {has} schedulers on {cpus} CPUs only take turns on them.", light.name)
        }
        (false, _) => {
            format!("{}: {has} schedulers leave CPUs idle: {} could be used.", light.name, wrong.fitting)
        }
    };
    let evidence = format!("CPUs {}; fix: {}", light.schedulers.cpus, wrong.fix);
    Some(finding(FindingKind::Warning, text, vec![evidence]))
}

/// How Java's own figure differs, determined by counting the present pages of each stack of its threads.
const JAVA: &str = "Java's Native Memory Tracking counts 16 KiB of guard pages for the stack of each platform thread, and \
                    heap that holds no object yet: the kernel counts neither";

/// Reports the largest count for which the measured figures and the runtime's own differ by too much.
fn runtime_disagreement(light: &LightProcesses) -> Option<Finding> {
    let counted = light.runs.iter().filter(|run| run.purpose == Purpose::Count && run.rss_bytes > 0);
    let run = counted.max_by_key(|run| run.alive)?;
    let off = |ratio: &f64| (ratio - 1.0).abs() > GOAL;
    let enough = |_: &f64| {
        run.pss_bytes_each.or(run.rss_bytes_each).unwrap_or(0.0) * run.alive as f64 >= MIN_GROWTH_BYTES
    };
    let memory = run.memory_over_reported.filter(off).filter(enough).map(|ratio| {
        let [ours, own] = [run.pss_bytes_each.or(run.rss_bytes_each), run.reported_bytes_each]
            .map(|bytes| each(bytes.unwrap_or(0.0)));
        format!("memory: {ours} each by the kernel, {own} by the runtime ({ratio:.2}x)")
    });
    let own = run.reported_start_seconds.unwrap_or(0.0);
    let long = |_: &f64| (run.start_seconds - own).abs() > FIXED_START_SECONDS;
    let start = run.start_over_reported.filter(off).filter(long).map(|ratio| {
        format!(
            "start: {:.3} s seen from outside, {own:.3} s by the runtime ({ratio:.2}x)",
            run.start_seconds
        )
    });
    let java = Some(JAVA.to_owned()).filter(|_| light.runtime == Runtime::Jvm && memory.is_some());
    let evidence: Vec<String> = memory.into_iter().chain(java).chain(start).collect();
    let text = format!(
        "{}: measured figures and the runtime's own differ by more than {}. Memory must hold what the kernel counts: a \
         runtime may omit what its allocators keep, and count pages that were never touched.",
        of_run(light, run),
        percent(GOAL)
    );
    (!evidence.is_empty()).then(|| finding(FindingKind::Warning, text, evidence))
}

/// Iterates over the runs in which light processes computed, with how the work was spread.
fn computed(light: &LightProcesses) -> impl Iterator<Item = (&LightProcessRun, &CpuBalance)> {
    light.runs.iter().filter_map(|run| Some((run, run.balance.as_ref()?)))
}

/// Reports the least even of the runs that had work for every CPU.
fn unbalanced(light: &LightProcesses) -> Option<Finding> {
    let uneven = computed(light).filter_map(|(run, balance)| {
        let enough = run.alive >= balance.cpus.len() as u64;
        Some((balance.fairness.filter(|&index| index < MIN_FAIRNESS && enough)?, run, balance))
    });
    let (index, run, balance) = uneven.min_by(|a, b| a.0.total_cmp(&b.0))?;
    let by_share = |a: &&(usize, f64), b: &&(usize, f64)| a.1.total_cmp(&b.1);
    let (least, most) = (balance.cpus.iter().min_by(by_share)?, balance.cpus.iter().max_by(by_share)?);
    let text = format!(
        "{} that compute did not use the CPUs evenly: Jain's index is {index:.3}, where 1 is even.",
        of_run(light, run)
    );
    let busy = |(cpu, share): (usize, f64)| format!("CPU {cpu} was busy for {} of the time", percent(share));
    Some(finding(FindingKind::Warning, text, [*least, *most].map(busy).into()))
}

fn stolen(light: &LightProcesses) -> Option<Finding> {
    let shares = computed(light).filter_map(|(run, balance)| Some((balance.steal?, run)));
    let (share, run) = shares.filter(|(share, _)| *share > STEAL).max_by(|a, b| a.0.total_cmp(&b.0))?;
    let text = format!(
        "{}: the hypervisor took {} of the CPU time during the measurement.",
        of_run(light, run),
        percent(share)
    );
    Some(finding(FindingKind::Warning, text, Vec::new()))
}
