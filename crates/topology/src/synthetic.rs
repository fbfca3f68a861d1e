//! Synthetic machines: converts a short specification into the files that Linux would show for such a
//! machine.
//!
//! Tests and benchmarks use them, from 2 CPUs to many thousands. The files go into a [`Capture`], which a
//! [`crate::SysTree`] reads directly and [`extras::write_to`] writes to disk for other programs.

use crate::{CpuId, CpuSet, capture::Capture};

pub mod extras;

const CPU: &str = "sys/devices/system/cpu";
const NODE: &str = "sys/devices/system/node";

/// How the threads of a core are numbered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Numbering {
    /// Siblings have adjacent numbers: CPUs 0 and 1 are a core.
    #[default]
    Adjacent,
    /// All first threads, then all second threads, as x86 firmware numbers them: CPUs 0 and `cores` are a
    /// core.
    Halves,
}

/// Specification of a machine. Every count is per unit of the next larger kind.
#[derive(Clone, Debug)]
pub struct MachineSpec {
    /// Sockets.
    pub packages: u32,
    /// NUMA nodes per package.
    pub nodes: u32,
    /// Last-level caches per node. If there are several, each is a die.
    pub caches: u32,
    /// Clusters per last-level cache; 0 for none.
    pub clusters: u32,
    /// Cores per cluster, or per last-level cache without clusters.
    pub cores: u32,
    /// Threads per core.
    pub threads: u32,
    /// How threads are numbered.
    pub numbering: Numbering,
    /// Step between CPU numbers: 1 for contiguous numbers, more for gaps.
    pub stride: u32,
    /// CPUs that are present but offline.
    pub offline: CpuSet,
    /// Memory per node in GiB.
    pub memory_gib: u64,
    /// Memory-only nodes in GiB, each nearest to the node with CPUs of the same index.
    pub memory_only_gib: Vec<u64>,
    /// Number of efficiency cores per package. They are the last ones and have one thread.
    pub efficiency_cores: u32,
}

impl Default for MachineSpec {
    fn default() -> Self {
        Self {
            packages: 1,
            nodes: 1,
            caches: 1,
            clusters: 0,
            cores: 2,
            threads: 1,
            numbering: Numbering::Adjacent,
            stride: 1,
            offline: CpuSet::new(),
            memory_gib: 16,
            memory_only_gib: Vec::new(),
            efficiency_cores: 0,
        }
    }
}

/// One CPU and the indices of its units, counted over the whole machine.
#[derive(Clone, Debug)]
struct SyntheticCpu {
    number: CpuId,
    core: u32,
    cluster: u32,
    cache: u32,
    node: u32,
    package: u32,
    efficient: bool,
}

impl MachineSpec {
    /// Returns a machine with 4,096 CPUs: 8 packages of 4 nodes, each with 4 last-level caches of 16 cores with 2
    /// threads.
    pub fn giant() -> Self {
        Self {
            packages: 8,
            nodes: 4,
            caches: 4,
            cores: 16,
            threads: 2,
            numbering: Numbering::Halves,
            ..Self::default()
        }
    }

    /// Returns the number of CPUs, including offline ones.
    pub fn cpus(&self) -> usize {
        self.layout().len()
    }

    /// Returns the files of the machine.
    pub fn capture(&self) -> Capture {
        let mut files = Capture::default();
        let cpus = self.layout();
        let online: Vec<&SyntheticCpu> =
            cpus.iter().filter(|cpu| !self.offline.contains(cpu.number)).collect();
        let running: CpuSet = online.iter().map(|cpu| cpu.number).collect();
        files.add_file(&format!("{CPU}/online"), &running.to_string());
        for cpu in &cpus {
            files.add_folder(&format!("{CPU}/cpu{}", cpu.number));
        }
        let groups = Groups::new(&online);
        for cpu in &online {
            self.add_cpu(&mut files, cpu, &groups);
        }
        self.add_nodes(&mut files, &groups);
        add_names(&mut files, self);
        if self.efficiency_cores > 0 {
            let kind = |efficient| -> CpuSet {
                online.iter().filter(|cpu| cpu.efficient == efficient).map(|cpu| cpu.number).collect()
            };
            files.add_file("sys/devices/cpu_core/cpus", &kind(false).to_string());
            files.add_file("sys/devices/cpu_atom/cpus", &kind(true).to_string());
        }
        files
    }

