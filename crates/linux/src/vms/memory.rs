//! Memory of a guest by node and policy (`/proc/PID/numa_maps`, `numa(7)`; sizes from `/proc/PID/maps`).

use manycore_topology::CpuSet;
use std::{collections::BTreeMap, fs};

/// A memory mapping of a process (`/proc/PID/numa_maps` and `maps`).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    /// Size in bytes, whether or not its pages are allocated.
    pub bytes: u64,
    /// Nodes of its memory policy; absent under the default policy.
    pub bound: Option<CpuSet>,
    /// Allocated bytes by node.
    pub on: BTreeMap<u32, u64>,
}

/// Reads the memory of process `pid`; `None` if it cannot be read.
pub fn read(pid: u32) -> Option<Vec<Mapping>> {
    let text = |name: &str| {
        let bytes = fs::read(format!("/proc/{pid}/{name}")).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    Some(mappings(&text("numa_maps")?, &text("maps")?))
}

fn mappings(numa_maps: &str, maps: &str) -> Vec<Mapping> {
    let sizes: BTreeMap<u64, u64> = maps.lines().filter_map(range).collect();
    let mapping = |piece: Piece| Mapping {
        bytes: sizes.get(&piece.start).copied().unwrap_or(0),
        bound: piece.bound,
        on: piece.on,
    };
    numa_maps.lines().filter_map(piece).map(mapping).collect()
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
    for (node, bytes) in numa_maps.lines().filter_map(piece).flat_map(|piece| piece.on) {
        let sum: &mut u64 = nodes.entry(node).or_default();
        *sum = sum.saturating_add(bytes);
    }
    nodes
}

/// The values of a line of `numa_maps`.
struct Piece {
    start: u64,
    /// Nodes of the memory policy; absent under the default policy.
    bound: Option<CpuSet>,
    /// Bytes on each node.
    on: BTreeMap<u32, u64>,
}

/// Parses a line `7f00 bind:1 anon=512 N1=512 kernelpagesize_kB=4`.
fn piece(line: &str) -> Option<Piece> {
    let mut words = line.split_ascii_whitespace();
    let start = u64::from_str_radix(words.next()?, 16).ok()?;
    let mut piece = Piece { start, bound: policy(&mut words), on: BTreeMap::new() };
    let mut page_kb = 4;
    for word in words {
        let Some((key, value)) = word.split_once('=') else { continue };
        let Ok(value) = value.parse::<u64>() else { continue };
        if key == "kernelpagesize_kB" {
            page_kb = value;
        } else if let Some(node) = key.strip_prefix('N').and_then(|node| node.parse().ok()) {
            piece.on.insert(node, value);
        }
    }
    piece.on.values_mut().for_each(|pages| *pages = pages.saturating_mul(page_kb).saturating_mul(1024));
    Some(piece)
}

/// Returns the nodes of a policy `bind:0-1`, `bind=static:0`, `prefer (many):0` or `weighted interleave:0-1`;
/// `None` for `default` and `local`.
fn policy<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<CpuSet> {
    let first = words.next()?;
    let named = if ["prefer", "weighted"].contains(&first) { words.next()? } else { first };
    named.split_once(':')?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bound_memory_is_told_with_its_size_and_pages() {
        let maps = "7f0000000000-7f0040000000 rw-p 00000000 00:00 0\n\
                    7f1000000000-7f1040000000 rw-s 00000000 00:01 77 /memfd:pc.ram (deleted)\n\
                    7f2000000000-7f2000001000 rw-p 00000000 00:00 0 [heap]\n";
        let numa = "7f0000000000 bind:1 anon=512 dirty=512 N0=12 N1=500 kernelpagesize_kB=4\n\
                    7f1000000000 bind=static:0-1 file=/memfd:pc.ram huge dirty=3 N0=1 N1=2 kernelpagesize_kB=2048\n\
                    7f2000000000 default heap anon=1 dirty=1 N0=1 kernelpagesize_kB=4\n";
        let found = mappings(numa, maps);
        assert_eq!(found.len(), 3);
        assert_eq!((found[0].bytes, &found[0].bound), (1 << 30, &Some("1".parse().unwrap())));
        assert_eq!(found[0].on, BTreeMap::from([(0, 12 << 12), (1, 500 << 12)]));
        assert_eq!(found[1].on, BTreeMap::from([(0, 2 << 20), (1, 4 << 20)]));
        assert_eq!((found[2].bytes, &found[2].bound, found[2].on[&0]), (4096, &None, 4096));
        assert_eq!(
            by_node(numa),
            BTreeMap::from([(0, (13 << 12) + (2 << 20)), (1, (500 << 12) + (4 << 20))])
        );
    }

    #[test]
    fn memory_without_a_policy_is_told_whatever_file_it_is_of() {
        let maps = "7f1000000000-7f1040000000 rw-s 00000000 00:01 77 /memfd:pc.ram (deleted)\n";
        let numa = "7f1000000000 default file=/memfd:pc.ram dirty=3 N1=3 kernelpagesize_kB=2048\n";
        let found = mappings(numa, maps);
        assert_eq!(found, [Mapping { bytes: 1 << 30, bound: None, on: BTreeMap::from([(1, 6 << 20)]) }]);
        for (policy, wanted) in
            [("prefer (many):0-1", "0-1"), ("weighted interleave:0,2", "0,2"), ("prefer:3", "3")]
        {
            let found = mappings(&format!("7f1000000000 {policy} anon=1 N0=1 kernelpagesize_kB=4\n"), maps);
            assert_eq!(found[0].bound, Some(wanted.parse().unwrap()), "{policy}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(numa in "([0-9a-fN:= ]|bind|\n){0,80}", maps in "([0-9a-f -]|\n){0,80}") {
            let _ = (mappings(&numa, &maps), by_node(&numa));
        }
    }
}
