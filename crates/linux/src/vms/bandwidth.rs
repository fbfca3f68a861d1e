//! Assignment of resctrl groups to domains, and the memory traffic of domains.

use super::usage::{HostUsage, Identity, Usage};
use crate::resctrl::{
    domain_cpus::DomainCpus,
    state::{VCPUS, of_libvirt},
    watch::{UsageSnapshot, parent_group},
};
use std::collections::{BTreeMap, BTreeSet};

/// Returns the groups that count only for this domain; none of them lies within another. These are the groups
/// that libvirt names `qemu-ID-NAME`, or `qemu-ID-NAME-vcpus_0-3` for some of the virtual CPUs, and groups
/// whose tasks are all `threads` of this domain. `tasks` holds the tasks of each group.
pub fn groups(
    identity: &Identity,
    threads: &BTreeSet<u32>,
    tasks: &BTreeMap<String, BTreeSet<u32>>,
) -> Vec<String> {
    let holds = |tasks: &BTreeSet<u32>| !tasks.is_empty() && tasks.is_subset(threads);
    let is_own = |name: &String| is_named(name, identity) || tasks.get(name).is_some_and(holds);
    let own: BTreeSet<&String> = tasks.keys().filter(|name| !name.is_empty() && is_own(name)).collect();
    let is_inside =
        |name: &str| parent_group(name) != name && own.iter().any(|other| *other == parent_group(name));
    own.iter().filter(|name| !is_inside(name)).map(|name| (*name).clone()).collect()
}

/// Returns whether libvirt named a control group of resctrl after this domain. Compares the whole domain id,
/// so that `qemu-1-` does not match `qemu-10-`.
pub fn is_named(group: &str, identity: &Identity) -> bool {
    let Some((id, domain)) = of_libvirt(group) else { return false };
    let machine =
        identity.machine.as_deref().and_then(|machine| machine.strip_prefix("qemu-")?.split_once('-'));
    let names = [Some(identity.name.as_str()), machine.map(|(_, name)| name)];
    let is_after =
        |name: &str| domain.strip_prefix(name).is_some_and(|rest| rest.is_empty() || rest.starts_with(VCPUS));
    !group.contains('/') && identity.id == Some(id) && names.into_iter().flatten().any(is_after)
}

