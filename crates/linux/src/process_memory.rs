//! The memory of a set of processes at one moment, as reported by the kernel.

use manycore_topology::sys_tree::kilobytes;
use std::{collections::BTreeSet, fs};

/// Sums over processes, in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProcessMemory {
    /// `Pss` of `/proc/PID/smaps_rollup` (Linux 4.14): pages shared by several processes are divided among
    /// them. Absent if the kernel does not report it for each process.
    pub pss_bytes: Option<u64>,
    /// `VmRSS` of `/proc/PID/status`: shared pages count for each process.
    pub rss_bytes: u64,
    /// `VmPTE` of `/proc/PID/status`: page tables.
    pub tables_bytes: u64,
}

/// Returns the memory of `pids`. Processes that have exited count as 0.
pub fn read(pids: &BTreeSet<u32>) -> ProcessMemory {
    let mut sum = ProcessMemory { pss_bytes: Some(0), ..ProcessMemory::default() };
    for pid in pids {
        // Read first: if a process exits in between, nothing of it is counted, and the sum of the others
        // remains valid.
        let pss = fs::read_to_string(format!("/proc/{pid}/smaps_rollup")).ok();
        let Ok(status) = fs::read(format!("/proc/{pid}/status")) else { continue };
        // Its first lines contain a name, which need not be UTF-8.
        let status = String::from_utf8_lossy(&status);
        let Some(rss) = field(&status, "VmRSS:") else { continue };
        sum.rss_bytes += rss;
        sum.tables_bytes += field(&status, "VmPTE:").unwrap_or(0);
        let pss = pss.and_then(|text| field(&text, "Pss:"));
        sum.pss_bytes = sum.pss_bytes.zip(pss).map(|(sum, pss)| sum + pss);
    }
    sum
}

fn field(text: &str, name: &str) -> Option<u64> {
    kilobytes(text.lines().find_map(|line| line.strip_prefix(name))?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::{Duration, Instant};

    /// In a process of its own: other tests use and give back memory in this one.
    #[test]
    fn memory_that_is_touched_is_seen() {
        const BLOCK: u64 = 64 << 20;
        // dd touches its whole buffer.
        let mut command = std::process::Command::new("dd");
        let mut toucher =
            command.args(["if=/dev/zero", "of=/dev/null", &format!("bs={BLOCK}")]).spawn().unwrap();
        let of_toucher = BTreeSet::from([toucher.id()]);
        let deadline = Instant::now() + Duration::from_mins(1);
        let mut memory = read(&of_toucher);
        // It may be read while dd still touches it, the proportional size first.
        while memory.pss_bytes.unwrap_or(memory.rss_bytes) < BLOCK && Instant::now() < deadline {
            memory = read(&of_toucher);
        }
        let pss = memory.pss_bytes;
        toucher.kill().unwrap();
        toucher.wait().unwrap();
        assert!((BLOCK..2 * BLOCK).contains(&memory.rss_bytes) && memory.tables_bytes > 0, "{memory:?}");
        match pss {
            // Its buffer, without what it shares with others.
            Some(bytes) => assert!((BLOCK..=memory.rss_bytes).contains(&bytes), "{memory:?}"),
            None => eprintln!("SKIPPED: no smaps_rollup here"),
        }
    }

    #[test]
    fn a_process_that_ends_in_between_does_not_affect_the_others() {
        if read(&BTreeSet::from([std::process::id()])).pss_bytes.is_none() {
            return eprintln!("SKIPPED: no smaps_rollup here");
        }
        for _ in 0..200 {
            let mut child = std::process::Command::new("true").spawn().unwrap();
            let both = BTreeSet::from([std::process::id(), child.id()]);
            while fs::read_to_string(format!("/proc/{}/stat", child.id()))
                .is_ok_and(|stat| !stat.contains(") Z "))
            {
                assert!(read(&both).pss_bytes.is_some());
            }
            child.wait().unwrap();
        }
    }

    #[test]
    fn a_missing_process_has_no_memory() {
        let none = ProcessMemory { pss_bytes: Some(0), ..ProcessMemory::default() };
        assert_eq!(read(&BTreeSet::from([u32::MAX >> 4])), none);
    }
}
