//! What running domains use: readings of their counters, and the rates that follow from two of them.

use serde::Serialize;
use std::collections::BTreeMap;

/// Value of [`Moment::schema`] that this version writes.
pub const DOMAINS_SCHEMA: &str = "manycore/domains/1";

/// CPU time of a process or thread since its start, in nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CpuTime {
    /// In user mode, the guest's included.
    pub user_ns: u64,
    /// In the kernel.
    pub system_ns: u64,
    /// In the guest; nothing under software emulation.
    pub guest_ns: u64,
}

/// What the kernel counted for the thread of a virtual CPU.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct VcpuReading {
    /// The thread.
    pub tid: u32,
    /// Time on a CPU in nanoseconds; absent, like the next two, on a kernel that does not count it.
    pub busy_ns: Option<u64>,
    /// Time runnable and waiting for a CPU, in nanoseconds: to the guest it is steal.
    pub delay_ns: Option<u64>,
    /// How often it was put on a CPU: its context switches.
    pub switches: Option<u64>,
    /// Read where single virtual CPUs are asked for.
    pub time: Option<CpuTime>,
    /// The CPU that it is on, or was on last; likewise.
    pub cpu: Option<u32>,
}

/// Who a domain is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Identity {
    /// Whole name; the uuid, or the process, of one that has none.
    pub name: String,
    /// Where it has one.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uuid: Option<String>,
    /// The number that libvirt gave it when it was started; none where libvirt did not start it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    /// The emulator's process.
    pub pid: u32,
    /// When that was started, in clock ticks since boot: with `pid` it is nobody else.
    #[serde(skip)]
    pub started: u64,
    /// The name of its control group, such as `qemu-3-web1`; none where libvirt made none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub machine: Option<String>,
    /// `running`, `paused`, where libvirt's notes may be read.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state: Option<String>,
}

/// Counters of one domain at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reading {
    /// Whose.
    pub identity: Identity,
    /// When, in nanoseconds.
    pub at_ns: u64,
    /// Of the whole process.
    pub time: CpuTime,
    /// Memory that it has from the host, in bytes, huge pages included.
    pub resident: u64,
    /// By number.
    pub vcpus: BTreeMap<u32, VcpuReading>,
    /// How often its virtual CPUs have left the guest, where KVM tells.
    pub exits: Option<u64>,
    /// Its memory by node, in bytes, where that was asked for.
    pub memory: BTreeMap<u32, u64>,
}

/// Counters of the host at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostReading {
    /// When, in nanoseconds.
    pub at_ns: u64,
    /// CPUs online.
    pub cpus: usize,
    /// Time of all CPUs together that was neither idle nor waited for a disk, in nanoseconds.
    pub busy_ns: u64,
    /// Part of it in guests.
    pub guest_ns: u64,
    /// Part of it that a hypervisor below gave to somebody else.
    pub steal_ns: u64,
    /// All memory, in bytes.
    pub memory: u64,
    /// Memory that could be had, in bytes.
    pub available: u64,
}

/// What a domain used between two readings. CPU time is in percent of one CPU; what could not be told is absent, and
/// so is every rate of a domain that was not there before.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Usage {
    /// Whose.
    #[serde(flatten)]
    pub identity: Identity,
    /// Number of virtual CPUs; absent where no thread says that it is one.
    pub vcpus: Option<usize>,
    /// All its threads.
    pub cpu_percent: Option<f64>,
    /// Part of it in the guest.
    pub guest_percent: Option<f64>,
    /// Part of it in the host's kernel.
    pub system_percent: Option<f64>,
    /// Time that its virtual CPUs wanted to run and did not, summed over them: what the guest sees as steal.
    pub delay_percent: Option<f64>,
    /// Context switches of its virtual CPUs in a second.
    pub switches_per_second: Option<f64>,
    /// Exits of its virtual CPUs from the guest in a second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub exits_per_second: Option<f64>,
    /// Bytes of the host's memory.
    pub resident: u64,
    /// By node, where asked for.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub memory_by_node: BTreeMap<u32, u64>,
    /// To and from memory, in bytes a second: absent where no group of resctrl is the domain's own.
    pub bandwidth: Option<f64>,
    /// By node, or by cache where that is how the kernel counts.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub bandwidth_by_domain: BTreeMap<String, Option<f64>>,
    /// Each of them, where asked for.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub threads: Vec<VcpuUsage>,
}

