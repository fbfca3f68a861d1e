//! Sends signals to processes through a pidfd, so that they reach the intended process and no other. Does not
//! allocate.

use crate::process_reader::ProcessReader;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal},
};
use std::{
    io,
    os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd},
};

/// A process held by a descriptor (`pidfd_open(2)`). Signals reach this process or none, even if its id is
/// reused.
#[derive(Debug)]
pub struct ProcessHandle(OwnedFd);

impl ProcessHandle {
    /// Opens the process that started at `start`. The start time is checked after opening, so that the
    /// descriptor is certain to refer to this process.
    ///
    /// # Errors
    /// `ESRCH` if the process has exited or its id now belongs to another process; those of `pidfd_open(2)`.
    pub fn open(reader: &mut ProcessReader, pid: u32, start: u64) -> io::Result<Self> {
        let gone = || io::Error::from(rustix::io::Errno::SRCH);
        let held = Self(open_pidfd(pid)?);
        match reader.start_time(pid) {
            Some((found, false)) if found == start => Ok(held),
            _ => Err(gone()),
        }
    }

    /// Sends a signal to the whole process.
    ///
    /// # Errors
    /// Those of `pidfd_send_signal(2)`.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        pidfd_send_signal(&self.0, signal).map_err(Into::into)
    }

    /// Whether it has exited. Its memory is free then.
    pub fn has_exited(&self) -> bool {
        let mut one = [PollFd::new(&self.0, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        poll(&mut one, Some(&now)).is_ok_and(|ready| ready > 0)
    }
}

impl AsFd for ProcessHandle {
    /// Becomes readable when the process has exited.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}

/// Opens the process that has this id now.
///
/// # Errors
/// `ESRCH` if there is none; those of `pidfd_open(2)`.
pub fn open_pidfd(pid: u32) -> io::Result<OwnedFd> {
    let number = i32::try_from(pid).ok().and_then(Pid::from_raw);
    let number = number.ok_or_else(|| io::Error::from(rustix::io::Errno::SRCH))?;
    Ok(pidfd_open(number, PidfdFlags::empty())?)
}

/// Frees the memory of a process that was killed, even if the process cannot run to exit
/// (`process_mrelease(2)`, Linux 5.15). May wait for `mmap_lock`.
///
/// # Errors
/// Those of the call: `EINVAL` if the process is not dying, `ENOSYS` on older kernels, `ESRCH` if it is gone.
#[allow(unsafe_code, reason = "process_mrelease(2) has no wrapper")]
pub fn release_memory(process: &impl AsFd) -> io::Result<()> {
    // SAFETY: the call takes a descriptor and flags, which must be 0.
    let result = unsafe { libc::syscall(libc::SYS_process_mrelease, process.as_fd().as_raw_fd(), 0) };
    if result == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::{
        os::unix::process::ExitStatusExt,
        path::Path,
        process::{Child, Command, Stdio},
    };

    fn sleeper() -> Child {
        Command::new("cat").stdin(Stdio::piped()).spawn().unwrap()
    }

    fn reader() -> ProcessReader {
        ProcessReader::open(Path::new("/")).unwrap()
    }

    #[test]
    fn killed_process_is_seen_to_exit() {
        let (mut child, mut reader) = (sleeper(), reader());
        let start = reader.start_time(child.id()).unwrap().0;
        let held = ProcessHandle::open(&mut reader, child.id(), start).unwrap();
        assert!(!held.has_exited());
        assert!(release_memory(&held).is_err(), "it is not dying");
        held.signal(Signal::KILL).unwrap();
        let _ = release_memory(&held);
        assert_eq!(child.wait().unwrap().signal(), Some(9));
        assert!(held.has_exited() && held.signal(Signal::KILL).is_err());
    }

    #[test]
    fn reused_id_is_refused() {
        let (mut child, mut reader) = (sleeper(), reader());
        let start = reader.start_time(child.id()).unwrap().0;
        assert!(ProcessHandle::open(&mut reader, child.id(), start + 1).is_err());
        child.kill().unwrap();
        // It is a zombie until it is waited for.
        while !reader.start_time(child.id()).is_none_or(|(_, has_ended)| has_ended) {
            std::hint::spin_loop();
        }
        assert!(ProcessHandle::open(&mut reader, child.id(), start).is_err());
        child.wait().unwrap();
        assert!(ProcessHandle::open(&mut reader, child.id(), start).is_err());
        assert!(
            ProcessHandle::open(&mut reader, 0, 0).is_err()
                && ProcessHandle::open(&mut reader, u32::MAX, 0).is_err()
        );
    }
}
