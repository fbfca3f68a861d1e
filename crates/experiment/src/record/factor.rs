//! Names of the factors of treatments ([`super::Treatment::factors`]) in the experiments of [`super::id`].

/// What is compared: a label from [`super::variant_label`], a form of a load such as `spin`, or `today` in a search.
pub const VARIANT: &str = "variant";
/// The name that the user gave a variant.
pub const NAME: &str = "name";
/// How several tasks run: `serial`, `threads`, `processes`.
pub const MODE: &str = "mode";
/// The program that did the work, such as `manycore` or `sysbench`.
pub const PROGRAM: &str = "program";
/// Number of workers.
pub const WORKERS: &str = "workers";
/// Rows of a square matrix.
pub const SIZE: &str = "size";
/// Present if a matrix product used all cores.
pub const ALL_CORES: &str = "all";
/// The busy CPU, or `all`.
pub const CPU: &str = "cpu";
/// The CPUs that two tasks were pinned to, or those of a placement, as a list.
pub const CPUS: &str = "cpus";
/// One CPU of a pair.
pub const FIRST_CPU: &str = "a";
/// The other CPU of a pair.
pub const SECOND_CPU: &str = "b";
/// What two CPUs share: a `manycore_topology::Distance` in its written form, or `same`.
pub const DISTANCE: &str = "distance";
/// Kernel of STREAM: as `manycore_workload::stream::Kernel` writes it.
pub const KERNEL: &str = "kernel";
/// Kind of the stores of that kernel.
pub const STORES: &str = "stores";
/// NUMA node of the CPUs.
pub const FROM_NODE: &str = "from";
/// NUMA node of the memory.
pub const TO_NODE: &str = "to";
/// Whether the other CPUs read memory at the same time: `yes` or `no`.
pub const LOADED: &str = "loaded";
/// The command that runs a candidate of a search, or the command of a variant with its environment.
pub const COMMAND: &str = "command";
/// Begins the factor of a parameter of a variant: `parameter.threads`.
pub const PARAMETER: &str = "parameter.";
/// Where a workload was run: a placement.
pub const PLACE: &str = "place";
/// Settings of the machine while a variant ran: `thp=never, vm.swappiness=60`.
pub const SETTINGS: &str = "settings";
/// The scheduler of all tasks while a variant ran: `kernel`, `cluster:spread`, `scx_lavd --performance`.
pub const SCHEDULER: &str = "scheduler";
/// The kernel's name of that scheduler (`/sys/kernel/sched_ext/root/ops`). Absent for the kernel's own one.
pub const SCHEDULER_NAME: &str = "scheduler_name";
/// Why a count of instances failed.
pub const FAILURE: &str = "failure";
