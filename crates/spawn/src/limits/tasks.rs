//! Limits of tasks (threads and processes): `kernel/fork.c` and `kernel/pid.c` of Linux.

use crate::limits::{
    ResourceNeeds, doubled_up_to_hard_limit, has_capability, is_in_initial_user_namespace, raise, resource,
    status,
};
use manycore_experiment::spawning::CountLimit;
use manycore_topology::{
    cgroup::{self, GroupFolder},
    sys_tree::SysTree,
};

/// Maximum number of process ids of a 64-bit kernel (`PID_MAX_LIMIT`).
const MAX_PID: u64 = 1 << 22;
/// Ids below this are not reused after the ids have wrapped around (`RESERVED_PIDS`).
const RESERVED_PIDS: u64 = 300;
/// `PROC_PID_INIT_INO`: the initial pid namespace, which sees all processes.
const INITIAL_NAMESPACE: &str = "pid:[4026531836]";
/// Numbers of capabilities (`capability.h`).
const CAP_SYS_ADMIN: u32 = 21;
/// See [`CAP_SYS_ADMIN`].
const CAP_SYS_RESOURCE: u32 = 24;
/// Allowance for tasks of other processes, added when a limit is raised.
const OTHER_TASKS_ALLOWANCE: u64 = 1000;

pub(super) fn find(tree: &SysTree, process: &str, needs: &ResourceNeeds) -> Vec<CountLimit> {
    let tasks = all_tasks(tree).unwrap_or(0);
    let groups = cgroup::folders_of(tree, process, "pids");
    [ids(tree, tasks), threads_max(tree, tasks, needs), of_user(tree, process, needs)]
        .into_iter()
        .flatten()
        .chain(groups.iter().filter_map(|folder| of_group(tree, folder)))
        .collect()
}

/// Returns the number of tasks of the whole machine: `1/84` in `/proc/loadavg`.
fn all_tasks(tree: &SysTree) -> Option<u64> {
    tree.read("proc/loadavg")?.split_whitespace().nth(3)?.split_once('/')?.1.parse().ok()
}

/// Returns the limit of process ids. After a wrap-around, ids from 300 to below `pid_max` are used.
fn ids(tree: &SysTree, tasks: u64) -> Option<CountLimit> {
    let path = "proc/sys/kernel/pid_max";
    let most: u64 = tree.number(path)?;
    let sees_all = tree.link("proc/self/ns/pid").is_some_and(|link| link == INITIAL_NAMESPACE);
    let reserved = |id: &u32| u64::from(*id) < RESERVED_PIDS;
    let low =
        if sees_all { tree.numbered_entries("proc", "").iter().filter(reserved).count() as u64 } else { 0 };
    let raise_command = if most >= MAX_PID {
        "impossible: the kernel has no more process ids".to_owned()
    } else {
        format!("sysctl -w kernel.pid_max={MAX_PID}")
    };
    Some(CountLimit {
        name: "kernel.pid_max".to_owned(),
        max_count: most.saturating_sub(RESERVED_PIDS).saturating_sub(tasks.saturating_sub(low)),
        source: format!("/{path}: {most}, {tasks} tasks"),
        raise_command,
    })
}

fn threads_max(tree: &SysTree, tasks: u64, needs: &ResourceNeeds) -> Option<CountLimit> {
    let path = "proc/sys/kernel/threads-max";
    let most: u64 = tree.number(path)?;
    let wanted =
        needs.count.saturating_add(tasks).saturating_add(OTHER_TASKS_ALLOWANCE).max(most.saturating_mul(2));
    Some(CountLimit {
        name: "kernel.threads-max".to_owned(),
        max_count: most.saturating_sub(tasks),
        source: format!("/{path}: {most}, {tasks} tasks"),
        raise_command: format!("sysctl -w kernel.threads-max={wanted}"),
    })
}

/// Returns the limit `RLIMIT_NPROC`, which counts all tasks of the real user. It does not apply to root or to
/// processes with administrative capabilities (`copy_process`).
fn of_user(tree: &SysTree, process: &str, needs: &ResourceNeeds) -> Option<CountLimit> {
    let (soft, hard) = resource(tree, process, "Max processes")?;
    let soft = soft?;
    let user = real_user(tree, process)?;
    let is_root = user == "0" && is_in_initial_user_namespace(tree, process);
    if is_root || has_capability(tree, process, &[CAP_SYS_RESOURCE, CAP_SYS_ADMIN]) {
        return None;
    }
    let of_user = |id: &u32| real_user(tree, &id.to_string()).as_ref() == Some(&user);
    let threads = |id: u32| status(tree, &id.to_string(), "Threads")?.parse::<u64>().ok();
    let tasks: u64 = tree.numbered_entries("proc", "").iter().filter(of_user).filter_map(threads).sum();
    let wanted = needs
        .count
        .saturating_add(tasks)
        .saturating_add(OTHER_TASKS_ALLOWANCE)
        .max(doubled_up_to_hard_limit(soft, hard));
    Some(CountLimit {
        name: "RLIMIT_NPROC".to_owned(),
        max_count: soft.saturating_sub(tasks),
        source: format!("/proc/{process}/limits: {soft}, {tasks} tasks of user {user}"),
        raise_command: raise("u", "nproc", hard, Some(wanted)),
    })
}

/// Returns the first number of `Uid`.
fn real_user(tree: &SysTree, process: &str) -> Option<String> {
    Some(status(tree, process, "Uid")?.split_whitespace().next()?.to_owned())
}

/// Returns the limit `pids.max` of one group, which counts the tasks of all groups below it.
fn of_group(tree: &SysTree, folder: &GroupFolder) -> Option<CountLimit> {
    let path = format!("{}/pids.max", folder.path);
    let most: u64 = tree.number(&path)?;
    let used: u64 = tree.number(&format!("{}/pids.current", folder.path)).unwrap_or(0);
    let name = folder.path.rsplit('/').next().unwrap_or_default();
    let unit = [".slice", ".service", ".scope"].iter().any(|kind| name.ends_with(kind));
    let raise_command = if unit {
        format!("systemctl set-property --runtime {name} TasksMax=infinity")
    } else {
        format!("echo max > /{path}")
    };
    Some(CountLimit {
        name: "pids.max".to_owned(),
        max_count: most.saturating_sub(used),
        source: format!("/{path}: {most}, {used} tasks"),
        raise_command,
    })
}
