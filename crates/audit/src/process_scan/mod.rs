//! Reads all processes and threads of a machine, and where each may run: the input of `manycore audit`.
//!
//! The source is `/proc/PID` (`proc(5)`, `Documentation/filesystems/proc.rst`). Kernel threads are left out.
//! Files that are expensive or need privileges are read only where they can matter: the memory map of pinned
//! processes, and program and environment of processes that have more threads than CPUs.

mod group_limits;
mod memory;
mod program;
mod throttling;
mod times;

pub use throttling::QuotaGroups;
pub use times::{Times, enter_cpu_use, times};

use crate::{
    Process, Thread, UnexaminedKind,
    error::{Error, Result},
};
use group_limits::Groups;
use manycore_linux::absent_process::{AbsentProcess, hidepid};
use manycore_topology::{CpuSet, Machine, cgroup, sys_tree::SysTree};
use std::collections::{BTreeMap, BTreeSet};

/// `PF_KTHREAD` of `include/linux/sched.h`: a kernel thread.
const KERNEL_THREAD: u64 = 0x0020_0000;
/// `PF_FORKNOEXEC`: forked, and no program started since.
const FORKED: u64 = 0x0000_0040;
/// Maximum size of `status` or `stat` in bytes: a mask of 8,192 CPUs takes 2 kB.
const MAX_BYTES: usize = 64 << 10;

/// The processes that are examined.
#[derive(Clone, Debug, Default)]
pub struct ScanScope {
    /// Only these processes and their descendants; all if there are none.
    pub only: Vec<u32>,
    /// All but this process: the audit itself.
    pub exclude: Option<u32>,
    /// Without memory by node: the kernel visits each page table of a process for it.
    pub without_memory: bool,
}

/// The result of a scan, and what could not be examined.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ProcessScan {
    /// Processes of the scope, by id.
    pub processes: Vec<Process>,
    /// Processes outside of the scope, by id: a process of the scope may share its CPUs with them.
    pub others: Vec<Process>,
    /// Number of things that could not be examined, by kind.
    pub unexamined: BTreeMap<UnexaminedKind, usize>,
    /// Control groups with a quota of CPU time.
    pub groups: QuotaGroups,
}

/// Scans all processes. What can be read only with privileges or at a price is read of those in `scope`.
///
/// # Errors
/// [`Error::NoProcess`] for an id of [`ScanScope::only`].
pub fn scan_processes(tree: &SysTree, machine: &Machine, scope: &ScanScope) -> Result<ProcessScan> {
    let mut stats: BTreeMap<u32, Stat> = tree
        .numbered_entries("proc", "")
        .iter()
        .filter_map(|pid| Some((pid, stat(tree, &pid.to_string())?)))
        .collect();
    let examined = with_descendants(tree, &stats, &scope.only)?;
    stats.retain(|pid, stat| stat.is_user && scope.exclude != Some(*pid));
    let (own, others): (Vec<_>, Vec<_>) = stats
        .into_iter()
        .partition(|(pid, _)| examined.as_ref().is_none_or(|examined| examined.contains(pid)));
    let mut groups = Groups::read(tree);
    let mut scan = ProcessScan::default();
    for (pid, stat) in own {
        let was_zombie = stat.has_ended;
        match process(tree, &mut groups, pid, stat) {
            Some(process) => scan.processes.push(process),
            None if was_zombie => {}
            None => scan.miss(UnexaminedKind::Ended),
        }
    }
    let unknown_groups = groups.unknown;
    let read = |(pid, stat)| process(tree, &mut groups, pid, stat);
    scan.others = others.into_iter().filter_map(read).collect();
    scan.fill_unknown_groups(tree, machine);
    for process in &mut scan.processes {
        program::read(tree, machine, process, &mut scan.unexamined);
        if !scope.without_memory {
            memory::read(tree, machine, process, &mut scan.unexamined);
        }
    }
    scan.groups = QuotaGroups::new(&scan.processes);
    if is_hiding(tree) {
        scan.unexamined.insert(UnexaminedKind::Hidden, 1);
    }
    if unknown_groups > 0 {
        scan.unexamined.insert(UnexaminedKind::Groups, unknown_groups);
    }
    Ok(scan)
}

impl ProcessScan {
    /// Returns the number of threads in the scope.
    pub fn threads(&self) -> usize {
        self.processes.iter().map(|process| process.threads.len()).sum()
    }

    fn miss(&mut self, what: UnexaminedKind) {
        *self.unexamined.entry(what).or_default() += 1;
    }

    /// In a container without visible control groups, takes the union of the affinity masks of all processes
    /// as the CPUs of the container, so that a thread with all of them does not count as pinned.
    fn fill_unknown_groups(&mut self, tree: &SysTree, machine: &Machine) {
        let first = status(tree, "1").map(|(_, cpus)| cpus);
        let processes = self.processes.iter().chain(&self.others);
        let threads = processes.flat_map(|process| &process.threads).map(|thread| &thread.cpus);
        let all = CpuSet::union_of(threads.chain(&first)).intersection(&machine.online);
        if all == machine.online {
            return;
        }
        let processes = self.processes.iter_mut().chain(&mut self.others);
        for process in processes.filter(|process| process.limits.cpus.is_none()) {
            process.limits.cpus = Some(all.clone());
            "the affinity masks of all processes".clone_into(&mut process.limits.cpus_file);
        }
    }
}

/// Whether `/proc` hides the processes of other users: process 1 is not visible.
fn is_hiding(tree: &SysTree) -> bool {
    let is_live = tree.is_folder("proc/self");
    is_live && tree.read("proc/1/stat").is_none() && has_hidepid(tree)
}

