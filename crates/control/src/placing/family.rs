//! All that a command has started, also what leaves its parents: daemons.

use crate::placing::Hold;
use crate::{enclosure::Enclosure, journal::Journal};
use manycore_linux::{
    affinity,
    child::{self, Start},
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

/// The processes of a command. While we live, whatever loses its parent becomes our child, because we are its subreaper;
/// where a control group can be had, it holds them also after that.
pub struct Family {
    /// Children that we had before the command: a shell that became this program may have some.
    strangers: BTreeSet<u32>,
    enclosure: Option<Enclosure>,
    /// CPU time of children that had ended before.
    before: Duration,
}

impl Family {
    /// To be called before the command starts.
    pub fn new(journal: &Journal, hold: Hold) -> Self {
        let enclosure = match hold {
            Hold::Auto => Enclosure::make(journal).ok(),
            Hold::Affinity => None,
        };
        let strangers = tasks::children(std::process::id()).into_iter().collect();
        Self { strangers, enclosure, before: job::reaped_cpu() }
    }

    /// Starts the command, inside of the group where there is one.
    ///
    /// # Errors
    /// Those of starting a program.
    pub fn launch(&mut self, command: &mut Command, start: &Start) -> io::Result<Pid> {
        let Some(enclosure) = self.enclosure.take() else {
            return child::launch(command, start).map(|child| Pid::from_child(&child));
        };
        let pid = enclosure.launch(command, start)?;
        let number = pid.as_raw_nonzero().get() as u32;
        if enclosure.holds(number) || !tasks::is_alive(number) {
            self.enclosure = Some(enclosure);
        } else {
            enclosure.give_up();
        }
        Ok(pid)
    }

    /// Our children of the command's, zombies too.
    pub fn children(&self) -> Vec<u32> {
        let children = tasks::children(std::process::id()).into_iter();
        children.filter(|pid| !self.strangers.contains(pid)).collect()
    }

    /// Its processes that have not ended.
    pub fn living(&self) -> BTreeSet<u32> {
        let members = self.enclosure.as_ref().map(Enclosure::members).unwrap_or_default();
        let below = tasks::tree(&self.children());
        members.union(&below).copied().filter(|pid| tasks::is_alive(*pid)).collect()
    }

    /// CPU time of all of it, of what has ended and of what runs: by the group, or else by what the kernel adds up for
    /// parents.
    pub fn cpu_ns(&self) -> u64 {
        if let Some(counted) = self.enclosure.as_ref().and_then(Enclosure::cpu_ns) {
            return counted;
        }
        let ended = job::reaped_cpu().saturating_sub(self.before).as_nanos() as u64;
        ended + self.living().into_iter().filter_map(tasks::usage).map(|usage| usage.cpu_ns).sum::<u64>()
    }

    /// Living processes with a task whose affinity is one of `ours`, with that affinity.
    pub fn confined(&self, ours: &BTreeSet<CpuSet>) -> BTreeMap<u32, CpuSet> {
        let of = |pid: u32| tasks::threads(pid).into_iter().filter_map(|tid| affinity::of(tid).ok());
        let confined = |pid: u32| of(pid).find(|cpus| ours.contains(cpus)).map(|cpus| (pid, cpus));
        self.living().into_iter().filter_map(confined).collect()
    }
}
