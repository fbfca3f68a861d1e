//! The usage of groups between two readings.

use super::{
    rates::{MonitorReading, Reading, rate},
    state::GroupOwner,
};
use serde::Serialize;
use std::collections::BTreeMap;

/// Value of [`UsageSnapshot::schema`] that this version writes.
pub const WATCH_SCHEMA: &str = "manycore/qos-watch/1";

/// The readings of all groups at one time, by name of the group.
pub type MonitorReadings = BTreeMap<String, GroupReadings>;

/// The readings of the monitors of one group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupReadings {
    /// Time of the reading, in nanoseconds.
    pub at_ns: u64,
    /// Instance number of the group: a group that was removed and created again under its name has another number.
    pub instance: u64,
    /// The readings of each domain.
    pub monitors: Vec<MonitorReading>,
}

/// Why there is no rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "snake_case")]
pub enum MissingRate {
    /// The group or its figure was missing in the previous reading; a rate needs two readings.
    New,
    /// The hardware has no reading.
    Unavailable,
    /// No counter is assigned.
    Unassigned,
    /// The hardware reports an error.
    Error,
}

/// The usage of a group in one domain.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DomainUse {
    /// The monitored resource: `L3`, `MB`.
    pub resource: String,
    /// Number of the cache or NUMA node.
    pub domain: u32,
    /// Bytes per second to and from memory.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory_bytes_per_second: Option<f64>,
    /// Why there is no `memory_bytes_per_second`, if the monitor should have one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<MissingRate>,
    /// Bytes per second to and from the memory of the local NUMA node; part of `memory_bytes_per_second`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub local_bytes_per_second: Option<f64>,
    /// Bytes of the cache that hold data of the group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cache_bytes: Option<u64>,
}

/// The usage of a group: sums over domains. A sum is absent if any domain has no figure, since it would be
/// too small.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GroupUse {
    /// Its directory; `/` is the default group.
    pub name: String,
    /// Its owner.
    pub owner: GroupOwner,
    /// Bytes per second to and from memory.
    pub memory_bytes_per_second: Option<f64>,
    /// Why there is no `memory_bytes_per_second`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub missing: Option<MissingRate>,
    /// Bytes per second to and from the memory of the local NUMA node; part of `memory_bytes_per_second`.
    pub local_bytes_per_second: Option<f64>,
    /// Bytes of caches that hold data of the group.
    pub cache_bytes: Option<u64>,
    /// The usage in each domain.
    pub domains: Vec<DomainUse>,
}

/// The usage of all groups between two readings.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UsageSnapshot {
    /// Always [`WATCH_SCHEMA`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = WATCH_SCHEMA)))]
    pub schema: String,
    /// Time in UTC (RFC 3339).
    pub time: String,
    /// Seconds between the readings.
    pub seconds: f64,
    /// The default group first, each group followed by its monitoring groups.
    pub groups: Vec<GroupUse>,
    /// Sum over all groups with limits. A monitoring group is counted in its parent group.
    pub all: UsageSum,
}

/// The usage of several groups together.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UsageSum {
    /// Bytes per second to and from memory, of the groups that have a figure.
    pub memory_bytes_per_second: Option<f64>,
    /// Bytes of caches that hold data of the groups.
    pub cache_bytes: Option<u64>,
    /// Number of groups without a figure, which the sum does not include.
    pub groups_without_rate: usize,
    /// Bytes per second to and from memory by resource and domain (`L3 0`), of the groups that have a figure.
    pub domains: BTreeMap<String, f64>,
}

impl DomainUse {
    fn between(before: &[MonitorReading], now: &MonitorReading, seconds: f64) -> Self {
        let is_same = |one: &&MonitorReading| one.domain == now.domain && one.resource == now.resource;
        let before = before.iter().find(is_same);
        let rate_of =
            |of: fn(&MonitorReading) -> Option<Reading>| rate(before.and_then(of), of(now)?, seconds);
        let memory = rate_of(|monitor| monitor.total);
        let missing = match now.total {
            Some(Reading::Unavailable) => Some(MissingRate::Unavailable),
            Some(Reading::Unassigned) => Some(MissingRate::Unassigned),
            Some(Reading::Error) => Some(MissingRate::Error),
            Some(_) if memory.is_none() => Some(MissingRate::New),
            _ => None,
        };
        Self {
            resource: now.resource.clone(),
            domain: now.domain,
            memory_bytes_per_second: memory,
            missing,
            local_bytes_per_second: rate_of(|monitor| monitor.local),
            cache_bytes: now.occupancy.and_then(Reading::bytes),
        }
    }