/// What a virtual CPU used; units as in [`Usage`].
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct VcpuUsage {
    /// Its number.
    pub vcpu: u32,
    /// Its thread.
    pub tid: u32,
    /// The host's CPU that it is on, or was on last.
    pub cpu: Option<u32>,
    /// Time on a CPU.
    pub cpu_percent: Option<f64>,
    /// Part of it in the guest.
    pub guest_percent: Option<f64>,
    /// Part of it in the host's kernel.
    pub system_percent: Option<f64>,
    /// Time that it waited for a CPU.
    pub delay_percent: Option<f64>,
    /// Context switches in a second.
    pub switches_per_second: Option<f64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde's form")]
fn is_zero(count: &usize) -> bool {
    *count == 0
}

/// What the host as a whole used.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct HostUsage {
    /// CPUs online.
    pub cpus: usize,
    /// In percent of one CPU: 400 is four busy ones.
    pub cpu_percent: Option<f64>,
    /// Part of it in guests.
    pub guest_percent: Option<f64>,
    /// Part of it that a hypervisor below took.
    pub steal_percent: Option<f64>,
    /// All memory, in bytes.
    pub memory: u64,
    /// Memory that could be had, in bytes.
    pub available: u64,
    /// To and from memory by all, in bytes a second.
    pub bandwidth: Option<f64>,
    /// Groups of resctrl whose part of that could not be told: it is more.
    #[serde(skip_serializing_if = "is_zero")]
    pub bandwidth_without: usize,
    /// By node or cache.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub bandwidth_by_domain: BTreeMap<String, Option<f64>>,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Moment {
    /// Always [`DOMAINS_SCHEMA`].
    pub schema: String,
    /// In UTC (RFC 3339).
    pub time: String,
    /// Between the two readings.
    pub seconds: f64,
    /// The host.
    pub host: HostUsage,
    /// Each domain.
    pub domains: Vec<Usage>,
}

impl Moment {
    /// From two looks: the host's counters and those of each domain, by process. Domains that ended meanwhile are not
    /// there.
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

/// What a counter of nanoseconds gained, in percent of the time.
fn percent(before: u64, after: u64, wall_ns: u64) -> Option<f64> {
    let gained = after.checked_sub(before)?;
    (wall_ns > 0).then(|| gained as f64 * 100.0 / wall_ns as f64)
}

fn per_second(before: u64, after: u64, wall_ns: u64) -> Option<f64> {
    let gained = after.checked_sub(before)?;
    (wall_ns > 0).then(|| gained as f64 / wall_ns as f64 * 1e9)
}

impl Usage {
    /// From two readings of the same domain; without the first, only what is no rate.
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

/// The sum of all; a virtual CPU without a figure (a new one) makes it absent, since the sum would be too small.
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
    /// From two readings.
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
        // The id was given to another process.
        let mut other = new.clone();
        other.identity.started = 2;
        assert_eq!(Usage::between(Some(&old), &other).cpu_percent, None);
        // Counters never go back; where they seem to, there is no rate.
        assert_eq!(Usage::between(Some(&old), &new).cpu_percent, None);
        // A virtual CPU was unplugged and plugged in again.
        let replugged = Usage::between(Some(&old), &reading(SECOND, 2 * SECOND, 9));
        assert_eq!((replugged.cpu_percent.is_some(), replugged.delay_percent), (true, None));
    }
}
