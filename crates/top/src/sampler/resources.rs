//! What is read beside CPUs and tasks.

use super::{
    bandwidth::Bandwidth, groups, guests::Guests, interrupts, names::Names, nodes, temperatures::Temperatures,
};
use crate::{
    details::ProcessDetails,
    resources::{GuestSearch, Wanted, joined},
    sample::Sample,
};
use manycore_topology::{SysTree, cgroup::Hierarchies};
use std::{
    io,
    path::{Path, PathBuf},
};

/// resctrl is searched once in this many samples if it is not mounted.
const SEARCH_AGAIN: u32 = 32;

/// Readers of what is wanted. What they remember between samples is dropped when it is not wanted any more.
#[derive(Debug)]
pub(super) struct Resources {
    root: PathBuf,
    tree: SysTree,
    wanted: Wanted,
    names: Names,
    guests: Option<Guests>,
    bandwidth: Option<Bandwidth>,
    /// Number of samples since resctrl was searched.
    searched: u32,
    temperatures: Temperatures,
}

fn open(root: &Path) -> io::Result<SysTree> {
    SysTree::open(root).map_err(io::Error::other)
}

impl Resources {
    /// # Errors
    /// There is no such directory.
    pub fn new(root: &Path) -> io::Result<Self> {
        Ok(Self {
            root: root.to_owned(),
            tree: open(root)?,
            wanted: Wanted::default(),
            names: Names::default(),
            guests: None,
            bandwidth: None,
            searched: 0,
            temperatures: Temperatures::default(),
        })
    }

    pub fn want(&mut self, wanted: Wanted) {
        if wanted.guests == GuestSearch::Never {
            self.guests = None;
        }
        if !wanted.bandwidth {
            (self.bandwidth, self.searched) = (None, 0);
        }
        self.wanted = wanted;
    }

    pub fn wanted(&self) -> &Wanted {
        &self.wanted
    }

    /// Enters the temperatures of CPUs.
    pub fn read_temperatures(&mut self, into: &mut Sample) {
        self.temperatures.read(&self.tree, &mut into.cpus);
    }

    /// Reads what is wanted; the rest becomes empty.
    pub fn read(&mut self, into: &mut Sample) {
        let Self { tree, wanted, names, .. } = self;
        if wanted.interrupts {
            interrupts::read(tree, &into.cpus, names, &mut into.interrupts);
        } else {
            into.interrupts.clear();
        }
        if wanted.nodes {
            nodes::read(tree, &mut into.nodes);
        } else {
            into.nodes.clear();
        }
        groups::read(tree, names, wanted.groups, &mut into.groups);
        self.read_guests(into);
        self.read_bandwidth(into);
    }

    /// Reads details of processes. Last: memory by node takes long, and rates of counters are those between the beginnings of
    /// samples.
    pub fn read_details(&self, into: &mut Sample) {
        into.details.clear();
        into.details.extend(self.details(&self.wanted.details, &self.wanted.memory_of));
    }

    /// Returns the details of processes, ascending; with their memory by node of those of the second list.
    pub fn details(&self, pids: &[u32], memory_of: &[u32]) -> Vec<(u32, ProcessDetails)> {
        let pids = joined(pids, memory_of);
        if pids.is_empty() {
            return Vec::new();
        }
        let hierarchies = Hierarchies::read(&self.tree);
        let read = |pid: u32| ProcessDetails::read(&self.tree, &hierarchies, pid, memory_of.contains(&pid));
        pids.into_iter().map(|pid| (pid, read(pid))).collect()
    }

    fn read_guests(&mut self, into: &mut Sample) {
        into.guests.clear();
        if self.wanted.guests != GuestSearch::Never && self.guests.is_none() {
            self.guests = open(&self.root).ok().map(Guests::new);
        }
        if let Some(guests) = &mut self.guests {
            guests.read(&mut self.names, self.wanted.guests, &into.processes, &mut into.guests);
        }
    }

    fn read_bandwidth(&mut self, into: &mut Sample) {
        into.bandwidth.clear();
        if self.wanted.bandwidth && self.bandwidth.is_none() {
            if self.searched.is_multiple_of(SEARCH_AGAIN) {
                self.bandwidth = Bandwidth::open(&self.root, &self.tree);
            }
            self.searched = self.searched.wrapping_add(1);
        }
        if let Some(bandwidth) = &mut self.bandwidth {
            bandwidth.read(&mut self.names, &mut into.bandwidth);
        }
    }
}
