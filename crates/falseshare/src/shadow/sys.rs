//! The few functions of the C library that are needed, declared by hand: the plugin is built without crates.

use std::{
    ffi::{CStr, CString, c_char, c_int, c_long, c_void},
    io, ptr,
};

/// Read and write, `PROT_READ | PROT_WRITE`.
const PROT_READ_WRITE: c_int = 3;
const MAP_SHARED: c_int = 1;
const MAP_PRIVATE_ANONYMOUS: c_int = 0x22;
const MAP_NORESERVE: c_int = 0x4000;
const MFD_CLOEXEC: u32 = 1;
/// Read without asking the hardware; advances with the kernel's ticks, 1 to 10 ms.
const CLOCK_MONOTONIC_COARSE: c_int = 6;
/// Private memory of which a child of fork sees zeros.
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

/// Memory that was mapped; unmapped with it.
#[derive(Debug)]
pub struct Memory {
    base: *mut u8,
    bytes: usize,
}

// SAFETY: it is an address; who follows it sees to what others do there.
unsafe impl Send for Memory {}
// SAFETY: as above.
unsafe impl Sync for Memory {}

impl Memory {
    /// Maps `bytes` of zeros that only this process has, and its children of fork do not: they see zeros.
    /// Takes memory only where it is written.
    ///
    /// # Errors
    /// Those of `mmap(2)`.
    pub fn private(bytes: usize) -> io::Result<Self> {
        let memory = Self::map(bytes, MAP_PRIVATE_ANONYMOUS | MAP_NORESERVE, -1)?;
        // SAFETY: the memory is ours.
        unsafe { madvise(memory.base.cast(), bytes, MADV_WIPEONFORK) };
        Ok(memory)
    }

    /// Maps `bytes` of zeros, which children of fork inherit.
    ///
    /// # Errors
    /// Those of `mmap(2)`.
    pub fn inherited(bytes: usize) -> io::Result<Self> {
        Self::map(bytes, MAP_PRIVATE_ANONYMOUS, -1)
    }

    /// Maps the first `bytes` of file `fd`, shared with all that map it.
    ///
    /// # Errors
    /// Those of `mmap(2)`.
    pub fn shared(bytes: usize, fd: c_int) -> io::Result<Self> {
        Self::map(bytes, MAP_SHARED | MAP_NORESERVE, fd)
    }

    fn map(bytes: usize, flags: c_int, fd: c_int) -> io::Result<Self> {
        // SAFETY: the kernel chooses a free place.
        let base = unsafe { mmap(ptr::null_mut(), bytes, PROT_READ_WRITE, flags, fd, 0) };
        if base as isize == -1 {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { base: base.cast(), bytes })
    }

    /// First address.
    pub fn base(&self) -> *mut u8 {
        self.base
    }

    /// The first of things that fill it.
    #[allow(clippy::cast_ptr_alignment, reason = "it begins with a page")]
    pub fn first<T>(&self) -> *mut T {
        self.base.cast()
    }

    /// Bytes.
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // SAFETY: nobody has a reference any more, as each borrows this.
        unsafe { munmap(self.base.cast(), self.bytes) };
    }
}

