//! Resource usage of running domains: readings of counters, and the rates computed from two readings.

use serde::Serialize;
use std::collections::BTreeMap;

/// Value of [`Moment::schema`] that this version writes.
pub const DOMAINS_SCHEMA: &str = "manycore/domains/1";

/// CPU time of a process or thread since its start, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// Time in user mode, including the guest, in nanoseconds.
    pub user_ns: u64,
    /// Time in the kernel, in nanoseconds.
    pub system_ns: u64,
    /// Time in the guest, in nanoseconds; 0 under software emulation.
    pub guest_ns: u64,
}

/// Kernel counters of the thread of a virtual CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VcpuReading {
    /// Thread id.
    pub tid: u32,
    /// Time on a CPU in nanoseconds. Absent, like the next two fields, if the kernel does not count it.
    pub busy_ns: Option<u64>,
    /// Time runnable but waiting for a CPU, in nanoseconds. The guest sees it as steal.
    pub delay_ns: Option<u64>,
    /// Number of times that it was scheduled onto a CPU: its context switches.
    pub switches: Option<u64>,
    /// CPU time; only read if single virtual CPUs were requested.
    pub time: Option<CpuTime>,
    /// Current or last CPU; only read if single virtual CPUs were requested.
    pub cpu: Option<u32>,
}

/// Identity of a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Identity {
    /// Full name, or else the UUID or the process id.
    pub name: String,
    /// UUID, if it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// Number that libvirt assigned when it started the domain; absent if libvirt did not start it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    /// Process id of the emulator.
    pub pid: u32,
    /// Start time of the process in clock ticks since boot. Together with `pid`, it identifies the process.
    #[serde(skip)]
    pub started: u64,
    /// Name of its control group, such as `qemu-3-web1`; absent if libvirt did not create one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// `running` or `paused`; absent if libvirt's status file cannot be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// Counters of a domain at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Number of the domain.
    pub identity: Identity,
    /// Time of the reading, in nanoseconds.
    pub at_ns: u64,
    /// CPU time of the whole process.
    pub time: CpuTime,
    /// Host memory that it uses, in bytes, huge pages included.
    pub resident: u64,
    /// Counters of the virtual CPUs, by number.
    pub vcpus: BTreeMap<u32, VcpuReading>,
    /// Number of VM exits of its virtual CPUs, if KVM reports it.
    pub exits: Option<u64>,
    /// Memory by node, in bytes, if it was requested.
    pub memory: BTreeMap<u32, u64>,
}

/// Counters of the host at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostReading {
    /// Time of the reading, in nanoseconds.
    pub at_ns: u64,
    /// Number of online CPUs.
    pub cpus: usize,
    /// Time of all CPUs together that was neither idle nor waiting for I/O, in nanoseconds.
    pub busy_ns: u64,
    /// The part of it in guests, in nanoseconds.
    pub guest_ns: u64,
    /// Time that a hypervisor below this host gave to other guests (steal), in nanoseconds.
    pub steal_ns: u64,
    /// Total memory, in bytes.
    pub memory: u64,
    /// Available memory, in bytes.
    pub available: u64,
}

/// Resource usage of a domain between two readings. CPU time is in percent of one CPU. Unknown values are
/// absent, and so are all rates of a domain without an earlier reading.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Usage {
    /// Number of the domain.
    #[serde(flatten)]
    pub identity: Identity,
    /// Number of virtual CPUs; absent if no thread has the name of one.
    pub vcpus: Option<usize>,
    /// CPU time of all its threads.
    pub cpu_percent: Option<f64>,
    /// The part of it in the guest.
    pub guest_percent: Option<f64>,
    /// The part of it in the host's kernel.
    pub system_percent: Option<f64>,
    /// Time that its virtual CPUs were ready but not running, summed over them. The guest sees it as steal.
    pub delay_percent: Option<f64>,
    /// Context switches of its virtual CPUs per second.
    pub switches_per_second: Option<f64>,
    /// VM exits of its virtual CPUs per second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exits_per_second: Option<f64>,
    /// Host memory that it uses, in bytes.
    pub resident: u64,
    /// Memory by node, in bytes, if it was requested.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub memory_by_node: BTreeMap<u32, u64>,
    /// Memory traffic in bytes per second; absent if no resctrl group holds only this domain.
    pub bandwidth: Option<f64>,
    /// Memory traffic by node, or by cache if the kernel counts by cache.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub bandwidth_by_domain: BTreeMap<String, Option<f64>>,
    /// Usage of each virtual CPU, if it was requested.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<VcpuUsage>,
}

/// Resource usage of a virtual CPU. Units as in [`Usage`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct VcpuUsage {
    /// Number of the virtual CPU.
    pub vcpu: u32,
    /// Thread id.
    pub tid: u32,
    /// Current or last host CPU.
    pub cpu: Option<u32>,
    /// Time on a CPU.
    pub cpu_percent: Option<f64>,
    /// The part of it in the guest.
    pub guest_percent: Option<f64>,
    /// The part of it in the host's kernel.
    pub system_percent: Option<f64>,
    /// Time that it waited for a CPU.
    pub delay_percent: Option<f64>,
    /// Context switches per second.
    pub switches_per_second: Option<f64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// Resource usage of the whole host.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HostUsage {
    /// Number of online CPUs.
    pub cpus: usize,
    /// CPU time in percent of one CPU: 400 means four busy CPUs.
    pub cpu_percent: Option<f64>,
    /// The part of it in guests.
    pub guest_percent: Option<f64>,
    /// CPU time that a hypervisor below this host gave to other guests.
    pub steal_percent: Option<f64>,
    /// Total memory, in bytes.
    pub memory: u64,
    /// Available memory, in bytes.
    pub available: u64,
    /// Memory traffic of all groups, in bytes per second.
    pub bandwidth: Option<f64>,
    /// Number of resctrl groups whose traffic is unknown; the real traffic is then higher.
    #[serde(skip_serializing_if = "is_zero")]
    pub bandwidth_without: usize,
    /// Memory traffic by node or cache.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub bandwidth_by_domain: BTreeMap<String, Option<f64>>,
}

