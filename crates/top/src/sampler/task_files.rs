//! Reads files below `/proc` into one buffer.

use rustix::{
    fs::{CWD, Mode, OFlags, PROC_SUPER_MAGIC, RawDir, fstat, fstatfs, openat},
    io::{Errno, pread, read},
};
use std::{
    fmt::Arguments,
    io::{self, Write},
    mem::MaybeUninit,
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    path::Path,
};

/// Enough for `4194304/task`.
const LONGEST_PATH: usize = 48;
/// Bytes of a list of threads that are read at once.
const PIECE: usize = 32 << 10;
/// Longest file of a thread that is read. `status` lists the supplementary groups: up to 65,536 of at most 11 bytes.
const LONGEST_OF_THREAD: usize = 1 << 20;
/// Longest file that is read. `/proc/stat` of 4,096 CPUs takes half a megabyte.
const LONGEST: usize = 4 << 20;

/// A directory with the buffers to read files below it.
#[derive(Debug)]
pub(super) struct TaskFiles {
    proc: OwnedFd,
    text: Vec<u8>,
    names: Box<[MaybeUninit<u8>]>,
    /// Whether this is procfs, where the links of a directory `task` count threads.
    pub is_procfs: bool,
}

impl TaskFiles {
    /// Opens `proc` below `root`.
    ///
    /// # Errors
    /// There is no such directory.
    pub fn open(root: &Path) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = openat(CWD, root.join("proc"), flags, Mode::empty())?;
        let is_procfs = fstatfs(&proc).is_ok_and(|about| about.f_type == PROC_SUPER_MAGIC);
        let names = vec![MaybeUninit::new(0); PIECE].into_boxed_slice();
        Ok(Self { proc, text: vec![0; 8 << 10], names, is_procfs })
    }

    /// Opens the directory of the threads of a process; `None` if it has ended.
    pub fn threads_of(&self, pid: u32) -> Option<OwnedFd> {
        open_below(self.proc.as_fd(), format_args!("{pid}/task"), OFlags::DIRECTORY)
    }

    /// Lists the numbers in a directory, ascending. Returns whether it could be read.
    pub fn list(&mut self, folder: &OwnedFd, into: &mut Vec<u32>) -> bool {
        into.clear();
        let mut names = RawDir::new(folder.as_fd(), &mut self.names);
        while let Some(entry) = names.next() {
            let Ok(entry) = entry else { return false };
            into.extend(crate::parse::number(entry.file_name().to_bytes()).map(|tid| tid as u32));
        }
        into.sort_unstable();
        true
    }

    /// Reads a file of the system.
    pub fn system(&mut self, path: &str) -> Option<&[u8]> {
        let file = open_below(self.proc.as_fd(), format_args!("{path}"), OFlags::empty())?;
        let mut length = 0;
        loop {
            if length == self.text.len() && length < LONGEST {
                self.text.resize(2 * length, 0);
            }
            match read(&file, &mut self.text[length..]) {
                Err(Errno::INTR) => {}
                Ok(0) => return Some(&self.text[..length]),
                Ok(more) => length += more,
                Err(_) => return None,
            }
        }
    }

    /// Reads a file of a thread, `folder` being that of [`Self::threads_of`].
    pub fn thread(&mut self, folder: &OwnedFd, tid: u32, name: &str) -> Option<&[u8]> {
        let file = open_thread(folder, tid, name)?;
        self.again(&file)
    }

    /// Reads an open file from its beginning. `None` if the thread has ended, even if another has its id now.
    pub fn again(&mut self, file: &OwnedFd) -> Option<&[u8]> {
        loop {
            match pread(file, &mut self.text[..], 0) {
                Err(Errno::INTR) => {}
                // It may be longer.
                Ok(length) if length == self.text.len() && length < LONGEST_OF_THREAD => {
                    self.text.resize(2 * length, 0);
                }
                other => return other.ok().map(|length| &self.text[..length]),
            }
        }
    }
}

/// Opens a file of a thread.
pub(super) fn open_thread(folder: &OwnedFd, tid: u32, name: &str) -> Option<OwnedFd> {
    open_below(folder.as_fd(), format_args!("{tid}/{name}"), OFlags::empty())
}

/// Returns the number of threads from the links of a directory `task` of procfs (`proc_task_getattr` in
/// `fs/proc/base.c`).
pub(super) fn thread_count(folder: &OwnedFd) -> Option<usize> {
    (fstat(folder).ok()?.st_nlink as usize).checked_sub(2)
}

fn open_below(folder: BorrowedFd, path: Arguments, flags: OFlags) -> Option<OwnedFd> {
    let mut buffer = [0; LONGEST_PATH];
    let mut rest = &mut buffer[..];
    rest.write_fmt(path).ok()?;
    let length = LONGEST_PATH - rest.len();
    let path = std::str::from_utf8(&buffer[..length]).ok()?;
    openat(folder, path, OFlags::RDONLY | OFlags::CLOEXEC | flags, Mode::empty()).ok()
}
