//! A plan in the words of other programs.
//!
//! One file for each dialect. What a dialect cannot say, its text says in a comment; nothing is left out in
//! silence.

mod container;
mod kubernetes;
mod libvirt;
mod numactl;
mod openmp;
mod slurm;
mod systemd;
mod taskset;

use super::{Memory, Plan, PlannedWorker, Policy, memory_policy::set};
use manycore_topology::{CpuSet, Machine};

/// A program that places work.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Dialect {
    /// Words before a command, CPUs only.
    Taskset,
    /// Words before a command, CPUs and memory.
    Numactl,
    /// A drop-in for a service.
    Systemd,
    /// Options of `docker run`.
    Docker,
    /// Options of `podman run`.
    Podman,
    /// The kubelet's configuration, and a pod.
    Kubernetes,
    /// `srun` and its options before a command.
    Slurm,
    /// Environment of a program with OpenMP.
    OpenMp,
    /// Parts of a domain, whose virtual CPUs are the workers.
    Libvirt,
}

impl Dialect {
    /// All of them.
    pub const ALL: [Self; 9] = [
        Self::Taskset,
        Self::Numactl,
        Self::Systemd,
        Self::Docker,
        Self::Podman,
        Self::Kubernetes,
        Self::Slurm,
        Self::OpenMp,
        Self::Libvirt,
    ];

    /// The name on the command line.
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
            Self::Libvirt => "libvirt",
        }
    }

    /// Whether its text is words before a command, or options, that scripts put into their own lines.
    pub const fn is_words(self) -> bool {
        matches!(self, Self::Taskset | Self::Numactl | Self::Docker | Self::Podman)
    }

    /// Whether it places whole programs, so that one place for all workers together ([`Plan::together`])
    /// has a meaning; the others tell single workers of one program apart.
    pub const fn places_programs(self) -> bool {
        matches!(self, Self::Taskset | Self::Numactl | Self::Systemd | Self::Docker | Self::Podman)
    }
}

/// A plan and what else the words for it depend on.
#[derive(Clone, Copy, Debug)]
pub struct Export<'a> {
    /// Who runs where.
    pub plan: &'a Plan,
    /// The machine that it is for.
    pub machine: &'a Machine,
    /// The policy that made it.
    pub policy: &'a Policy,
    /// Where memory comes from. `bind` without nodes binds each worker to the memory nearest to its own CPUs;
    /// `interleave` without nodes is over the memory of all workers.
    pub memory: &'a Memory,
    /// CPUs that were kept back; see [`super::LeftOut::reserved`].
    pub reserved: &'a CpuSet,
}

impl Export<'_> {
    /// The whole text, which ends with a new line.
    pub fn text(&self, dialect: Dialect) -> String {
        match dialect {
            Dialect::Taskset => taskset::text(self),
            Dialect::Numactl => numactl::text(self),
            Dialect::Systemd => systemd::text(self),
            Dialect::Docker | Dialect::Podman => container::text(self, dialect.name()),
            Dialect::Kubernetes => kubernetes::text(self),
            Dialect::Slurm => slurm::text(self),
            Dialect::OpenMp => openmp::text(self),
            Dialect::Libvirt => libvirt::text(self),
        }
    }

    /// A line for each worker; one line where all have the same place.
    fn lines(&self, words: impl Fn(&PlannedWorker) -> String) -> String {
        let workers = if self.is_one_place() { &self.plan.workers[..1] } else { &self.plan.workers };
        workers.iter().map(|worker| words(worker) + "\n").collect()
    }

    /// Whether all workers have the same CPUs.
    fn is_one_place(&self) -> bool {
        self.plan.workers.windows(2).all(|pair| pair[0].cpus == pair[1].cpus)
    }

    /// Nodes that the memory policy means for a worker.
    fn nodes(&self, worker: &PlannedWorker) -> Vec<u32> {
        match self.memory {
            Memory::Bind(nodes) if nodes.is_empty() => worker.memory_nodes.clone(),
            memory => memory.nodes(self.plan),
        }
    }

    /// Whether memory comes from these nodes only, and there are any.
    fn binds(&self, nodes: &[u32]) -> bool {
        matches!(self.memory, Memory::Bind(_)) && !nodes.is_empty()
    }

    /// `8 workers, close, for the machine 0123456789abcdef`.
    fn title(&self) -> String {
        let Plan { workers, place, machine, .. } = self.plan;
        let count = workers.len();
        let noun = if count == 1 { "worker" } else { "workers" };
        format!("{count} {noun}, {place}, for the machine {machine}")
    }

    /// What numactl would say of the memory alone, for dialects that have no word for it.
    fn memory_by_numactl(&self) -> Option<String> {
        numactl::memory(self.memory, &self.memory.nodes(self.plan)).map(|words| format!("numactl {words}"))
    }
}

/// Lines as comments of shells, units and YAML.
fn comments(lines: &[String]) -> String {
    lines.iter().flat_map(|line| ["# ", line, "\n"]).collect()
}

fn list(nodes: &[u32]) -> String {
    set(nodes).to_string()
}
