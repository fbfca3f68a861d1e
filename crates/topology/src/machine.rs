//! The description of a machine: CPUs, caches and other units that they share, memory, devices, and the
//! CPUs that this process may use.
//!
//! Plain data. [`crate::read()`] reads it from sysfs and procfs, and all other code works on it. Every
//! `cpus` field contains online CPUs only, because work cannot be placed on others.

use crate::cpuset::CpuSet;
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;

/// Value of [`Machine::schema`] that this version writes.
pub const MACHINE_SCHEMA: &str = "manycore/machine/1";

/// One machine, physical or virtual, as Linux describes it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Machine {
    /// Always [`MACHINE_SCHEMA`] in files that this version writes.
    #[cfg_attr(feature = "schema", schemars(extend("const" = MACHINE_SCHEMA)))]
    pub schema: String,
    /// Names of the hardware and the software.
    pub system: System,
    /// CPUs that are online: `/sys/devices/system/cpu/online`, the effective CPUs of this process's cpusets, and its affinity if
    /// that file lists none of it.
    pub online: CpuSet,
    /// CPUs that are present but offline.
    pub offline: CpuSet,
    /// CPUs isolated from the scheduler's load balancing (`isolcpus=`; `/sys/devices/system/cpu/isolated`).
    pub isolated: CpuSet,
    /// Physical packages (sockets).
    pub packages: Vec<Group>,
    /// Dies, if the kernel reports them; otherwise the packages.
    pub dies: Vec<Group>,
    /// Clusters: CPUs that share a mid-level resource, such as an L2 or an L3 tag
    /// (`topology/cluster_cpus_list`). Empty if the kernel reports none.
    pub clusters: Vec<Group>,
    /// Cores; those with more than one CPU have SMT siblings.
    pub cores: Vec<Group>,
    /// Caches of all levels, each instance once.
    pub caches: Vec<Cache>,
    /// NUMA nodes, including those without CPUs or without memory.
    pub nodes: Vec<Node>,
    /// Kinds of cores, fastest first. One entry if all cores are equal.
    pub core_kinds: Vec<CoreKind>,
    /// PCI devices.
    pub devices: Vec<Device>,
    /// CPUs and CPU time that the reading process may use.
    pub allowed: Allowed,
}

/// Names of the hardware and the software; each is absent if the system does not report it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
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
    /// Vendor, family, model and stepping (`GenuineIntel/6/207/2`), or implementer and part (`0x48/0xd01`).
    pub cpu_id: Option<String>,
    /// Instruction-set flags of the first CPU (`flags` or `Features` of `/proc/cpuinfo`).
    pub cpu_flags: Vec<String>,
    /// Hypervisor of a guest: `KVM`, `Xen`, `VMware`, `Hyper-V`; absent on bare metal.
    pub hypervisor: Option<String>,
    /// Hardware vendor and product (`/sys/class/dmi/id`).
    pub hardware: Option<String>,
    /// Vendor, version and date of the BIOS (`/sys/class/dmi/id`): `Dell Inc. 2.19.1, 12/15/2023`. Absent in machines saved by
    /// versions that did not read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bios: Option<String>,
    /// How slots are populated with memory modules: `8 of 16 slots (1,3,5,7,9,11,13,15): 8 x 32 GiB DDR5 at 4800 MT/s`, in the
    /// order of the firmware's table (SMBIOS), which only root can read. Otherwise what drivers of memory controllers show
    /// (EDAC): `8 modules: 8 x 32 GiB Registered-DDR4`. Absent as above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_modules: Option<String>,
    /// Memory managed by the kernel in bytes (`MemTotal`).
    pub memory_bytes: Option<u64>,
}

/// A group of CPUs: a package, die, cluster or core.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Group {
    /// The kernel's id, which need not be unique across packages nor contiguous; absent if the kernel
    /// reports none.
    pub id: Option<i64>,
    /// Online CPUs of the group.
    pub cpus: CpuSet,
}

/// The contents of a cache.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum CacheKind {
    /// Data only.
    Data,
    /// Instructions only.
    Instruction,
    /// Code and data.
    Unified,
}

/// One instance of a cache.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Cache {
    /// Level; 1 is nearest to the core.
    pub level: u32,
    /// The contents of the cache.
    pub kind: CacheKind,
    /// Size in bytes; absent if the kernel does not report it.
    pub size_bytes: Option<u64>,
    /// Line size in bytes.
    pub line_bytes: Option<u64>,
    /// Ways of associativity. 0 is stored as the kernel reports it and means fully associative.
    pub ways: Option<u32>,
    /// The kernel's id, unique among the caches of a level: the cache id in resctrl's schemata and in
    /// libvirt's `<cachetune>`. Absent in machines saved by versions that did not read it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub id: Option<u32>,
    /// Online CPUs that share the cache.
    pub cpus: CpuSet,
}

/// A NUMA node.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Node {
    /// Number of the node (`/sys/devices/system/node/nodeN`).
    pub id: u32,
    /// Online CPUs of the node; for a node without CPUs, those nearest to its memory.
    pub cpus: CpuSet,
    /// Whether the node has no CPUs of its own (CXL expanders, HBM, memory of accelerators).
    pub memory_only: bool,
    /// Memory in bytes (`MemTotal`); 0 for a node without memory; absent if the kernel does not report it.
    pub memory_bytes: Option<u64>,
    /// Distances to the nodes in the order of [`Machine::nodes`]; 10 is local (ACPI SLIT). Empty if the
    /// kernel reports none.
    pub distances: Vec<u32>,
    /// Memory tier (`/sys/devices/virtual/memory_tiering/memory_tierN`); a smaller number is faster.
    pub tier: Option<u32>,
}

