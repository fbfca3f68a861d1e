//! The system call `bpf(2)`.
#![allow(unsafe_code, reason = "the system call takes addresses of memory")]

use std::{
    ffi::c_long,
    io,
    os::fd::{FromRawFd, OwnedFd},
};

/// Commands (`enum bpf_cmd`).
#[derive(Clone, Copy)]
pub enum Command {
    MapCreate = 0,
    MapLookup = 1,
    MapUpdate = 2,
    MapDelete = 3,
    ProgramLoad = 5,
    ProgramTestRun = 10,
    RawTracepointOpen = 17,
    BtfLoad = 18,
    MapLookupBatch = 24,
    LinkCreate = 28,
}

/// The argument of a command (`union bpf_attr`), written field by field at its offset. Longer than any that this crate
/// uses; the kernel accepts further bytes that are zero.
pub struct Attributes<'a> {
    bytes: [u8; 152],
    /// Keeps the buffers alive, and changeable, whose addresses were written.
    _buffers: std::marker::PhantomData<&'a mut [u8]>,
}

impl<'a> Attributes<'a> {
    pub fn new() -> Self {
        Self { bytes: [0; 152], _buffers: std::marker::PhantomData }
    }

    /// Writes 32 bits at an offset.
    pub fn word(mut self, at: usize, value: u32) -> Self {
        self.bytes[at..at + 4].copy_from_slice(&value.to_ne_bytes());
        self
    }

    /// Writes 64 bits at an offset.
    pub fn long(mut self, at: usize, value: u64) -> Self {
        self.bytes[at..at + 8].copy_from_slice(&value.to_ne_bytes());
        self
    }

    /// Writes the address of bytes that the kernel reads.
    pub fn input(self, at: usize, bytes: &'a [u8]) -> Self {
        self.long(at, bytes.as_ptr() as u64)
    }

    /// Writes the address of bytes that the kernel writes.
    pub fn output(self, at: usize, bytes: &'a mut [u8]) -> Self {
        self.long(at, bytes.as_mut_ptr() as u64)
    }

    /// Writes a name: at most 15 bytes, of letters, digits, `_` and `.` only.
    pub fn name(mut self, at: usize, name: &str) -> Self {
        let allowed = name.bytes().filter(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.'));
        for (index, byte) in allowed.take(15).enumerate() {
            self.bytes[at + index] = byte;
        }
        self
    }

    /// Calls the kernel, and returns what it returned.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn call(mut self, command: Command) -> io::Result<u32> {
        self.call_for(command, 0).map(|(result, _)| result)
    }

    /// Calls the kernel, and returns what it returned and the word that it wrote at an offset.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn call_for(&mut self, command: Command, at: usize) -> io::Result<(u32, u32)> {
        let (result, word) = self.call_always(command, at);
        result.map(|result| (result, word))
    }

    /// Calls the kernel, and returns what it returned, and the word at an offset even if that is an error.
    pub fn call_always(&mut self, command: Command, at: usize) -> (io::Result<u32>, u32) {
        // SAFETY: the kernel reads and writes `bytes`, whose length it is given, and buffers whose addresses were
        // taken from slices that live as long as `self`. Each caller states the lengths of its buffers.
        let result = unsafe {
            libc::syscall(libc::SYS_bpf, command as c_long, self.bytes.as_mut_ptr(), self.bytes.len())
        };
        let result = u32::try_from(result).map_err(|_| io::Error::last_os_error());
        (result, self.bytes[at..at + 4].try_into().map_or(0, u32::from_ne_bytes))
    }

    /// Calls the kernel for a command that returns a file descriptor.
    ///
    /// # Errors
    /// The kernel's error.
    pub fn open(self, command: Command) -> io::Result<OwnedFd> {
        let fd = self.call(command)?;
        // SAFETY: the kernel has just opened it for this process, and nothing else owns it.
        Ok(unsafe { OwnedFd::from_raw_fd(fd as i32) })
    }
}