/// Returns the location of a monitoring domain: `node 1` if its number is that of a NUMA node or of an L3
/// cache within one node; `L3 7` if the node is unknown or the cache spans several nodes.
pub fn place(resource: &str, number: u32, places: &DomainCpus) -> String {
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
pub fn add(usage: &mut Usage, groups: &[String], moment: &UsageSnapshot, places: &DomainCpus) {
    let own = moment.groups.iter().filter(|group| groups.contains(&group.name));
    for (at, group) in own.enumerate() {
        usage.bandwidth = match (at, usage.bandwidth) {
            (0, _) => group.memory,
            (_, sum) => sum.and_then(|sum| Some(sum + group.memory?)),
        };
        for domain in &group.domains {
            let name = place(&domain.resource, domain.domain, places);
            let sum = usage.bandwidth_by_domain.entry(name).or_insert(Some(0.0));
            *sum = sum.and_then(|sum| Some(sum + domain.memory?));
        }
    }
}

/// Adds the traffic of all groups with a figure to the host's figures, and the number of groups without one.
pub fn add_all(host: &mut HostUsage, moment: &UsageSnapshot, places: &DomainCpus) {
    host.bandwidth = moment.all.memory;
    host.bandwidth_without = moment.all.groups_without_rate;
    for (name, memory) in &moment.all.domains {
        let named =
            name.rsplit_once(' ').and_then(|(resource, number)| Some((resource, number.parse().ok()?)));
        let name = named.map_or_else(|| name.clone(), |(resource, number)| place(resource, number, places));
        let sum = host.bandwidth_by_domain.entry(name).or_insert(Some(0.0));
        *sum = sum.map(|sum| sum + memory);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::resctrl::{
        rates::{MonitorReading, Reading},
        watch::{GroupReadings, MonitorReadings},
    };

    fn identity(name: &str, id: u32) -> Identity {
        Identity {
            name: name.to_owned(),
            id: Some(id),
            machine: Some(format!("qemu-{id}-{}", name.replace(' ', ""))),
            ..Identity::default()
        }
    }

    fn tasks(groups: &[(&str, &[u32])]) -> BTreeMap<String, BTreeSet<u32>> {
        groups.iter().map(|(name, tids)| ((*name).to_owned(), tids.iter().copied().collect())).collect()
    }

    #[test]
    fn groups_are_told_by_the_whole_number_or_by_their_tasks() {
        let all = tasks(&[
            ("", &[1, 2]),
            ("qemu-1-web", &[]),
            ("qemu-1-web/mon_groups/vcpus_0", &[11]),
            ("qemu-10-web", &[21]),
            ("qemu-2-myvm-vcpus_0-3", &[31]),
            ("qemu-2-myvm-vcpus_4-7", &[32]),
            ("qemu-2-myvm2", &[39]),
            ("mine", &[41, 42]),
            ("shared", &[41, 51]),
            ("shared/mon_groups/one", &[51]),
        ]);
        let of = |identity: &Identity, threads: &[u32]| {
            groups(identity, &threads.iter().copied().collect::<BTreeSet<u32>>(), &all)
        };
        assert_eq!(of(&identity("web", 1), &[11, 12]), ["qemu-1-web"]);
        assert_eq!(of(&identity("web", 10), &[21]), ["qemu-10-web"]);
        assert_eq!(of(&identity("my vm", 2), &[31, 32]), ["qemu-2-myvm-vcpus_0-3", "qemu-2-myvm-vcpus_4-7"]);
        assert_eq!(of(&identity("hand", 7), &[41, 42, 43]), ["mine"]);
        assert_eq!(of(&identity("other", 8), &[51]), ["shared/mon_groups/one"]);
        assert!(of(&identity("none", 9), &[1, 2]).is_empty());
    }

    #[test]
    fn caches_of_a_node_are_summed_as_the_node() {
        let cpus = |list: &str| list.parse().unwrap();
        let places = DomainCpus {
            nodes: BTreeMap::from([(0, cpus("0-3")), (1, cpus("4-7"))]),
            caches: BTreeMap::from([
                ((3, 0), cpus("0-1")),
                ((3, 1), cpus("2-3")),
                ((3, 7), cpus("4-7")),
                ((3, 9), cpus("2-5")),
            ]),
        };
        assert_eq!(place("MB", 1, &places), "node 1");
        assert_eq!((place("L3", 1, &places), place("L3", 9, &places)), ("node 0".into(), "L3 9".into()));
        let look = |at, bytes| {
            let monitor = |domain| MonitorReading {
                resource: "L3".to_owned(),
                domain,
                total: Some(Reading::Bytes(bytes)),
                ..MonitorReading::default()
            };
            let readings =
                GroupReadings { at_ns: at, instance: 1, monitors: [0, 1, 7].map(monitor).to_vec() };
            ["", "a", "b"]
                .map(|name| (name.to_owned(), readings.clone()))
                .into_iter()
                .collect::<MonitorReadings>()
        };
        let moment = UsageSnapshot::between(String::new(), &look(0, 0), &look(1_000_000_000, 50), |_| true);
        let mut usage = Usage::default();
        add(&mut usage, &["a".to_owned(), "b".to_owned()], &moment, &places);
        assert_eq!(usage.bandwidth, Some(300.0));
        let wanted = BTreeMap::from([("node 0".to_owned(), Some(200.0)), ("node 1".to_owned(), Some(100.0))]);
        assert_eq!(usage.bandwidth_by_domain, wanted);
        let mut host = HostUsage::default();
        add_all(&mut host, &moment, &places);
        assert_eq!((host.bandwidth, host.bandwidth_by_domain["node 0"]), (Some(450.0), Some(300.0)));
        // A group that cannot be read makes the host's figure too small; the number of such groups is
        // reported.
        let mut late = look(0, 0);
        late.remove("b");
        let without = UsageSnapshot::between(String::new(), &late, &look(1_000_000_000, 50), |_| true);
        let mut host = HostUsage::default();
        add_all(&mut host, &without, &places);
        assert_eq!((host.bandwidth, host.bandwidth_without), (Some(300.0), 1));
        // A missing figure makes the sum absent instead of too small.
        let mut first = Usage::default();
        add(
            &mut first,
            &["a".to_owned()],
            &UsageSnapshot::between(String::new(), &MonitorReadings::new(), &look(1, 5), |_| true),
            &places,
        );
        assert_eq!((first.bandwidth, first.bandwidth_by_domain["node 1"]), (None, None));
    }
}
