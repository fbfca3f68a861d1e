//! Memory of a guest by node and policy (`/proc/PID/numa_maps`, `numa(7)`; sizes from `/proc/PID/maps`).

use manycore_topology::CpuSet;
use std::{collections::BTreeMap, fs};

/// A memory mapping of a process (`/proc/PID/numa_maps` and `maps`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct MemoryMapping {
    /// Size in bytes, whether or not its pages are allocated.
    pub bytes: u64,
    /// Nodes of its memory policy; absent under the default policy.
    pub policy_nodes: Option<CpuSet>,
    /// Allocated bytes by node.
    pub bytes_by_node: BTreeMap<u32, u64>,
}

/// Reads the memory mappings of process `pid`; `None` if they cannot be read.
pub fn read(pid: u32) -> Option<Vec<MemoryMapping>> {
    let text = |name: &str| {
        let bytes = fs::read(format!("/proc/{pid}/{name}")).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    Some(mappings(&text("numa_maps")?, &text("maps")?))
}

fn mappings(numa_maps: &str, maps: &str) -> Vec<MemoryMapping> {
    let sizes: BTreeMap<u64, u64> = maps.lines().filter_map(range).collect();
    let mapping = |line: NumaMapsLine| MemoryMapping {
        bytes: sizes.get(&line.start).copied().unwrap_or(0),
        policy_nodes: line.policy_nodes,
        bytes_by_node: line.bytes_by_node,
    };
    numa_maps.lines().filter_map(parse_numa_maps_line).map(mapping).collect()
}

/// Returns start and size of a line `7f00-7f80 rw-p ...`.
fn range(line: &str) -> Option<(u64, u64)> {
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    Some((start, end.checked_sub(start)?))
}

/// Returns the bytes on each node, summed over a `numa_maps`.
pub(super) fn by_node(numa_maps: &str) -> BTreeMap<u32, u64> {
    let mut nodes = BTreeMap::new();
    for (node, bytes) in
        numa_maps.lines().filter_map(parse_numa_maps_line).flat_map(|line| line.bytes_by_node)
    {
        let sum: &mut u64 = nodes.entry(node).or_default();
        *sum = sum.saturating_add(bytes);
    }
    nodes
}

/// The values of a line of `numa_maps`.
struct NumaMapsLine {
    start: u64,
    /// Nodes of the memory policy; absent under the default policy.
    policy_nodes: Option<CpuSet>,
    /// Bytes on each node.
    bytes_by_node: BTreeMap<u32, u64>,
}

/// Parses a line `7f00 bind:1 anon=512 N1=512 kernelpagesize_kB=4`.
fn parse_numa_maps_line(line: &str) -> Option<NumaMapsLine> {
    let mut words = line.split_ascii_whitespace();
    let start = u64::from_str_radix(words.next()?, 16).ok()?;
    let policy_nodes = policy_nodes(&mut words);
    let mut bytes_by_node: BTreeMap<u32, u64> = BTreeMap::new();
    let mut page_kb = 4;
    for word in words {
        let Some((key, value)) = word.split_once('=') else { continue };
        let Ok(value) = value.parse::<u64>() else { continue };
        if key == "kernelpagesize_kB" {
            page_kb = value;
        } else if let Some(node) = key.strip_prefix('N').and_then(|node| node.parse().ok()) {
            bytes_by_node.insert(node, value);
        }
    }
    for pages in bytes_by_node.values_mut() {
        *pages = pages.saturating_mul(page_kb).saturating_mul(1024);
    }
    Some(NumaMapsLine { start, policy_nodes, bytes_by_node })
}

/// Returns the nodes of a policy `bind:0-1`, `bind=static:0`, `prefer (many):0` or `weighted interleave:0-1`;
/// `None` for `default` and `local`.
fn policy_nodes<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<CpuSet> {
    let first = words.next()?;
    let named = if ["prefer", "weighted"].contains(&first) { words.next()? } else { first };
    named.split_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bound_mappings_are_parsed() {
        let maps = "7f0000000000-7f0040000000 rw-p 00000000 00:00 0\n\
                    7f1000000000-7f1040000000 rw-s 00000000 00:01 77 /memfd:pc.ram (deleted)\n\
                    7f2000000000-7f2000001000 rw-p 00000000 00:00 0 [heap]\n";
        let numa = "7f0000000000 bind:1 anon=512 dirty=512 N0=12 N1=500 kernelpagesize_kB=4\n\
                    7f1000000000 bind=static:0-1 file=/memfd:pc.ram huge dirty=3 N0=1 N1=2 kernelpagesize_kB=2048\n\
                    7f2000000000 default heap anon=1 dirty=1 N0=1 kernelpagesize_kB=4\n";
        let found = mappings(numa, maps);
        assert_eq!(found.len(), 3);
        assert_eq!((found[0].bytes, &found[0].policy_nodes), (1 << 30, &Some("1".parse().unwrap())));
        assert_eq!(found[0].bytes_by_node, BTreeMap::from([(0, 12 << 12), (1, 500 << 12)]));
        assert_eq!(found[1].bytes_by_node, BTreeMap::from([(0, 2 << 20), (1, 4 << 20)]));
        assert_eq!((found[2].bytes, &found[2].policy_nodes, found[2].bytes_by_node[&0]), (4096, &None, 4096));
        assert_eq!(
            by_node(numa),
            BTreeMap::from([(0, (13 << 12) + (2 << 20)), (1, (500 << 12) + (4 << 20))])
        );
    }

    #[test]
    fn file_mappings_without_policy_are_parsed() {
        let maps = "7f1000000000-7f1040000000 rw-s 00000000 00:01 77 /memfd:pc.ram (deleted)\n";
        let numa = "7f1000000000 default file=/memfd:pc.ram dirty=3 N1=3 kernelpagesize_kB=2048\n";
        let found = mappings(numa, maps);
        assert_eq!(
            found,
            [MemoryMapping {
                bytes: 1 << 30,
                policy_nodes: None,
                bytes_by_node: BTreeMap::from([(1, 6 << 20)])
            }]
        );
        for (policy, wanted) in
            [("prefer (many):0-1", "0-1"), ("weighted interleave:0,2", "0,2"), ("prefer:3", "3")]
        {
            let found = mappings(&format!("7f1000000000 {policy} anon=1 N0=1 kernelpagesize_kB=4\n"), maps);
            assert_eq!(found[0].policy_nodes, Some(wanted.parse().unwrap()), "{policy}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_parsed(numa in "([0-9a-fN:= ]|bind|\n){0,80}", maps in "([0-9a-f -]|\n){0,80}") {
            let _ = (mappings(&numa, &maps), by_node(&numa));
        }
    }
}
