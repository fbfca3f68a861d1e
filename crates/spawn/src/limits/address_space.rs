//! Limits of the address space and of memory: `mm/mmap.c` of Linux, `proc_sys_vm(5)`.

use crate::limits::{MAX_FILE_BYTES, ResourceNeeds, raise, resource, status};
use manycore_experiment::spawning::CountLimit;
use manycore_topology::{
    cgroup,
    sys_tree::{SysTree, kilobytes},
};

/// Mappings per stack: the stack and its guard page. From Linux 6.13 with glibc 2.42 on, the guard page is
/// not a separate mapping; the real limit is then higher than reported.
const MAPS_OF_STACK: u64 = 2;
/// Allowance for other mappings, such as heaps of threads, added when the limit is raised.
const OTHER_MAPPINGS_ALLOWANCE: u64 = 1000;

/// Resource limits of memory: name, line in `limits`, field of `status` with the used amount, flag of
/// `ulimit`, option of `prlimit`.
const RESOURCES: [[&str; 5]; 2] = [
    ["RLIMIT_AS", "Max address space", "VmSize", "v", "as"],
    ["RLIMIT_DATA", "Max data size", "VmData", "d", "data"],
];

pub(super) fn find(
    tree: &SysTree,
    process: &str,
    needs: &ResourceNeeds,
    stack_bytes: u64,
) -> Vec<CountLimit> {
    let resources = RESOURCES.iter().filter_map(|[name, line, used, flag, option]| {
        let (soft, used, hard) = limit_and_usage(tree, process, line, used)?;
        let max_count = soft.saturating_sub(used) / stack_bytes.max(1);
        let source = format!("/proc/{process}/limits: {soft} bytes, stacks of {stack_bytes} bytes");
        Some(CountLimit {
            name: (*name).to_owned(),
            max_count,
            source,
            raise_command: raise(flag, option, hard, None),
        })
    });
    let commit = uncommitted(tree).map(|bytes| CountLimit {
        name: "vm.overcommit_memory".to_owned(),
        max_count: bytes / stack_bytes.max(1),
        source: format!("/proc/meminfo: {bytes} bytes to CommitLimit, stacks of {stack_bytes} bytes"),
        raise_command: "sysctl -w vm.overcommit_memory=0".to_owned(),
    });
    resources.chain(maps(tree, process, needs)).chain(commit).collect()
}

/// Returns the limit `vm.max_map_count` of the mappings of one process.
fn maps(tree: &SysTree, process: &str, needs: &ResourceNeeds) -> Option<CountLimit> {
    let path = "proc/sys/vm/max_map_count";
    let most: u64 = tree.number(path)?;
    let lines = |text: &str| text.lines().count().to_string();
    let used = tree.read_part(&format!("proc/{process}/maps"), MAX_FILE_BYTES, lines)?.parse().unwrap_or(0);
    let wanted = needs
        .count
        .saturating_mul(MAPS_OF_STACK)
        .saturating_add(used)
        .saturating_add(OTHER_MAPPINGS_ALLOWANCE);
    Some(CountLimit {
        name: "vm.max_map_count".to_owned(),
        max_count: most.saturating_sub(used) / MAPS_OF_STACK,
        source: format!("/{path}: {most}, {MAPS_OF_STACK} for each stack with its guard page"),
        raise_command: format!(
            "sysctl -w vm.max_map_count={}",
            wanted.max(most.saturating_mul(2)).min(i32::MAX as u64)
        ),
    })
}

/// Returns the soft limit, the used amount and the hard limit of a resource that is counted in bytes.
fn limit_and_usage(tree: &SysTree, process: &str, line: &str, used: &str) -> Option<(u64, u64, Option<u64>)> {
    let (soft, hard) = resource(tree, process, line)?;
    let used = status(tree, process, used).and_then(|text| kilobytes(&text)).unwrap_or(0);
    Some((soft?, used, hard))
}

/// Returns a field of `/proc/meminfo` in bytes.
fn field(tree: &SysTree, name: &str) -> Option<u64> {
    let text = tree.read("proc/meminfo")?;
    kilobytes(text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))?)
}

/// Returns the bytes that can still be committed, if the kernel does not overcommit (`vm.overcommit_memory`
/// is 2).
fn uncommitted(tree: &SysTree) -> Option<u64> {
    let mode: u8 = tree.number("proc/sys/vm/overcommit_memory")?;
    let left = || Some(field(tree, "CommitLimit")?.saturating_sub(field(tree, "Committed_AS")?));
    if mode == 2 { left() } else { None }
}

/// Returns the bytes that a runtime may use without disturbing other processes, with their source: the
/// minimum of nine tenths of `MemAvailable`, of what the control groups allow this process, and of its
/// resource limits. Absent if none is known.
pub fn available_memory(tree: &SysTree) -> Option<(u64, String)> {
    let of_resource = RESOURCES.iter().filter_map(|[name, line, used, ..]| {
        let (soft, used, _) = limit_and_usage(tree, "self", line, used)?;
        Some((soft.saturating_sub(used), *name))
    });
    let available =
        field(tree, "MemAvailable").map(|bytes| (bytes / 10 * 9, "available memory less a tenth"));
    let group = cgroup::memory_left(tree).map(|bytes| (bytes, "memory limit of the control group"));
    let commit = uncommitted(tree).map(|bytes| (bytes, "vm.overcommit_memory"));
    let all = available.into_iter().chain(group).chain(of_resource).chain(commit);
    all.min_by_key(|(bytes, _)| *bytes).map(|(bytes, source)| (bytes, source.to_owned()))
}
