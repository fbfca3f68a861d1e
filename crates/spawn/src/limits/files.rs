//! Limits of open files: `fs/file.c` and `fs/file_table.c` of Linux.

use crate::limits::{ResourceNeeds, doubled_up_to_hard_limit, has_capability, raise, resource};
use manycore_experiment::spawning::{CountLimit, Runtime};
use manycore_topology::sys_tree::SysTree;

/// `CAP_SYS_ADMIN`: processes with it may open files beyond `fs.file-max`.
const CAP_SYS_ADMIN: u32 = 21;
/// Allowance for files of other processes, added when a limit is raised.
const OTHER_FILES_ALLOWANCE: u64 = 1000;
/// Values of `fs.file-max` beyond this mean no limit.
const UNLIMITED: u64 = 1 << 60;

pub(super) fn find(
    tree: &SysTree,
    process: &str,
    runtime: Runtime,
    needs: &ResourceNeeds,
) -> Vec<CountLimit> {
    let of_machine = of_machine(tree, process, needs);
    // Each process has a file table of its own.
    let of_process = if runtime == Runtime::Processes { None } else { of_process(tree, process, needs) };
    of_machine.into_iter().chain(of_process).collect()
}

fn of_process(tree: &SysTree, process: &str, needs: &ResourceNeeds) -> Option<CountLimit> {
    let (soft, hard) = resource(tree, process, "Max open files")?;
    let soft = soft?;
    let used = tree.list(&format!("proc/{process}/fd")).len() as u64;
    let wanted =
        needs.count.saturating_mul(needs.files).saturating_add(used).saturating_add(OTHER_FILES_ALLOWANCE);
    let wanted = wanted.max(doubled_up_to_hard_limit(soft, hard));
    let most: u64 = tree.number("proc/sys/fs/nr_open").unwrap_or(u64::MAX);
    let first = if wanted > most { format!("sysctl -w fs.nr_open={wanted}; ") } else { String::new() };
    Some(CountLimit {
        name: "RLIMIT_NOFILE".to_owned(),
        max_count: soft.saturating_sub(used) / needs.files,
        source: format!("/proc/{process}/limits: {soft}, {used} open"),
        raise_command: first + &raise("n", "nofile", Some(hard.unwrap_or(most).min(most)), Some(wanted)),
    })
}

/// `file-nr` has three numbers: allocated, unused, maximum.
fn of_machine(tree: &SysTree, process: &str, needs: &ResourceNeeds) -> Option<CountLimit> {
    let text = tree.read("proc/sys/fs/file-nr")?;
    let mut numbers = text.split_whitespace().filter_map(|word| word.parse::<u64>().ok());
    let (used, _, most) = (numbers.next()?, numbers.next()?, numbers.next()?);
    if most >= UNLIMITED || has_capability(tree, process, &[CAP_SYS_ADMIN]) {
        return None;
    }
    let wanted =
        needs.count.saturating_mul(needs.files).saturating_add(used).saturating_add(OTHER_FILES_ALLOWANCE);
    Some(CountLimit {
        name: "fs.file-max".to_owned(),
        max_count: most.saturating_sub(used) / needs.files,
        source: format!("/proc/sys/fs/file-nr: {most}, {used} open"),
        raise_command: format!("sysctl -w fs.file-max={}", wanted.max(most.saturating_mul(2))),
    })
}
