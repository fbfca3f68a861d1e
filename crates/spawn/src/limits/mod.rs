//! Limits of the number of light processes other than memory: tables of runtimes, and kernel limits.
//!
//! Each [`CountLimit`] holds the number of light processes that it still allows, after what is already in use. A
//! limit that is not set, or does not apply to this user, is absent. Goroutines, tokio tasks and virtual
//! threads have no such limit while they wait. Go's limit of 10,000 threads (`debug.SetMaxThreads`) bounds
//! how many goroutines may be in blocking calls at once, not how many may exist.

mod address_space;
mod files;
mod tasks;

pub use address_space::available_memory;

use manycore_experiment::spawning::{CountLimit, Runtime, Work};
use manycore_topology::sys_tree::SysTree;

/// Address space of a thread's stack: the default of Rust's standard library.
const STACK_BYTES: u64 = 2 << 20;
/// The default of Java.
const JAVA_STACK_BYTES: u64 = 1 << 20;

/// Maximum number of processes of an Erlang node (`erl(1)`, `+P`).
const MAX_ERLANG_PROCESSES: u64 = 134_217_727;

/// Maximum size of a file that is read here, in bytes: `maps` of a process with a hundred thousand threads.
const MAX_FILE_BYTES: usize = 64 << 20;

/// Kernel resources that light processes take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ResourceNeeds {
    /// Number of light processes; commands that raise a limit raise it to this number.
    pub count: u64,
    /// Whether each is a task of the kernel.
    pub tasks: bool,
    /// Address space of each stack in bytes, if they are threads of one process.
    pub stack_bytes: Option<u64>,
    /// Number of files of one process that each may have open at once.
    pub files: u64,
}

impl ResourceNeeds {
    /// Returns the needs of `count` light processes called `unit`, with the default stacks of the runtime.
    pub fn new(runtime: Runtime, unit: &str, work: Work, count: u64) -> Self {
        let stack_bytes = match runtime {
            Runtime::Threads => Some(STACK_BYTES),
            Runtime::Jvm if unit != "virtual thread" => Some(JAVA_STACK_BYTES),
            _ => None,
        };
        let tasks = stack_bytes.is_some() || runtime == Runtime::Processes;
        Self { count, tasks, stack_bytes, files: u64::from(work == Work::Io) }
    }
}

/// Returns the limits of `process` (its id, or `self` for the limits of programs started by this process),
/// lowest first.
pub fn find(tree: &SysTree, process: &str, runtime: Runtime, needs: &ResourceNeeds) -> Vec<CountLimit> {
    let mut limits = Vec::new();
    if needs.tasks {
        limits.extend(tasks::find(tree, process, needs));
    }
    if let Some(stack_bytes) = needs.stack_bytes {
        limits.extend(address_space::find(tree, process, needs, stack_bytes));
    }
    if needs.files > 0 {
        limits.extend(files::find(tree, process, runtime, needs));
    }
    limits.sort_by_key(|limit| limit.max_count);
    limits
}

/// Returns the limit of an Erlang node's process table with `size` entries
/// (`erlang:system_info(process_limit)`), of which `used` are taken (`process_count`). The size is a power of
/// two: 262,144 by default, 1,048,576 since OTP 27.
pub fn erlang_processes(size: u64, used: u64, count: u64) -> CountLimit {
    let wanted = count.saturating_add(used).checked_next_power_of_two().unwrap_or(MAX_ERLANG_PROCESSES);
    let raise_command = if size >= MAX_ERLANG_PROCESSES {
        "impossible: +P is at its maximum; start another node".to_owned()
    } else {
        format!("erl +P {}", wanted.max(size.saturating_mul(2)).min(MAX_ERLANG_PROCESSES))
    };
    CountLimit {
        name: "+P".to_owned(),
        max_count: size.saturating_sub(used),
        source: "erlang:system_info(process_limit)".to_owned(),
        raise_command,
    }
}

/// Returns the soft and hard value of a line of `/proc/PID/limits`, such as `Max processes`; absent if
/// unlimited.
fn resource(tree: &SysTree, process: &str, name: &str) -> Option<(Option<u64>, Option<u64>)> {
    let text = tree.read(&format!("proc/{process}/limits"))?;
    let mut values = text.lines().find_map(|line| line.strip_prefix(name))?.split_whitespace();
    let mut value = || values.next().map(|word| word.parse().ok());
    Some((value()?, value()?))
}

/// Returns twice a soft limit, or the hard one if it lies between, so that a command that raises a limit
/// always raises it.
fn doubled_up_to_hard_limit(soft: u64, hard: Option<u64>) -> u64 {
    let double = soft.saturating_mul(2);
    hard.filter(|hard| *hard > soft).map_or(double, |hard| hard.min(double))
}

/// Returns the command that sets a resource limit to `wanted` (absent: unlimited): the shell's `ulimit` up to
/// the hard limit, and `prlimit`, which needs root, beyond.
fn raise(flag: &str, option: &str, hard: Option<u64>, wanted: Option<u64>) -> String {
    let word = wanted.map_or("unlimited".to_owned(), |value| value.to_string());
    if hard.is_none_or(|hard| wanted.is_some_and(|wanted| wanted <= hard)) {
        format!("ulimit -{flag} {word}")
    } else {
        format!("prlimit --pid $$ --{option}={word}:{word}")
    }
}

/// Returns a value of `/proc/PID/status`: `Threads`, `VmSize` (in kB).
fn status(tree: &SysTree, process: &str, name: &str) -> Option<String> {
    let text = tree.read(&format!("proc/{process}/status"))?;
    text.lines().find_map(|line| Some(line.strip_prefix(name)?.strip_prefix(':')?.trim().to_owned()))
}

/// Returns whether `process` is in the initial user namespace (`user_namespaces(7)`). root of another one has
/// no privileges outside it.
fn is_in_initial_user_namespace(tree: &SysTree, process: &str) -> bool {
    /// `PROC_USER_INIT_INO` of `include/linux/proc_ns.h`.
    const INITIAL_NAMESPACE: &str = "user:[4026531837]";
    tree.link(&format!("proc/{process}/ns/user")).is_some_and(|link| link == INITIAL_NAMESPACE)
}

/// Returns whether `process` has one of these capabilities in the initial user namespace.
fn has_capability(tree: &SysTree, process: &str, capabilities: &[u32]) -> bool {
    let effective = status(tree, process, "CapEff").and_then(|hex| u64::from_str_radix(&hex, 16).ok());
    let has = |capability: &u32| effective.is_some_and(|effective| effective >> capability & 1 == 1);
    is_in_initial_user_namespace(tree, process) && capabilities.iter().any(has)
}

#[cfg(test)]
mod tests;
