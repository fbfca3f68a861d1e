//! Synthetic records of machines whose true behaviour is known, for tests and previews of reports.
//!
//! A [`SyntheticMachine`] describes the true behaviour. [`SyntheticMachine::record`] measures it with noise from
//! a seed, as
//! `eval` would.
#![forbid(unsafe_code)]

mod alone;
mod contention;
mod core_latency;
mod density;
mod experiments;
pub mod files;
pub mod hosts;
mod memory;
mod namespace;
mod spawning;
pub mod ssh_server;
mod study;

pub use alone::{Alone, FreePort, alone};
pub use core_latency::{distance_ns, latency_experiment};
use experiments::Simulation;
use manycore_experiment::record::{NotMeasured, RECORD_SCHEMA, Record, StartConditions};
use manycore_topology::{
    CpuSet,
    machine::{Allowed, Cache, CacheKind, Group, Machine, Node, System},
};
pub use namespace::ran_alone;

const TICKS_PER_SECOND: u64 = 100;

/// What makes one worker alone slower than it should be. The number is the lost share of its work.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum SlowCause {
    /// Nothing.
    None,
    /// The hypervisor takes the CPU.
    Steal(f64),
    /// Other work uses the CPU.
    RunDelay(f64),
    /// A quota throttles the worker.
    Throttle(f64),
    /// The CPU runs at a lower frequency.
    Frequency(f64),
    /// A second of CPU time does less work, and no counter shows why.
    SlowCpu(f64),
    /// No counter of the kernel shows it, and CPU time is not counted either.
    Hidden(f64),
}

/// The true behaviour of a machine.
#[derive(Clone, Debug, PartialEq)]
pub struct SyntheticMachine {
    /// Host name.
    pub hostname: String,
    /// CPU model name.
    pub cpu_model: String,
    /// [`System::cpu_id`].
    pub cpu_id: String,
    /// [`System::cpu_flags`].
    pub cpu_flags: Vec<String>,
    /// Hypervisor of a guest; `None` on bare metal.
    pub hypervisor: Option<String>,
    /// Number of CPUs, two for each core where `smt`.
    pub cpus: u32,
    /// Whether cores have two CPUs.
    pub smt: bool,
    /// Number of NUMA nodes.
    pub nodes: u32,
    /// Number of last-level caches.
    pub last_level_caches: u32,
    /// Memory in bytes.
    pub memory_bytes: u64,
    /// Prime events per second of one worker.
    pub rate: f64,
    /// Contention of the scalability law.
    pub contention: f64,
    /// Coherence of the scalability law.
    pub coherence: f64,
    /// Rate with twice as many workers as CPUs, relative to that with as many workers as CPUs.
    pub oversubscribed: f64,
    /// Cycles per second of one CPU alone, and the share of them that remains when all CPUs are busy.
    pub clock: (f64, f64),
    /// Largest relative deviation of a sample.
    pub noise: f64,
    /// What slows one worker alone down.
    pub slow_cause: SlowCause,
    /// Share of steal time in all other cases.
    pub steal: f64,
    /// Rate of pinned processes relative to that of unpinned ones.
    pub pinned: f64,
    /// Number of checks that find a pinned process on another CPU.
    pub off_cpu_checks: u64,
    /// BLAS that Python uses. `None` where there is no Python.
    pub blas: Option<String>,
    /// Whether sysbench is installed.
    pub sysbench: bool,
    /// Blocks of each experiment.
    pub blocks: usize,
    /// Seed of the noise.
    pub seed: u64,
}

impl SyntheticMachine {
    /// Returns a small, noisy guest of a shared host, with Python and its reference BLAS.
    pub fn guest() -> Self {
        Self {
            hostname: "guest".to_owned(),
            cpu_model: "Example Xeon (guest)".to_owned(),
            cpu_id: "GenuineIntel/6/207/2".to_owned(),
            cpu_flags: ["avx2", "fma", "avx512f"].map(str::to_owned).to_vec(),
            hypervisor: Some("KVM".to_owned()),
            cpus: 2,
            smt: false,
            nodes: 1,
            last_level_caches: 1,
            memory_bytes: 8 << 30,
            rate: 3376.72,
            contention: 0.0,
            coherence: 0.0,
            oversubscribed: 0.995,
            clock: (2.6e9, 1.0),
            noise: 0.08,
            slow_cause: SlowCause::None,
            steal: 0.02,
            pinned: 1.0,
            off_cpu_checks: 0,
            blas: Some("libblas.so.3 (reference BLAS)".to_owned()),
            sysbench: true,
            blocks: 20,
            seed: 1,
        }
    }

