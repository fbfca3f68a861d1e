//! Reads one process, for callers that may block.

use super::parse::{ProcessName, ProcessStatus, number, parse_status};
use std::{fs, path::Path};

/// Returns the name and status of a process.
pub fn read_name_and_status(root: &Path, pid: u32) -> Option<(ProcessName, ProcessStatus)> {
    let read = |name: &str| fs::read(root.join(format!("proc/{pid}/{name}"))).ok();
    let status = parse_status(&read("status")?)?;
    Some((ProcessName::new(read("comm")?.trim_ascii_end()), status))
}

/// Returns the KiB of a process's own pages, shared memory and swap that would not be freed with it, because
/// other processes share them: the resident sets less the proportional ones (`/proc/PID/smaps_rollup`, Linux
/// 4.14). The kernel walks the page tables for this and waits for `mmap_lock`.
pub fn read_shared_kib(root: &Path, pid: u32) -> Option<u32> {
    let text = fs::read(root.join(format!("proc/{pid}/smaps_rollup"))).ok()?;
    let kib = |key: &str| {
        let lines = text.split(|&byte| byte == b'\n');
        let line = lines.into_iter().find_map(|line| line.strip_prefix(key.as_bytes()))?;
        number(line.split(u8::is_ascii_whitespace).find(|word| !word.is_empty())?)
    };
    // Shared memory is included, file pages are not. Pss is split since Linux 5.9.
    let proportional = kib("Pss_Anon:")? + kib("Pss_Shmem:")? + kib("SwapPss:").unwrap_or(0);
    let status = parse_status(&fs::read(root.join(format!("proc/{pid}/status"))).ok()?)?;
    let all = u64::from(status.kib) + u64::from(status.shmem_kib);
    Some(all.saturating_sub(proportional).min(u64::from(u32::MAX)) as u32)
}
