//! Resource usage of running domains and of their host: rates computed from two readings of their counters.

use manycore_linux::vms::{
    CpuTime, DomainIdentity, DomainReading, HostReading, RunningDomains, VcpuReading, host_counters,
};
use manycore_topology::SysTree;
use serde::Serialize;
use std::collections::BTreeMap;

/// Value of [`DomainsSnapshot::schema`] that this version writes.
pub const DOMAINS_SCHEMA: &str = "manycore/vms/1";

/// Resource usage of a domain between two readings. CPU time is in percent of one CPU. Unknown values are
/// absent, and so are all rates of a domain without an earlier reading.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DomainUsage {
    /// The domain.
    #[serde(flatten)]
    pub identity: DomainIdentity,
    /// Number of virtual CPUs; absent if no thread has the name of one.
    pub vcpus: Option<usize>,
    /// CPU time of all its threads, in percent of one CPU.
    pub cpu_percent: Option<f64>,
    /// CPU time in the guest, in percent of one CPU.
    pub guest_percent: Option<f64>,
    /// CPU time in the host's kernel for the domain, in percent of one CPU.
    pub system_percent: Option<f64>,
    /// Time that its virtual CPUs were ready but not running, in percent of the elapsed time, summed over them. The
    /// guest sees it as steal.
    pub wait_percent: Option<f64>,
    /// Context switches of its virtual CPUs per second.
    pub switches_per_second: Option<f64>,
    /// VM exits of its virtual CPUs per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exits_per_second: Option<f64>,
    /// Host memory that it uses, in bytes.
    pub memory_bytes: u64,
    /// Memory by node, in bytes, if it was requested.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub memory_by_node: BTreeMap<u32, u64>,
    /// Memory traffic in bytes per second; absent if no resctrl group holds only this domain.
    pub bytes_per_second: Option<f64>,
    /// Memory traffic in bytes per second by node, or by cache if the kernel counts by cache.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub bytes_per_second_by_node: BTreeMap<String, Option<f64>>,
    /// Usage of each virtual CPU, if it was requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<VcpuUsage>,
}

/// Resource usage of a virtual CPU. Units as in [`DomainUsage`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct VcpuUsage {
    /// Number of the virtual CPU.
    pub vcpu: u32,
    /// Thread id.
    pub tid: u32,
    /// Current or last host CPU.
    pub cpu: Option<u32>,
    /// CPU time, in percent of one CPU.
    pub cpu_percent: Option<f64>,
    /// CPU time in the guest, in percent of one CPU.
    pub guest_percent: Option<f64>,
    /// CPU time in the host's kernel for it, in percent of one CPU.
    pub system_percent: Option<f64>,
    /// Time that it was ready but not running, in percent of the elapsed time.
    pub wait_percent: Option<f64>,
    /// Context switches per second.
    pub switches_per_second: Option<f64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Resource usage of the whole host.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HostUsage {
    /// Number of online CPUs.
    pub cpus: usize,
    /// CPU time in percent of one CPU: 400 means four busy CPUs.
    pub cpu_percent: Option<f64>,
    /// CPU time in guests, in percent of one CPU.
    pub guest_percent: Option<f64>,
    /// CPU time that a hypervisor below this host gave to other guests (steal), in percent of one CPU.
    pub steal_percent: Option<f64>,
    /// Total memory, in bytes.
    pub memory_bytes: u64,
    /// Available memory, in bytes.
    pub available_bytes: u64,
    /// Memory traffic of all groups, in bytes per second.
    pub bytes_per_second: Option<f64>,
    /// Number of resctrl groups whose traffic is unknown; the real traffic is then higher.
    #[serde(skip_serializing_if = "is_zero")]
    pub groups_without_rate: usize,
    /// Memory traffic in bytes per second, by node or cache.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub bytes_per_second_by_node: BTreeMap<String, Option<f64>>,
}

/// Usage of the host and of all domains over one interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DomainsSnapshot {
    /// Always [`DOMAINS_SCHEMA`].
    #[cfg_attr(feature = "schema", schemars(extend("const" = DOMAINS_SCHEMA)))]
    pub schema: String,
    /// Time in UTC (RFC 3339).
    pub time: String,
    /// Seconds between the two readings.
    pub seconds: f64,
    /// The host.
    pub host: HostUsage,
    /// Each domain.
    pub domains: Vec<DomainUsage>,
}