    fn layout(&self) -> Vec<SyntheticCpu> {
        let per_cache = self.clusters.max(1) * self.cores;
        let per_package = self.nodes * self.caches * per_cache;
        let cores = self.packages * per_package;
        let mut cpus = Vec::new();
        for core in 0..cores {
            let efficient = core % per_package >= per_package - self.efficiency_cores.min(per_package);
            for thread in 0..if efficient { 1 } else { self.threads } {
                let order = match self.numbering {
                    Numbering::Adjacent => core * self.threads + thread,
                    Numbering::Halves => thread * cores + core,
                };
                cpus.push(SyntheticCpu {
                    number: order * self.stride,
                    core,
                    cluster: core / self.cores,
                    cache: core / per_cache,
                    node: core / (per_cache * self.caches),
                    package: core / per_package,
                    efficient,
                });
            }
        }
        cpus
    }

    fn add_cpu(&self, files: &mut Capture, cpu: &SyntheticCpu, groups: &Groups) {
        let folder = format!("{CPU}/cpu{}", cpu.number);
        let mut topology = |name: &str, id: u32, set: &CpuSet| {
            files.add_file(&format!("{folder}/topology/{name}_id"), &id.to_string());
            let siblings = name.trim_start_matches("physical_");
            files.add_file(&format!("{folder}/topology/{siblings}_cpus"), &mask(set));
            files.add_file(&format!("{folder}/topology/{siblings}_cpus_list"), &set.to_string());
        };
        let core = &groups.cores[cpu.core as usize];
        let llc = &groups.caches[cpu.cache as usize];
        let package = &groups.packages[cpu.package as usize];
        topology("core", cpu.core, core);
        topology("physical_package", cpu.package, package);
        let die = if self.caches > 1 { (cpu.cache, llc) } else { (cpu.package, package) };
        topology("die", die.0, die.1);
        if self.clusters > 0 {
            topology("cluster", cpu.cluster, &groups.clusters[cpu.cluster as usize]);
        }
        let l1 = if cpu.efficient { ("32K", "64K") } else { ("48K", "32K") };
        let caches = [
            ("1", "Data", l1.0, core),
            ("1", "Instruction", l1.1, core),
            ("2", "Unified", "2048K", core),
            ("3", "Unified", "32768K", llc),
        ];
        for (index, (level, kind, size, set)) in caches.into_iter().enumerate() {
            let mut cache = |name: &str, text: &str| {
                files.add_file(&format!("{folder}/cache/index{index}/{name}"), text);
            };
            cache("level", level);
            cache("type", kind);
            cache("size", size);
            cache("coherency_line_size", "64");
            cache("ways_of_associativity", "8");
            cache("shared_cpu_map", &mask(set));
            cache("shared_cpu_list", &set.to_string());
        }
    }

    fn add_nodes(&self, files: &mut Capture, groups: &Groups) {
        let with_cpus = groups.nodes.len();
        let count = with_cpus + self.memory_only_gib.len();
        let home = |node: usize| if node < with_cpus { node } else { (node - with_cpus) % with_cpus };
        let package = |node: usize| home(node) / self.nodes as usize;
        files.add_file(&format!("{NODE}/online"), &(0..count as u32).collect::<CpuSet>().to_string());
        let none = CpuSet::new();
        for node in 0..count {
            let set = groups.nodes.get(node).unwrap_or(&none);
            let gib = self.memory_only_gib.get(node.wrapping_sub(with_cpus)).unwrap_or(&self.memory_gib);
            let distances: Vec<String> = (0..count)
                .map(|other| match () {
                    () if node == other => "10",
                    () if home(node) == home(other) => "14",
                    () if package(node) == package(other) => "16",
                    () => "32",
                })
                .map(str::to_owned)
                .collect();
            let mut file =
                |name: &str, text: &str| files.add_file(&format!("{NODE}/node{node}/{name}"), text);
            file("cpumap", &mask(set));
            file("cpulist", &set.to_string());
            file("meminfo", &format!("Node {node} MemTotal:       {} kB", gib << 20));
            file("distance", &distances.join(" "));
        }
    }
}

/// Online CPUs of every unit.
struct Groups {
    cores: Vec<CpuSet>,
    clusters: Vec<CpuSet>,
    caches: Vec<CpuSet>,
    nodes: Vec<CpuSet>,
    packages: Vec<CpuSet>,
}

impl Groups {
    fn new(online: &[&SyntheticCpu]) -> Self {
        let by = |unit: fn(&SyntheticCpu) -> u32| -> Vec<CpuSet> {
            let count = online.iter().map(|cpu| unit(cpu) as usize + 1).max().unwrap_or(0);
            let mut members = vec![Vec::new(); count];
            for cpu in online {
                members[unit(cpu) as usize].push(cpu.number);
            }
            members.into_iter().map(CpuSet::from_iter).collect()
        };
        Self {
            cores: by(|cpu| cpu.core),
            clusters: by(|cpu| cpu.cluster),
            caches: by(|cpu| cpu.cache),
            nodes: by(|cpu| cpu.node),
            packages: by(|cpu| cpu.package),
        }
    }
}

