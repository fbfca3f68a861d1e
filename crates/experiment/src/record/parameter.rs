//! Names of the parameters ([`super::Experiment::parameters`]) of experiments on commands.

/// The service that was placed, as typed in a shell. The measured command is the load on it.
pub const SERVICE: &str = "service";
/// The CPUs of the load on a service, as a list.
pub const LOAD_CPUS: &str = "load_cpus";
/// Present if A and B are the same: command, environment, CPUs and memory.
pub const SAME_VARIANTS: &str = "same_variants";