    /// Returns a quiet server with 16 CPUs on 8 cores, where pinning pays off; without Python and sysbench.
    pub fn server() -> Self {
        Self {
            hostname: "server".to_owned(),
            cpu_model: "Example EPYC 8-Core".to_owned(),
            cpu_id: "AuthenticAMD/25/1/1".to_owned(),
            cpu_flags: ["avx2", "fma"].map(str::to_owned).to_vec(),
            hypervisor: None,
            cpus: 16,
            smt: true,
            memory_bytes: 64 << 30,
            contention: 0.02,
            clock: (3.5e9, 0.93),
            noise: 0.02,
            steal: 0.0,
            pinned: 1.10,
            blas: None,
            sysbench: false,
            ..Self::guest()
        }
    }

    /// Returns a machine with two sockets, 160 cores, 320 CPUs and four NUMA nodes.
    pub fn large_server() -> Self {
        Self {
            hostname: "giant".to_owned(),
            cpu_model: "Example Kunpeng 160-Core".to_owned(),
            cpu_id: "0x48/0xd01".to_owned(),
            cpu_flags: vec!["asimd".to_owned()],
            cpus: 320,
            nodes: 4,
            memory_bytes: 1 << 40,
            contention: 0.002,
            coherence: 0.000_004,
            clock: (2.9e9, 0.9),
            blas: Some("libopenblas.so.0".to_owned()),
            ..Self::server()
        }
    }

    /// Returns a server with one socket, 64 CPUs, two NUMA nodes and eight last-level caches.
    pub fn chiplets() -> Self {
        Self {
            hostname: "chiplets".to_owned(),
            cpu_model: "Example EPYC 32-Core".to_owned(),
            cpus: 64,
            nodes: 2,
            last_level_caches: 8,
            memory_bytes: 256 << 30,
            contention: 0.004,
            coherence: 0.000_02,
            blas: Some("libblas.so.3 (reference BLAS)".to_owned()),
            sysbench: true,
            ..Self::server()
        }
    }

    /// Returns the record that `eval` would measure.
    pub fn record(&self) -> Record {
        let mut simulation = Simulation::new(self);
        let mut experiments = vec![
            simulation.noise(),
            simulation.clock(),
            simulation.scaling(),
            simulation.modes("modes", None),
        ];
        if let Some(blas) = &self.blas {
            experiments.push(simulation.modes("modes-python-one", Some((blas, "1"))));
            experiments.push(simulation.modes("modes-python", Some((blas, "default"))));
        }
        experiments.extend([simulation.matrix(), simulation.affinity()]);
        let machine = self.machine();
        experiments.push(latency_experiment(
            &machine,
            &distance_ns,
            self.noise / 4.0,
            self.blocks,
            self.seed,
        ));
        experiments.extend(simulation.contention());
        if self.sysbench {
            experiments.push(simulation.sysbench());
        }
        experiments.extend(simulation.stream());
        let absent = |what: &str, why: &str| NotMeasured { what: what.to_owned(), why: why.to_owned() };
        let python = self.blas.is_none().then(|| absent("Python with NumPy", "python3 is not installed"));
        let sysbench = (!self.sysbench).then(|| absent("sysbench", "the program is not installed"));
        Record {
            schema: RECORD_SCHEMA.to_owned(),
            subcommand: "eval".to_owned(),
            version: "0.1.0".to_owned(),
            started: "2026-01-02T03:04:05Z".to_owned(),
            seed: self.seed,
            profile: "quick".to_owned(),
            interrupted: false,
            seconds: simulation.seconds(),
            machine,
            conditions: self.conditions(),
            not_measured: python.into_iter().chain(sysbench).collect(),
            notes: Vec::new(),
            busiest_others: Vec::new(),
            gates: Vec::new(),
            subject: String::new(),
            experiments,
            light_processes: Vec::new(),
        }
    }

    /// Returns an idle machine's state at the start.
    fn conditions(&self) -> StartConditions {
        StartConditions {
            load_average: Some([0.1, 0.2, 0.15]),
            memory_available_bytes: Some(self.memory_bytes / 4 * 3),
            swap_used_bytes: Some(0),
            cpu_pressure_percent: Some(0.5),
            governors: if self.hypervisor.is_some() { vec![] } else { vec!["performance".to_owned()] },
            turbo: self.hypervisor.is_none().then_some(true),
            clock_source: Some("tsc".to_owned()),
            microcode: None,
            settings: std::collections::BTreeMap::new(),
            ticks_per_second: TICKS_PER_SECOND,
        }
    }

