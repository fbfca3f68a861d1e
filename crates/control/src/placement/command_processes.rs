//! Finds all processes that a command has started, including daemons that have left their parents.

use crate::{command_group::CommandGroup, journal::Journal, placement::Enforcement};
use manycore_linux::{
    affinity,
    child::{self, StartPlacement},
    job, tasks,
};
use manycore_topology::CpuSet;
use rustix::process::Pid;
use std::{
    collections::{BTreeMap, BTreeSet},
    io,
    process::Command,
    time::Duration,
};

/// The processes of a command. This process is a subreaper: while it runs, descendants that lose their
/// parent become its children. If a control group is available, it contains the processes even after this
/// process has ended.
pub struct CommandProcesses {
    /// Children that this process had before the command. A shell that executed this program may have had
    /// some.
    earlier_children: BTreeSet<u32>,
    group: Option<CommandGroup>,
    /// CPU time of children that had ended before.
    earlier_cpu_time: Duration,
}

impl CommandProcesses {
    /// Prepares for a command. To be called before the command starts.
    pub fn new(journal: &Journal, enforcement: Enforcement) -> Self {
        let group = match enforcement {
            Enforcement::Auto => CommandGroup::create(journal).ok(),
            Enforcement::Affinity => None,
        };
        let earlier_children = tasks::children(std::process::id()).into_iter().collect();
        Self { earlier_children, group, earlier_cpu_time: job::reaped_cpu() }
    }

    /// Starts the command, inside the control group if there is one.
    ///
    /// # Errors
    /// Returns an error if the program cannot be started.
    pub fn launch(&mut self, command: &mut Command, start: &StartPlacement) -> io::Result<Pid> {
        let Some(group) = self.group.take() else {
            return child::spawn_detached(command, start).map(|child| Pid::from_child(&child));
        };
        let pid = group.launch(command, start)?;
        let number = pid.as_raw_nonzero().get() as u32;
        if group.holds(number) || !tasks::is_alive(number) {
            self.group = Some(group);
        } else {
            group.remove_unused();
        }
        Ok(pid)
    }

    /// Returns the children of this process that belong to the command, including zombies.
    pub fn children(&self) -> Vec<u32> {
        let children = tasks::children(std::process::id()).into_iter();
        children.filter(|pid| !self.earlier_children.contains(pid)).collect()
    }

    /// Returns the processes of the command that have not ended.
    pub fn running(&self) -> BTreeSet<u32> {
        let members = self.group.as_ref().map(CommandGroup::members).unwrap_or_default();
        let below = tasks::with_descendants(&self.children());
        members.union(&below).copied().filter(|pid| tasks::is_alive(*pid)).collect()
    }

    /// Returns the CPU time in nanoseconds of all processes of the command, ended or running: from the
    /// control group, or else from what the kernel adds up for parents.
    pub fn cpu_ns(&self) -> u64 {
        if let Some(counted) = self.group.as_ref().and_then(CommandGroup::cpu_ns) {
            return counted;
        }
        let ended = job::reaped_cpu().saturating_sub(self.earlier_cpu_time).as_nanos() as u64;
        ended + self.running().into_iter().filter_map(tasks::usage).map(|usage| usage.cpu_ns).sum::<u64>()
    }

    /// Returns the running processes with a task whose affinity is one of `ours`, with that affinity.
    pub fn still_pinned(&self, ours: &BTreeSet<CpuSet>) -> BTreeMap<u32, CpuSet> {
        let of = |pid: u32| tasks::threads(pid).into_iter().filter_map(|tid| affinity::of_thread(tid).ok());
        let confined = |pid: u32| of(pid).find(|cpus| ours.contains(cpus)).map(|cpus| (pid, cpus));
        self.running().into_iter().filter_map(confined).collect()
    }
}
