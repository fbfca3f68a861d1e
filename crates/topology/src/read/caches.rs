//! Reads caches (`/sys/devices/system/cpu/cpuN/cache/indexM`,
//! `Documentation/ABI/testing/sysfs-devices-system-cpu`).

use crate::{
    CpuId, CpuSet, Error,
    machine::{Cache, CacheKind, Node},
    read::cpus::{CPU, Cpus},
    sys_tree::SysTree,
};
use std::collections::HashSet;

/// Maximum number of cache indices. A CPU has four or five caches; hwloc reads ten indices, too.
const MAX_INDICES: u32 = 10;

/// Reads every cache once, ordered by level, kind and first CPU.
///
/// # Errors
/// A list of sharing CPUs is malformed.
pub fn read(tree: &SysTree, cpus: &Cpus) -> Result<Vec<Cache>, Error> {
    let mut caches: Vec<Cache> = Vec::new();
    let indices = index_count(tree, cpus);
    for index in 0..indices {
        // CPUs whose cache of this index was read from another CPU that shares it.
        let mut seen = HashSet::new();
        for cpu in cpus.online.iter() {
            if seen.contains(&cpu) {
                continue;
            }
            let Some(cache) = read_one(tree, cpus, cpu, index)? else { continue };
            seen.extend(cache.cpus.iter());
            caches.push(cache);
        }
    }
    caches.sort_by_key(|cache| (cache.level, cache.kind, cache.cpus.first()));
    caches.dedup_by(|b, a| (a.level, a.kind, &a.cpus) == (b.level, b.kind, &b.cpus));
    Ok(caches)
}

/// Returns one more than the highest cache index of any kind of core. Reads the first CPU of each package
/// and the last CPU, since hybrid machines number their other cores last.
fn index_count(tree: &SysTree, cpus: &Cpus) -> u32 {
    let firsts = cpus.packages.iter().filter_map(|package| package.cpus.first());
    let probes: CpuSet = firsts.chain(cpus.online.first()).chain(cpus.online.last()).collect();
    probes
        .iter()
        .filter_map(|cpu| tree.numbered_entries(&format!("{CPU}/cpu{cpu}/cache"), "index").last())
        .max()
        .map_or(0, |last| last.saturating_add(1).min(MAX_INDICES))
}

fn read_one(tree: &SysTree, cpus: &Cpus, cpu: CpuId, index: u32) -> Result<Option<Cache>, Error> {
    let folder = format!("{CPU}/cpu{cpu}/cache/index{index}");
    let mut shared = tree.cpu_mask(&format!("{folder}/shared_cpu_map"))?;
    if shared.is_none() {
        shared = tree.cpu_list(&format!("{folder}/shared_cpu_list"))?;
    }
    let Some(shared) = shared else { return Ok(None) };
    let shared = if shared.is_empty() { core_of(cpus, cpu) } else { shared.intersection(&cpus.online) };
    // A cache is read from its first CPU. A file that does not list its own CPU is ignored.
    if shared.first() != Some(cpu) {
        return Ok(None);
    }
    let Some(level) = tree.number(&format!("{folder}/level")) else { return Ok(None) };
    let size_bytes = tree.read(&format!("{folder}/size")).and_then(|text| size(&text));
    Ok(Some(Cache {
        level,
        kind: kind(tree.read(&format!("{folder}/type")).as_deref()),
        size_bytes: size_bytes.filter(|&bytes| bytes > 0),
        line_bytes: tree.number(&format!("{folder}/coherency_line_size")).filter(|&bytes| bytes > 0),
        ways: tree.number(&format!("{folder}/ways_of_associativity")),
        id: tree.number(&format!("{folder}/id")),
        cpus: shared,
    }))
}

/// Returns the CPUs of the core. Itanium kernels leave the sharing map of some caches empty; those belong
/// to the core.
fn core_of(cpus: &Cpus, cpu: CpuId) -> CpuSet {
    let core = cpus.cores.iter().find(|core| core.cpus.contains(cpu));
    core.map_or_else(|| CpuSet::single(cpu), |core| core.cpus.clone())
}

/// Corrects the caches of the second-generation Xeon Phi, which reports an L3 without a size. If its 16 GiB
/// of in-package memory are not nodes of their own, they are a cache in front of the other memory, divided
/// equally among the nodes.
pub fn correct_xeon_phi(caches: &mut Vec<Cache>, nodes: &[Node]) {
    caches.retain(|cache| cache.level != 3 || cache.size_bytes.is_some());
    if nodes.iter().any(|node| node.memory_only) {
        return;
    }
    let size_bytes = Some((16 << 30) / nodes.len().max(1) as u64);
    caches.extend(nodes.iter().map(|node| Cache {
        level: 3,
        kind: CacheKind::Unified,
        size_bytes,
        line_bytes: Some(64),
        ways: Some(1),
        id: None,
        cpus: node.cpus.clone(),
    }));
}

fn kind(text: Option<&str>) -> CacheKind {
    match text {
        Some("Data") => CacheKind::Data,
        Some("Instruction") => CacheKind::Instruction,
        _ => CacheKind::Unified,
    }
}

/// Parses `48K`, `307200K` or `16M` into bytes. A number without a unit is in KiB, as kernels always print
/// it.
fn size(text: &str) -> Option<u64> {
    let text = text.trim();
    let (digits, unit) = match text.as_bytes().last()? {
        b'M' => (&text[..text.len() - 1], 20),
        b'K' => (&text[..text.len() - 1], 10),
        _ => (text, 10),
    };
    digits.parse::<u64>().ok()?.checked_mul(1 << unit)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::synthetic::MachineSpec;
    use proptest::prelude::*;

    #[test]
    fn cache_ids_are_kept_if_the_kernel_reports_them() {
        let mut files = MachineSpec { packages: 2, cores: 1, ..MachineSpec::default() }.capture();
        files.add_file(&format!("{CPU}/cpu1/cache/index3/id"), "8");
        let machine = crate::read(&SysTree::from_capture(files)).unwrap();
        assert_eq!(machine.caches_at(3).map(|cache| cache.id).collect::<Vec<_>>(), [None, Some(8)]);
    }

    #[test]
    fn sizes_have_units() {
        for (text, bytes) in [
            ("48K", Some(49152)),
            ("16M\n", Some(16 << 20)),
            ("32", Some(32768)),
            ("", None),
            ("K", None),
            ("-1K", None),
            ("99999999999999999999K", None),
            ("18446744073709551615K", None),
        ] {
            assert_eq!(size(text), bytes, "{text}");
        }
    }

    proptest! {
        #[test]
        fn any_size_is_read_or_refused(text in "\\PC{0,24}") {
            let _ = size(&text);
        }
    }
}