impl DomainsSnapshot {
    /// Computes the usage from two readings. Domains that have ended are left out. Without the first reading,
    /// all rates are absent.
    pub(crate) fn between(time: String, before: Option<&Readings>, now: &Readings) -> Self {
        let passed = before.map_or(0, |before| now.host.at_ns.saturating_sub(before.host.at_ns));
        let usage = |(pid, now): (&u32, &DomainReading)| {
            DomainUsage::between(before.and_then(|before| before.domains.get(pid)), now)
        };
        Self {
            schema: DOMAINS_SCHEMA.to_owned(),
            time,
            seconds: passed as f64 / 1e9,
            host: HostUsage::between(before.map(|before| &before.host), &now.host),
            domains: now.domains.iter().map(usage).collect(),
        }
    }
}

/// Counters of the host and of all domains at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Readings {
    pub host: HostReading,
    /// By process id of the emulator.
    pub domains: BTreeMap<u32, DomainReading>,
}

impl Readings {
    /// Reads the host below `tree`, and `domains` on it.
    pub fn take(tree: &SysTree, domains: &mut RunningDomains<&SysTree>) -> Self {
        let host = host_counters(tree);
        let by_pid = |reading: DomainReading| (reading.identity.pid, reading);
        Self { host, domains: domains.read().into_iter().map(by_pid).collect() }
    }
}

/// Returns the growth of a nanosecond counter, in percent of the elapsed time.
fn percent(before: u64, after: u64, wall_ns: u64) -> Option<f64> {
    let gained = after.checked_sub(before)?;
    (wall_ns > 0).then(|| gained as f64 * 100.0 / wall_ns as f64)
}

fn per_second(before: u64, after: u64, wall_ns: u64) -> Option<f64> {
    let gained = after.checked_sub(before)?;
    (wall_ns > 0).then(|| gained as f64 / wall_ns as f64 * 1e9)
}

impl DomainUsage {
    /// Computes the usage from two readings of the same domain. Without the first one, rates are absent.
    fn between(before: Option<&DomainReading>, after: &DomainReading) -> Self {
        let is_same = |before: &&DomainReading| {
            let (old, new) = (&before.identity, &after.identity);
            (old.pid, old.started) == (new.pid, new.started)
        };
        let before = before.filter(is_same);
        let wall = before.map_or(0, |before| after.at_ns.saturating_sub(before.at_ns));
        let share = |of: fn(&CpuTime) -> u64| percent(of(&before?.time), of(&after.time), wall);
        let threads: Vec<VcpuUsage> = after
            .vcpus
            .iter()
            .map(|(&vcpu, now)| {
                VcpuUsage::between(vcpu, before.and_then(|before| before.vcpus.get(&vcpu)), now, wall)
            })
            .collect();
        Self {
            identity: after.identity.clone(),
            vcpus: Some(after.vcpus.len()).filter(|&count| count > 0),
            cpu_percent: share(|time| time.user_ns + time.system_ns),
            guest_percent: share(|time| time.guest_ns),
            system_percent: share(|time| time.system_ns),
            wait_percent: sum(threads.iter().map(|thread| thread.wait_percent)),
            switches_per_second: sum(threads.iter().map(|thread| thread.switches_per_second)),
            exits_per_second: before.and_then(|before| per_second(before.exits?, after.exits?, wall)),
            memory_bytes: after.memory_bytes,
            memory_by_node: after.memory_by_node.clone(),
            bytes_per_second: None,
            bytes_per_second_by_node: BTreeMap::new(),
            threads: if after.vcpus.values().any(|vcpu| vcpu.cpu.is_some()) { threads } else { Vec::new() },
        }
    }
}

/// Returns the sum. A virtual CPU without a figure (a new one) makes it absent, since the sum would be too
/// small.
fn sum(mut parts: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    let first = parts.next()??;
    parts.try_fold(first, |sum, part| Some(sum + part?))
}

