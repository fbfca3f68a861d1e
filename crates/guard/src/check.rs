//! What rules mean on this machine.

use crate::{
    decision::{
        assessment::{Amount, TREND_ACT_FACTOR},
        process_table::ProcessTable,
    },
    error::{Error, Result},
    monitor::WatchPlan,
    process_scan::ProcessScanner,
    rules::{LastResort, Rules, SlowdownMethod, WatchRule, WatchSubject},
};
use manycore_linux::{clock::now_ns, trusted_file};
use manycore_text::{names::printable, units};
use std::path::{Path, PathBuf};

/// Largest number of processes that are examined.
const MAX_PROCESSES: usize = 1 << 17;

/// Valid rules, applied to this machine.
#[derive(Debug)]
pub struct RulesReport {
    /// The rules file; absent for the default rules.
    pub path: Option<PathBuf>,
    /// Each watch with its total and available bytes, if it can be read now.
    pub watches: Vec<(WatchRule, Option<[u64; 2]>)>,
    /// What is never ended besides process 1 and the guard: `sshd* (root)`, `unit ssh.service`.
    pub protected: Vec<String>,
    /// What could not be opened, reasons why the guard would refuse the rules, and rules that protect more than
    /// they should.
    pub notes: Vec<String>,
}

/// Checks a rules file, or the default rules.
///
/// # Errors
/// [`Error::InvalidRules`] with the line that is invalid.
pub fn check(path: Option<&Path>) -> Result<RulesReport> {
    let rules = Rules::read(path, &[])?;
    let (mut plan, mut notes) = WatchPlan::open(&rules)?;
    let mut table = ProcessTable::new(MAX_PROCESSES);
    let cannot_scan = "cannot scan the processes of this machine";
    let mut scanner = ProcessScanner::open(Path::new("/")).map_err(Error::system(cannot_scan))?;
    scanner
        .scan_all(&mut table, now_ns(), false, |process| plan.apply_rules(process))
        .map_err(Error::system(cannot_scan))?;
    notes.extend(warnings(&rules));
    let mut protected: Vec<String> = rules.protect.names.iter().map(ToString::to_string).collect();
    protected.extend(rules.protect.units.iter().map(|unit| format!("unit {unit}")));
    protected.extend(rules.protect.groups.iter().map(|group| format!("cgroup {group}")));
    protected.extend(rules.protect.users.iter().map(|user| format!("user {user}")));
    let readings = plan
        .watches
        .iter_mut()
        .map(|watch| watch.read(now_ns(), &table).map(|now| [now.total_bytes, now.available_bytes]));
    let watches = rules.watches.into_iter().zip(readings).collect();
    Ok(RulesReport { path: rules.path, watches, protected, notes })
}

/// Returns reasons why the guard would refuse the rules, and rules that protect more than they should.
fn warnings(rules: &Rules) -> Vec<String> {
    let untrusted = rules.path.as_deref().and_then(|path| trusted_file::check(path).err());
    let mut warnings: Vec<String> =
        untrusted.into_iter().map(|why| format!("the guard will refuse this file: {why}")).collect();
    let bare = rules.protect.names.iter().filter(|name| name.is_name_only());
    let bare: Vec<String> = bare.map(|name| format!("{:?}", name.to_string())).collect();
    if !bare.is_empty() {
        warnings.push(format!(
            "any process can choose the name {}: also require a user, unit or exe, as in {{ \
            name = \"...\", user = \"...\" }}",
            bare.join(" or ")
        ));
    }
    warnings
}

impl RulesReport {
    /// Returns the report as text.
    pub fn text(&self) -> String {
        let mut text = match &self.path {
            Some(path) => format!("{}: valid\n", path.display()),
            None => "No rules file: the default rules apply\n".to_owned(),
        };
        for (watch, memory) in &self.watches {
            text += &describe_watch(watch, *memory);
        }
        if !self.watches.iter().any(|(watch, _)| watch.of == WatchSubject::Machine) {
            text += "the machine: not watched; add [machine] to watch it as well\n";
        }
        text += &format!("never ended: process 1, the guard, {}\n", printable(&self.protected.join(", ")));
        for note in &self.notes {
            text += &format!("note: {}\n", printable(note));
        }
        text
    }
}

fn describe_watch(watch: &WatchRule, memory: Option<[u64; 2]>) -> String {
    let limits = &watch.limits;
    let name = printable(&watch.name);
    let Some([total, available]) = memory else {
        return format!("{name}: inactive until it exists and has a limit\n");
    };
    let [left, all] = [available, total].map(units::bytes);
    let size = |amount: Amount| units::bytes(amount.bytes_of(total));
    let whom = if watch.end_group { "the control group of the process" } else { "the process" };
    let slow = match watch.slow {
        SlowdownMethod::No => "",
        SlowdownMethod::Freeze => "; its control group is frozen",
        SlowdownMethod::High => "; its control group is limited to the memory that it has (memory.high)",
    };
    let last = match watch.last_resort {
        LastResort::OomScore => "if no process is shown to be the cause, that with the highest oom_score",
        LastResort::None => "none: if no process is shown to be the cause, none is ended",
    };
    format!(
        "{name}: {left} of {all} left now
  warning     {} s before memory is exhausted, while less than half is left{slow}
  SIGTERM     to {whom} that grew most: below {}; or {} s before memory is exhausted, while less than {} is left
  SIGKILL     below {}; {} s before memory is exhausted; {} s after SIGTERM; or if all tasks wait for memory {}
              of the time and less than twice {} is left
  last resort {last}
",
        limits.warn_before,
        size(limits.term_below),
        limits.term_before,
        units::bytes((limits.term_below.bytes_of(total) as f64 * TREND_ACT_FACTOR) as u64),
        size(limits.kill_below),
        limits.kill_before,
        watch.grace.as_secs_f64(),
        units::percent(limits.stalled),
        size(limits.term_below),
    )
}