    /// Returns the record that `bench` would measure for `counter` or `lock`, with up to twice as many
    /// workers as CPUs.
    pub fn bench(&self, load: &str) -> Record {
        let mut simulation = Simulation::new(self);
        let counts: Vec<usize> = std::iter::successors(Some(1), |n| Some(n * 2))
            .take_while(|&n| n <= 2 * self.cpus as usize)
            .collect();
        let experiments = vec![simulation.contended_load(load, &counts)];
        Record {
            subcommand: "bench".to_owned(),
            subject: load.to_owned(),
            seconds: simulation.seconds(),
            not_measured: Vec::new(),
            experiments,
            ..self.record()
        }
    }

    fn machine(&self) -> Machine {
        let all = cpu_range(0, self.cpus);
        let width = if self.smt { 2 } else { 1 };
        let cores: Vec<Group> = (0..self.cpus / width)
            .map(|core| Group { id: Some(core.into()), cpus: cpu_range(core * width, width) })
            .collect();
        let per_node = self.cpus / self.nodes;
        Machine {
            schema: manycore_topology::machine::MACHINE_SCHEMA.to_owned(),
            system: System {
                hostname: Some(self.hostname.clone()),
                kernel: Some("6.12.0".to_owned()),
                os: Some("Debian GNU/Linux 13".to_owned()),
                architecture: Some("x86_64".to_owned()),
                cpu_model: Some(self.cpu_model.clone()),
                cpu_id: Some(self.cpu_id.clone()),
                cpu_flags: self.cpu_flags.clone(),
                hypervisor: self.hypervisor.clone(),
                hardware: None,
                bios: None,
                memory_modules: None,
                memory_bytes: Some(self.memory_bytes),
            },
            online: all.clone(),
            packages: vec![Group { id: Some(0), cpus: all.clone() }],
            dies: vec![Group { id: Some(0), cpus: all.clone() }],
            caches: caches(&cores, self.cpus, self.last_level_caches),
            cores,
            nodes: (0..self.nodes)
                .map(|id| Node {
                    id,
                    cpus: cpu_range(id * per_node, per_node),
                    memory_bytes: Some(self.memory_bytes / u64::from(self.nodes)),
                    ..Node::default()
                })
                .collect(),
            allowed: Allowed { cpus: all, effective_limit: "nothing".to_owned(), ..Allowed::default() },
            ..Machine::default()
        }
    }

    /// Returns the true events per second.
    fn events(&self, workers: usize) -> f64 {
        let cpus = self.cpus as usize;
        let n = workers.min(cpus) as f64;
        let law = self.rate * n / (1.0 + self.contention * (n - 1.0) + self.coherence * n * (n - 1.0));
        law * if workers > cpus { self.oversubscribed } else { 1.0 }
    }
}

/// Returns one L1 and one L2 for each core, and `shared` L3 for equal parts of the CPUs.
fn caches(cores: &[Group], cpus: u32, shared: u32) -> Vec<Cache> {
    let each = cpus / shared;
    let cache = |level, kind, size_bytes, cpus: &CpuSet| Cache {
        level,
        kind,
        size_bytes: Some(size_bytes),
        line_bytes: Some(64),
        ways: Some(8),
        id: None,
        cpus: cpus.clone(),
    };
    cores
        .iter()
        .flat_map(|core| {
            [
                cache(1, CacheKind::Data, 32 << 10, &core.cpus),
                cache(2, CacheKind::Unified, 1 << 20, &core.cpus),
            ]
        })
        .chain(
            (0..shared).map(|index| cache(3, CacheKind::Unified, 32 << 20, &cpu_range(index * each, each))),
        )
        .collect()
}

/// Returns `count` CPUs beginning with `first`.
fn cpu_range(first: u32, count: u32) -> CpuSet {
    (first..first + count).collect()
}

impl SlowCause {
    /// Returns the lost share of one worker's work.
    fn lost_share(self) -> f64 {
        match self {
            Self::None => 0.0,
            Self::Steal(share)
            | Self::RunDelay(share)
            | Self::Throttle(share)
            | Self::Frequency(share)
            | Self::SlowCpu(share)
            | Self::Hidden(share) => share,
        }
    }
}
