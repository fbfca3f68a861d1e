//! The verb `manycore guard check`.

use crate::{
    cli::GuardCheck,
    failure::{Failure, Outcome},
    output,
};
use manycore_guard::decision::{stage::ACT_FACTOR, table::Table};
use manycore_guard::memory_use::Survey;
use manycore_guard::{
    rules::{LastResort, Of, Rules, Slow, Watch},
    watcher::Plan,
};
use manycore_linux::{clock::now_ns, trusted_file};
use manycore_text::{names::printable, units};
use std::path::Path;

/// Largest number of processes that are examined.
const MOST_PROCESSES: usize = 1 << 17;

/// Checks rules and prints what they mean on this machine.
///
/// # Errors
/// [`Failure::Input`] with the line that is invalid.
pub fn run(args: &GuardCheck) -> Outcome {
    let rules = Rules::read(args.file.as_deref(), &[])?;
    let (mut plan, notes) = Plan::open(&rules).map_err(Failure::missing)?;
    let mut table = Table::new(MOST_PROCESSES);
    let mut survey = Survey::open(Path::new("/")).map_err(Failure::missing)?;
    survey.run(&mut table, now_ns(), false, |process| plan.judge(process)).map_err(Failure::missing)?;
    let mut text = match &rules.path {
        Some(path) => format!("{}: valid\n", path.display()),
        None => "No rules file: the default rules apply\n".to_owned(),
    };
    for (watch, watched) in rules.watches.iter().zip(&mut plan.watches) {
        let total = watched.read(now_ns(), &table).map(|reading| (reading.total, reading.available));
        text += &words(watch, total);
    }
    if !rules.watches.iter().any(|watch| watch.of == Of::Machine) {
        text += "the machine: not watched; add [machine] to watch it as well\n";
    }
    let mut spared: Vec<String> = rules.protect.names.iter().map(ToString::to_string).collect();
    spared.extend(rules.protect.units.iter().map(|unit| format!("unit {unit}")));
    spared.extend(rules.protect.groups.iter().map(|group| format!("cgroup {group}")));
    spared.extend(rules.protect.users.iter().map(|user| format!("user {user}")));
    text += &format!("never ended: process 1, the guard, {}\n", printable(&spared.join(", ")));
    for note in notes.into_iter().chain(doubts(&rules)) {
        text += &format!("note: {}\n", printable(&note));
    }
    output::print(&text)
}

/// Returns reasons why the guard would refuse the rules, and rules that protect more than they should.
fn doubts(rules: &Rules) -> Vec<String> {
    let untrusted = rules.path.as_deref().and_then(|path| trusted_file::check(path).err());
    let mut doubts: Vec<String> =
        untrusted.into_iter().map(|why| format!("the guard will refuse this file: {why}")).collect();
    let bare: Vec<String> = rules
        .protect
        .names
        .iter()
        .filter(|name| name.is_bare())
        .map(|name| format!("{:?}", name.to_string()))
        .collect();
    if !bare.is_empty() {
        doubts.push(format!(
            "any process can choose the name {}: also require a user, unit or exe, as in {{ \
            name = \"...\", user = \"...\" }}",
            bare.join(" or ")
        ));
    }
    doubts
}

fn words(watch: &Watch, total: Option<(u64, u64)>) -> String {
    let limits = &watch.limits;
    let name = printable(&watch.name);
    let Some((total, available)) = total else {
        return format!("{name}: inactive until it exists and has a limit\n");
    };
    let [left, all] = [available, total].map(units::bytes);
    let size = |amount: manycore_guard::decision::stage::Amount| units::bytes(amount.of(total));
    let whom = if watch.end_group { "the control group of the process" } else { "the process" };
    let slow = match watch.slow {
        Slow::No => "",
        Slow::Freeze => "; its control group is frozen",
        Slow::High => "; its control group is limited to the memory that it has (memory.high)",
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
        units::bytes((limits.term_below.of(total) as f64 * ACT_FACTOR) as u64),
        size(limits.kill_below),
        limits.kill_before,
        watch.grace.as_secs_f64(),
        units::percent(limits.stalled),
        size(limits.term_below),
    )
}
