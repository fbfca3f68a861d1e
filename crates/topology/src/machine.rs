//! What a machine is: CPUs, what they share, memory, devices, and what this process may use.
//!
//! Plain data. The `host` crate reads it from sysfs and procfs; everything else decides on it.
//! Every `cpus` holds the online CPUs only: work can be placed nowhere else.

use crate::cpuset::CpuSet;
use serde::{Deserialize, Serialize};

/// Value of [`Machine::schema`] that this version writes.
pub const MACHINE_SCHEMA: &str = "manycore/machine/1";

/// One machine, or one virtual machine, as Linux shows it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Machine {
    /// Always [`MACHINE_SCHEMA`] in files that this version writes.
    pub schema: String,
    /// What runs on it and what it runs on.
    pub system: System,
    /// CPUs that can run work now (`/sys/devices/system/cpu/online`).
    pub online: CpuSet,
    /// CPUs that are present and switched off.
    pub offline: CpuSet,
    /// CPUs that the scheduler leaves alone (`isolcpus=`; `/sys/devices/system/cpu/isolated`).
    pub isolated: CpuSet,
    /// Physical packages (sockets).
    pub packages: Vec<Group>,
    /// Dies, where the kernel tells them; one for each package where a package is one die.
    pub dies: Vec<Group>,
    /// Clusters: CPUs that share a mid-level resource, such as an L2 or an L3 tag
    /// (`topology/cluster_cpus_list`). Empty where the kernel does not tell.
    pub clusters: Vec<Group>,
    /// Cores; those with more than one CPU have SMT siblings.
    pub cores: Vec<Group>,
    /// Caches of all levels, each instance once.
    pub caches: Vec<Cache>,
    /// NUMA nodes, also those without CPUs or without memory.
    pub nodes: Vec<Node>,
    /// Kinds of cores, fastest first. One entry on a machine whose cores are all alike.
    pub core_kinds: Vec<CoreKind>,
    /// PCI devices.
    pub devices: Vec<Device>,
    /// What the reading process may use.
    pub allowed: Allowed,
}

/// Software and hardware names, each absent where the system does not tell.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct System {
    /// Host name.
    pub hostname: Option<String>,
    /// Kernel release, as `uname -r` prints it.
    pub kernel: Option<String>,
    /// `PRETTY_NAME` of `/etc/os-release`.
    pub os: Option<String>,
    /// Machine architecture, as `uname -m` prints it (`x86_64`, `aarch64`).
    pub architecture: Option<String>,
    /// CPU model name.
    pub cpu_model: Option<String>,
    /// Vendor, family, model and stepping, or implementer and part: `GenuineIntel/6/207/2`, `0x48/0xd01`.
    pub cpu_id: Option<String>,
    /// Instruction-set flags of the first CPU (`flags` or `Features` of `/proc/cpuinfo`).
    pub cpu_flags: Vec<String>,
    /// Hypervisor that this is a guest of: `KVM`, `Xen`, `VMware`, `Hyper-V`; absent on bare metal.
    pub hypervisor: Option<String>,
    /// Hardware vendor and product (`/sys/class/dmi/id`).
    pub hardware: Option<String>,
    /// Memory in bytes that the kernel manages (`MemTotal`).
    pub memory_bytes: Option<u64>,
}

/// CPUs that belong together: a package, die, cluster or core.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Group {
    /// The kernel's id, which need not be unique over packages nor dense; absent where it gives none.
    pub id: Option<i64>,
    /// Online CPUs of the group.
    pub cpus: CpuSet,
}

/// What a cache holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Both.
    Unified,
}

/// One instance of a cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cache {
    /// 1 is nearest to the core.
    pub level: u32,
    /// What it holds.
    pub kind: CacheKind,
    /// Size in bytes, absent where the kernel does not tell.
    pub size_bytes: Option<u64>,
    /// Line size in bytes.
    pub line_bytes: Option<u64>,
    /// Ways of associativity; 0 in the kernel means fully associative and is kept.
    pub ways: Option<u32>,
    /// The kernel's id, unique among the caches of a level: the domain of resctrl's schemata and of libvirt's
    /// `<cachetune>`. Absent in machines that were saved before it was read.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    /// Online CPUs that share it.
    pub cpus: CpuSet,
}

/// A NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Node {
    /// Number of the node (`/sys/devices/system/node/nodeN`).
    pub id: u32,
    /// Online CPUs of the node; for a node without CPUs of its own, those nearest to its memory.
    pub cpus: CpuSet,
    /// Whether the node has no CPUs of its own (expanders, HBM, memory of accelerators).
    pub memory_only: bool,
    /// Memory in bytes (`MemTotal`); 0 for a node without memory; absent where the kernel does not tell.
    pub memory_bytes: Option<u64>,
    /// Distances to the nodes in the order of [`Machine::nodes`]; 10 is local
    /// (ACPI SLIT). Empty where the kernel does not tell.
    pub distances: Vec<u32>,
    /// Memory tier (`/sys/devices/virtual/memory_tiering/memory_tierN`): a smaller number is faster.
    pub tier: Option<u32>,
}

