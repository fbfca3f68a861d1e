//! What was wrong with the conditions, and how small a difference can be believed.

use super::{Evaluation, Finding, Kind};
use crate::{
    Record,
    evaluation::{
        Circumstances, circumstances, id,
        words::{interval, percent},
    },
    units::counted,
};

/// Shares of CPU time above which a condition is told.
const STEAL: f64 = 0.01;
const FOREIGN: f64 = 0.05;
const THROTTLED: f64 = 0.001;

/// Memory is short where less than this part of it is available.
const SCARCE: u64 = 10;

pub(super) fn find(record: &Record, evaluation: &Evaluation) -> Vec<Finding> {
    let mut findings = limits(record);
    findings.extend(around_samples(record));
    findings.extend(at_start(record));
    findings.extend(evaluation.noise.iter().map(|noise| {
        Finding::new(
            Kind::Fact,
            "noise",
            format!(
                "With {} at work, the ratio of {} pairs of identical samples may be off by {} here. Their minimum \
                 detectable effect at 80 % power is {}.",
                workers(noise.workers),
                noise.ratio.n,
                percent(noise.floor),
                percent(noise.detectable)
            ),
            vec![format!(
                "A/A ratio {:.4} ({}; {} pairs)",
                noise.ratio.median,
                interval(noise.ratio.interval, |end| format!("{end:.4}")),
                noise.ratio.n
            )],
        )
    }));
    findings.extend(record.notes.iter().map(|note| warning(note.clone(), Vec::new())));
    if record.interrupted {
        findings.push(Finding::new(
            Kind::Warning,
            "conditions",
            "The run was interrupted: what was measured until then is judged, the rest is missing."
                .to_owned(),
            vec![match record.spawnings.len() {
                0 => format!("{} experiments in the record", record.experiments.len()),
                count => format!("{} in the record", counted(count, "runtime")),
            }],
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

/// The worst treatment of all experiments, for each kind of disturbance.
fn around_samples(record: &Record) -> Vec<Finding> {
    let all: Vec<(Circumstances, String)> = record
        .experiments
        .iter()
        // Its samples are too short and too many for the kernel's counters.
        .filter(|experiment| experiment.id != id::LATENCY)
        .flat_map(|experiment| experiment.treatments.iter().enumerate().map(move |part| (experiment, part)))
        .map(|(experiment, (index, treatment))| {
            let place = format!("{}, {}", experiment.id, treatment.name);
            (circumstances::gather(experiment, index, record), place)
        })
        .collect();
    let worst = |pick: fn(&Circumstances) -> Option<f64>, above: f64| {
        all.iter()
            .filter_map(|(around, place)| Some((pick(around)?, place)))
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
            vec![format!("most in: {at}")],
        ));
    }
    if let Some((share, at)) = worst(|around| around.foreign, FOREIGN) {
        findings.push(warning(
            format!("Other work took up to {} of the machine's CPU time meanwhile.", percent(share)),
            vec![format!("most in: {at}")],
        ));
    }
    if let Some((share, at)) = worst(|around| around.throttled, THROTTLED) {
        findings.push(warning(
            format!("A cgroup quota held the workers back for {} of the time.", percent(share)),
            vec![format!("most in: {at}")],
        ));
    }
    let thermal: u64 = all.iter().filter_map(|(around, _)| around.thermal_events).sum();
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
    let memory = record.conditions.memory_available_bytes.zip(record.machine.system.memory_bytes);
    if let Some((available, all)) = memory.filter(|&(available, all)| available < all / SCARCE) {
        findings.push(warning(
            "Memory was short at the start: timings may hold page faults.".to_owned(),
            vec![format!("{} of {} available", crate::units::bytes(available), crate::units::bytes(all))],
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
