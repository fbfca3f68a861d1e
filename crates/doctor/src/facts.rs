//! What was read of a machine. Plain data, so that tests invent machines.

use crate::install::PackageManager;
use std::path::PathBuf;

/// All facts from which a [`Diagnosis`](crate::Diagnosis) follows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Facts {
    /// Names of the system.
    pub system: SystemFacts,
    /// Rights and limits.
    pub rights: RightsFacts,
    /// Interfaces of the kernel.
    pub kernel: KernelFacts,
    /// Hardware.
    pub hardware: HardwareFacts,
    /// Programs and hardware that the features themselves look for.
    pub features: FeatureFacts,
}

/// Names of the system.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct SystemFacts {
    /// Version of manycore.
    pub version: String,
    /// Name of the operating system.
    pub os: Option<String>,
    /// Kernel release.
    pub kernel: Option<String>,
    /// Architecture of this program: `x86_64`, `aarch64`.
    pub architecture: String,
    /// Hypervisor; absent on bare metal.
    pub hypervisor: Option<String>,
    /// The package manager that was found.
    pub packages: Option<PackageManager>,
}

/// Rights of this process, and limits that apply to it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RightsFacts {
    /// Whether the effective user is root.
    pub is_root: bool,
    /// Effective capabilities, one bit each (`CapEff` of `/proc/self/status`).
    pub capabilities: u64,
    /// Number of CPUs that this process may use.
    pub usable_cpus: usize,
    /// Number of online CPUs.
    pub online_cpus: usize,
    /// CPU time per second of elapsed time, in CPUs, if a quota is set.
    pub quota_cpus: Option<f64>,
    /// Where the limit of CPUs or CPU time is set.
    pub limit: String,
    /// Mounted versions of control groups.
    pub cgroups: CgroupVersions,
    /// Where cpusets for commands can be created.
    pub cpuset: GroupAccess,
    /// Whether the kernel resets the affinities of tasks whose cpuset changes, so that commands get none.
    pub resets_affinities: bool,
    /// Where groups with a memory limit can be created.
    pub memory: GroupAccess,
    /// Whether the kernel reports new processes and threads to this process.
    pub process_events: bool,
    /// The mount option of `/proc` that hides processes of other users from this process (`invisible`); absent if they
    /// are visible.
    pub hidepid: Option<String>,
    /// `kernel.perf_event_paranoid`; absent if the kernel has no performance events.
    pub perf_event_paranoid: Option<i32>,
}

/// Mounted versions of control groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CgroupVersions {
    /// A hierarchy of version 1 with controllers is mounted.
    pub v1: bool,
    /// The hierarchy of version 2 is mounted.
    pub v2: bool,
}

/// Whether groups of a controller can be created.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum GroupAccess {
    /// The controller is not available to the group of this process, for this reason.
    Unavailable(String),
    /// This process may not create groups in this directory.
    ReadOnly(PathBuf),
    /// Groups can be created in this directory.
    Writable(PathBuf),
    /// Not examined.
    #[default]
    Unknown,
}

/// Interfaces of the kernel.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct KernelFacts {
    /// The times for which tasks wait.
    pub pressure: PressureFacts,
    /// The counters of tasks.
    pub scheduler: SchedulerFacts,
    /// State of resctrl.
    pub resctrl: ResctrlFacts,
    /// The scheduler loaded through `sched_ext`; empty if none is loaded; absent if the kernel cannot load one.
    pub sched_ext: Option<String>,
    /// The kernel describes its types (`/sys/kernel/btf/vmlinux`).
    pub btf: bool,
}

/// The times for which tasks wait that the kernel reports (PSI).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PressureFacts {
    /// For a CPU (`/proc/pressure/cpu`).
    pub cpu: bool,
    /// For memory (`/proc/pressure/memory`).
    pub memory: bool,
}

/// The counters of tasks that the kernel keeps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SchedulerFacts {
    /// How long a task waits for a CPU (`/proc/PID/schedstat`).
    pub run_delay: bool,
    /// Migrations of a task (`/proc/PID/sched`).
    pub migrations: bool,
}

/// State of resctrl.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ResctrlFacts {
    /// Mounted here; whether it can be written.
    Mounted(PathBuf, bool),
    /// The kernel supports it.
    NotMounted,
    /// The kernel or the CPUs do not support it.
    #[default]
    Unsupported,
}

/// Hardware, as far as the kernel provides it.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HardwareFacts {
    /// Number of NUMA nodes.
    pub nodes: usize,
    /// Whether the kernel moves memory between nodes by itself.
    pub numa_balancing: Option<bool>,
    /// Frequency governors; empty without cpufreq.
    pub governors: Vec<String>,
    /// Whether turbo is enabled, if it is known.
    pub turbo: Option<bool>,
    /// Performance monitoring units of cores.
    pub pmus: Vec<String>,
    /// The selected mode of transparent huge pages: `always`, `madvise`, `never`.
    pub transparent_huge_pages: Option<String>,
    /// Reserved huge pages: size in KiB and number.
    pub huge_pages: Vec<(u64, u64)>,
    /// Access to `/dev/kvm`.
    pub kvm: KvmAccess,
}

/// Access to `/dev/kvm`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KvmAccess {
    /// It does not exist.
    #[default]
    Missing,
    /// It exists, but this process may not use it.
    NotPermitted,
    /// This process may use it.
    Usable,
}

/// Programs and hardware that the features themselves look for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FeatureFacts {
    /// The emulator of `falseshare`.
    pub emulator: EmulatorFacts,
    /// The events with which the CPU samples addresses of memory accesses.
    pub memory_events: Vec<String>,
    /// `virsh` of libvirt.
    pub virsh: ProgramFacts,
    /// The QEMU that runs virtual machines of this architecture.
    pub qemu_system: ProgramFacts,
    /// The runtimes of `spawn` that are programs of their own.
    pub runtimes: Vec<RuntimeFacts>,
    /// sysbench.
    pub sysbench: ProgramFacts,
    /// stress-ng.
    pub stress_ng: ProgramFacts,
    /// NumPy and its BLAS: `1.24 with libopenblas.so.0`.
    pub numpy: ProgramFacts,
}

/// A program that was run to get its version.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum ProgramFacts {
    /// Its version.
    Found(String),
    /// It is not installed.
    #[default]
    Missing,
    /// It is installed but does not work, for this reason.
    Broken(String),
}

/// The emulator of `falseshare`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EmulatorFacts {
    /// It can be used; its version.
    Usable(String),
    /// No program of this name was found.
    Missing(String),
    /// The program at this path has no support for plugins.
    WithoutPlugins(String),
    /// This manycore was built without its plugin.
    NotBuiltIn,
    /// It cannot be run, for this reason.
    Broken(String),
}

impl Default for EmulatorFacts {
    fn default() -> Self {
        Self::Missing("qemu-user".to_owned())
    }
}

/// A runtime of `spawn`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuntimeFacts {
    /// Its name in `spawn --runtime`: `beam`, `go`, `jvm`.
    pub name: String,
    /// The programs that are needed, and whether each was found.
    pub programs: Vec<(String, bool)>,
}
