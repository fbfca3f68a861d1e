//! The candidates of `tune`: numbers of workers, placements, memory policies and settings that differ on this machine.

use crate::{
    error::{Error, Result},
    format_command,
    scheduler::SchedulerChoice,
    service::ServiceSource,
    subject::Variant,
    tune::Search,
    with_workers,
};
use manycore_control::{
    placement::place_workers,
    setting::{Setting, SettingFiles},
};
use manycore_placement::{Level, MemoryPlacement, PlacementPlan, Policy, PolicyKind};
use manycore_topology::{CpuSet, Machine};
use std::{
    collections::{BTreeSet, HashSet},
    path::Path,
};

/// Limit for the number of candidates. More would spend the budget before there is any result.
const MAX_CANDIDATES: usize = 256;

/// Number of candidates up to which each is tried under each scheduler. Loading one takes longer than moving to other CPUs.
const MAX_MULTIPLIED: usize = 24;

/// One way to run the command.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// Displayed name: `4 workers, close, interleave`.
    pub name: String,
    /// Number of workers.
    pub workers: usize,
    /// The command and its placement.
    pub variant: Variant,
    /// The plan of the placement; `None` if the scheduler places the command.
    pub plan: Option<PlacementPlan>,
    /// A command line that does the same outside of the measurement: `taskset -c 0-3 COMMAND` where all workers have
    /// the same CPUs, `manycore run --place close --workers 4 -- COMMAND` where each has its own.
    pub command_line: String,
    /// Settings of the machine while it runs, if any are searched.
    pub settings: String,
    /// Its scheduler, if any are searched.
    pub scheduler: Option<SchedulerChoice>,
}

/// One combination of what is searched.
struct Choice<'a> {
    policy: &'a Policy,
    memory: &'a MemoryPlacement,
    workers: usize,
    settings: &'a [Setting],
}

/// Returns today's behaviour, then all candidates that differ from it and from each other on this machine, under the
/// kernel's own scheduler first.
///
/// # Errors
/// [`Error::Placement`] if a requested placement is not possible, [`Error::NoCandidates`],
/// [`Error::TooManyCandidates`].
pub fn candidates(
    search: &Search,
    service: Option<&ServiceSource>,
    machine: &Machine,
    usable: &CpuSet,
) -> Result<Vec<Candidate>> {
    let today_workers = search.today.unwrap_or(usable.len());
    let free = Policy::new(PolicyKind::Free, false);
    let all_settings = settings(Path::new("/"), &search.settings)?;
    let files = SettingFiles::read(Path::new("/"), all_settings.iter().map(Vec::as_slice))?;
    let (policies, memories) = (policies(search, machine), memories(search, service.is_some(), machine));
    let counts = worker_counts(search, machine, usable);
    let places: Vec<(&Policy, &MemoryPlacement)> =
        policies.iter().flat_map(|policy| memories.iter().map(move |memory| (policy, memory))).collect();
    let choices = counts
        .iter()
        .flat_map(|&workers| places.iter().map(move |&(policy, memory)| (workers, policy, memory)));
    let mut candidates = Vec::new();
    let mut seen = HashSet::new();
    let today = std::iter::once((today_workers, &free, &MemoryPlacement::Default));
    for (workers, policy, memory) in today.chain(choices) {
        // A placement is planned for the CPUs that are online now.
        let fits = |settings: &&Vec<Setting>| *policy == free || files.changes_cpus(settings).is_none();
        for settings in all_settings.iter().filter(fits) {
            let choice = Choice { policy, memory, workers, settings };
            let candidate = match candidate(search, service, machine, &choice, &files) {
                Ok(candidate) => candidate,
                // A default placement that is not possible on this machine is left out.
                Err(_) if search.place.is_empty() && !candidates.is_empty() => continue,
                Err(failure) => return Err(failure),
            };
            // If the command has no placeholder for its number of workers, more workers than CPUs use the same CPUs in
            // turns, under the same name.
            let is_named = candidates.iter().any(|known: &Candidate| known.name == candidate.name);
            if seen.insert(key(&candidate, machine, memory)) && !is_named {
                candidates.push(candidate);
            }
        }
    }
    let candidates = with_schedulers(candidates, search);
    match candidates.len() {
        1 => Err(Error::NoCandidates),
        2..=MAX_CANDIDATES => Ok(candidates),
        count => Err(Error::TooManyCandidates { count, max: MAX_CANDIDATES }),
    }
}

