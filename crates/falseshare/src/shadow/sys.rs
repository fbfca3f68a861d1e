//! The few functions of the C library that are needed, declared by hand because the plugin is built without crates.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_long, c_void},
    io,
    os::fd::AsRawFd,
    ptr,
};

/// Read and write, `PROT_READ | PROT_WRITE`.
const PROT_READ_WRITE: c_int = 3;
const MAP_SHARED: c_int = 1;
const MAP_PRIVATE_ANONYMOUS: c_int = 0x22;
const MAP_NORESERVE: c_int = 0x4000;
const MFD_CLOEXEC: u32 = 1;
const MFD_ALLOW_SEALING: u32 = 2;
const F_ADD_SEALS: c_int = 1033;
/// `F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW`
const SEAL_SIZE: c_int = 7;
/// A clock that is read without the hardware; it advances with the kernel's ticks, every 1 to 10 ms.
const CLOCK_MONOTONIC_COARSE: c_int = 6;
/// Makes private memory appear as zeros in a forked child.
const MADV_WIPEONFORK: c_int = 18;

#[repr(C)]
struct Iovec {
    base: *mut c_void,
    length: usize,
}

#[repr(C)]
struct Timespec {
    seconds: c_long,
    nanoseconds: c_long,
}

unsafe extern "C" {
    fn clock_gettime(clock: c_int, time: *mut Timespec) -> c_int;
    fn mmap(
        at: *mut c_void,
        bytes: usize,
        rights: c_int,
        flags: c_int,
        fd: c_int,
        offset: i64,
    ) -> *mut c_void;
    fn munmap(at: *mut c_void, bytes: usize) -> c_int;
    fn madvise(at: *mut c_void, bytes: usize, advice: c_int) -> c_int;
    fn memfd_create(name: *const c_char, flags: u32) -> c_int;
    fn process_vm_readv(
        pid: c_int,
        local: *const Iovec,
        locals: u64,
        remote: *const Iovec,
        remotes: u64,
        flags: u64,
    ) -> isize;
    fn gettid() -> c_int;
    fn sched_yield() -> c_int;
    fn pthread_atfork(
        prepare: Option<extern "C" fn()>,
        parent: Option<extern "C" fn()>,
        child: Option<extern "C" fn()>,
    ) -> c_int;
    fn sysconf(name: c_int) -> c_long;
    fn geteuid() -> u32;
    fn prctl(option: c_int, ...) -> c_int;
    fn execve(path: *const c_char, words: *const *const c_char, variables: *const *const c_char) -> c_int;
    fn fcntl(fd: c_int, command: c_int, ...) -> c_int;
}

/// Mapped memory, which is unmapped when this is dropped.
#[derive(Debug)]
pub struct Memory {
    base: *mut u8,
    bytes: usize,
}

// SAFETY: it is an address; code that dereferences it is responsible for concurrent accesses.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps `bytes` zero bytes that only this process has. A forked child sees zeros. Memory is only
    /// allocated where it is written.
    ///
    /// # Errors
    /// Those of `mmap(2)`.
    pub fn private(bytes: usize) -> io::Result<Self> {
        let memory = Self::map(bytes, MAP_PRIVATE_ANONYMOUS | MAP_NORESERVE, -1)?;
        // SAFETY: the memory belongs to us.
        unsafe { madvise(memory.base.cast(), bytes, MADV_WIPEONFORK) };
        Ok(memory)
    }

    /// Maps `bytes` zero bytes, which a forked child inherits.
    ///
    /// # Errors
    /// Those of `mmap(2)`.
    pub fn inherited(bytes: usize) -> io::Result<Self> {
        Self::map(bytes, MAP_PRIVATE_ANONYMOUS, -1)
    }

    /// Maps the first `bytes` of file `fd`, shared with all processes that map it.
    ///
    /// # Errors
    /// Those of `mmap(2)`.
    pub fn shared(bytes: usize, fd: c_int) -> io::Result<Self> {
        Self::map(bytes, MAP_SHARED | MAP_NORESERVE, fd)
    }

    fn map(bytes: usize, flags: c_int, fd: c_int) -> io::Result<Self> {
        // SAFETY: the kernel chooses a free address.
        let base = unsafe { mmap(ptr::null_mut(), bytes, PROT_READ_WRITE, flags, fd, 0) };
        if base as isize == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { base: base.cast(), bytes })
    }

    /// Returns the first address.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// Returns a pointer to the first of the objects that fill the memory.
    #[allow(clippy::cast_ptr_alignment, reason = "it starts at a page boundary")]
    pub fn first<T>(&self) -> *mut T {
        self.base.cast()
    }

    /// Returns the size in bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: no reference is left, because each borrows from this.
        unsafe { munmap(self.base.cast(), self.bytes) };
    }
}

/// Creates an anonymous file in memory, which programs that are executed do not inherit.
///
/// # Errors
/// Those of `memfd_create(2)`.
pub fn memory_file(name: &CStr) -> io::Result<std::fs::File> {
    // SAFETY: the name is zero-terminated.
    let fd = unsafe { memfd_create(name.as_ptr(), MFD_CLOEXEC | MFD_ALLOW_SEALING) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and belongs to us.
    Ok(unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) })
}