/// Whether `/proc` is mounted with `hidepid`.
fn has_hidepid(tree: &SysTree) -> bool {
    hidepid(&tree.read("proc/self/mountinfo").unwrap_or_default()).is_some()
}

/// Counts what could not be read of a process, as "ended" if the process has ended.
fn count_unreadable(
    tree: &SysTree,
    pid: u32,
    what: UnexaminedKind,
    unexamined: &mut BTreeMap<UnexaminedKind, usize>,
) {
    let what = if tree.is_folder(&format!("proc/{pid}")) { what } else { UnexaminedKind::Ended };
    *unexamined.entry(what).or_default() += 1;
}

/// Reads one process with its threads; absent if it has ended.
fn process(tree: &SysTree, groups: &mut Groups, pid: u32, stat: Stat) -> Option<Process> {
    let limits = groups.limits(&cgroup::memberships(tree, &pid.to_string()).unwrap_or_default());
    let tids = tree.numbered_entries(&format!("proc/{pid}/task"), "");
    // The main thread represents the process and comes first; if it has ended, only the other threads are
    // listed.
    let ids = [pid].into_iter().filter(|_| !stat.has_ended).chain(tids.iter().filter(|&tid| tid != pid));
    let mut threads: Vec<Thread> = ids
        .filter_map(|tid| {
            let (name, cpus) = status(tree, &format!("{pid}/task/{tid}"))?;
            Some(Thread { tid, name, cpus, ..Thread::default() })
        })
        .collect();
    let main = threads.first().map(|thread| thread.cpus.clone())?;
    let inside = |cpus: &CpuSet| limits.cpus.as_ref().is_none_or(|own| cpus.is_subset(own));
    for thread in &mut threads {
        // libvirt puts each virtual CPU into a group of its own; such threads do not have the mask of the
        // process.
        if thread.cpus != main || !inside(&thread.cpus) {
            let memberships = cgroup::memberships(tree, &format!("{pid}/task/{}", thread.tid));
            thread.limits = memberships.map(|text| groups.limits(&text)).filter(|own| *own != limits);
        }
    }
    let cpu_seconds = stat.cpu_seconds;
    Some(Process {
        pid,
        parent: stat.parent,
        name: stat.name,
        forked: stat.forked,
        limits,
        threads,
        cpu_seconds,
        ..Process::default()
    })
}

/// Returns `roots` and all their descendants; absent if there are no roots.
///
/// # Errors
/// [`Error::NoProcess`] if a root is not a process.
fn with_descendants(
    tree: &SysTree,
    stats: &BTreeMap<u32, Stat>,
    roots: &[u32],
) -> Result<Option<BTreeSet<u32>>> {
    if roots.is_empty() {
        return Ok(None);
    }
    if let Some(missing) = roots.iter().find(|pid| !stats.contains_key(pid)) {
        return Err(Error::NoProcess(if has_hidepid(tree) {
            AbsentProcess::of(*missing)
        } else {
            AbsentProcess::Missing(*missing)
        }));
    }
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    for (&pid, stat) in stats {
        children.entry(stat.parent).or_default().push(pid);
    }
    let mut found = BTreeSet::new();
    let mut open = roots.to_vec();
    while let Some(pid) = open.pop() {
        if found.insert(pid) {
            open.extend(children.get(&pid).into_iter().flatten());
        }
    }
    Ok(Some(found))
}

/// The contents of `stat`.
#[derive(Debug, PartialEq)]
struct Stat {
    name: String,
    parent: u32,
    /// Whether it is not a kernel thread.
    is_user: bool,
    /// Whether it was forked and has not started a program since.
    forked: bool,
    /// Whether its main thread has ended; other threads may still run.
    has_ended: bool,
    cpu_seconds: f64,
}

/// Reads `/proc/ID/stat`, where `id` is `PID` or `PID/task/TID`.
fn stat(tree: &SysTree, id: &str) -> Option<Stat> {
    parse_stat(&tree.read_part(&format!("proc/{id}/stat"), MAX_BYTES, str::to_owned)?)
}

/// Parses `PID (NAME) STATE PARENT ...`. The name may contain any character; the ninth field is flags, the
/// 14th and 15th are ticks in user and kernel mode.
fn parse_stat(text: &str) -> Option<Stat> {
    let (before, rest) = text.rsplit_once(')')?;
    let fields: Vec<&str> = rest.split_ascii_whitespace().take(13).collect();
    let number = |index: usize| fields.get(index)?.parse::<u64>().ok();
    let (flags, ticks) = (number(6)?, number(11)?.checked_add(number(12)?)?);
    Some(Stat {
        name: before.split_once('(')?.1.to_owned(),
        parent: fields.get(1)?.parse().ok()?,
        is_user: flags & KERNEL_THREAD == 0,
        forked: flags & FORKED != 0,
        has_ended: fields[0].starts_with(['Z', 'X']),
        cpu_seconds: ticks as f64 / manycore_linux::counters::ticks_per_second() as f64,
    })
}

/// Reads name and affinity mask from `/proc/ID/status`.
fn status(tree: &SysTree, id: &str) -> Option<(String, CpuSet)> {
    let ours = |line: &&str| line.starts_with("Name:") || line.starts_with("Cpus_allowed_list:");
    let keep = |text: &str| text.lines().filter(ours).collect::<Vec<_>>().join("\n");
    let text = tree.read_part(&format!("proc/{id}/status"), MAX_BYTES, keep)?;
    let field = |key: &str| text.lines().find_map(|line| line.strip_prefix(key));
    let cpus = field("Cpus_allowed_list:")?.parse().ok()?;
    Some((field("Name:").unwrap_or_default().trim().to_owned(), cpus))
}
