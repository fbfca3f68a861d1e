//! Control groups that are stopped because their quota of CPU time is used up, whatever runs in them.

use super::{
    Finding, Severity, Subject,
    facts::{Facts, Holder, Throttling},
    words,
};
use crate::units::percent;

/// A group that is stopped in fewer of its periods has a burst now and then, which is what a quota is for.
const OFTEN: f64 = 0.1;

/// A finding for each group.
pub(super) fn find(facts: &Facts) -> Vec<Finding> {
    facts.throttling.iter().filter_map(|group| of_group(facts, group)).collect()
}

fn of_group(facts: &Facts, group: &Throttling) -> Option<Finding> {
    let share = group.throttled as f64 / group.periods.max(1) as f64;
    if group.throttled == 0 || share < OFTEN {
        return None;
    }
    let its = facts.processes.iter().filter(|process| group.processes.contains(&process.pid));
    let holders: Vec<Holder> = its.map(|process| process.holder(process.threads.len())).collect();
    let Throttling { folder, quota_file, quota_cpus, periods, throttled, seconds, .. } = group;
    Some(Finding {
        severity: Severity::Harm,
        headline: format!(
            "group {folder} was stopped in {} of its periods: its quota of {quota_cpus:.2} CPUs was used up",
            percent(share)
        ),
        evidence: vec![
            format!(
                "cpu.stat: stopped in {throttled} of {periods} periods while we looked, its CPUs for {seconds:.2} s in all"
            ),
            format!("{quota_file} leaves it {quota_cpus:.2} CPUs; in it: {}", words::processes(&holders)),
        ],
        cure: format!("give it more: {}; or let it run fewer threads", more(quota_file, *quota_cpus)),
        subject: Subject::Throttled {
            group: folder.clone(),
            processes: holders,
            quota_cpus: *quota_cpus,
            periods: *periods,
            throttled: *throttled,
            seconds: *seconds,
        },
    })
}

/// The command that doubles a quota.
fn more(file: &str, quota_cpus: f64) -> String {
    const PERIOD_US: f64 = 100_000.0;
    let quota = (2.0 * quota_cpus * PERIOD_US).round();
    match file.strip_suffix("cpu.cfs_quota_us") {
        Some(folder) => format!("echo {PERIOD_US:.0} > {folder}cpu.cfs_period_us; echo {quota:.0} > {file}"),
        None => format!("echo '{quota:.0} {PERIOD_US:.0}' > {file}"),
    }
}
