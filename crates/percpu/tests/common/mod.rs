//! System calls for the tests.

use std::{
    ffi::{CStr, CString},
    io,
    os::unix::{ffi::OsStrExt, process::CommandExt},
    path::Path,
    process::Command,
};

/// Returns the id of this thread.
pub fn tid() -> i32 {
    // SAFETY: has no arguments.
    unsafe { libc::gettid() }
}

/// Moves thread `tid` to `cpu`. Returns whether that succeeded.
pub fn move_to(tid: i32, cpu: usize) -> bool {
    // SAFETY: the set is a plain bit mask, of which the kernel reads as many bytes as it is long.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(cpu, &mut set);
        libc::sched_setaffinity(tid, size_of_val(&set), &raw const set) == 0
    }
}

/// Sends a signal to one thread of this process. Returns whether the thread exists.
pub fn signal(tid: i32, signal: i32) -> bool {
    // SAFETY: the arguments are numbers; a thread of another process cannot be addressed.
    unsafe { libc::syscall(libc::SYS_tgkill, libc::getpid(), tid, signal) == 0 }
}

/// Installs a handler, which must be async-signal-safe.
pub fn on_signal(signal: i32, handler: extern "C" fn(i32)) {
    // SAFETY: zeroes are a valid `sigaction` without flags.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = handler as *const () as usize;
        action.sa_flags = libc::SA_RESTART;
        assert_eq!(libc::sigaction(signal, &raw const action, std::ptr::null_mut()), 0);
    }
}

/// Returns the value of a number that the C library exports.
pub fn symbol(name: &CStr) -> Option<u32> {
    // SAFETY: the tests request exported variables of at least 32 bits.
    unsafe {
        let found = libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr()).cast::<u32>();
        found.as_ref().copied()
    }
}

/// Registers this thread's area with the kernel as glibc does (0), or unregisters it (1). Returns whether
/// that succeeded.
pub fn rseq(flags: i32) -> bool {
    #[cfg(target_arch = "x86_64")]
    const SIGNATURE: u32 = 0x5305_3053;
    #[cfg(not(target_arch = "x86_64"))]
    const SIGNATURE: u32 = 0xd428_bc00;
    // SAFETY: an exported `ptrdiff_t`.
    let offset = unsafe { *libc::dlsym(libc::RTLD_DEFAULT, c"__rseq_offset".as_ptr()).cast::<isize>() };
    let thread: usize;
    // SAFETY: reads the thread pointer.
    unsafe {
        #[cfg(target_arch = "x86_64")]
        std::arch::asm!("mov {}, fs:[0]", out(reg) thread, options(nostack, readonly, preserves_flags));
        #[cfg(target_arch = "aarch64")]
        std::arch::asm!("mrs {}, tpidr_el0", out(reg) thread, options(nostack, nomem, preserves_flags));
    }
    let area = thread.wrapping_add_signed(offset);
    // glibc registers with a size of 32 in its first versions; later with that of the kernel's features,
    // rounded up or not.
    let features = symbol(c"__rseq_size").unwrap_or(32);
    [32, features, (features + 31) / 32 * 32].into_iter().any(|size| {
        // SAFETY: the area is glibc's for this thread, and is used as glibc does.
        unsafe { libc::syscall(libc::SYS_rseq, area, size, flags, SIGNATURE) == 0 }
    })
}

/// Makes rseq(2) fail with this error in the program that `command` starts, as seccomp filters of containers
/// do.
pub fn refuse_rseq(command: &mut Command, error: i32) {
    let load = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    let equal = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    let answer = (libc::BPF_RET | libc::BPF_K) as u16;
    let line = |code, jf, k| libc::sock_filter { code, jt: 0, jf, k };
    let filter = [
        // The number of the system call is the first word of the data.
        line(load, 0, 0),
        line(equal, 1, libc::SYS_rseq as u32),
        line(answer, 0, libc::SECCOMP_RET_ERRNO | error as u32),
        line(answer, 0, libc::SECCOMP_RET_ALLOW),
    ];
    let install = move || {
        let program = libc::sock_fprog { len: filter.len() as u16, filter: filter.as_ptr().cast_mut() };
        // SAFETY: the kernel reads the filter, whose length is given.
        let installed = unsafe {
            libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
                && libc::prctl(libc::PR_SET_SECCOMP, libc::SECCOMP_MODE_FILTER, &raw const program) == 0
        };
        if installed { Ok(()) } else { Err(io::Error::last_os_error()) }
    };
    // SAFETY: two system calls and reading errno, which are allowed after a fork of a process with threads.
    unsafe { command.pre_exec(install) };
}

/// Loads `library`, counts with it, closes it, and checks whether it is still loaded.
pub fn loaded_and_closed(library: &Path) {
    let path = CString::new(library.as_os_str().as_bytes()).unwrap();
    // SAFETY: the library is the example `plugin`, whose functions have these types.
    unsafe {
        let handle = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_LOCAL);
        assert!(!handle.is_null(), "{}", library.display());
        let count = libc::dlsym(handle, c"count".as_ptr());
        let sequences = libc::dlsym(handle, c"sequences".as_ptr());
        assert!(!count.is_null() && !sequences.is_null());
        let count: extern "C" fn(u32) -> i64 = std::mem::transmute(count);
        let sequences: extern "C" fn() -> bool = std::mem::transmute(sequences);
        assert_eq!(count(100_000), 100_000);
        let stays = sequences();
        assert_eq!(libc::dlclose(handle), 0);
        let again = libc::dlopen(path.as_ptr(), libc::RTLD_NOW | libc::RTLD_NOLOAD);
        assert!(!stays || !again.is_null(), "{} was unloaded", library.display());
        if stays {
            assert_eq!(count(5), 100_005);
        }
    }
}
