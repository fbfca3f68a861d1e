//! Which nodes are compared with each other.

use crate::figures::{NodeRecord, shown};
use crate::properties::{self, CPU_MODEL, CPUS, KERNEL, MEMORY, MICROCODE, add_flags, add_sizes};
use crate::{Error, Result};
use std::collections::{BTreeMap, BTreeSet};

/// Least number of nodes with a configuration, and their least share of the nodes with the CPU model, so that they are a
/// kind of their own. Rarer ones are compared with the others: a wrong configuration is often rare.
const LEAST: (usize, f64) = (5, 0.05);

/// Value of a property that a node does not report.
pub(crate) const UNKNOWN: &str = "unknown";

/// Nodes that are compared with each other.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct NodeGroup {
    /// What most of them have in common, in words.
    pub name: String,
    /// Their indices.
    pub members: Vec<usize>,
    /// The most frequent value of each property.
    pub properties: BTreeMap<String, String>,
}

/// Returns the value of a property.
pub(crate) fn value<'a>(node: &'a NodeRecord, property: &str) -> &'a str {
    node.properties.get(property).map_or(UNKNOWN, String::as_str)
}

/// Checks that nodes can be grouped by these properties.
///
/// # Errors
/// [`Error::UnknownProperty`]: no node can have one of them. All nodes would be of one kind.
pub fn check_keys(nodes: &[NodeRecord], keys: &[String]) -> Result {
    let mut known: BTreeSet<&str> = properties::names().collect();
    known.extend(nodes.iter().flat_map(|node| node.properties.keys().map(String::as_str)));
    match keys.iter().find(|key| !known.contains(key.as_str())) {
        None => Ok(()),
        Some(key) => Err(Error::UnknownProperty {
            name: shown(key),
            known: known.into_iter().map(str::to_owned).collect(),
        }),
    }
}

/// Completes the properties and groups the nodes, the largest group first.
pub(crate) fn group(nodes: &mut [NodeRecord], keys: &[String]) -> Vec<NodeGroup> {
    add_sizes(nodes);
    let mut groups: Vec<NodeGroup> = configurations(nodes, keys)
        .into_iter()
        .map(|members| NodeGroup { members, ..NodeGroup::default() })
        .collect();
    for group in &mut groups {
        add_flags(nodes, &group.members);
        group.properties = usual_properties(nodes, &group.members);
        group.name = name(&group.properties, keys);
    }
    groups.sort_by(|a, b| b.members.len().cmp(&a.members.len()).then_with(|| a.name.cmp(&b.name)));
    groups
}

/// Returns the members of each kind: nodes with the same keys, where rare ones have joined others.
fn configurations(nodes: &[NodeRecord], keys: &[String]) -> Vec<Vec<usize>> {
    let mut by_keys: BTreeMap<Vec<&str>, Vec<usize>> = BTreeMap::new();
    let mut models: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, node) in nodes.iter().enumerate() {
        by_keys.entry(keys.iter().map(|key| value(node, key)).collect()).or_default().push(index);
        *models.entry(value(node, CPU_MODEL)).or_default() += 1;
    }
    let groups: Vec<Vec<usize>> = by_keys.into_values().collect();
    let mut joined: BTreeMap<usize, Vec<usize>> = BTreeMap::new();
    for (index, members) in groups.iter().enumerate() {
        let target = |group: usize| {
            let size = groups[group].len();
            let of_model = models.get(value(&nodes[groups[group][0]], CPU_MODEL)).copied().unwrap_or(0);
            let is_rare = size < LEAST.0 || (size as f64) < LEAST.1 * of_model as f64;
            if is_rare { largest_alike(nodes, &groups, group) } else { group }
        };
        // The largest one with the same number of CPUs may itself be rare.
        joined.entry(target(target(index))).or_default().extend(members);
    }
    joined.into_values().map(sorted).collect()
}

fn sorted(mut members: Vec<usize>) -> Vec<usize> {
    members.sort_unstable();
    members
}

/// Returns the largest group with the CPU model and the number of CPUs of a group; with the CPU model where that group is
/// alone with its number. The first of several equal ones.
fn largest_alike(nodes: &[NodeRecord], groups: &[Vec<usize>], index: usize) -> usize {
    let own = &nodes[groups[index][0]];
    let of = |group: usize, property: &str| value(&nodes[groups[group][0]], property) == value(own, property);
    let largest = |alike: &dyn Fn(usize) -> bool| {
        let all = (0..groups.len()).filter(|&group| alike(group));
        all.max_by_key(|&group| (groups[group].len(), std::cmp::Reverse(group))).unwrap_or(index)
    };
    let with_cpus = largest(&|group| of(group, CPU_MODEL) && of(group, CPUS));
    let is_enough = groups[with_cpus].len() >= LEAST.0 || with_cpus != index;
    if is_enough { with_cpus } else { largest(&|group| of(group, CPU_MODEL)) }
}

