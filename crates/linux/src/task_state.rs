//! The state of threads and the CPU that each runs on, read again and again from files that stay open.
//!
//! `/proc/PID/task/TID/stat` (`do_task_stat` in `fs/proc/array.c`) takes no lock that the thread holds while it waits
//! for memory. Reading an open file again saves the search of its path.

use manycore_topology::CpuId;
use rustix::{
    fs::{CWD, Mode, OFlags, openat},
    io::{Errno, pread},
};
use std::{io, os::fd::OwnedFd};

/// Longest line that is read. Its longest form has 52 numbers of 20 digits and a name of 64 bytes.
const LONGEST: usize = 2 << 10;

/// Whether a thread can run, and where.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TaskState {
    /// Whether it runs or waits for a CPU (state `R`). The file does not distinguish these.
    pub is_runnable: bool,
    /// The CPU that it runs on, waits for, or ran on last (field 39 of proc(5)).
    pub cpu: CpuId,
}

/// The open `stat` file of a thread.
#[derive(Debug)]
pub struct TaskStateFile {
    file: OwnedFd,
}

impl TaskStateFile {
    /// Opens the file of thread `tid` of process `pid`.
    ///
    /// # Errors
    /// Those of `open(2)`: the thread has ended (`ENOENT`), or too many files are open (`EMFILE`).
    pub fn open(pid: u32, tid: u32) -> io::Result<Self> {
        let path = format!("/proc/{pid}/task/{tid}/stat");
        Ok(Self { file: openat(CWD, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())? })
    }

    /// Reads the state now. `None` if the thread has ended; its file then stays of no use, even if another thread gets
    /// the same id.
    pub fn read(&self) -> Option<TaskState> {
        let mut text = [0; LONGEST];
        let length = loop {
            match pread(&self.file, &mut text[..], 0) {
                Err(Errno::INTR) => {}
                other => break other.ok()?,
            }
        };
        parse(&text[..length])
    }
}

/// Parses a line; `None` for a thread that has ended.
fn parse(line: &[u8]) -> Option<TaskState> {
    // The name is chosen by the process and may contain brackets and blanks.
    let close = line.iter().rposition(|&byte| byte == b')')?;
    let mut words = line[close + 1..].split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let state = words.next()?;
    if matches!(state, b"Z" | b"X" | b"x") {
        return None;
    }
    // The state is field 3, so that field 39 is the 36th word behind it.
    let cpu = std::str::from_utf8(words.nth(35)?).ok()?.parse().ok()?;
    Some(TaskState { is_runnable: state == b"R", cpu })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::affinity;
    use manycore_topology::CpuSet;
    use proptest::prelude::*;

    fn line(name: &str, state: &str, cpu: &str) -> Vec<u8> {
        let before = "1 ".repeat(35);
        format!("77 ({name}) {state} {before}{cpu} 0 0 0 0 0 0\n").into_bytes()
    }

    #[test]
    fn state_and_cpu_are_found_behind_any_name() {
        for name in ["work", "a) R 1 (b", ") S 9", ""] {
            let found = parse(&line(name, "R", "4095"));
            assert_eq!(found, Some(TaskState { is_runnable: true, cpu: 4095 }), "{name}");
            assert!(!parse(&line(name, "S", "3")).unwrap().is_runnable);
        }
        for ended in ["Z", "X"] {
            assert_eq!(parse(&line("work", ended, "3")), None);
        }
        assert_eq!(parse(&line("work", "R", "-1")), None);
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed(line in prop::collection::vec(any::<u8>(), 0..300)) {
            let _ = parse(&line);
        }
    }

    #[test]
    fn a_thread_that_works_runs_on_the_cpu_that_it_is_pinned_to() {
        for cpu in affinity::allowed().unwrap().iter() {
            let states = std::thread::spawn(move || {
                affinity::restrict(0, &CpuSet::single(cpu)).unwrap();
                let tid = rustix::thread::gettid().as_raw_nonzero().get() as u32;
                let file = TaskStateFile::open(std::process::id(), tid).unwrap();
                [file.read(), file.read()]
            });
            let wanted = Some(TaskState { is_runnable: true, cpu });
            assert_eq!(states.join().unwrap(), [wanted, wanted]);
        }
    }

    #[test]
    fn a_thread_that_has_ended_has_no_state() {
        let mut child = std::process::Command::new("sleep").arg("1000").spawn().unwrap();
        let file = TaskStateFile::open(child.id(), child.id()).unwrap();
        assert!(file.read().is_some());
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(file.read(), None);
        assert!(TaskStateFile::open(child.id(), child.id()).is_err());
    }
}