fn add_names(files: &mut Capture, spec: &MachineSpec) {
    let memory =
        spec.memory_gib * u64::from(spec.packages * spec.nodes) + spec.memory_only_gib.iter().sum::<u64>();
    files.add_file("proc/meminfo", &format!("MemTotal:       {} kB", memory << 20));
    files.add_file(
        "proc/cpuinfo",
        "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t: 207\nmodel name\t: Synthetic CPU\n\
         stepping\t: 1\nflags\t: fpu lm",
    );
    files.add_file("proc/sys/kernel/osrelease", "6.12.0");
    files.add_file("etc/os-release", "PRETTY_NAME=\"Synthetic Linux\"");
}

/// Formats a set in the kernel's mask format.
fn mask(set: &CpuSet) -> String {
    let words = set.last().map_or(1, |last| last as usize / 32 + 1);
    let mut bits = vec![0_u32; words];
    set.iter().for_each(|cpu| bits[cpu as usize / 32] |= 1 << (cpu % 32));
    bits.iter().rev().map(|word| format!("{word:08x}")).collect::<Vec<_>>().join(",")
}

#[cfg(test)]
mod tests {
    use super::{
        extras::{PciDevice, add_cgroup, add_device},
        *,
    };
    use crate::Machine;
    use crate::SysTree;

    fn machine(spec: &MachineSpec) -> Machine {
        crate::read(&SysTree::from_capture(spec.capture())).unwrap()
    }

    #[test]
    fn what_is_described_is_read() {
        let spec = MachineSpec {
            packages: 2,
            nodes: 2,
            caches: 2,
            clusters: 2,
            cores: 4,
            threads: 2,
            ..MachineSpec::default()
        };
        let found = machine(&spec);
        assert_eq!(spec.cpus(), 128);
        let counts = [&found.packages, &found.dies, &found.clusters, &found.cores].map(Vec::len);
        assert_eq!(counts, [2, 8, 16, 64]);
        assert_eq!(found.nodes.len(), 4);
        assert_eq!(found.nodes[0].distances, [10, 16, 32, 32]);
        assert_eq!((found.caches_at(3).count(), found.caches_at(2).count()), (8, 64));
        assert_eq!(found.cores[1].cpus.to_string(), "2-3");
        assert_eq!(found.system.memory_bytes, Some(64 << 30));
    }

    #[test]
    fn sparse_numbers_offline_cpus_and_memory_nodes_are_read() {
        let spec = MachineSpec {
            cores: 4,
            threads: 2,
            numbering: Numbering::Halves,
            stride: 8,
            offline: "8,40".parse().unwrap(),
            memory_only_gib: vec![64],
            ..MachineSpec::default()
        };
        let found = machine(&spec);
        assert_eq!(found.online.to_string(), "0,16,24,32,48,56");
        assert_eq!(found.offline.to_string(), "8,40");
        assert_eq!(found.cores[0].cpus.to_string(), "0,32");
        assert_eq!((found.nodes[1].memory_only, found.nodes[1].memory_bytes), (true, Some(64 << 30)));
    }

    #[test]
    fn hybrid_cores_have_kinds() {
        let found =
            machine(&MachineSpec { cores: 8, threads: 2, efficiency_cores: 4, ..MachineSpec::default() });
        let kinds: Vec<_> =
            found.core_kinds.iter().map(|kind| (kind.name.as_str(), kind.cpus.to_string())).collect();
        assert_eq!(kinds, [("performance", "0-7".to_owned()), ("efficiency", "8,10,12,14".to_owned())]);
    }

    #[test]
    fn four_thousand_cpus_are_read() {
        let found = machine(&MachineSpec::giant());
        assert_eq!((found.online.len(), found.cores.len(), found.caches_at(3).count()), (4096, 2048, 128));
        assert_eq!(found.cores[2047].cpus.to_string(), "2047,4095");
    }

    #[test]
    fn limits_and_devices_are_read() {
        let mut files = MachineSpec { packages: 2, cores: 4, ..MachineSpec::default() }.capture();
        add_cgroup(&mut files, "/job.slice", "0-3", "250000 100000");
        let card =
            PciDevice { address: "0000:81:00.0", class: 0x02_0000, driver: "ice", node: 1, name: "net/eth0" };
        add_device(&mut files, card);
        let found = crate::read(&SysTree::from_capture(files)).unwrap();
        assert_eq!(found.allowed.effective_limit, "quota of 2.5 CPUs in /sys/fs/cgroup/job.slice/cpu.max");
        assert_eq!(found.allowed.cpus.to_string(), "0-3");
        assert_eq!((found.devices[0].cpus.to_string(), found.devices[0].node), ("4-7".to_owned(), Some(1)));
    }
}
