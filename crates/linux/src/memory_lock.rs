//! Keeps a process able to run while the machine is out of memory.
#![allow(
    unsafe_code,
    reason = "mlockall(2) with MCL_ONFAULT and prctl(2) of I/O flushers have no safe wrapper"
)]

use std::{fs, io};

/// The requests that the kernel refused.
#[derive(Debug, Default)]
pub struct Refusals {
    /// Messages such as `memory cannot be locked: Operation not permitted`.
    pub refused: Vec<String>,
}

/// Keeps this process in memory and excludes it from the kernel's OOM killer. This applies to all its
/// threads, present and future.
///
/// - `mlockall(2)` locks the pages in use, and every further page when it is first used (`MCL_ONFAULT`), so
///   that a large program is not loaded into memory completely.
/// - `/proc/self/oom_score_adj` is set to -1000 (`proc(5)`).
pub fn lock_in_memory() -> Refusals {
    let mut refusals = Refusals::default();
    let mut record = |what: &str, result: io::Result<()>| {
        if let Err(error) = result {
            refusals.refused.push(format!("{what}: {error}"));
        }
    };
    // SAFETY: the call takes no memory.
    let locked = unsafe { libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT) };
    record(
        "memory cannot be locked (CAP_IPC_LOCK)",
        if locked == 0 { Ok(()) } else { Err(io::Error::last_os_error()) },
    );
    record(
        "the kernel may kill the guard itself (oom_score_adj of -1000 needs CAP_SYS_RESOURCE)",
        fs::write("/proc/self/oom_score_adj", "-1000"),
    );
    refusals
}

/// Makes memory allocations of this thread not wait for I/O (`PR_SET_IO_FLUSHER`, Linux 5.6), as reclaim
/// would otherwise. Needs `CAP_SYS_RESOURCE`. Returns whether it was granted.
///
/// Together with [`crate::realtime::request`], which gives the thread access to the kernel's reserves
/// (`rt_or_dl_task` in `gfp_to_alloc_flags`, `mm/page_alloc.c`), it can open files while other threads only
/// wait.
pub fn flush_without_waiting() -> bool {
    /// `linux/prctl.h`
    const PR_SET_IO_FLUSHER: libc::c_int = 57;
    // SAFETY: the call takes no memory.
    unsafe { libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0) == 0 }
}

/// Releases pages of code and constants that were needed only at the start. Pages that are needed again are mapped
/// again from the page cache. Must be called before [`lock_in_memory`], which would lock them.
pub fn release_startup_pages() {
    let Ok(maps) = fs::read_to_string("/proc/self/smaps") else { return };
    for (from, to) in unwritten_files(&maps) {
        // SAFETY: no page in the range has been written to, and none can be (private, not writable), so dropped
        // pages are read again from the file unchanged.
        unsafe { libc::madvise(from as *mut libc::c_void, to - from, libc::MADV_DONTNEED) };
    }
}

/// Returns the ranges in `smaps` (`proc_pid_smaps(5)`) that map a file, cannot be written to and have no page that
/// differs from the file. The dynamic linker writes to some constants before it protects them.
fn unwritten_files(smaps: &str) -> Vec<(usize, usize)> {
    let mut found = Vec::new();
    let mut mapping = None;
    for line in smaps.lines() {
        if line.strip_prefix("Anonymous:").is_some_and(|size| size.trim() == "0 kB") {
            found.extend(mapping.take());
        } else if let Some((range, rest)) = line.split_once(' ').filter(|(word, _)| !word.ends_with(':')) {
            let is_file =
                ["r--p", "r-xp"].iter().any(|rights| rest.starts_with(rights)) && rest.contains(" /");
            let ends = range.split_once('-').filter(|_| is_file);
            let hex = |text| usize::from_str_radix(text, 16).ok();
            mapping = ends.and_then(|(from, to)| hex(from).zip(hex(to)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_unwritten_mappings_of_files_are_released() {
        let mapping =
            |line: &str, size: &str| format!("{line}\nRss: 8 kB\nAnonymous:     {size} kB\nVmFlags: rd mr\n");
        let smaps = [
            mapping("1000-3000 r--p 00000000 fe:00 7      /usr/bin/a b", "0"),
            mapping("3000-5000 r-xp 00002000 fe:00 7      /usr/bin/a b", "0"),
            mapping("5000-6000 r--p 00004000 fe:00 7      /usr/bin/a b", "4"),
            mapping("6000-7000 rw-p 00005000 fe:00 7      /usr/bin/a b", "0"),
            mapping("8000-9000 r-xp 00000000 00:00 0      [vdso]", "0"),
            mapping("9000-a000 r--p 00000000 00:00 0", "0"),
        ];
        assert_eq!(unwritten_files(&smaps.concat()), [(0x1000, 0x3000), (0x3000, 0x5000)]);
    }

    #[test]
    fn refusals_are_reported_with_the_reason() {
        // This runs in a process of its own, so that this one is not locked.
        let program = std::env::current_exe().unwrap();
        if std::env::var_os("STAY").is_some() {
            let _ = flush_without_waiting();
            release_startup_pages();
            let refused = lock_in_memory().refused;
            let locked = fs::read_to_string("/proc/self/status").unwrap();
            let locked =
                locked.lines().find_map(|line| line.strip_prefix("VmLck:")).unwrap().trim().to_owned();
            let score = fs::read_to_string("/proc/self/oom_score_adj").unwrap();
            if refused.is_empty() {
                assert!(!locked.starts_with("0 ") && score.trim() == "-1000");
            } else {
                eprintln!("SKIPPED: {}", refused.join("; "));
                assert!(refused.iter().all(|why| why.contains(": ")));
            }
            return;
        }
        let own = "memory_lock::tests::refusals_are_reported_with_the_reason";
        let status = std::process::Command::new(program).args([own, "--exact"]).env("STAY", "1").status();
        assert!(status.unwrap().success());
    }
}
