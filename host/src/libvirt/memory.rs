//! Memory of a guest by node and policy (`/proc/PID/numa_maps`, `numa(7)`; sizes from `/proc/PID/maps`).

use manycore_model::{CpuSet, domain::check::Mapping};
use std::{collections::BTreeMap, fs};

/// Memory of process `pid` that has a policy of its own; `None` where it may not be looked at.
pub(super) fn read(pid: u32) -> Option<Vec<Mapping>> {
    let text = |name: &str| {
        let bytes = fs::read(format!("/proc/{pid}/{name}")).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    Some(mappings(&text("numa_maps")?, &text("maps")?))
}

fn mappings(numa_maps: &str, maps: &str) -> Vec<Mapping> {
    let sizes: BTreeMap<u64, u64> = maps.lines().filter_map(range).collect();
    numa_maps.lines().filter_map(|line| mapping(line, &sizes)).collect()
}

/// Start and size of a line `7f00-7f80 rw-p ...`.
fn range(line: &str) -> Option<(u64, u64)> {
    let (start, end) = line.split_once(' ')?.0.split_once('-')?;
    let (start, end) = (u64::from_str_radix(start, 16).ok()?, u64::from_str_radix(end, 16).ok()?);
    Some((start, end.checked_sub(start)?))
}

/// A line `7f00 bind:1 anon=512 N1=512 kernelpagesize_kB=4`.
fn mapping(line: &str, sizes: &BTreeMap<u64, u64>) -> Option<Mapping> {
    let mut words = line.split_ascii_whitespace();
    let start = u64::from_str_radix(words.next()?, 16).ok()?;
    // `bind=static:0-1`, `prefer (many):0` and the like; the default policy has no nodes.
    let policy = line.split_ascii_whitespace().skip(1).take(2).find_map(|word| word.split_once(':'))?;
    let bound: CpuSet = policy.1.parse().ok()?;
    let words: Vec<&str> = words.collect();
    let page_kb = words
        .iter()
        .find_map(|word| word.strip_prefix("kernelpagesize_kB=")?.parse::<u64>().ok())
        .unwrap_or(4);
    let mut on = BTreeMap::new();
    for word in &words {
        let Some((node, pages)) = word.strip_prefix('N').and_then(|rest| rest.split_once('=')) else {
            continue;
        };
        if let (Ok(node), Ok(pages)) = (node.parse::<u32>(), pages.parse::<u64>()) {
            on.insert(node, pages.saturating_mul(page_kb << 10));
        }
    }
    Some(Mapping { bytes: sizes.get(&start).copied().unwrap_or(0), bound: Some(bound), on })
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
        assert_eq!(found.len(), 2);
        assert_eq!((found[0].bytes, &found[0].bound), (1 << 30, &Some("1".parse().unwrap())));
        assert_eq!(found[0].on, BTreeMap::from([(0, 12 << 12), (1, 500 << 12)]));
        assert_eq!(found[1].on, BTreeMap::from([(0, 2 << 20), (1, 4 << 20)]));
    }

    proptest! {
        #[test]
        fn any_text_is_read(numa in "([0-9a-fN:= ]|bind|\n){0,80}", maps in "([0-9a-f -]|\n){0,80}") {
            let _ = mappings(&numa, &maps);
        }
    }
}
