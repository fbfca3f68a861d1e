//! Identity and counters of running domains and of their host at one moment.

use serde::Serialize;
use std::collections::BTreeMap;

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
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct DomainIdentity {
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
pub struct DomainReading {
    /// The domain.
    pub identity: DomainIdentity,
    /// Time of the reading, in nanoseconds.
    pub at_ns: u64,
    /// CPU time of the whole process.
    pub time: CpuTime,
    /// Host memory that it uses, in bytes, huge pages included.
    pub memory_bytes: u64,
    /// Counters of the virtual CPUs, by number.
    pub vcpus: BTreeMap<u32, VcpuReading>,
    /// Number of VM exits of its virtual CPUs, if KVM reports it.
    pub exits: Option<u64>,
    /// Memory by node, in bytes, if it was requested.
    pub memory_by_node: BTreeMap<u32, u64>,
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
    pub memory_bytes: u64,
    /// Available memory, in bytes.
    pub available_bytes: u64,
}