/// Cores of one kind on a hybrid machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct CoreKind {
    /// `performance` or `efficiency`; `all` if there is one kind; `kind N` if there are more than two.
    pub name: String,
    /// Online CPUs of this kind.
    pub cpus: CpuSet,
    /// Relative capacity; the largest is 1024 (`cpuN/cpu_capacity`).
    pub capacity: Option<u32>,
    /// Highest frequency in kHz (`cpuinfo_max_freq`).
    pub max_khz: Option<u64>,
}

/// A PCI device.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Device {
    /// `domain:bus:device.function`, as in `/sys/bus/pci/devices`.
    pub address: String,
    /// The 24-bit class code (`0x020000` is an Ethernet controller).
    pub class: u32,
    /// Name of the class.
    pub class_name: String,
    /// Vendor and device id (`8086:10fb`).
    pub id: Option<String>,
    /// Kernel driver bound to the device.
    pub driver: Option<String>,
    /// NUMA node; absent if the firmware reports none (-1).
    pub node: Option<u32>,
    /// Online CPUs near the device (`local_cpulist`).
    pub cpus: CpuSet,
    /// Names of its network interfaces, block devices and similar.
    pub names: Vec<String>,
}

/// The CPUs and the CPU time that a process may use, and the limits that determine them.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Allowed {
    /// CPUs that the process may run on: the intersection of all limits.
    pub cpus: CpuSet,
    /// Maximum CPU time per second of elapsed time, in CPUs, if a quota is set.
    pub quota_cpus: Option<f64>,
    /// Description of the effective limit; "nothing" if all online CPUs may be used without a quota.
    pub effective_limit: String,
    /// All limits found, outermost first.
    pub limits: Vec<Limit>,
}

/// [`Limit::source`] of the affinity that a process was started with.
pub const AFFINITY: &str = "affinity mask";

/// One limit on CPUs or CPU time.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limit {
    /// Where the limit is set: a file, or `affinity mask`.
    pub source: String,
    /// Allowed CPUs, for a cpuset or an affinity.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub cpus: Option<CpuSet>,
    /// Allowed CPU time in CPUs, for a quota.
    #[serde(skip_serializing_if = "Option::is_none", default)]
    pub quota_cpus: Option<f64>,
}

impl Machine {
    /// Returns the CPUs that this process may use: the allowed ones, or all online CPUs if no limits are
    /// known, as for a machine that was read from copied files. Empty if the limits leave none.
    pub fn usable(&self) -> CpuSet {
        let allowed = &self.allowed;
        let is_known = !allowed.cpus.is_empty() || allowed.limits.iter().any(|limit| limit.cpus.is_some());
        if is_known { allowed.cpus.clone() } else { self.online.clone() }
    }

    /// Returns the CPUs on which this process may place work: the usable ones, and isolated ones that its
    /// control groups allow. The kernel excludes isolated CPUs from the initial affinity of every process.
    /// An affinity can be widened; a cpuset cannot.
    pub fn pinnable_cpus(&self) -> CpuSet {
        let groups = self.allowed.limits.iter().filter(|limit| limit.source != AFFINITY);
        let left = groups
            .filter_map(|limit| limit.cpus.as_ref())
            .fold(self.isolated.intersection(&self.online), |left, cpus| left.intersection(cpus));
        self.usable().union(&left)
    }

    /// Returns the data and unified caches of `level`.
    pub fn caches_at(&self, level: u32) -> impl Iterator<Item = &Cache> {
        self.caches.iter().filter(move |cache| cache.level == level && cache.kind != CacheKind::Instruction)
    }

    /// Returns the last-level caches, ordered by first CPU: for each CPU, the data or unified cache of the highest level that
    /// it has. CPUs of one machine can end at different levels: low-power cores may share an L2 and have no L3.
    pub fn last_level_caches(&self) -> impl Iterator<Item = &Cache> {
        let mut found: Vec<&Cache> =
            self.caches.iter().filter(|cache| cache.kind != CacheKind::Instruction).collect();
        found.sort_by_key(|cache| Reverse(cache.level));
        let mut left = CpuSet::union_of(found.iter().map(|cache| &cache.cpus));
        found.retain(|cache| {
            let is_last = cache.cpus.intersects(&left);
            left = left.difference(&cache.cpus);
            is_last
        });
        found.sort_by_key(|cache| cache.cpus.first());
        found.into_iter()
    }

    /// Returns the device with this name or PCI address: `eth0`, `nvme0n1`, `0000:03:00.0`, `03:00.0`.
    pub fn device(&self, name: &str) -> Option<&Device> {
        let is_meant = |device: &&Device| {
            let address = device.address.as_str();
            address.eq_ignore_ascii_case(name)
                || address.strip_prefix("0000:").is_some_and(|short| short.eq_ignore_ascii_case(name))
                || device.names.iter().any(|known| known == name)
        };
        self.devices.iter().find(is_meant)
    }

    /// Returns all names and addresses that [`Machine::device`] accepts.
    pub fn device_names(&self) -> impl Iterator<Item = &str> {
        self.devices
            .iter()
            .flat_map(|device| device.names.iter().chain([&device.address]))
            .map(String::as_str)
    }

    /// Returns whether any core has more than one online CPU.
    pub fn has_smt(&self) -> bool {
        self.cores.iter().any(|core| core.cpus.len() > 1)
    }

    /// Returns sixteen hexadecimal digits that differ between machines whose CPUs, caches or nodes differ,
    /// and stay the same across reboots and changes of limits and names. FNV-1a, 64 bits, over the CPU
    /// lists.
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
