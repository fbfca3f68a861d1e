//! Reads the facts of the running machine. Changes nothing.

use crate::{
    facts::{
        CgroupVersions, Facts, FeatureFacts, GroupAccess, HardwareFacts, KernelFacts, KvmAccess,
        PressureFacts, ResctrlFacts, RightsFacts, SchedulerFacts, SystemFacts,
    },
    install::PackageManager,
};
use manycore_control::{GroupError, cpuset, memory_group};
use manycore_linux::{
    absent_process::hidepid_for_us,
    available_memory::MachineMemory,
    counters::KernelCounters,
    kernel,
    proc_events::ProcEvents,
    resctrl::{self, FindError},
};
use manycore_topology::{CpuId, Machine, SysTree, cgroup};
use rustix::fs::{Access, access};
use std::{
    env,
    path::{Path, PathBuf},
};

/// Controllers that tell hierarchies of version 1 from the one of version 2.
const CONTROLLERS: [&str; 4] = ["cpuset", "memory", "cpu", "pids"];

/// Reads the machine on which this program runs. `tree` is its root, `machine` was read from it, and `version` is
/// that of the program.
pub fn read(tree: &SysTree, machine: &Machine, version: &str, features: FeatureFacts) -> Facts {
    let cpus: Vec<CpuId> = machine.usable().iter().collect();
    let counters = KernelCounters::at(Path::new("/"));
    Facts {
        system: system(machine, version),
        rights: rights(tree, machine),
        kernel: kernel(tree, &counters),
        hardware: hardware(tree, machine, &counters, &cpus),
        features,
    }
}

fn system(machine: &Machine, version: &str) -> SystemFacts {
    SystemFacts {
        version: version.to_owned(),
        os: machine.system.os.clone(),
        kernel: machine.system.kernel.clone(),
        architecture: env::consts::ARCH.to_owned(),
        hypervisor: machine.system.hypervisor.clone(),
        packages: package_manager(),
    }
}

fn package_manager() -> Option<PackageManager> {
    let path = env::var_os("PATH").unwrap_or_default();
    let is_installed = |name: &str| env::split_paths(&path).any(|folder| folder.join(name).is_file());
    let known = [("apt-get", PackageManager::Apt), ("dnf", PackageManager::Dnf)];
    known.into_iter().find(|(name, _)| is_installed(name)).map(|(_, manager)| manager)
}

fn rights(tree: &SysTree, machine: &Machine) -> RightsFacts {
    let status = tree.read("proc/self/status").unwrap_or_default();
    RightsFacts {
        is_root: rustix::process::geteuid().is_root(),
        capabilities: capabilities(&status),
        usable_cpus: machine.usable().len(),
        online_cpus: machine.online.len(),
        quota_cpus: machine.allowed.quota_cpus,
        limit: machine.allowed.effective_limit.clone(),
        cgroups: cgroup_versions(tree),
        cpuset: group_access(cpuset::parent_of_own()),
        resets_affinities: kernel::resets_affinities(),
        memory: group_access(memory_group::parent_of_own()),
        process_events: matches!(ProcEvents::subscribe(), ProcEvents::Connector(_)),
        hidepid: hidepid_for_us(),
        perf_event_paranoid: tree.number("proc/sys/kernel/perf_event_paranoid"),
    }
}

/// Returns the effective capabilities in `/proc/PID/status`; none if the line is missing.
pub(crate) fn capabilities(status: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix("CapEff:"));
    line.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}

fn cgroup_versions(tree: &SysTree) -> CgroupVersions {
    let folders = CONTROLLERS.iter().flat_map(|name| cgroup::folders(tree, name));
    folders.fold(CgroupVersions::default(), |versions, folder| match folder.flavour {
        cgroup::HierarchyKind::Unified => CgroupVersions { v2: true, ..versions },
        cgroup::HierarchyKind::Named | cgroup::HierarchyKind::Bare => CgroupVersions { v1: true, ..versions },
    })
}

