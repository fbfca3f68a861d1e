//! Reads program and runtime of processes that have more threads than CPUs.

use super::count_unreadable;
use crate::{LIBRARIES, Process, Program, UnexaminedKind, VARIABLES, clearly_more, go_buildinfo};
use manycore_topology::{Machine, sys_tree::SysTree};
use std::collections::BTreeMap;

/// Maximum size in bytes of a memory map that is searched for libraries.
const MAX_BYTES: usize = 16 << 20;

/// Reads them if the process has clearly more threads than CPUs, and fewer CPUs than the machine.
pub(super) fn read(
    tree: &SysTree,
    machine: &Machine,
    process: &mut Process,
    unexamined: &mut BTreeMap<UnexaminedKind, usize>,
) {
    let mask = process.allowed_cpus(&machine.online).len() as f64;
    let cpus = process.limits.quota_cpus.map_or(mask, |quota| quota.min(mask));
    if cpus >= machine.online.len() as f64 || !clearly_more(process.threads.len(), cpus) {
        return;
    }
    let pid = process.pid;
    let words = |name: &str| -> Option<Vec<String>> {
        let text = tree.read(&format!("proc/{pid}/{name}"))?;
        Some(text.split('\0').map(str::to_owned).collect())
    };
    let environment = words("environ");
    if environment.is_none() {
        count_unreadable(tree, pid, UnexaminedKind::Environment, unexamined);
    }
    let ours = |line: &&str| LIBRARIES.iter().any(|part| line.contains(part));
    let libraries = tree.read_part(&format!("proc/{pid}/maps"), MAX_BYTES, |text| {
        text.lines().filter(ours).collect::<Vec<_>>().join("\n")
    });
    let file = tree.file(&format!("proc/{pid}/exe"));
    if libraries.is_none() {
        count_unreadable(tree, pid, UnexaminedKind::Program, unexamined);
    }
    let wanted = |word: &String| {
        let (name, value) = word.split_once('=')?;
        VARIABLES.contains(&name).then(|| (name.to_owned(), value.to_owned()))
    };
    process.program = Some(Program {
        arguments: words("cmdline").unwrap_or_default(),
        environment: environment.unwrap_or_default().iter().filter_map(wanted).collect(),
        libraries: paths(&libraries.unwrap_or_default()),
        go: file.and_then(|file| go_buildinfo::read(&file)),
    });
}

/// Returns the paths in the last field of `/proc/PID/maps`, without repetitions.
fn paths(maps: &str) -> Vec<String> {
    let mut paths: Vec<String> =
        maps.lines().filter_map(|line| line.find('/').map(|at| line[at..].to_owned())).collect();
    paths.dedup();
    paths
}
