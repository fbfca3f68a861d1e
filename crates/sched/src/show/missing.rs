//! What could not be read, and what makes it readable.

use super::{
    facts::{Debugfs, Facts},
    report::MissingAnswer,
};

/// Returns the answers that are missing.
pub(super) fn missing(facts: &Facts) -> Vec<MissingAnswer> {
    let mut missing = Vec::new();
    let mut add = |what: &str, (reason, remedy): (&str, &str)| {
        missing.push(MissingAnswer {
            what: what.to_owned(),
            reason: reason.to_owned(),
            remedy: remedy.to_owned(),
        });
    };
    if let Some(why) = without_debugfs(facts.debugfs) {
        add("features, tunables, preemption mode, cache-aware balancing", why);
    }
    if facts.schedstat.is_none() && facts.debug_domains.is_empty() {
        add("domains as the kernel built them", without_schedstat(facts.is_live));
    }
    if facts.debug_domains.is_empty() && facts.debugfs == Debugfs::Readable {
        add(
            "flags of domains",
            (
                "debugfs lists domains only while sched/verbose is Y",
                "echo Y > /sys/kernel/debug/sched/verbose (as root), or boot with sched_verbose",
            ),
        );
    }
    if facts.sched_ext.state == "enabled" && facts.sched_ext.events.is_empty() {
        add(
            "events of the sched_ext scheduler",
            ("there is no readable /sys/kernel/sched_ext/root/events", "a kernel since 6.15 counts them"),
        );
    }
    missing
}

/// Returns why the scheduler's files of debugfs are missing, and what helps.
fn without_debugfs(debugfs: Debugfs) -> Option<(&'static str, &'static str)> {
    match debugfs {
        Debugfs::Readable => None,
        Debugfs::NotMounted => {
            Some(("debugfs is not mounted", "mount -t debugfs debug /sys/kernel/debug (as root)"))
        }
        Debugfs::Forbidden => Some(("only root can read debugfs", "sudo manycore sched show")),
        Debugfs::LockedDown => Some((
            "the kernel is locked down, so that also root cannot read these files of debugfs",
            "boot without lockdown (see /sys/kernel/security/lockdown; Secure Boot may turn it on)",
        )),
        Debugfs::WithoutScheduler => Some((
            "debugfs has no files of the scheduler",
            "a kernel with CONFIG_SCHED_DEBUG, or since 6.15, has them",
        )),
        Debugfs::NotCopied => {
            Some(("the copy has no sys/kernel/debug/sched", "copy that directory of the machine as root"))
        }
    }
}

fn without_schedstat(is_live: bool) -> (&'static str, &'static str) {
    if is_live {
        ("there is no /proc/schedstat", "a kernel with CONFIG_SCHEDSTATS has it")
    } else {
        ("the copy has no proc/schedstat", "copy that file of the machine, if its kernel has it")
    }
}
