//! Usage of the virtual machines that run on this host: read once ([`list`]) or repeatedly ([`Monitor`]).

use crate::{
    error::Error,
    traffic::DomainTraffic,
    usage::{DomainUsage, DomainsSnapshot, Readings},
};
use manycore_linux::{
    clock::utc,
    resctrl::{self, Files},
    vms::{ReadOptions, RunningDomains},
};
use manycore_topology::SysTree;
use std::path::Path;

/// Returns the domains that run on the system below `tree`, without rates. `memory_by_node` adds the memory by
/// NUMA node, which takes seconds for large guests.
pub fn list(tree: &SysTree, memory_by_node: bool) -> DomainsSnapshot {
    let options = ReadOptions { vcpus: false, nodes: memory_by_node };
    let now = Readings::take(tree, &mut RunningDomains::new(tree, options));
    DomainsSnapshot::between(utc(), None, &now)
}

/// Opens the mounted resctrl, from which the memory traffic of domains is read. Its absence is an error only if the
/// user named a `mount` point.
///
/// # Errors
/// [`Error::NoResctrl`] if `mount` is not a resctrl; [`Error::Resctrl`] if it cannot be read.
pub fn open_resctrl(tree: &SysTree, mount: Option<&Path>) -> Result<Option<Files>, Error> {
    match resctrl::find(tree, mount) {
        Ok(found) => Files::open(tree, &found).map(Some).map_err(Error::Resctrl),
        Err(missing) if mount.is_some() => Err(missing.into()),
        Err(_) => Ok(None),
    }
}

/// Sort key of domains: figures in descending order, names and process ids in ascending order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SortKey {
    /// CPU time.
    Cpu,
    /// Time in the guest.
    Guest,
    /// Time in the host's kernel.
    System,
    /// Time that virtual CPUs waited for a CPU.
    Wait,
    /// Context switches.
    Switches,
    /// Memory.
    Memory,
    /// Memory traffic.
    Bandwidth,
    /// Name.
    Name,
    /// Process id.
    Pid,
}

/// Options of a [`Monitor`].
#[derive(Clone, Copy, Debug)]
pub struct MonitorOptions {
    /// Whether to report each virtual CPU.
    pub vcpus: bool,
    /// Whether to report the memory by NUMA node, which takes seconds for large guests.
    pub memory_by_node: bool,
    /// Order of the domains.
    pub sort_key: SortKey,
}

/// Reads the domains repeatedly and computes their usage since the previous reading.
#[derive(Debug)]
pub struct Monitor<'a> {
    tree: &'a SysTree,
    domains: RunningDomains<&'a SysTree>,
    /// Absent if no resctrl is mounted.
    traffic: Option<DomainTraffic<'a>>,
    sort_key: SortKey,
    before: Readings,
}

impl<'a> Monitor<'a> {
    /// Takes the first reading of the system below `tree`. Memory traffic is reported if there is a `resctrl`.
    pub fn new(tree: &'a SysTree, resctrl: Option<&'a Files>, options: MonitorOptions) -> Self {
        let wanted = ReadOptions { vcpus: options.vcpus, nodes: options.memory_by_node };
        let mut domains = RunningDomains::new(tree, wanted);
        let traffic = resctrl.map(|files| DomainTraffic::new(files, tree));
        let before = Readings::take(tree, &mut domains);
        Self { tree, domains, traffic, sort_key: options.sort_key, before }
    }

    /// Returns the usage since the previous reading.
    pub fn read(&mut self) -> DomainsSnapshot {
        let now = Readings::take(self.tree, &mut self.domains);
        let mut snapshot = DomainsSnapshot::between(utc(), Some(&self.before), &now);
        if let Some(traffic) = &mut self.traffic {
            traffic.add(&mut snapshot, &now.domains);
        }
        sort(&mut snapshot.domains, self.sort_key);
        self.before = now;
        snapshot
    }
}

/// Sorts by figure in descending order. Unknown figures come last; ties are sorted by name.
fn sort(domains: &mut [DomainUsage], key: SortKey) {
    let figure = |usage: &DomainUsage| match key {
        SortKey::Cpu => usage.cpu_percent,
        SortKey::Guest => usage.guest_percent,
        SortKey::System => usage.system_percent,
        SortKey::Wait => usage.wait_percent,
        SortKey::Switches => usage.switches_per_second,
        SortKey::Memory => Some(usage.memory_bytes as f64),
        SortKey::Bandwidth => usage.bytes_per_second,
        SortKey::Name => None,
        SortKey::Pid => Some(-f64::from(usage.identity.pid)),
    };
    let rank = |usage: &DomainUsage| figure(usage).unwrap_or(f64::NEG_INFINITY);
    domains.sort_by(|a, b| rank(b).total_cmp(&rank(a)).then_with(|| a.identity.name.cmp(&b.identity.name)));
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_linux::vms::DomainIdentity;

    #[test]
    fn unknown_figures_come_last_and_ties_are_sorted_by_name() {
        let domain = |name: &str, pid, cpu| DomainUsage {
            identity: DomainIdentity { name: name.to_owned(), pid, ..DomainIdentity::default() },
            cpu_percent: cpu,
            ..DomainUsage::default()
        };
        let mut domains = [
            domain("new", 4, None),
            domain("b", 3, Some(1.0)),
            domain("a", 9, Some(1.0)),
            domain("c", 1, Some(2.0)),
        ];
        let names = |domains: &[DomainUsage]| -> String {
            domains.iter().map(|domain| domain.identity.name.as_str()).collect::<Vec<_>>().join(" ")
        };
        for (key, expected) in
            [(SortKey::Cpu, "c a b new"), (SortKey::Name, "a b c new"), (SortKey::Pid, "c b new a")]
        {
            sort(&mut domains, key);
            assert_eq!(names(&domains), expected, "{key:?}");
        }
    }
}
