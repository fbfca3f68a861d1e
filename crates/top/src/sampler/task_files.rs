//! Reads files below `/proc` into one buffer.

use rustix::{
    fs::{CWD, Mode, OFlags, PROC_SUPER_MAGIC, RawDir, SeekFrom, fstat, fstatfs, openat, seek},
    io::{Errno, pread},
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
    /// Files of the system that stay open, by path.
    system: Vec<(&'static str, OwnedFd)>,
    text: Vec<u8>,
    names: Box<[MaybeUninit<u8>]>,
    /// How many files may be kept open in addition.
    pub open_left: usize,
    /// The part of them that is kept for active threads.
    pub reserved: usize,
    /// Whether this is procfs, where the links of a directory `task` count threads.
    pub is_procfs: bool,
}

impl TaskFiles {
    /// Opens `proc` below `root`. At most `most_open` files of threads stay open; none in a copy, where another file may take the place
    /// of an open one.
    ///
    /// # Errors
    /// There is no such directory.
    pub fn open(root: &Path, most_open: usize) -> io::Result<Self> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let proc = openat(CWD, root.join("proc"), flags, Mode::empty())?;
        let is_procfs = fstatfs(&proc).is_ok_and(|about| about.f_type == PROC_SUPER_MAGIC);
        let most_open = if is_procfs { most_open } else { 0 };
        let names = vec![MaybeUninit::new(0); PIECE].into_boxed_slice();
        Ok(Self {
            proc,
            system: Vec::new(),
            text: vec![0; 8 << 10],
            names,
            open_left: most_open,
            reserved: most_open / 2,
            is_procfs,
        })
    }

    /// Opens the directory of the threads of a process; `None` if it has ended.
    pub fn threads_of(&self, pid: u32) -> Option<OwnedFd> {
        open_below(self.proc.as_fd(), format_args!("{pid}/task"), OFlags::DIRECTORY)
    }

    /// Lists the numbers in a directory, ascending. Returns whether it could be read.
    pub fn list(&mut self, folder: &OwnedFd, into: &mut Vec<u32>) -> bool {
        into.clear();
        // It may have been listed before.
        if seek(folder, SeekFrom::Start(0)).is_err() {
            return false;
        }
        let mut names = RawDir::new(folder.as_fd(), &mut self.names);
        while let Some(entry) = names.next() {
            let Ok(entry) = entry else { return false };
            into.extend(crate::parse::number(entry.file_name().to_bytes()).map(|tid| tid as u32));
        }
        into.sort_unstable();
        true
    }

    /// Reads a file of the system. In a copy of `/proc`, it may be another one each time.
    pub fn system(&mut self, path: &'static str) -> Option<&[u8]> {
        let known = self.system.iter().position(|(name, _)| *name == path);
        let file = match known.filter(|_| self.is_procfs) {
            Some(at) => &self.system[at].1,
            None => {
                let file = open_below(self.proc.as_fd(), format_args!("{path}"), OFlags::empty())?;
                self.system.retain(|(name, _)| *name != path);
                &self.system.push_mut((path, file)).1
            }
        };
        let mut length = 0;
        loop {
            if length == self.text.len() && length < LONGEST {
                self.text.resize(2 * length, 0);
            }
            match pread(file, &mut self.text[length..], length as u64) {
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

    /// Reads a file of a thread by its name. It stays open in `file` if more than `least` files may.
    pub fn read(
        &mut self,
        file: &mut Option<OwnedFd>,
        folder: &OwnedFd,
        (tid, name): (u32, &str),
        least: usize,
    ) -> Option<&[u8]> {
        if file.is_none() && self.open_left > least {
            *file = open_thread(folder, tid, name).and_then(|file| self.keep(file));
        }
        match file {
            Some(file) => self.again(file),
            None => self.thread(folder, tid, name),
        }
    }

    /// Returns a file to stay open; `None` if no more may.
    pub fn keep(&mut self, file: OwnedFd) -> Option<OwnedFd> {
        self.open_left = self.open_left.checked_sub(1)?;
        Some(file)
    }

    /// Takes a file that stayed open.
    pub fn take(&mut self, file: &mut Option<OwnedFd>) -> Option<OwnedFd> {
        let taken = file.take();
        self.open_left += usize::from(taken.is_some());
        taken
    }

    /// Closes a file that stayed open.
    pub fn close(&mut self, file: &mut Option<OwnedFd>) {
        drop(self.take(file));
    }

    /// Reads an open file from its beginning. `None` if the thread has ended, even if another has its id now.
    fn again(&mut self, file: &OwnedFd) -> Option<&[u8]> {
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
fn open_thread(folder: &OwnedFd, tid: u32, name: &str) -> Option<OwnedFd> {
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