/// Returns the most frequent value of each property that most of the nodes have.
fn usual_properties(nodes: &[NodeRecord], members: &[usize]) -> BTreeMap<String, String> {
    let mut counts: BTreeMap<&str, BTreeMap<&str, usize>> = BTreeMap::new();
    for &member in members {
        for (name, value) in &nodes[member].properties {
            *counts.entry(name).or_default().entry(value).or_default() += 1;
        }
    }
    let usual = |(name, values): (&str, BTreeMap<&str, usize>)| {
        let known: usize = values.values().sum();
        let (value, _) = values.into_iter().max_by_key(|(_, count)| *count)?;
        (2 * known > members.len()).then(|| (name.to_owned(), value.to_owned()))
    };
    counts.into_iter().filter_map(usual).collect()
}

fn name(properties: &BTreeMap<String, String>, keys: &[String]) -> String {
    let part = |key: &String| {
        let value = properties.get(key).map_or(UNKNOWN, String::as_str);
        match (key.as_str(), value) {
            (CPU_MODEL, UNKNOWN) => "unknown CPU model".to_owned(),
            (CPU_MODEL, model) => model.to_owned(),
            (CPUS, "1") => "1 CPU".to_owned(),
            (CPUS, count) => format!("{count} CPUs"),
            (MEMORY, UNKNOWN) => "unknown memory".to_owned(),
            (MEMORY, size) => size.to_owned(),
            (KERNEL, release) => format!("Linux {release}"),
            (MICROCODE, revision) => format!("microcode {revision}"),
            (other, value) => format!("{} {value}", shown(other)),
        }
    };
    if keys.is_empty() {
        "all nodes".to_owned()
    } else {
        keys.iter().map(part).collect::<Vec<_>>().join(", ")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::properties::DEFAULT_KEYS;

    fn nodes(groups: &[(usize, &str, &str, &str)]) -> Vec<NodeRecord> {
        let node = |(model, cpus, kernel): (&str, &str, &str)| NodeRecord {
            properties: [(CPU_MODEL, model), (CPUS, cpus), (KERNEL, kernel)]
                .map(|(name, value)| (name.to_owned(), value.to_owned()))
                .into(),
            ..NodeRecord::default()
        };
        let many =
            |&(count, model, cpus, kernel): &(usize, _, _, _)| vec![node((model, cpus, kernel)); count];
        groups.iter().flat_map(many).collect()
    }

    fn sizes(groups: &[(usize, &str, &str, &str)]) -> Vec<usize> {
        let keys = DEFAULT_KEYS.map(str::to_owned);
        group(&mut nodes(groups), &keys).iter().map(|group| group.members.len()).collect()
    }

    #[test]
    fn a_property_that_no_node_has_is_refused() {
        let fleet = nodes(&[(30, "A", "64", "6.8")]);
        let check = |key: &str| check_keys(&fleet, &[key.to_owned()]).map_err(|error| error.to_string());
        for known in ["CPUs", "microcode", "memory per NUMA node", "governor"] {
            assert_eq!(check(known), Ok(()));
        }
        let said = check("cpu model").unwrap_err();
        let expected = "no node has the property cpu model: the records have BIOS, CPU id, CPU model, CPUs, NUMA nodes, SMT, budget, ";
        assert!(said.starts_with(expected), "{said}");
    }

    #[test]
    fn rare_configurations_do_not_escape_comparison() {
        // Another kernel on two nodes, half of the CPUs on one.
        let fleet = [(30, "A", "64", "6.8"), (2, "A", "64", "5.15"), (1, "A", "32", "6.8")];
        assert_eq!(sizes(&fleet), [33]);
        // Six nodes are a kind of their own, unless they are few among many.
        assert_eq!(sizes(&[(30, "A", "64", "6.8"), (6, "A", "64", "5.15")]), [30, 6]);
        assert_eq!(sizes(&[(300, "A", "64", "6.8"), (6, "A", "64", "5.15")]), [306]);
        // Another model cannot be compared.
        assert_eq!(sizes(&[(30, "A", "64", "6.8"), (1, "B", "64", "6.8")]), [30, 1]);
        assert_eq!(sizes(&[(30, "A", "64", "6.8"), (3, "A", "32", "6.8"), (2, "A", "32", "5.15")]), [35]);
        // Several rare ones join the largest of them.
        assert_eq!(sizes(&[(3, "A", "64", "6.8"), (3, "A", "64", "5.15"), (1, "A", "64", "4")]), [7]);
        assert!(sizes(&[]).is_empty());
    }

    #[test]
    fn a_rare_one_prefers_its_number_of_cpus() {
        let mut fleet = nodes(&[(30, "A", "64", "6.8"), (10, "A", "32", "6.8"), (1, "A", "32", "5")]);
        let groups = group(&mut fleet, &DEFAULT_KEYS.map(str::to_owned));
        let found: Vec<usize> = groups.iter().map(|group| group.members.len()).collect();
        assert_eq!(found, [30, 11]);
        assert_eq!(groups[1].name, "A, 32 CPUs, unknown memory, Linux 6.8, microcode unknown");
    }

    #[test]
    fn other_keys_may_be_named() {
        let mut fleet = nodes(&[(6, "A", "64", "6.8"), (6, "A", "64", "5.15")]);
        assert_eq!(group(&mut fleet, &[CPU_MODEL.to_owned()]).len(), 1);
        assert_eq!(group(&mut fleet, &[])[0].name, "all nodes");
    }
}
