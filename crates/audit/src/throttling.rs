//! Control groups that are throttled because their quota of CPU time is used up, whatever runs in them.

use super::{
    Finding, FindingKind, Severity,
    facts::{AuditFacts, ProcessRef, Throttling},
    words,
};
use manycore_text::units::percent;

/// A group that is throttled in a smaller share of its periods has occasional bursts, which a quota is meant to limit.
const MIN_THROTTLED_SHARE: f64 = 0.1;

/// Minimum number of throttled periods: a single one is a burst, even among few periods.
const MIN_THROTTLED_PERIODS: u64 = 2;

/// Returns a finding for each group.
pub(super) fn find(facts: &AuditFacts) -> Vec<Finding> {
    facts.throttling.iter().filter_map(|group| of_group(facts, group)).collect()
}

fn of_group(facts: &AuditFacts, group: &Throttling) -> Option<Finding> {
    let share = group.throttled as f64 / group.periods.max(1) as f64;
    if group.throttled < MIN_THROTTLED_PERIODS || share < MIN_THROTTLED_SHARE {
        return None;
    }
    let its = facts.processes.iter().filter(|process| group.processes.contains(&process.pid));
    let references: Vec<ProcessRef> = its.map(|process| process.reference(process.threads.len())).collect();
    let Throttling { folder, quota_file, quota_cpus, periods, throttled, seconds, .. } = group;
    Some(Finding {
        severity: Severity::Problem,
        headline: format!(
            "group {folder} was throttled in {} of its periods: its quota of {quota_cpus:.2} CPUs was used up",
            percent(share)
        ),
        evidence: vec![
            format!(
                "cpu.stat: throttled in {throttled} of {periods} periods during the audit, for {seconds:.2} s in total"
            ),
            format!("{quota_file} allows {quota_cpus:.2} CPUs; processes: {}", words::processes(&references)),
        ],
        fix: format!("raise the quota: {}; or run fewer threads", more(quota_file, *quota_cpus)),
        subject: FindingKind::Throttled {
            group: folder.clone(),
            processes: references,
            quota_cpus: *quota_cpus,
            periods: *periods,
            throttled: *throttled,
            seconds: *seconds,
        },
    })
}

/// Returns the command that doubles a quota. Names of control groups may contain backslashes (from systemd)
/// and shell syntax, so they are quoted.
fn more(file: &str, quota_cpus: f64) -> String {
    const PERIOD_US: f64 = 100_000.0;
    let quota = (2.0 * quota_cpus * PERIOD_US).round();
    let word = |path: &str| shlex::try_quote(path).map_or_else(|_| "FILE".to_owned(), Into::into);
    match file.strip_suffix("quota_us") {
        Some(start) => {
            let period = word(&format!("{start}period_us"));
            format!("echo {PERIOD_US:.0} > {period}; echo {quota:.0} > {}", word(file))
        }
        None => format!("echo '{quota:.0} {PERIOD_US:.0}' > {}", word(file)),
    }
}

#[cfg(test)]
mod tests {
    use super::more;

    #[test]
    fn a_group_whose_name_is_a_command_is_one_word_of_the_command_that_is_printed() {
        assert_eq!(more("/c/a; reboot/cpu.max", 1.0), "echo '200000 100000' > '/c/a; reboot/cpu.max'");
        let old = more("/c/dev-disk\\x2d1/cpu.cfs_quota_us", 0.5);
        let words = shlex::split(&old).unwrap_or_default();
        assert!(words.contains(&"/c/dev-disk\\x2d1/cpu.cfs_quota_us".to_owned()), "{old}");
    }
}
