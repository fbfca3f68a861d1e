//! The memory that the kernel charges to control groups with one process (`memory.stat`,
//! `Documentation/admin-guide/cgroup-v2.rst`). Whatever kind of memory it is, this process has caused it.

use crate::decision::memory_objects::{Holder, MemoryObject, ObjectId, ObjectKind, ObjectMap};
use manycore_topology::{
    SysTree,
    cgroup::{Hierarchies, memberships},
};
use std::{collections::BTreeMap, fs, os::unix::fs::MetadataExt, path::Path};

/// Processes by their control groups.
#[derive(Debug, Default)]
pub(super) struct Groups(BTreeMap<String, Vec<Holder>>);

impl Groups {
    pub(super) fn add(&mut self, tree: &SysTree, pid: u32, holder: &Holder) {
        if let Some(text) = memberships(tree, &pid.to_string()) {
            self.0.entry(text).or_default().push(Holder { writes: true, ..*holder });
        }
    }

    /// Adds the charge of groups with one process.
    pub(super) fn add_charges(self, hierarchies: &Hierarchies, objects: &mut ObjectMap) {
        for (text, holders) in self.0.into_iter().filter(|(_, holders)| holders.len() == 1) {
            let found = hierarchies.folders(&text, "memory").unwrap_or_default();
            let folders =
                found.iter().filter(|(name, _)| name != "/").filter_map(|(_, folders)| folders.last());
            for folder in folders.map(|folder| Path::new("/").join(&folder.path)) {
                let Some(kib) =
                    fs::read_to_string(folder.join("memory.stat")).ok().and_then(|text| charged(&text))
                else {
                    continue;
                };
                let Ok(about) = fs::metadata(&folder) else { continue };
                let object = MemoryObject { kib, holders: holders.clone(), ..MemoryObject::default() };
                objects.insert(ObjectId(ObjectKind::Group, about.dev(), about.ino()), object);
            }
        }
    }
}

/// Returns the KiB of shared memory, sockets and unreclaimable kernel memory. Version 1 reports only shared
/// memory.
fn charged(stat: &str) -> Option<u64> {
    let field = |key: &str| {
        let line = stat.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' '))?;
        line.trim().parse::<u64>().ok()
    };
    let kernel = field("kernel").or(field("slab")).unwrap_or(0);
    let kernel = kernel.saturating_sub(field("slab_reclaimable").unwrap_or(0));
    Some((field("shmem")? + field("sock").unwrap_or(0) + kernel) / 1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reclaimable_memory_is_not_counted() {
        let stat = "anon 999999\nkernel 40960\nsock 1024\nshmem 2048\nslab_reclaimable 30720\n";
        assert_eq!(charged(stat), Some(13));
        assert_eq!(charged("cache 5\nshmem 4096\n"), Some(4), "version 1");
        assert_eq!(charged("nonsense"), None);
    }
}