/// Adds candidates with each of the schedulers: all of them again if they stay few, otherwise those that leave everything
/// else as it is today.
fn with_schedulers(mut candidates: Vec<Candidate>, search: &Search) -> Vec<Candidate> {
    if search.schedulers.is_empty() {
        return candidates;
    }
    let is_small = candidates.len() * (1 + search.schedulers.len()) <= MAX_MULTIPLIED;
    let plain: Vec<Candidate> = if is_small { candidates.clone() } else { candidates[..1].to_vec() };
    for candidate in &mut candidates {
        candidate.scheduler = Some(SchedulerChoice::Kernel);
    }
    for scheduler in &search.schedulers {
        candidates.extend(plain.iter().map(|candidate| Candidate {
            name: format!("{}, sched={scheduler}", candidate.name),
            command_line: join_shell(&scheduler.shell_command(), &candidate.command_line),
            scheduler: Some(scheduler.clone()),
            ..candidate.clone()
        }));
    }
    candidates
}

/// Returns a line that loads a scheduler and then does the rest.
fn join_shell(load: &str, rest: &str) -> String {
    [load, rest].into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// Gives the variants their schedulers. `cluster` is the command that loads the cluster-aware one.
pub(crate) fn resolve_schedulers(candidates: &mut [Candidate], cluster: &[String]) {
    for candidate in candidates {
        candidate.variant.scheduler = candidate.scheduler.as_ref().map(|choice| choice.resolve(cluster));
    }
}

/// Returns the identity of a candidate: its command, its CPUs up to the symmetries of the machine, and its
/// memory policy.
fn key(candidate: &Candidate, machine: &Machine, memory: &MemoryPlacement) -> String {
    let place = candidate.plan.as_ref().map(|plan| plan.canonical(machine).to_string()).unwrap_or_default();
    // Binding memory to the only node changes nothing.
    let nodes = machine.nodes.iter().filter(|node| node.memory_bytes != Some(0)).count();
    let memory = if nodes > 1 { memory.to_string() } else { String::new() };
    format!("{:?} {place} {memory} {}", candidate.variant.command, candidate.settings)
}

fn candidate(
    search: &Search,
    service: Option<&ServiceSource>,
    machine: &Machine,
    choice: &Choice,
    files: &SettingFiles,
) -> Result<Candidate> {
    let Choice { policy, memory, workers, settings } = *choice;
    let (command, has_placeholder) = with_workers(&search.command, workers);
    let (place, plan) = place_workers(machine, Some(policy), memory, workers)?;
    let free = place.workers.is_empty();
    let mut name = match (has_placeholder, free) {
        (true, _) => format!("{workers} worker{}, {policy}", if workers == 1 { "" } else { "s" }),
        (false, true) => policy.to_string(),
        (false, false) => format!("{policy} on CPUs {}", plan.cpus()),
    };
    if *memory != MemoryPlacement::Default {
        name = format!("{name}, {memory}");
    }
    for setting in settings {
        name = format!("{name}, {setting}");
    }
    let hooks = search.hooks.with_workers(workers);
    Ok(Candidate {
        name,
        workers,
        command_line: command_line(service, &command, choice, (&plan, free), files),
        settings: files.describe(settings),
        scheduler: None,
        variant: Variant {
            command,
            copies: 1,
            place,
            settings: settings.to_vec(),
            hooks,
            ..Variant::default()
        },
        plan: (!free).then_some(plan),
    })
}

/// Returns a command line that does what is measured, with the writes of its settings before it.
fn command_line(
    service: Option<&ServiceSource>,
    command: &[String],
    choice: &Choice,
    (plan, free): (&PlacementPlan, bool),
    files: &SettingFiles,
) -> String {
    let Choice { policy, memory, settings, .. } = *choice;
    let placed = |command: &[String]| prefix(policy, memory, plan, free) + &format_command(command);
    let placed = match service {
        None => placed(command),
        Some(ServiceSource::Command(service, _)) => placed(service),
        Some(ServiceSource::Running(_)) if free => String::new(),
        Some(ServiceSource::Running(pids)) => {
            let pids: Vec<String> = pids.iter().map(u32::to_string).collect();
            format!("manycore pin --pid {} --place {policy} --workers {}", pids.join(","), plan.workers.len())
        }
    };
    let writes = files.shell_commands(settings).into_iter();
    writes.chain((!placed.is_empty()).then_some(placed)).collect::<Vec<_>>().join(" && ")
}

/// Returns what precedes a command that is placed as its candidate was. The standard tools restrict all threads of a
/// command to the same CPUs; only `run` gives each worker its own.
fn prefix(policy: &Policy, memory: &MemoryPlacement, plan: &PlacementPlan, free: bool) -> String {
    let is_default = *memory == MemoryPlacement::Default;
    let have_own_cpus = plan.workers.iter().any(|worker| worker.cpus != plan.cpus());
    match (free, is_default) {
        (true, true) => String::new(),
        (false, _) if have_own_cpus => {
            let memory = if is_default { String::new() } else { format!(" --memory {memory}") };
            format!("manycore run --place {policy} --workers {}{memory} -- ", plan.workers.len())
        }
        (false, true) => format!("{} ", plan.taskset()),
        (_, false) => format!("{} ", plan.numactl(memory)),
    }
}

/// Returns the numbers of workers: the requested ones, or powers of two, all cores, all CPUs and twice as
/// many.
fn worker_counts(search: &Search, machine: &Machine, usable: &CpuSet) -> BTreeSet<usize> {
    if !search.workers.is_empty() {
        return search.workers.iter().copied().collect();
    }
    let cpus = usable.len();
    let has_placeholder = with_workers(&search.command, 1).1;
    let cores = machine.cores.iter().filter(|core| core.cpus.iter().any(|cpu| usable.contains(cpu))).count();
    let powers = (0..usize::BITS).map(|power| 1 << power).take_while(|&count| count < cpus);
    // More workers than CPUs make sense only if the command takes their number.
    let beyond = has_placeholder.then_some(2 * cpus);
    powers.chain([cores.max(1), cpus]).chain(beyond).collect()
}

/// Returns the combinations of the values of settings, first the one that changes nothing.
///
/// # Errors
/// A setting is unknown, or does not exist on this machine.
fn settings(root: &Path, names: &[String]) -> Result<Vec<Vec<Setting>>> {
    let mut combinations = vec![Vec::new()];
    for name in names {
        let values = Setting::all_of(root, name)?;
        let files = SettingFiles::read(root, values.iter().map(std::slice::from_ref))?;
        let changes = values.into_iter().filter(|value| !files.is_original(std::slice::from_ref(value)));
        let changes: Vec<Option<Setting>> = std::iter::once(None).chain(changes.map(Some)).collect();
        combinations = combinations
            .iter()
            .flat_map(|before: &Vec<Setting>| {
                changes.iter().map(move |change| before.iter().chain(change).cloned().collect())
            })
            .collect();
    }
    Ok(combinations)
}

fn policies(search: &Search, machine: &Machine) -> Vec<Policy> {
    if !search.place.is_empty() {
        return search.place.clone();
    }
    let mut kinds = vec![PolicyKind::Free, PolicyKind::Close, PolicyKind::Spread];
    kinds.extend(Level::ALL.map(PolicyKind::SpreadAt));
    let smt: &[bool] = if machine.has_smt() { &[false, true] } else { &[false] };
    kinds.iter().flat_map(|kind| smt.iter().map(|&nosmt| Policy::new(kind.clone(), nosmt))).collect()
}

fn memories(search: &Search, service: bool, machine: &Machine) -> Vec<MemoryPlacement> {
    let with_memory = machine.nodes.iter().filter(|node| node.memory_bytes != Some(0)).count();
    match (search.memory.is_empty(), service, with_memory) {
        (false, ..) => search.memory.clone(),
        (true, false, 2..) => {
            vec![
                MemoryPlacement::Default,
                MemoryPlacement::Local,
                MemoryPlacement::Interleave(Vec::new()),
                MemoryPlacement::Bind(Vec::new()),
            ]
        }
        _ => vec![MemoryPlacement::Default],
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_topology::CpuSet;

    fn plan(workers: &[&str]) -> PlacementPlan {
        let worker = |cpus: &&str| manycore_placement::PlannedWorker {
            cpus: cpus.parse::<CpuSet>().unwrap(),
            memory_nodes: Vec::new(),
            why: String::new(),
        };
        PlacementPlan {
            schema: String::new(),
            machine_fingerprint: String::new(),
            policy: "close".to_owned(),
            workers: workers.iter().map(worker).collect(),
        }
    }

    fn candidate(name: &str) -> Candidate {
        Candidate {
            name: name.to_owned(),
            workers: 4,
            variant: Variant::default(),
            plan: None,
            command_line: "taskset -c 0-3 sort".to_owned(),
            settings: String::new(),
            scheduler: None,
        }
    }

    #[test]
    fn schedulers_multiply_few_candidates_and_are_added_to_many() {
        let mut search = Search {
            command: vec!["sort".to_owned()],
            workers: Vec::new(),
            place: Vec::new(),
            memory: Vec::new(),
            settings: Vec::new(),
            schedulers: Vec::new(),
            hooks: crate::life::Hooks::default(),
            today: None,
        };
        let of = |count: usize| (0..count).map(|at| candidate(&format!("c{at}"))).collect::<Vec<_>>();
        let plain = with_schedulers(of(3), &search);
        assert!(plain.len() == 3 && plain[0].scheduler.is_none());
        search.schedulers = ["cluster:spread", "scx_lavd -x"].map(|text| text.parse().unwrap()).to_vec();
        let mut few = with_schedulers(of(8), &search);
        assert_eq!(few.len(), 24);
        assert_eq!((few[0].name.as_str(), few[0].command_line.as_str()), ("c0", "taskset -c 0-3 sort"));
        assert_eq!(few[8].name, "c0, sched=cluster:spread");
        assert_eq!(few[8].command_line, "sudo manycore sched run --policy spread & taskset -c 0-3 sort");
        assert_eq!(few[23].name, "c7, sched=scx_lavd -x");
        let many = with_schedulers(of(9), &search);
        assert_eq!(many.len(), 11);
        assert_eq!(many[10].name, "c0, sched=scx_lavd -x");
        resolve_schedulers(&mut few, &["loader".to_owned()]);
        let label = |at: usize| few[at].variant.scheduler.as_ref().map(|scheduler| scheduler.label.as_str());
        assert_eq!((label(0), label(8)), (Some("kernel"), Some("cluster:spread")));
    }

    #[test]
    fn settings_are_combined_and_their_present_values_left_out() {
        let root = tempfile::tempdir().unwrap();
        for (path, text) in [
            ("sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n"),
            ("proc/sys/kernel/numa_balancing", "0\n"),
        ] {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        let names = ["thp", "numa_balancing"].map(str::to_owned);
        let all: Vec<String> = settings(root.path(), &names)
            .unwrap()
            .iter()
            .map(|one| one.iter().map(ToString::to_string).collect::<Vec<_>>().join(" "))
            .collect();
        assert_eq!(
            all,
            [
                "",
                "numa_balancing=on",
                "thp=always",
                "thp=always numa_balancing=on",
                "thp=never",
                "thp=never numa_balancing=on"
            ]
        );
        assert!(settings(root.path(), &["smt".to_owned()]).is_err());
    }

    /// Regression test: `taskset -c 0-1`, which is no restriction on two CPUs, was advised for threads that had been
    /// pinned to one CPU each.
    #[test]
    fn the_command_of_a_winner_does_what_was_measured() {
        let (close, default) = (Policy::new(PolicyKind::Close, false), MemoryPlacement::Default);
        let local = MemoryPlacement::Local;
        let apart = plan(&["0", "1"]);
        assert_eq!(prefix(&close, &default, &apart, false), "manycore run --place close --workers 2 -- ");
        assert_eq!(
            prefix(&close, &local, &apart, false),
            "manycore run --place close --workers 2 --memory local -- "
        );
        let together = plan(&["0-1", "0-1"]);
        assert_eq!(prefix(&close, &default, &together, false), "taskset -c 0-1 ");
        assert_eq!(prefix(&close, &default, &together, true), "");
    }
}
