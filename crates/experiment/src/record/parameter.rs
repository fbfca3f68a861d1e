//! Names of the parameters ([`super::Experiment::parameters`]) of experiments on commands.

/// The service that was placed, as typed in a shell. The measured command is the load on it.
pub const SERVICE: &str = "service";
/// The CPUs of the load on a service, as a list.
pub const LOAD_CPUS: &str = "load_cpus";
/// The hosts of the loads on instances, with commas between. Absent where loads run on the measured machine.
pub const LOAD_HOSTS: &str = "load_hosts";
/// The settings of the machine as they were found: `thp=madvise, vm.swappiness=60`.
pub const ORIGINAL_SETTINGS: &str = "original_settings";
/// The kernel's names of the schedulers that variants have: `cluster:spread = manycore_spread`. Present if the scheduler
/// was switched.
pub const SCHEDULERS: &str = "schedulers";
/// Seconds between a switch to another scheduler and the next run.
pub const SCHEDULER_SETTLE_SECONDS: &str = "scheduler_settle_seconds";
/// The file that each run reads as its standard input.
pub const INPUT: &str = "input";
/// The shell that runs each command.
pub const SHELL: &str = "shell";
/// Seconds in which this shell starts and ends. Each run includes them.
pub const SHELL_SECONDS: &str = "shell_seconds";
/// Present if caches were dropped before each run.
pub const DROP_CACHES: &str = "drop_caches";
/// Exit codes that count as runs, or `all`.
pub const IGNORED_FAILURES: &str = "ignored_failures";
/// Present if all variants are the same: command, environment, CPUs and memory.
pub const SAME_VARIANTS: &str = "same_variants";
/// Label of the variant with which the others are compared. Absent where it is A.
pub const REFERENCE: &str = "reference";
/// What of the distributions decides: a `manycore_stats::Estimator` in its written form. Absent where it is the median.
pub const ESTIMATOR: &str = "by";
/// The program that sent requests, where a reader of its latencies was used: `wrk`.
pub const LOAD_GENERATOR: &str = "load_generator";
/// When that program sends its next request: a `metric::LoadModel` as `closed` or `open`.
pub const LOAD_MODEL: &str = "load_model";
/// The bound of the latency of the observed instance: a [`crate::tail_bound::TailBound`] in its written form.
pub const BOUND: &str = "bound";
/// The largest number of instances that is measured.
pub const MOST_INSTANCES: &str = "most_instances";
/// Pairs of slices of a variant, at most.
pub const PAIRS: &str = "pairs";
/// The request that an instance gets: `GET key:{random}`.
pub const REQUEST: &str = "request";
/// Requests per second of each instance.
pub const RATE: &str = "requests_per_second";
/// Requests per second that a lone instance served in a closed loop, where that was measured.
pub const CAPACITY: &str = "capacity_per_second";
/// Connections to each instance.
pub const CONNECTIONS: &str = "connections";
/// Requests that a connection has at a time, at most.
pub const PIPELINE: &str = "pipeline";
/// How requests are distributed in time: `poisson` or `constant`.
pub const ARRIVALS: &str = "arrivals";
/// CPUs that an instance may use at most, where that is limited: `0.2`.
pub const INSTANCE_CPUS: &str = "instance_cpus";
/// Memory that an instance may use at most, in bytes, where that is limited.
pub const INSTANCE_MEMORY: &str = "instance_memory_bytes";