/// Usage of the host and of all domains over one interval.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Moment {
    /// Always [`DOMAINS_SCHEMA`].
    pub schema: String,
    /// Time in UTC (RFC 3339).
    pub time: String,
    /// Seconds between the two readings.
    pub seconds: f64,
    /// The host.
    pub host: HostUsage,
    /// Each domain.
    pub domains: Vec<Usage>,
}

impl Moment {
    /// Computes the usage from two readings of the host and of each domain, by process id. Domains that have
    /// ended are left out.
    pub fn between(
        time: String,
        host_before: Option<&HostReading>,
        before: &BTreeMap<u32, Reading>,
        (host, now): (&HostReading, &BTreeMap<u32, Reading>),
    ) -> Self {
        let passed = host_before.map_or(0, |before| host.at_ns.saturating_sub(before.at_ns));
        Self {
            schema: DOMAINS_SCHEMA.to_owned(),
            time,
            seconds: passed as f64 / 1e9,
            host: HostUsage::between(host_before, host),
            domains: now.iter().map(|(pid, now)| Usage::between(before.get(pid), now)).collect(),
        }
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

impl Usage {
    /// Computes the usage from two readings of the same domain. Without the first one, rates are absent.
    pub fn between(before: Option<&Reading>, after: &Reading) -> Self {
        let is_same = |before: &&Reading| {
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
            delay_percent: sum(threads.iter().map(|thread| thread.delay_percent)),
            switches_per_second: sum(threads.iter().map(|thread| thread.switches_per_second)),
            exits_per_second: before.and_then(|before| per_second(before.exits?, after.exits?, wall)),
            resident: after.resident,
            memory_by_node: after.memory.clone(),
            bandwidth: None,
            bandwidth_by_domain: BTreeMap::new(),
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
            delay_percent: share(|vcpu| vcpu.delay_ns),
            switches_per_second: gained(|vcpu| vcpu.switches)
                .and_then(|(before, after)| per_second(before, after, wall_ns)),
        }
    }
}

impl HostUsage {
    /// Computes the usage from two readings.
    pub fn between(before: Option<&HostReading>, after: &HostReading) -> Self {
        let share = |of: fn(&HostReading) -> u64| {
            let before = before?;
            percent(of(before), of(after), after.at_ns.saturating_sub(before.at_ns))
        };
        Self {
            cpus: after.cpus,
            cpu_percent: share(|host| host.busy_ns),
            guest_percent: share(|host| host.guest_ns),
            steal_percent: share(|host| host.steal_ns),
            memory: after.memory,
            available: after.available,
            bandwidth: None,
            bandwidth_without: 0,
            bandwidth_by_domain: BTreeMap::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn reading(at: u64, busy: u64, tid: u32) -> Reading {
        let vcpu = VcpuReading {
            tid,
            busy_ns: Some(busy),
            delay_ns: Some(busy / 2),
            switches: Some(busy / 1_000_000),
            ..VcpuReading::default()
        };
        Reading {
            identity: Identity { name: "web1".to_owned(), pid: 7, started: 1, ..Identity::default() },
            at_ns: at,
            time: CpuTime { user_ns: busy, system_ns: busy / 10, guest_ns: busy / 2 },
            resident: 1 << 30,
            vcpus: BTreeMap::from([(0, vcpu.clone()), (1, vcpu)]),
            exits: Some(busy / 1000),
            ..Reading::default()
        }
    }

    #[test]
    fn rates_are_differences_over_time() {
        let used = Usage::between(Some(&reading(0, SECOND, 8)), &reading(2 * SECOND, 2 * SECOND, 8));
        assert_eq!((used.cpu_percent, used.guest_percent), (Some(55.0), Some(25.0)));
        assert_eq!((used.system_percent, used.delay_percent), (Some(5.0), Some(50.0)));
        assert_eq!((used.switches_per_second, used.exits_per_second), (Some(1000.0), Some(500_000.0)));
        assert!(used.threads.is_empty());
    }

    #[test]
    fn what_is_new_has_no_rate() {
        let (old, new) = (reading(0, SECOND, 8), reading(SECOND, SECOND / 2, 8));
        let first = Usage::between(None, &new);
        assert_eq!((first.cpu_percent, first.delay_percent, first.vcpus), (None, None, Some(2)));
        // The process id was reused by another process.
        let mut other = new.clone();
        other.identity.started = 2;
        assert_eq!(Usage::between(Some(&old), &other).cpu_percent, None);
        // Counters never decrease. If one seems to, there is no rate.
        assert_eq!(Usage::between(Some(&old), &new).cpu_percent, None);
        // A virtual CPU was unplugged and plugged in again.
        let replugged = Usage::between(Some(&old), &reading(SECOND, 2 * SECOND, 9));
        assert_eq!((replugged.cpu_percent.is_some(), replugged.delay_percent), (true, None));
    }
}