    /// Returns resource and number: `L3 0`.
    pub fn display_name(&self) -> String {
        format!("{} {}", self.resource, self.domain)
    }
}

/// Returns the sum of all parts; absent if there are no parts or one of them has no figure.
fn sum<T: std::iter::Sum>(parts: Vec<Option<T>>) -> Option<T> {
    if parts.is_empty() { None } else { parts.into_iter().sum() }
}

/// Returns the group whose limits apply: the parent of a monitoring group, else the group itself.
pub fn parent_group(name: &str) -> &str {
    match name.split_once("mon_groups/") {
        Some(("", _)) => "/",
        Some((parent_group, _)) => parent_group.trim_end_matches('/'),
        None => name,
    }
}

impl GroupUse {
    /// Returns the usage of the group `name`.
    pub fn between(name: &str, before: Option<&GroupReadings>, now: &GroupReadings) -> Self {
        let before = before.filter(|before| before.instance == now.instance);
        let seconds = before.map_or(0.0, |before| now.at_ns.saturating_sub(before.at_ns) as f64 / 1e9);
        let old = before.map(|before| before.monitors.as_slice()).unwrap_or_default();
        let domains: Vec<DomainUse> =
            now.monitors.iter().map(|monitor| DomainUse::between(old, monitor, seconds)).collect();
        // Only monitors with such a file contribute to its sum.
        let rates = |has: fn(&MonitorReading) -> bool, of: fn(&DomainUse) -> Option<f64>| {
            let with = now.monitors.iter().zip(&domains).filter(move |(monitor, _)| has(monitor));
            sum(with.map(|(_, domain)| of(domain)).collect())
        };
        let holding = now.monitors.iter().zip(&domains).filter(|(monitor, _)| monitor.occupancy.is_some());
        let memory = rates(|monitor| monitor.total.is_some(), |domain| domain.memory_bytes_per_second);
        Self {
            name: if name.is_empty() { "/" } else { name }.to_owned(),
            owner: GroupOwner::from_group_name(name, None),
            memory_bytes_per_second: memory,
            missing: if memory.is_none() { domains.iter().find_map(|domain| domain.missing) } else { None },
            local_bytes_per_second: rates(
                |monitor| monitor.local.is_some(),
                |domain| domain.local_bytes_per_second,
            ),
            cache_bytes: sum(holding.map(|(_, domain)| domain.cache_bytes).collect()),
            domains,
        }
    }

    fn parent_group(&self) -> &str {
        parent_group(&self.name)
    }
}

impl UsageSnapshot {
    /// Returns the usage of the groups for which `is_wanted` is true, from one reading to the next.
    pub fn between(
        time: String,
        before: &MonitorReadings,
        now: &MonitorReadings,
        is_wanted: impl Fn(&str) -> bool,
    ) -> Self {
        let groups = now.iter().filter(|(name, _)| is_wanted(name));
        let mut groups: Vec<GroupUse> =
            groups.map(|(name, now)| GroupUse::between(name, before.get(name), now)).collect();
        groups.sort_by(|a, b| a.parent_group().cmp(b.parent_group()).then_with(|| a.name.cmp(&b.name)));
        let gap = |(name, now): (&String, &GroupReadings)| now.at_ns.checked_sub(before.get(name)?.at_ns);
        let seconds = now.iter().find_map(gap).unwrap_or(0) as f64 / 1e9;
        let all = UsageSum::new(&groups);
        Self { schema: WATCH_SCHEMA.to_owned(), time, seconds, groups, all }
    }

    /// Returns the domains of all groups, in order.
    pub fn domains(&self) -> Vec<String> {
        let of = |group: &GroupUse| {
            group.domains.iter().map(|one| (one.resource.clone(), one.domain)).collect::<Vec<_>>()
        };
        let all: std::collections::BTreeSet<(String, u32)> = self.groups.iter().flat_map(of).collect();
        all.into_iter().map(|(resource, domain)| format!("{resource} {domain}")).collect()
    }
}

