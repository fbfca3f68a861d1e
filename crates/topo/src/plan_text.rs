//! A plan for reading: the CPUs of each worker and why, shared CPUs, and CPUs that are not used.

use manycore_placement::{PlacementPlan, PlannedWorker, UnusedCpus};
use manycore_render::{
    document::Document,
    table::{Align, Table},
};
use manycore_topology::{CpuSet, Machine};
use std::collections::BTreeMap;

/// More workers than this are grouped.
const MAX_LINES: usize = 32;

/// Maximum length of a list of CPUs or workers in the table, in characters.
const MAX_LIST_CHARS: usize = 22;

/// The lines of the table.
#[derive(Clone, Copy, Debug)]
pub enum WorkerLines<'a> {
    /// One for each worker.
    Each,
    /// One for equal workers, if there are many. The hint says how each gets its own.
    Grouped {
        /// Added to the sentence that workers are grouped.
        hint: &'a str,
    },
}

/// Returns the whole report.
pub fn render(
    plan: &PlacementPlan,
    machine: &Machine,
    left_out: &UnusedCpus,
    lines: WorkerLines,
) -> Document {
    let one_place = plan.workers.windows(2).all(|pair| pair[0].cpus == pair[1].cpus);
    let many = plan.workers.len() > MAX_LINES || one_place && plan.workers.len() > 1;
    let hint = match lines {
        WorkerLines::Grouped { hint } if many => Some(hint),
        _ => None,
    };
    let rows = if hint.is_some() { groups(plan) } else { singles(plan) };
    let worker = if hint.is_some() { ("workers", Align::Left) } else { ("worker", Align::Right) };
    let columns = [worker, ("CPUs", Align::Left), ("memory", Align::Left), ("why", Align::Left)];
    let mut document = Document::new();
    document.strong(headline(plan, machine));
    document.gap();
    document.table(Table::new("", &columns).with_rows(rows));
    document.gap();
    if let Some(hint) = hint {
        document.paragraph(format!("Equal workers are grouped; {hint}."));
    }
    document.paragraph(sharing(plan));
    for fact in facts(plan, machine, left_out) {
        document.paragraph(fact);
    }
    document
}

fn headline(plan: &PlacementPlan, machine: &Machine) -> String {
    let count = plan.workers.len();
    let host = machine.system.hostname.as_ref().map(|name| format!(" on {name}")).unwrap_or_default();
    let (cpus, online) = (brief(&plan.cpus()), brief(&machine.online));
    let cpus =
        if cpus == online { format!("all CPUs, {online}") } else { format!("CPUs {cpus} of {online}") };
    format!("{count} worker{}, {}{host}: {cpus}", plural(count), plan.policy)
}

fn singles(plan: &PlacementPlan) -> Vec<Vec<String>> {
    let row = |(at, worker): (usize, &PlannedWorker)| {
        vec![at.to_string(), brief(&worker.cpus), memory(&worker.memory_nodes), place(worker).to_owned()]
    };
    plan.workers.iter().enumerate().map(row).collect()
}

/// Returns one row for all workers with the same memory and the same reason, ordered by first worker.
fn groups(plan: &PlacementPlan) -> Vec<Vec<String>> {
    let mut index: BTreeMap<(&[u32], String), usize> = BTreeMap::new();
    let mut groups: Vec<Vec<usize>> = Vec::new();
    for (at, worker) in plan.workers.iter().enumerate() {
        let group = *index.entry((&worker.memory_nodes, reason(worker))).or_insert(groups.len());
        match groups.get_mut(group) {
            Some(members) => members.push(at),
            None => groups.push(vec![at]),
        }
    }
    let row = |members: Vec<usize>| {
        let first = &plan.workers[members[0]];
        let cpus = CpuSet::union_of(members.iter().map(|&at| &plan.workers[at].cpus));
        let workers: CpuSet = members.iter().map(|&at| u32::try_from(at).unwrap_or(u32::MAX - 1)).collect();
        let why = if members.len() == 1 { place(first).to_owned() } else { reason(first) };
        vec![numbers(&workers), brief(&cpus), memory(&first.memory_nodes), why]
    };
    groups.into_iter().map(row).collect()
}

/// Returns the reason for the worker's placement without the CPUs, which have their own column.
fn place(worker: &PlannedWorker) -> &str {
    let why = worker.why.as_str();
    let rest = why.strip_prefix("CPU").map_or(why, |rest| rest.trim_start_matches('s').trim_start());
    let rest = rest.strip_prefix(&worker.cpus.brief()).unwrap_or(why);
    rest.trim_start_matches([':', ',']).trim_start()
}

