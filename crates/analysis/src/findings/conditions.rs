//! Warnings about the conditions of a run.

use super::{Finding, FindingKind};
use crate::{Disturbance, disturbance, wording::percent};
use manycore_experiment::{Record, record::id};
use manycore_text::{names::list, units::counted};

/// Shares of CPU time above which a condition is reported.
const STEAL: f64 = 0.01;
const OTHER_WORK: f64 = 0.05;
const THROTTLED: f64 = 0.001;

/// Memory is reported as short where less than one part in this many is available.
const MIN_AVAILABLE_PART: u64 = 10;

pub(super) fn find(record: &Record) -> Vec<Finding> {
    let mut findings = limits(record);
    findings.extend(during_samples(record));
    findings.extend(at_start(record));
    findings.extend(record.notes.iter().map(|note| warning(plain(note), Vec::new())));
    if record.interrupted {
        findings.push(Finding::new(
            FindingKind::Warning,
            "conditions",
            "The measurement was interrupted: only what was measured before that is evaluated.".to_owned(),
            vec![match record.light_processes.len() {
                0 => format!("{} in the record", counted(record.experiments.len(), "experiment")),
                count => format!("{} in the record", counted(count, "runtime")),
            }],
        ));
    }
    findings
}

pub(super) fn worker_count(count: usize) -> String {
    if count == 1 { "one worker".to_owned() } else { format!("{count} workers") }
}

/// Returns a note as a sentence: the label of a warning says what it is.
fn plain(note: &str) -> String {
    let text = note.strip_prefix("WARNING: ").unwrap_or(note);
    let mut signs = text.chars();
    signs.next().map_or_else(String::new, |first| first.to_uppercase().chain(signs).collect())
}

fn warning(text: String, evidence: Vec<String>) -> Finding {
    Finding::new(FindingKind::Warning, "conditions", text, evidence)
}

fn limits(record: &Record) -> Vec<Finding> {
    let allowed = &record.machine.allowed;
    let mut findings = Vec::new();
    if !allowed.cpus.is_empty() && allowed.cpus.len() < record.machine.online.len() {
        findings.push(warning(
            format!(
                "Only {} of the machine's {} CPUs could be used: all figures are for these.",
                allowed.cpus.len(),
                record.machine.online.len()
            ),
            vec![allowed.effective_limit.clone()],
        ));
    }
    let cpus = super::super::usable_cpus(&record.machine) as f64;
    if let Some(quota) = allowed.quota_cpus.filter(|&quota| quota < cpus) {
        findings.push(warning(
            format!("A quota limits CPU time to {quota:.2} of {cpus} CPUs: more workers are throttled."),
            vec![allowed.effective_limit.clone()],
        ));
    }
    findings
}

/// Warns about CPU time that was taken from the workers: over the whole run, and the highest share in one
/// experiment.
fn during_samples(record: &Record) -> Vec<Finding> {
    let whole = disturbance::of_record(record);
    let each: Vec<(&str, Disturbance)> = record
        .experiments
        .iter()
        // Its samples are too short and too many to read the kernel's counters around each.
        .filter(|experiment| experiment.id != id::LATENCY)
        .map(|experiment| (experiment.id.as_str(), Disturbance::of_experiments([experiment], record)))
        .collect();
    let warn_above = |pick: fn(&Disturbance) -> Option<f64>, above: f64, words: &str| {
        let all = pick(&whole)?;
        let most = each
            .iter()
            .filter_map(|(id, disturbance)| Some((pick(disturbance)?, *id)))
            .max_by(|a, b| a.0.total_cmp(&b.0))?;
        // Of a single experiment, that is the same figure again.
        let highest =
            (each.len() > 1).then(|| format!("most in the section {}: {}", most.1, percent(most.0)));
        let evidence = highest.into_iter().collect();
        (all.max(most.0) > above).then(|| warning(words.replace("{}", &percent(all)), evidence))
    };
    let other_work = warn_above(
        |disturbance| disturbance.other_work,
        OTHER_WORK,
        "Other work took {} of the machine's CPU time during the measurement.",
    );
    let other_work = other_work
        .map(|found| Finding { evidence: [found.evidence, vec![busiest(record)]].concat(), ..found });
    let mut findings: Vec<Finding> = [
        warn_above(
            |disturbance| disturbance.steal,
            STEAL,
            "The hypervisor took {} of the CPU time: other guests compete for these CPUs, and rates vary with their \
             load.",
        ),
        other_work,
        warn_above(|disturbance| disturbance.throttled, THROTTLED, "A cgroup quota throttled the workers for {} of the time."),
    ]
    .into_iter()
    .flatten()
    .collect();
    if whole.thermal_events > 0 {
        findings.push(warning(
            "CPUs were slowed down because they were too hot.".to_owned(),
            vec![format!("{} thermal throttling events", whole.thermal_events)],
        ));
    }
    findings
}

/// Names the processes that used most CPU time, or says how to find them.
fn busiest(record: &Record) -> String {
    let named: Vec<String> = record
        .busiest_others
        .iter()
        .map(|process| {
            let others =
                if process.others > 0 { format!(" and {} more", process.others) } else { String::new() };
            format!("{} (pid {}{others}, {:.2} CPUs)", process.name, process.pid, process.cpus)
        })
        .collect();
    if named.is_empty() {
        "the record does not name the processes: look with top during a measurement".to_owned()
    } else {
        format!("busiest: {}", list(&named))
    }
}

fn at_start(record: &Record) -> Vec<Finding> {
    let mut findings = Vec::new();
    let cpus = record.machine.online.len() as f64;
    if let Some([load, ..]) = record.conditions.load_average.filter(|load| load[0] > cpus * 0.5) {
        findings.push(warning(
            "The machine was busy before the measurement began.".to_owned(),
            vec![format!("load average {load:.2} on {cpus} CPUs")],
        ));
    }
    let memory = record.conditions.memory_available_bytes.zip(record.machine.system.memory_bytes);
    if let Some((available, all)) = memory.filter(|&(available, all)| available < all / MIN_AVAILABLE_PART) {
        findings.push(warning(
            "Little memory was available at the start: times may include page faults.".to_owned(),
            vec![format!(
                "{} of {} available",
                manycore_text::units::bytes(available),
                manycore_text::units::bytes(all)
            )],
        ));
    }
    let slow: Vec<String> =
        record.conditions.governors.iter().filter(|name| *name == "powersave").cloned().collect();
    if !slow.is_empty() && record.machine.system.hypervisor.is_none() {
        findings.push(Finding::new(
            FindingKind::Advice,
            "conditions",
            "Some CPUs use the frequency governor \"powersave\": to get comparable figures, use \
             \"performance\" (cpupower frequency-set -g performance)."
                .to_owned(),
            vec![format!("governors: {}", record.conditions.governors.join(", "))],
        ));
    }
    findings
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Regression test: a warning began with "WARNING  WARNING: the load".
    #[test]
    fn a_note_that_is_a_warning_has_one_label() {
        assert_eq!(plain("WARNING: the load shares CPU 1."), "The load shares CPU 1.");
        assert_eq!(plain("Failed runs are ignored."), "Failed runs are ignored.");
        assert_eq!(plain(""), "");
    }
}