impl UsageSum {
    fn new(groups: &[GroupUse]) -> Self {
        // A monitoring group is counted in its parent group, if that is shown too.
        let is_inside = |group: &GroupUse| {
            group.parent_group() != group.name
                && groups.iter().any(|other| other.name == group.parent_group())
        };
        let mut all = Self::default();
        for group in groups.iter().filter(|group| !is_inside(group)) {
            match group.memory_bytes_per_second {
                Some(memory) => {
                    all.memory_bytes_per_second = Some(all.memory_bytes_per_second.unwrap_or(0.0) + memory);
                }
                None => all.groups_without_rate += 1,
            }
            if let Some(cache) = group.cache_bytes {
                all.cache_bytes = Some(all.cache_bytes.unwrap_or(0) + cache);
            }
            for domain in &group.domains {
                if let Some(memory) = domain.memory_bytes_per_second {
                    *all.domains.entry(domain.display_name()).or_default() += memory;
                }
            }
        }
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use Reading::{Bytes, Unavailable};

    fn readings(at: u64, instance: u64, totals: &[Reading]) -> GroupReadings {
        let monitor = |(domain, total): (usize, &Reading)| MonitorReading {
            resource: "L3".to_owned(),
            domain: domain as u32,
            occupancy: Some(Bytes(1 << 20)),
            total: Some(*total),
            local: None,
        };
        GroupReadings {
            at_ns: at * 1_000_000_000,
            instance,
            monitors: totals.iter().enumerate().map(monitor).collect(),
        }
    }

    fn readings_at(at: u64, groups: &[(&str, u64, &[Reading])]) -> MonitorReadings {
        groups
            .iter()
            .map(|(name, instance, totals)| ((*name).to_owned(), readings(at, *instance, totals)))
            .collect()
    }

    #[test]
    fn domains_are_summed_and_groups_too() {
        let before = readings_at(
            0,
            &[
                ("", 1, &[Bytes(0), Bytes(10)]),
                ("a", 2, &[Bytes(5), Bytes(5)]),
                ("a/mon_groups/m", 3, &[Bytes(0), Bytes(0)]),
            ],
        );
        let after = readings_at(
            2,
            &[
                ("", 1, &[Bytes(20), Bytes(10)]),
                ("a", 2, &[Bytes(105), Bytes(205)]),
                ("a/mon_groups/m", 3, &[Bytes(50), Bytes(0)]),
            ],
        );
        let snapshot = UsageSnapshot::between(String::new(), &before, &after, |_| true);
        let figures: Vec<_> = snapshot
            .groups
            .iter()
            .map(|group| (group.name.as_str(), group.memory_bytes_per_second))
            .collect();
        assert_eq!(figures, [("/", Some(10.0)), ("a", Some(150.0)), ("a/mon_groups/m", Some(25.0))]);
        assert_eq!(
            (snapshot.all.memory_bytes_per_second, snapshot.all.groups_without_rate, snapshot.seconds),
            (Some(160.0), 0, 2.0)
        );
        assert_eq!(
            snapshot.all.domains,
            BTreeMap::from([("L3 0".to_owned(), 60.0), ("L3 1".to_owned(), 100.0)])
        );
        assert_eq!(snapshot.groups[1].cache_bytes, Some(2 << 20));
        assert_eq!(snapshot.groups[1].local_bytes_per_second, None);
        assert_eq!(snapshot.domains(), ["L3 0", "L3 1"]);
        // Without its parent group, a monitoring group is counted.
        let snapshot =
            UsageSnapshot::between(String::new(), &before, &after, |name| name.contains("mon_groups"));
        assert_eq!(snapshot.all.memory_bytes_per_second, Some(25.0));
    }

    #[test]
    fn a_missing_figure_is_not_0() {
        let before = readings_at(
            0,
            &[("a", 1, &[Bytes(5), Bytes(5)]), ("gone", 2, &[Bytes(9)]), ("anew", 3, &[Bytes(9)])],
        );
        let after = readings_at(
            1,
            &[("a", 1, &[Bytes(6), Unavailable]), ("anew", 4, &[Bytes(11)]), ("new", 5, &[Bytes(3)])],
        );
        let snapshot = UsageSnapshot::between(String::new(), &before, &after, |_| true);
        let figures: Vec<_> = snapshot
            .groups
            .iter()
            .map(|group| (group.name.as_str(), group.memory_bytes_per_second, group.missing))
            .collect();
        assert_eq!(
            figures,
            [
                ("a", None, Some(MissingRate::Unavailable)),
                ("anew", None, Some(MissingRate::New)),
                ("new", None, Some(MissingRate::New))
            ]
        );
        assert_eq!((snapshot.all.memory_bytes_per_second, snapshot.all.groups_without_rate), (None, 3));
        assert_eq!(snapshot.groups[0].domains[0].memory_bytes_per_second, Some(1.0));
        let json = serde_json::to_value(&snapshot).unwrap();
        assert_eq!(json["groups"][0]["memory_bytes_per_second"], serde_json::Value::Null);
        assert_eq!(json["groups"][0]["missing"], "unavailable");
    }
}