/// Returns the reason without what applies to this worker only: `core 2 of L3 0-7, shared with worker 3`
/// becomes `shared with an earlier worker`. The reason of workers with several CPUs is unchanged, because
/// all workers of the group share it.
fn reason(worker: &PlannedWorker) -> String {
    let place = place(worker);
    if worker.cpus.len() != 1 {
        return place.to_owned();
    }
    let numbered_place = worker.why.starts_with(&format!("CPU {}:", worker.cpus));
    let reason = place.split_once(", ").filter(|_| numbered_place).map_or(place, |(_, reason)| reason);
    let is_neighbour = |start: &&str| reason.starts_with(*start) && !reason.starts_with("the first free");
    if ["the first", "the next ", "SMT sibling "].iter().any(is_neighbour) {
        return "adjacent CPUs, in order".to_owned();
    }
    let mut words: Vec<&str> = Vec::new();
    for word in reason.split(' ') {
        let numbered = word.starts_with(|letter: char| letter.is_ascii_digit());
        match words.last() {
            Some(&"worker") if numbered => {
                words.pop();
                words.push(if word.ends_with(':') { "an earlier worker:" } else { "an earlier worker" });
            }
            Some(&"number") if numbered => return "in the order of the list".to_owned(),
            _ => words.push(word),
        }
    }
    words.join(" ")
}

/// Writes lists with a constant step as `0-60:4`, even short ones; other lists as they are.
fn brief(set: &CpuSet) -> String {
    let mut ranges = set.ranges();
    let first = ranges.next();
    let step = first.zip(ranges.next()).map(|(first, second)| second.0 - first.0);
    let mut pairs = set.ranges().zip(set.ranges().skip(1));
    match (first, set.last(), step) {
        (Some((first, _)), Some(last), Some(step))
            if set.len() > 3
                && set.ranges().count() == set.len()
                && pairs.all(|(one, next)| next.0 - one.0 == step) =>
        {
            format!("{first}-{last}:{step}")
        }
        _ => set.within(MAX_LIST_CHARS),
    }
}

/// Writes numbers of workers; a long list is shortened to its start and its last number.
fn numbers(workers: &CpuSet) -> String {
    let (list, end) = (brief(workers), format!(",...,{}", workers.last().unwrap_or(0)));
    let start = list.get(..MAX_LIST_CHARS.saturating_sub(end.len())).filter(|_| list.len() > MAX_LIST_CHARS);
    start.and_then(|start| start.rsplit_once(',')).map_or(list.clone(), |(start, _)| format!("{start}{end}"))
}

fn memory(nodes: &[u32]) -> String {
    let set: CpuSet = nodes.iter().copied().collect();
    match nodes.len() {
        0 => "-".to_owned(),
        1 => format!("node {set}"),
        _ => format!("nodes {}", brief(&set)),
    }
}

fn sharing(plan: &PlacementPlan) -> String {
    let (count, shared) = (plan.workers.len(), plan.cpu_sharing());
    let all = if shared.workers == count { "All".to_owned() } else { shared.workers.to_string() };
    match (shared.workers, plan.check_exclusive()) {
        (0, _) if count == 1 => "No CPU is shared: there is one worker.".to_owned(),
        (0, _) => "No two workers share a CPU.".to_owned(),
        (_, Ok(())) => {
            format!("{all} workers may use CPUs of other workers; there is at least one CPU per worker.")
        }
        (_, Err(_)) => {
            let most = shared.most;
            format!(
                "{all} workers share CPUs: up to {most} may use the same CPU, and there are fewer CPUs than workers."
            )
        }
    }
}

/// Returns one sentence for each kind of CPU that no worker gets.
fn facts(plan: &PlacementPlan, machine: &Machine, left_out: &UnusedCpus) -> Vec<String> {
    let known = [&left_out.reserved, &left_out.isolated, &left_out.denied];
    let idle = machine.online.difference(&CpuSet::union_of(known)).difference(&plan.cpus());
    let binding = match machine.allowed.effective_limit.as_str() {
        "" => String::new(),
        binding => format!(" ({binding})"),
    };
    [
        (&left_out.reserved, "reserved", ""),
        (&idle, "without a worker", ""),
        (&left_out.isolated, "isolated", "; only +isolated or cpus=LIST uses them"),
        (&left_out.denied, "not allowed for this process", binding.as_str()),
        (&left_out.offline, "offline", ""),
    ]
    .into_iter()
    .filter(|(cpus, ..)| !cpus.is_empty())
    .map(|(cpus, what, more)| {
        let (plural, be) = if cpus.len() == 1 { ("", "is") } else { ("s", "are") };
        format!("CPU{plural} {} {be} {what}{more}.", brief(cpus))
    })
    .collect()
}

fn plural(count: usize) -> &'static str {
    if count == 1 { "" } else { "s" }
}