fn group_access(parent: Result<PathBuf, GroupError>) -> GroupAccess {
    match parent {
        Ok(folder) if is_writable(&folder) => GroupAccess::Writable(folder),
        Ok(folder) => GroupAccess::ReadOnly(folder),
        Err(why) => GroupAccess::Unavailable(why.to_string()),
    }
}

/// Whether this process could create a file or directory in `folder`: it has the right, and the file system is not
/// mounted read-only.
fn is_writable(folder: &Path) -> bool {
    access(folder, Access::WRITE_OK | Access::EXEC_OK).is_ok()
}

fn kernel(tree: &SysTree, counters: &KernelCounters) -> KernelFacts {
    let own = counters.task(std::process::id());
    KernelFacts {
        pressure: PressureFacts {
            cpu: counters.cpu_pressure().is_some(),
            memory: MachineMemory::open(Path::new("/")).is_ok_and(|memory| memory.has_pressure()),
        },
        scheduler: SchedulerFacts {
            run_delay: own.run_delay_ns.is_some(),
            migrations: own.migrations.is_some(),
        },
        resctrl: match resctrl::find(tree, None) {
            Ok(mount) => {
                let writable = access(mount.point.join("schemata"), Access::WRITE_OK).is_ok();
                ResctrlFacts::Mounted(mount.point, writable)
            }
            Err(FindError::NotMounted) => ResctrlFacts::NotMounted,
            Err(FindError::Unsupported | FindError::NotResctrl(_)) => ResctrlFacts::Unsupported,
        },
        sched_ext: sched_ext(tree),
        btf: Path::new("/sys/kernel/btf/vmlinux").is_file(),
    }
}

/// Returns the name of the loaded scheduler (`root/ops`); empty if none is loaded.
pub(crate) fn sched_ext(tree: &SysTree) -> Option<String> {
    let state = tree.read("sys/kernel/sched_ext/state")?;
    if state == "disabled" {
        return Some(String::new());
    }
    Some(tree.read("sys/kernel/sched_ext/root/ops").unwrap_or(state))
}

fn hardware(tree: &SysTree, machine: &Machine, counters: &KernelCounters, cpus: &[CpuId]) -> HardwareFacts {
    HardwareFacts {
        nodes: machine.nodes.len().max(1),
        numa_balancing: tree.number::<u32>("proc/sys/kernel/numa_balancing").map(|mode| mode > 0),
        governors: counters.governors(cpus),
        turbo: counters.turbo(),
        pmus: pmus(&tree.list("sys/bus/event_source/devices")),
        transparent_huge_pages: tree
            .read("sys/kernel/mm/transparent_hugepage/enabled")
            .and_then(|modes| selected(&modes)),
        huge_pages: huge_pages(tree),
        kvm: kvm(),
    }
}

/// Returns the units that count events of CPU cores: `cpu`, `cpu_core`, `cpu_atom`, `armv8_pmuv3_0`.
pub(crate) fn pmus(devices: &[String]) -> Vec<String> {
    let of_cores = |name: &&String| name.starts_with("cpu") || name.starts_with("armv8");
    devices.iter().filter(of_cores).cloned().collect()
}

/// Returns `madvise` of `always [madvise] never`.
pub(crate) fn selected(modes: &str) -> Option<String> {
    Some(modes.split_once('[')?.1.split_once(']')?.0.to_owned())
}

fn huge_pages(tree: &SysTree) -> Vec<(u64, u64)> {
    let folder = "sys/kernel/mm/hugepages";
    let sizes = tree.list(folder).into_iter().filter_map(|name| {
        let kib = name.strip_prefix("hugepages-")?.strip_suffix("kB")?.parse().ok()?;
        Some((kib, tree.number(&format!("{folder}/{name}/nr_hugepages"))?))
    });
    sizes.collect()
}

fn kvm() -> KvmAccess {
    let device = Path::new("/dev/kvm");
    if !device.exists() {
        KvmAccess::Missing
    } else if access(device, Access::READ_OK | Access::WRITE_OK).is_ok() {
        KvmAccess::Usable
    } else {
        KvmAccess::NotPermitted
    }
}
