//! What was wrong with the conditions, and how small a difference can be believed.

use super::{Evaluation, Finding, Kind};
use crate::{
    Record,
    evaluation::{Circumstances, words::percent},
};

/// Shares of CPU time above which a condition is told.
const STEAL: f64 = 0.01;
const FOREIGN: f64 = 0.05;
const THROTTLED: f64 = 0.001;

pub(super) fn find(record: &Record, evaluation: &Evaluation) -> Vec<Finding> {
    let mut findings = limits(record);
    findings.extend(around_scaling(evaluation));
    findings.extend(at_start(record));
    findings.extend(evaluation.noise.iter().map(|noise| {
        Finding::new(
            Kind::Fact,
            "noise",
            format!(
                "With {} at work, two identical runs differed by up to {} here: smaller differences are not \
                 believed. A true difference of {} would be found in four runs of five.",
                workers(noise.workers),
                percent(noise.floor),
                percent(noise.detectable)
            ),
            vec![format!(
                "A/A ratio {:.4} over {} pairs, 95 % interval {}",
                noise.ratio.median,
                noise.ratio.n,
                noise.ratio.interval.map_or_else(String::new, |(low, high)| format!("{low:.4} to {high:.4}"))
            )],
        )
    }));
    if record.interrupted {
        findings.push(Finding::new(
            Kind::Warning,
            "conditions",
            "The run was interrupted: what was measured until then is judged, the rest is missing."
                .to_owned(),
            vec![format!("{} experiments in the record", record.experiments.len())],
        ));
    }
    findings
}

pub(super) fn workers(count: usize) -> String {
    if count == 1 { "one worker".to_owned() } else { format!("{count} workers") }
}

fn warning(text: String, evidence: Vec<String>) -> Finding {
    Finding::new(Kind::Warning, "conditions", text, evidence)
}

fn limits(record: &Record) -> Vec<Finding> {
    let allowed = &record.machine.allowed;
    let mut findings = Vec::new();
    if !allowed.cpus.is_empty() && allowed.cpus.len() < record.machine.online.len() {
        findings.push(warning(
            format!(
                "Only {} of the machine's {} CPUs could be used: all figures are for those.",
                allowed.cpus.len(),
                record.machine.online.len()
            ),
            vec![allowed.binding.clone()],
        ));
    }
    let cpus = super::super::usable_cpus(&record.machine) as f64;
    if let Some(quota) = allowed.quota_cpus.filter(|&quota| quota < cpus) {
        findings.push(warning(
            format!("A quota allows {quota:.2} CPUs' worth of time on {cpus} CPUs: workers beyond it are throttled."),
            vec![allowed.binding.clone()],
        ));
    }
    findings
}

/// The worst treatment of the scaling experiment, for each kind of disturbance.
fn around_scaling(evaluation: &Evaluation) -> Vec<Finding> {
    let points = evaluation.scaling.iter().flat_map(|scaling| &scaling.points);
    let worst = |pick: fn(&Circumstances) -> Option<f64>, above: f64| {
        points
            .clone()
            .filter_map(|point| Some((pick(&point.circumstances)?, point.workers)))
            .filter(|(share, _)| *share > above)
            .max_by(|a, b| a.0.total_cmp(&b.0))
    };
    let mut findings = Vec::new();
    if let Some((share, at)) = worst(|around| around.steal, STEAL) {
        findings.push(warning(
            format!(
                "The hypervisor took up to {} of the CPU time: other guests compete for these CPUs, and wall-clock \
                 rates move with them.",
                percent(share)
            ),
            vec![format!("steal at {}: {}", workers(at), percent(share))],
        ));
    }
    if let Some((share, at)) = worst(|around| around.foreign, FOREIGN) {
        findings.push(warning(
            format!("Other work took up to {} of the machine's CPU time meanwhile.", percent(share)),
            vec![format!("CPU time beside the workers at {}: {}", workers(at), percent(share))],
        ));
    }
    if let Some((share, at)) = worst(|around| around.throttled, THROTTLED) {
        findings.push(warning(
            format!("A cgroup quota held the workers back for {} of the time.", percent(share)),
            vec![format!("throttled at {}: {}", workers(at), percent(share))],
        ));
    }
    let thermal: u64 = points.clone().filter_map(|point| point.circumstances.thermal_events).sum();
    if thermal > 0 {
        findings.push(warning(
            "CPUs were slowed down because they were too hot.".to_owned(),
            vec![format!("{thermal} thermal throttling events")],
        ));
    }
    findings
}

fn at_start(record: &Record) -> Vec<Finding> {
    let mut findings = Vec::new();
    let cpus = record.machine.online.len() as f64;
    if let Some([load, ..]) = record.conditions.load.filter(|load| load[0] > cpus * 0.5) {
        findings.push(warning(
            "The machine was busy before the run began.".to_owned(),
            vec![format!("load average {load:.2} on {cpus} CPUs")],
        ));
    }
    if let Some(swap) = record.conditions.swap_used_bytes.filter(|&bytes| bytes > 0) {
        findings.push(warning(
            "Swap was in use at the start: memory is short, and timings may hold page faults.".to_owned(),
            vec![format!("{} swapped out", crate::units::bytes(swap))],
        ));
    }
    let slow: Vec<String> =
        record.conditions.governors.iter().filter(|name| *name == "powersave").cloned().collect();
    if !slow.is_empty() && record.machine.system.hypervisor.is_none() {
        findings.push(Finding::new(
            Kind::Advice,
            "conditions",
            "Some CPUs use the frequency governor \"powersave\": where the figures are to be compared, choose \
             \"performance\" (cpupower frequency-set -g performance)."
                .to_owned(),
            vec![format!("governors: {}", record.conditions.governors.join(", "))],
        ));
    }
    findings
}
