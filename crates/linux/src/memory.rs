//! The available memory of a NUMA node, and the page size of this process's memory.

use manycore_topology::sys_tree::{SysTree, kilobytes};

/// Returns the bytes of a node that a program could take without slowing down other programs: free memory and half of
/// the file pages, which the kernel drops when memory is needed (`/sys/devices/system/node/nodeN/meminfo`). The kernel
/// reports no `MemAvailable` for a node; for the machine it subtracts at most half of the cache. `None` if there is no
/// such node.
pub fn available(tree: &SysTree, node: u32) -> Option<u64> {
    let text = tree.read(&format!("sys/devices/system/node/node{node}/meminfo"))?;
    let field = |name: &str| {
        let value = text.lines().find_map(|line| line.split_once(&format!(" {name}:")))?.1;
        kilobytes(value)
    };
    let files = ["Active(file)", "Inactive(file)"].iter().filter_map(|name| field(name));
    field("MemFree")?.checked_add(files.fold(0, u64::saturating_add) / 2)
}

/// Returns the bytes of this process in transparent huge pages (`/proc/self/smaps_rollup`, Linux 4.14);
/// `None` if the kernel does not report them.
pub fn in_huge_pages(tree: &SysTree) -> Option<u64> {
    let text = tree.read("proc/self/smaps_rollup")?;
    kilobytes(text.lines().find_map(|line| line.strip_prefix("AnonHugePages:"))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn available_memory_is_free_memory_and_half_of_the_file_pages() {
        let folder = tempfile::tempdir().unwrap();
        let node = folder.path().join("sys/devices/system/node/node1");
        fs::create_dir_all(&node).unwrap();
        let text = "Node 1 MemTotal:       1000 kB\nNode 1 MemFree:        100 kB\nNode 1 Active(anon):   500 kB\n\
                    Node 1 Active(file):    30 kB\nNode 1 Inactive(file):  10 kB\n";
        fs::write(node.join("meminfo"), text).unwrap();
        let tree = SysTree::open(folder.path()).unwrap();
        assert_eq!(available(&tree, 1), Some(120 * 1024));
        assert_eq!(available(&tree, 0), None);
        fs::write(node.join("meminfo"), "Node 1 MemFree: 18446744073709551615 kB\n").unwrap();
        assert_eq!(available(&tree, 1), None, "nonsense is not a number");
    }

    #[test]
    fn this_process_has_its_pages_counted() {
        let Ok(tree) = SysTree::open(std::path::Path::new("/")) else { return };
        match in_huge_pages(&tree) {
            Some(bytes) => assert!(bytes.is_multiple_of(1024)),
            None => eprintln!("SKIPPED: no smaps_rollup here"),
        }
    }
}
