//! Exports a plan in the syntax of other programs.
//!
//! There is one file per program. What a program cannot express is written as a comment; nothing is left
//! out silently.

mod container;
mod kubernetes;
mod numactl;
mod openmp;
mod slurm;
mod systemd;
mod taskset;

use crate::{MemoryPlacement, PlacementPlan, PlannedWorker, Policy, memory_placement::set};
use manycore_topology::{CpuSet, Machine};

/// A program that plans are exported for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ExportFormat {
    /// A command prefix with CPUs only.
    Taskset,
    /// A command prefix with CPUs and memory.
    Numactl,
    /// A drop-in for a service.
    Systemd,
    /// Options of `docker run`.
    Docker,
    /// Options of `podman run`.
    Podman,
    /// The kubelet's configuration and a pod.
    Kubernetes,
    /// A command prefix: `srun` and its options.
    Slurm,
    /// Environment variables of an OpenMP program.
    OpenMp,
}

impl ExportFormat {
    /// All programs.
    pub const ALL: [Self; 8] = [
        Self::Taskset,
        Self::Numactl,
        Self::Systemd,
        Self::Docker,
        Self::Podman,
        Self::Kubernetes,
        Self::Slurm,
        Self::OpenMp,
    ];

    /// Returns the name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Taskset => "taskset",
            Self::Numactl => "numactl",
            Self::Systemd => "systemd",
            Self::Docker => "docker",
            Self::Podman => "podman",
            Self::Kubernetes => "kubernetes",
            Self::Slurm => "slurm",
            Self::OpenMp => "openmp",
        }
    }

    /// Returns whether the output is a command prefix or options, which scripts insert into a command line.
    pub const fn is_command_prefix(self) -> bool {
        matches!(self, Self::Taskset | Self::Numactl | Self::Docker | Self::Podman)
    }

    /// Returns whether the program places whole processes, so that one set of CPUs for all workers
    /// ([`PlacementPlan::together`]) makes sense. The others place the workers of one program separately.
    pub const fn places_processes(self) -> bool {
        matches!(self, Self::Taskset | Self::Numactl | Self::Systemd | Self::Docker | Self::Podman)
    }
}

/// A plan and what else its export depends on.
#[derive(Clone, Copy, Debug)]
pub struct Export<'a> {
    /// The plan.
    pub plan: &'a PlacementPlan,
    /// The machine that the plan is for.
    pub machine: &'a Machine,
    /// The policy that the plan was made with.
    pub policy: &'a Policy,
    /// The memory policy. `bind` without nodes binds each worker to the memory nearest to its own CPUs;
    /// `interleave` without nodes uses the memory nodes of all workers.
    pub memory: &'a MemoryPlacement,
    /// Reserved CPUs; see [`crate::UnusedCpus::reserved`].
    pub reserved: &'a CpuSet,
}

impl Export<'_> {
    /// Returns the whole text, which ends with a newline.
    pub fn text(&self, format: ExportFormat) -> String {
        match format {
            ExportFormat::Taskset => taskset::text(self),
            ExportFormat::Numactl => numactl::text(self),
            ExportFormat::Systemd => systemd::text(self),
            ExportFormat::Docker | ExportFormat::Podman => container::text(self, format.name()),
            ExportFormat::Kubernetes => kubernetes::text(self),
            ExportFormat::Slurm => slurm::text(self),
            ExportFormat::OpenMp => openmp::text(self),
        }
    }

    /// Returns one line per worker, or a single line if all workers have the same CPUs.
    fn lines(&self, words: impl Fn(&PlannedWorker) -> String) -> String {
        let workers = if self.all_workers_equal() { &self.plan.workers[..1] } else { &self.plan.workers };
        workers.iter().map(|worker| words(worker) + "\n").collect()
    }

    /// Returns whether all workers have the same CPUs.
    fn all_workers_equal(&self) -> bool {
        self.plan.workers.windows(2).all(|pair| pair[0].cpus == pair[1].cpus)
    }

    /// Returns the nodes that the memory policy selects for a worker.
    fn nodes(&self, worker: &PlannedWorker) -> Vec<u32> {
        match self.memory {
            MemoryPlacement::Bind(nodes) if nodes.is_empty() => worker.memory_nodes.clone(),
            memory => memory.nodes(self.plan),
        }
    }

    /// Returns whether memory is restricted to these nodes, and there are any.
    fn binds(&self, nodes: &[u32]) -> bool {
        matches!(self.memory, MemoryPlacement::Bind(_)) && !nodes.is_empty()
    }

    /// Returns `8 workers, close, for the machine 0123456789abcdef`.
    fn title(&self) -> String {
        let PlacementPlan { workers, policy, machine_fingerprint, .. } = self.plan;
        let count = workers.len();
        let noun = if count == 1 { "worker" } else { "workers" };
        format!("{count} {noun}, {policy}, for the machine {machine_fingerprint}")
    }

    /// Returns the numactl command for the memory policy alone, for programs that cannot set one.
    fn memory_by_numactl(&self) -> Option<String> {
        numactl::memory(self.memory, &self.memory.nodes(self.plan)).map(|words| format!("numactl {words}"))
    }
}

/// Formats lines as comments for shells, systemd units and YAML.
fn comments(lines: &[String]) -> String {
    lines.iter().flat_map(|line| ["# ", line, "\n"]).collect()
}

fn list(nodes: &[u32]) -> String {
    set(nodes).to_string()
}