/// Cores of one kind on a hybrid machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct CoreKind {
    /// `performance`, `efficiency`, or `all` where there is one kind; `kind N` where there are more than two.
    pub name: String,
    /// Online CPUs of this kind.
    pub cpus: CpuSet,
    /// Relative capacity, 1024 for the largest (`cpuN/cpu_capacity`).
    pub capacity: Option<u32>,
    /// Highest frequency in kHz (`cpuinfo_max_freq`).
    pub max_khz: Option<u64>,
}

/// A PCI device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Device {
    /// `domain:bus:device.function`, as in `/sys/bus/pci/devices`.
    pub address: String,
    /// The 24-bit class code (`0x020000` is an Ethernet controller).
    pub class: u32,
    /// What the class is, in words.
    pub class_name: String,
    /// Vendor and device id (`8086:10fb`).
    pub id: Option<String>,
    /// Kernel driver bound to it.
    pub driver: Option<String>,
    /// NUMA node; absent where the firmware gives none (-1).
    pub node: Option<u32>,
    /// Online CPUs next to the device (`local_cpulist`).
    pub cpus: CpuSet,
    /// Names of its network interfaces, block devices and the like.
    pub names: Vec<String>,
}

/// What a process may use, and which limit says so.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Allowed {
    /// CPUs that it may run on: the intersection of all limits.
    pub cpus: CpuSet,
    /// Most CPU time per second of wall time, in CPUs, where a quota is set.
    pub quota_cpus: Option<f64>,
    /// The limit that binds, in words; "nothing" where all online CPUs may be used without a quota.
    pub binding: String,
    /// Every limit found, outermost first.
    pub limits: Vec<Limit>,
}

/// [`Limit::source`] of the affinity that a process was started with.
pub const AFFINITY: &str = "affinity mask";

/// One limit on what a process may use.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Where it stands: a file, or `affinity mask`.
    pub source: String,
    /// CPUs that it leaves, for a set.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpus: Option<CpuSet>,
    /// CPUs' worth of time that it leaves, for a quota.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub quota_cpus: Option<f64>,
}

impl Machine {
    /// CPUs that this process may use: those allowed, or all that are online where no limit is known, as in a
    /// machine that was read from somebody else's files.
    pub fn usable(&self) -> CpuSet {
        let allowed = &self.allowed.cpus;
        if allowed.is_empty() { self.online.clone() } else { allowed.clone() }
    }

    /// CPUs that this process may put work on: those that it may use, and isolated ones that its control groups leave
    /// it. The kernel leaves isolated CPUs out of the affinity that everything starts with, and an affinity can be
    /// widened; a cpuset cannot.
    pub fn placeable(&self) -> CpuSet {
        let groups = self.allowed.limits.iter().filter(|limit| limit.source != AFFINITY);
        let left = groups
            .filter_map(|limit| limit.cpus.as_ref())
            .fold(self.isolated.intersection(&self.online), |left, cpus| left.intersection(cpus));
        self.usable().union(&left)
    }

    /// The data or unified caches of `level`.
    pub fn caches_at(&self, level: u32) -> impl Iterator<Item = &Cache> {
        self.caches.iter().filter(move |cache| cache.level == level && cache.kind != CacheKind::Instruction)
    }

    /// The last-level caches: those of the highest level that holds data.
    pub fn last_level_caches(&self) -> impl Iterator<Item = &Cache> {
        let level = self.caches.iter().map(|cache| cache.level).max().unwrap_or(0);
        self.caches_at(level)
    }

    /// The device that people or the PCI bus call `name`: `eth0`, `nvme0n1`, `0000:03:00.0`, `03:00.0`.
    pub fn device(&self, name: &str) -> Option<&Device> {
        let is_meant = |device: &&Device| {
            let address = device.address.as_str();
            address.eq_ignore_ascii_case(name)
                || address.strip_prefix("0000:").is_some_and(|short| short.eq_ignore_ascii_case(name))
                || device.names.iter().any(|known| known == name)
        };
        self.devices.iter().find(is_meant)
    }

    /// All that [`Machine::device`] knows devices by.
    pub fn device_names(&self) -> impl Iterator<Item = &str> {
        self.devices
            .iter()
            .flat_map(|device| device.names.iter().chain([&device.address]))
            .map(String::as_str)
    }

    /// Whether any core has more than one online CPU.
    pub fn has_smt(&self) -> bool {
        self.cores.iter().any(|core| core.cpus.len() > 1)
    }

    /// Sixteen hexadecimal digits that differ between machines whose CPUs, caches or nodes differ, and
    /// stay the same over reboots, limits and names. FNV-1a, 64 bits, over the CPU lists.
    pub fn fingerprint(&self) -> String {
        let groups = [
            ("package", &self.packages),
            ("die", &self.dies),
            ("cluster", &self.clusters),
            ("core", &self.cores),
        ];
        let mut lines = vec![format!("online {};", self.online)];
        for (name, groups) in groups {
            lines.extend(groups.iter().map(|group| format!("{name} {};", group.cpus)));
        }
        lines.extend(self.caches.iter().map(|cache| {
            format!("L{} {:?} {:?} {};", cache.level, cache.kind, cache.size_bytes, cache.cpus)
        }));
        lines.extend(
            self.nodes.iter().map(|node| format!("node {} {} {:?};", node.id, node.cpus, node.distances)),
        );
        let hash =
            lines.iter().flat_map(|line| line.bytes()).fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
            });
        format!("{hash:016x}")
    }
}