impl VcpuUsage {
    fn between(vcpu: u32, before: Option<&VcpuReading>, after: &VcpuReading, wall_ns: u64) -> Self {
        let before = before.filter(|before| before.tid == after.tid);
        let gained = |of: fn(&VcpuReading) -> Option<u64>| Some((of(before?)?, of(after)?));
        let share = |of: fn(&VcpuReading) -> Option<u64>| {
            gained(of).and_then(|(before, after)| percent(before, after, wall_ns))
        };
        let ticks = |reading: &VcpuReading| reading.time.map(|time| time.user_ns + time.system_ns);
        Self {
            vcpu,
            tid: after.tid,
            cpu: after.cpu,
            cpu_percent: share(|vcpu| vcpu.busy_ns).or_else(|| share(ticks)),
            guest_percent: share(|vcpu| vcpu.time.map(|time| time.guest_ns)),
            system_percent: share(|vcpu| vcpu.time.map(|time| time.system_ns)),
            wait_percent: share(|vcpu| vcpu.delay_ns),
            switches_per_second: gained(|vcpu| vcpu.switches)
                .and_then(|(before, after)| per_second(before, after, wall_ns)),
        }
    }
}

impl HostUsage {
    /// Computes the usage from two readings.
    fn between(before: Option<&HostReading>, after: &HostReading) -> Self {
        let share = |of: fn(&HostReading) -> u64| {
            let before = before?;
            percent(of(before), of(after), after.at_ns.saturating_sub(before.at_ns))
        };
        Self {
            cpus: after.cpus,
            cpu_percent: share(|host| host.busy_ns),
            guest_percent: share(|host| host.guest_ns),
            steal_percent: share(|host| host.steal_ns),
            memory_bytes: after.memory_bytes,
            available_bytes: after.available_bytes,
            bytes_per_second: None,
            groups_without_rate: 0,
            bytes_per_second_by_node: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn reading(at: u64, busy: u64, tid: u32) -> DomainReading {
        let vcpu = VcpuReading {
            tid,
            busy_ns: Some(busy),
            delay_ns: Some(busy / 2),
            switches: Some(busy / 1_000_000),
            ..VcpuReading::default()
        };
        DomainReading {
            identity: DomainIdentity {
                name: "web1".to_owned(),
                pid: 7,
                started: 1,
                ..DomainIdentity::default()
            },
            at_ns: at,
            time: CpuTime { user_ns: busy, system_ns: busy / 10, guest_ns: busy / 2 },
            memory_bytes: 1 << 30,
            vcpus: BTreeMap::from([(0, vcpu.clone()), (1, vcpu)]),
            exits: Some(busy / 1000),
            ..DomainReading::default()
        }
    }

    #[test]
    fn rates_are_differences_over_time() {
        let used = DomainUsage::between(Some(&reading(0, SECOND, 8)), &reading(2 * SECOND, 2 * SECOND, 8));
        assert_eq!((used.cpu_percent, used.guest_percent), (Some(55.0), Some(25.0)));
        assert_eq!((used.system_percent, used.wait_percent), (Some(5.0), Some(50.0)));
        assert_eq!((used.switches_per_second, used.exits_per_second), (Some(1000.0), Some(500_000.0)));
        assert!(used.threads.is_empty());
    }

    #[test]
    fn new_domains_have_no_rates() {
        let (old, new) = (reading(0, SECOND, 8), reading(SECOND, SECOND / 2, 8));
        let first = DomainUsage::between(None, &new);
        assert_eq!((first.cpu_percent, first.wait_percent, first.vcpus), (None, None, Some(2)));
        // The process id was reused by another process.
        let mut other = new.clone();
        other.identity.started = 2;
        assert_eq!(DomainUsage::between(Some(&old), &other).cpu_percent, None);
        // Counters never decrease. If one seems to, there is no rate.
        assert_eq!(DomainUsage::between(Some(&old), &new).cpu_percent, None);
        // A virtual CPU was unplugged and plugged in again.
        let replugged = DomainUsage::between(Some(&old), &reading(SECOND, 2 * SECOND, 9));
        assert_eq!((replugged.cpu_percent.is_some(), replugged.wait_percent), (true, None));
    }
}
