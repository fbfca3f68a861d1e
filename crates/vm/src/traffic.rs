//! Memory traffic of running domains, from the resctrl groups that hold only their threads.

use crate::usage::{DomainUsage, DomainsSnapshot, HostUsage};
use manycore_linux::{
    resctrl::{
        Files, Sampler,
        domain_cpus::{DomainCpus, domain_cpus},
        watch::{MonitorReadings, UsageSnapshot},
    },
    tasks,
    vms::{DomainReading, resctrl_groups},
};
use manycore_topology::SysTree;
use std::collections::{BTreeMap, BTreeSet};

/// Number of readings after which the tasks of all groups are read again if domains or groups have changed.
/// The kernel walks all tasks of the machine for each group.
const REFRESH_AFTER_CHANGE: u64 = 10;
/// The same if nothing has changed: tasks may have moved between groups.
const REFRESH_ALWAYS: u64 = 60;

/// Memory traffic of the resctrl groups of domains.
#[derive(Debug)]
pub(crate) struct DomainTraffic<'a> {
    files: &'a Files,
    sampler: Sampler<&'a Files>,
    places: DomainCpus,
    before: MonitorReadings,
    /// Groups that hold only this domain, by process id.
    groups_of: BTreeMap<u32, Vec<String>>,
    /// Groups and processes from which `groups_of` was computed, and the number of that reading.
    computed_from: (Vec<String>, Vec<u32>),
    computed_at: u64,
    reading_number: u64,
}

impl<'a> DomainTraffic<'a> {
    /// Takes the first reading of all groups.
    pub fn new(files: &'a Files, tree: &SysTree) -> Self {
        let mut sampler = Sampler::new(files);
        let before = sampler.sample(|_| true);
        Self {
            files,
            sampler,
            places: domain_cpus(tree),
            before,
            groups_of: BTreeMap::new(),
            computed_from: Default::default(),
            computed_at: 0,
            reading_number: 0,
        }
    }

    /// Adds the traffic since the previous reading to the figures of the domains and of the host.
    pub fn add(&mut self, snapshot: &mut DomainsSnapshot, readings: &BTreeMap<u32, DomainReading>) {
        let now = self.sampler.sample(|_| true);
        let groups = UsageSnapshot::between(String::new(), &self.before, &now, |_| true);
        let present = (now.keys().cloned().collect(), readings.keys().copied().collect());
        let age = self.reading_number - self.computed_at;
        let has_changed = present != self.computed_from;
        if self.reading_number == 0 || age >= REFRESH_ALWAYS || (age >= REFRESH_AFTER_CHANGE && has_changed) {
            self.find_groups(readings);
            (self.computed_from, self.computed_at) = (present, self.reading_number);
        }
        for usage in &mut snapshot.domains {
            let own = self.groups_of.get(&usage.identity.pid).map(Vec::as_slice).unwrap_or_default();
            add_domain_traffic(usage, own, &groups, &self.places);
        }
        add_host_traffic(&mut snapshot.host, &groups, &self.places);
        self.before = now;
        self.reading_number += 1;
    }

    fn find_groups(&mut self, readings: &BTreeMap<u32, DomainReading>) {
        let tasks_of = |name: String| {
            let tasks: BTreeSet<u32> = self.files.tasks(&name).into_iter().collect();
            (name, tasks)
        };
        let groups: BTreeMap<String, BTreeSet<u32>> = self.files.names().into_iter().map(tasks_of).collect();
        let own = |reading: &DomainReading| {
            let threads = tasks::threads(reading.identity.pid).into_iter().collect();
            resctrl_groups::groups_of_domain(&reading.identity, &threads, &groups)
        };
        self.groups_of = readings.iter().map(|(pid, reading)| (*pid, own(reading))).collect();
    }
}

/// Returns the location of a monitoring domain: `node 1` if its number is that of a NUMA node or of an L3
/// cache within one node; `L3 7` if the node is unknown or the cache spans several nodes.
fn location_name(resource: &str, number: u32, places: &DomainCpus) -> String {
    if resource == "MB" {
        return format!("node {number}");
    }
    let cpus = places.caches.get(&(3, number)).filter(|cpus| resource == "L3" && !cpus.is_empty());
    let node =
        cpus.and_then(|cpus| places.nodes.iter().find(|(_, node)| cpus.iter().all(|cpu| node.contains(cpu))));
    node.map_or_else(|| format!("{resource} {number}"), |(node, _)| format!("node {node}"))
}