/// A file without a name, in memory; not inherited by programs that are executed.
///
/// # Errors
/// Those of `memfd_create(2)`.
pub fn memory_file(name: &CStr) -> io::Result<std::fs::File> {
    // SAFETY: the name ends with a zero.
    let fd = unsafe { memfd_create(name.as_ptr(), MFD_CLOEXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the descriptor is new and ours.
    Ok(unsafe { std::os::fd::FromRawFd::from_raw_fd(fd) })
}

/// Reads memory of this process that may not be mapped; returns the bytes that could be read.
pub fn peek(address: u64, into: &mut [u8]) -> usize {
    let local = Iovec { base: into.as_mut_ptr().cast(), length: into.len() };
    let remote = Iovec { base: address as *mut c_void, length: into.len() };
    // SAFETY: the kernel checks the addresses; the local buffer is ours.
    let count = unsafe {
        process_vm_readv(std::process::id() as c_int, &raw const local, 1, &raw const remote, 1, 0)
    };
    usize::try_from(count).unwrap_or(0)
}

/// Reads a text that ends with a zero byte, at most `limit` bytes of it.
pub fn peek_text(address: u64, limit: usize) -> Vec<u8> {
    let mut text = Vec::new();
    let mut page = [0; 256];
    while address != 0 && text.len() < limit {
        // Never across the end of a page, behind which nothing may be.
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

/// Reads a list of texts that ends with null, as `execve(2)` is given it; `None` where it cannot be read, or is longer
/// than the kernel takes.
pub fn peek_texts(list: u64) -> Option<Vec<Vec<u8>>> {
    /// A text (`MAX_ARG_STRLEN`), and all of them.
    const LONGEST: usize = 128 << 10;
    const MOST: usize = 8 << 20;
    let mut texts = Vec::new();
    let mut bytes = 0;
    // The kernel takes null for an empty list.
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
        let text = peek_text(address, LONGEST);
        bytes += text.len() + word.len();
        if text.len() == LONGEST || bytes > MOST {
            return None;
        }
        texts.push(text);
    }
}

/// Becomes another program; returns where that fails.
pub fn execute(path: &CStr, words: &[CString], variables: &[CString]) {
    let list = |texts: &[CString]| -> Vec<*const c_char> {
        texts.iter().map(|text| text.as_ptr()).chain([ptr::null()]).collect()
    };
    let (words, variables) = (list(words), list(variables));
    // SAFETY: the lists end with null and live as long as the call.
    unsafe { execve(path.as_ptr(), words.as_ptr(), variables.as_ptr()) };
}

/// Has programs that are executed inherit a descriptor.
pub fn keep_open(fd: c_int) {
    const F_SETFD: c_int = 2;
    // SAFETY: it changes a flag of a descriptor, if there is such a one.
    unsafe { fcntl(fd, F_SETFD, 0) };
}

/// Nanoseconds since some moment, as of the kernel's last tick.
pub fn coarse_ns() -> u64 {
    let mut time = Timespec { seconds: 0, nanoseconds: 0 };
    // SAFETY: the time is ours; this clock is there since Linux 2.6.32.
    unsafe { clock_gettime(CLOCK_MONOTONIC_COARSE, &raw mut time) };
    (time.seconds as u64).wrapping_mul(1_000_000_000).wrapping_add(time.nanoseconds as u64)
}

/// The kernel's id of the calling thread.
pub fn thread_id() -> i32 {
    // SAFETY: it takes nothing.
    unsafe { gettid() }
}

/// The user that the calling thread acts as.
pub fn user() -> u32 {
    // SAFETY: it takes nothing.
    unsafe { geteuid() }
}

/// Names the calling thread; the kernel keeps the first 15 bytes.
pub fn name_thread(name: &CStr) {
    const PR_SET_NAME: c_int = 15;
    // SAFETY: the name ends with a zero.
    unsafe { prctl(PR_SET_NAME, name.as_ptr()) };
}

/// Lets others run.
pub fn yield_now() {
    // SAFETY: it takes nothing.
    unsafe { sched_yield() };
}

/// Has functions called before a fork, and after it in the parent and in the child.
pub fn at_fork(prepare: extern "C" fn(), parent: extern "C" fn(), child: extern "C" fn()) -> bool {
    // SAFETY: the functions stay as long as the library, which is never unloaded.
    unsafe { pthread_atfork(Some(prepare), Some(parent), Some(child)) == 0 }
}

/// Bytes of a page of memory.
pub fn page_bytes() -> u64 {
    const SC_PAGESIZE: c_int = 30;
    // SAFETY: it reads a number.
    u64::try_from(unsafe { sysconf(SC_PAGESIZE) }).unwrap_or(4096)
}
