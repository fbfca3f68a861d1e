//! Reads the NUMA nodes of the memory of pinned processes (`/proc/PID/numa_maps`, `numa(7)`).

use super::count_unreadable;
use crate::{Process, UnexaminedKind};
use manycore_topology::{CpuSet, Machine, sys_tree::SysTree};
use std::collections::BTreeMap;

/// Maximum size of a map in bytes: half a million mappings.
const MAX_BYTES: usize = 64 << 20;
/// Beginnings of the names of files that are memory: shared segments, `memfd_create`, huge pages.
const SHARED_MEMORY: [&str; 5] =
    ["file=/SYSV", "file=/dev/shm/", "file=/memfd:", "file=/dev/zero", "file=/anon_hugepage"];

/// Reads the map if there are several nodes with memory and the process cannot use CPUs of all of them. The
/// kernel walks all page tables for it, which takes seconds for a large process.
pub(super) fn read(
    tree: &SysTree,
    machine: &Machine,
    process: &mut Process,
    unexamined: &mut BTreeMap<UnexaminedKind, usize>,
) {
    let with_memory = machine.nodes.iter().filter(|node| node.memory_bytes.is_none_or(|memory| memory > 0));
    let cpus = process.allowed_cpus(&machine.online);
    let near = |nodes: CpuSet| nodes.intersects(&cpus);
    if with_memory.clone().count() < 2 || with_memory.clone().all(|node| near(node.cpus.clone())) {
        return;
    }
    let path = format!("proc/{}/numa_maps", process.pid);
    match tree.read_part(&path, MAX_BYTES, str::to_owned) {
        Some(text) => process.memory = Some(parse(&text)),
        None => count_unreadable(tree, process.pid, UnexaminedKind::Memory, unexamined),
    }
}

/// Returns the bytes on each node. Pages of files are left out: they belong to the page cache and are on the
/// node where the file was first read. Memory that is interleaved over nodes on purpose is left out, too.
fn parse(text: &str) -> BTreeMap<u32, u64> {
    let mut bytes = BTreeMap::new();
    for line in text.lines() {
        let mut words = line.split_ascii_whitespace().skip(1);
        let policy = words.next().unwrap_or_default();
        let words: Vec<&str> = words.collect();
        let file = words.iter().any(|word| word.starts_with("file="));
        let own = words.iter().any(|word| {
            *word == "huge"
                || word.starts_with("anon=")
                || SHARED_MEMORY.iter().any(|name| word.starts_with(name))
        });
        if file && !own
            || policy.contains("interleave")
            || words.iter().any(|word| word.starts_with("interleave:"))
        {
            continue;
        }
        let page_kb =
            words.iter().find_map(|word| word.strip_prefix("kernelpagesize_kB=")?.parse::<u64>().ok());
        for word in words {
            let Some((node, pages)) = word.strip_prefix('N').and_then(|rest| rest.split_once('=')) else {
                continue;
            };
            if let (Ok(node), Ok(pages)) = (node.parse::<u32>(), pages.parse::<u64>()) {
                let held = pages.saturating_mul(page_kb.unwrap_or(4)).saturating_mul(1024);
                let sum = bytes.entry(node).or_insert(0_u64);
                *sum = sum.saturating_add(held);
            }
        }
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn pages_are_counted_in_their_size() {
        let text = "\
55e48b1f2000 default file=/usr/bin/cat mapped=2 N0=2 kernelpagesize_kB=4
55e48b1f4000 default file=/usr/bin/cat anon=1 dirty=1 N1=1 kernelpagesize_kB=4
7f0000000000 bind:1 anon=512 dirty=512 N0=12 N1=500 kernelpagesize_kB=4
7f1000000000 default file=/anon_hugepage\\040(deleted) huge anon=2 dirty=2 N3=2 kernelpagesize_kB=2048
7f2000000000 interleave:0-1 anon=80 dirty=80 N0=40 N1=40 kernelpagesize_kB=4
7f3000000000 default file=/dev/shm/x mapped=3 N2=3 kernelpagesize_kB=4
7f4000000000 default
";
        assert_eq!(parse(text), BTreeMap::from([(0, 12 << 12), (1, 501 << 12), (2, 3 << 12), (3, 2 << 21)]));
    }

    proptest! {
        #[test]
        fn any_map_is_read(text in "([a-zN0-9= :]|\n){0,200}") {
            let _ = parse(&text);
        }
    }
}