/// Adds the traffic of these groups of `moment` to a domain's figures. If a group has no figure, the sum
/// becomes absent, since it would be too small.
fn add_domain_traffic(
    usage: &mut DomainUsage,
    groups: &[String],
    moment: &UsageSnapshot,
    places: &DomainCpus,
) {
    let own = moment.groups.iter().filter(|group| groups.contains(&group.name));
    for (at, group) in own.enumerate() {
        usage.bytes_per_second = match (at, usage.bytes_per_second) {
            (0, _) => group.memory_bytes_per_second,
            (_, sum) => sum.and_then(|sum| Some(sum + group.memory_bytes_per_second?)),
        };
        for domain in &group.domains {
            let name = location_name(&domain.resource, domain.domain, places);
            let sum = usage.bytes_per_second_by_node.entry(name).or_insert(Some(0.0));
            *sum = sum.and_then(|sum| Some(sum + domain.memory_bytes_per_second?));
        }
    }
}

/// Adds the traffic of all groups with a figure to the host's figures, and the number of groups without one.
fn add_host_traffic(host: &mut HostUsage, moment: &UsageSnapshot, places: &DomainCpus) {
    host.bytes_per_second = moment.all.memory_bytes_per_second;
    host.groups_without_rate = moment.all.groups_without_rate;
    for (name, memory) in &moment.all.domains {
        let named =
            name.rsplit_once(' ').and_then(|(resource, number)| Some((resource, number.parse().ok()?)));
        let name =
            named.map_or_else(|| name.clone(), |(resource, number)| location_name(resource, number, places));
        let sum = host.bytes_per_second_by_node.entry(name).or_insert(Some(0.0));
        *sum = sum.map(|sum| sum + memory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_linux::resctrl::{
        rates::{MonitorReading, Reading},
        watch::GroupReadings,
    };

    /// Returns a machine of two nodes, where cache 9 spans both.
    fn two_nodes() -> DomainCpus {
        let cpus = |list: &str| list.parse().unwrap();
        DomainCpus {
            nodes: BTreeMap::from([(0, cpus("0-3")), (1, cpus("4-7"))]),
            caches: BTreeMap::from([
                ((3, 0), cpus("0-1")),
                ((3, 1), cpus("2-3")),
                ((3, 7), cpus("4-7")),
                ((3, 9), cpus("2-5")),
            ]),
        }
    }

    /// Returns a reading of three groups in which each of three caches has counted these bytes.
    fn readings(at_ns: u64, bytes: u64) -> MonitorReadings {
        let monitor = |domain| MonitorReading {
            resource: "L3".to_owned(),
            domain,
            total: Some(Reading::Bytes(bytes)),
            ..MonitorReading::default()
        };
        let readings = GroupReadings { at_ns, instance: 1, monitors: [0, 1, 7].map(monitor).to_vec() };
        ["", "a", "b"].map(|name| (name.to_owned(), readings.clone())).into_iter().collect()
    }

    fn moment(before: &MonitorReadings, now: &MonitorReadings) -> UsageSnapshot {
        UsageSnapshot::between(String::new(), before, now, |_| true)
    }

    #[test]
    fn caches_within_a_node_are_summed() {
        let places = two_nodes();
        assert_eq!(location_name("MB", 1, &places), "node 1");
        assert_eq!(location_name("L3", 1, &places), "node 0");
        assert_eq!(location_name("L3", 9, &places), "L3 9");
        let moment = moment(&readings(0, 0), &readings(1_000_000_000, 50));
        let mut usage = DomainUsage::default();
        add_domain_traffic(&mut usage, &["a".to_owned(), "b".to_owned()], &moment, &places);
        assert_eq!(usage.bytes_per_second, Some(300.0));
        let wanted = BTreeMap::from([("node 0".to_owned(), Some(200.0)), ("node 1".to_owned(), Some(100.0))]);
        assert_eq!(usage.bytes_per_second_by_node, wanted);
        let mut host = HostUsage::default();
        add_host_traffic(&mut host, &moment, &places);
        assert_eq!(
            (host.bytes_per_second, host.bytes_per_second_by_node["node 0"]),
            (Some(450.0), Some(300.0))
        );
    }

    #[test]
    fn missing_figures_are_counted_or_make_the_sum_absent() {
        // A group that cannot be read makes the host's figure too small; the number of such groups is
        // reported.
        let mut before = readings(0, 0);
        before.remove("b");
        let mut host = HostUsage::default();
        add_host_traffic(&mut host, &moment(&before, &readings(1_000_000_000, 50)), &two_nodes());
        assert_eq!((host.bytes_per_second, host.groups_without_rate), (Some(300.0), 1));
        // A domain's sum would be too small without a group.
        let first = moment(&MonitorReadings::new(), &readings(1, 5));
        let mut usage = DomainUsage::default();
        add_domain_traffic(&mut usage, &["a".to_owned()], &first, &two_nodes());
        assert_eq!((usage.bytes_per_second, usage.bytes_per_second_by_node["node 1"]), (None, None));
    }
}