/// Makes the size of a [`memory_file`] final. Otherwise, any process that opens the file could truncate it, and
/// so kill the processes that have mapped it.
///
/// # Errors
/// Those of `fcntl(2)`.
pub fn seal_size(file: &std::fs::File) -> io::Result<()> {
    // SAFETY: the arguments are numbers.
    match unsafe { fcntl(file.as_raw_fd(), F_ADD_SEALS, SEAL_SIZE) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Reads memory of this process that may not be mapped; returns the number of bytes that could be read.
pub fn peek(address: u64, into: &mut [u8]) -> usize {
    let local = Iovec { base: into.as_mut_ptr().cast(), length: into.len() };
    let remote = Iovec { base: address as *mut c_void, length: into.len() };
    // SAFETY: the kernel checks the addresses, and the local buffer belongs to us.
    let count = unsafe {
        process_vm_readv(std::process::id() as c_int, &raw const local, 1, &raw const remote, 1, 0)
    };
    usize::try_from(count).unwrap_or(0)
}

/// Reads a zero-terminated string, at most `limit` bytes of it.
pub fn peek_text(address: u64, limit: usize) -> Vec<u8> {
    let mut text = Vec::new();
    let mut page = [0; 256];
    while address != 0 && text.len() < limit {
        // Never reads across the end of a page, because the next page may not be mapped.
        let from = address + text.len() as u64;
        let room = (4096 - from as usize % 4096).min(page.len());
        let count = peek(from, &mut page[..room]);
        let chunk = &page[..count];
        match chunk.iter().position(|byte| *byte == 0) {
            Some(end) => {
                text.extend_from_slice(&chunk[..end]);
                break;
            }
            None if count == 0 => break,
            None => text.extend_from_slice(chunk),
        }
    }
    text.truncate(limit);
    text
}

/// Reads a null-terminated list of strings, as passed to `execve(2)`. Returns `None` if it cannot be read or
/// is longer than the kernel accepts.
pub fn peek_texts(list: u64) -> Option<Vec<Vec<u8>>> {
    /// Longest string (`MAX_ARG_STRLEN`), and longest list, in bytes.
    const MAX_STRING_BYTES: usize = 128 << 10;
    const MAX_LIST_BYTES: usize = 8 << 20;
    let mut texts = Vec::new();
    let mut bytes = 0;
    // The kernel accepts null for an empty list.
    if list == 0 {
        return Some(texts);
    }
    loop {
        let mut word = [0; 8];
        if peek(list.checked_add(8 * texts.len() as u64)?, &mut word) != word.len() {
            return None;
        }
        let address = u64::from_le_bytes(word);
        if address == 0 {
            return Some(texts);
        }
        if peek(address, &mut [0]) != 1 {
            return None;
        }
        let text = peek_text(address, MAX_STRING_BYTES);
        bytes += text.len() + word.len();
        if text.len() == MAX_STRING_BYTES || bytes > MAX_LIST_BYTES {
            return None;
        }
        texts.push(text);
    }
}

/// Executes another program; returns only on failure.
pub fn execute(path: &CStr, words: &[CString], variables: &[CString]) {
    let list = |texts: &[CString]| -> Vec<*const c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
    };
    let (words, variables) = (list(words), list(variables));
    // SAFETY: the lists are null-terminated and live as long as the call.
    unsafe { execve(path.as_ptr(), words.as_ptr(), variables.as_ptr()) };
}

/// Makes programs that are executed inherit a descriptor.
pub fn keep_open(fd: c_int) {
    const F_SETFD: c_int = 2;
    // SAFETY: it changes a flag of the descriptor, if that is open.
    unsafe { fcntl(fd, F_SETFD, 0) };
}

/// Returns nanoseconds of the monotonic clock, as of the kernel's last tick.
pub fn coarse_ns() -> u64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: the buffer belongs to us; this clock exists since Linux 2.6.32.
    unsafe { clock_gettime(CLOCK_MONOTONIC_COARSE, &raw mut time) };
    (time.seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(time.nanoseconds as u64)
}

/// Returns the kernel thread id of the calling thread.
pub fn thread_id() -> i32 {
    // SAFETY: it has no arguments.
    unsafe { gettid() }
}

/// Returns the effective user id of the calling thread.
pub fn user() -> u32 {
    // SAFETY: it has no arguments.
    unsafe { geteuid() }
}

/// Sets the name of the calling thread; the kernel keeps the first 15 bytes.
pub fn name_thread(name: &CStr) {
    const PR_SET_NAME: c_int = 15;
    // SAFETY: the name is zero-terminated.
    unsafe { prctl(PR_SET_NAME, name.as_ptr()) };
}

/// Lets other threads run.
pub fn yield_now() {
    // SAFETY: it has no arguments.
    unsafe { sched_yield() };
}

/// Registers functions that are called before a fork, and after it in the parent and in the child.
pub fn at_fork(prepare: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) -> bool {
    // SAFETY: the functions remain valid, because the library is never unloaded.
    unsafe { pthread_atfork(Some(prepare), Some(parent), Some(child)) == 0 }
}

/// Returns the page size in bytes.
pub fn page_bytes() -> u64 {
    const SC_PAGESIZE: c_int = 30;
    // SAFETY: it only returns a number.
    u64::try_from(unsafe { sysconf(SC_PAGESIZE) }).unwrap_or(4096)
}
