//! Looks up the functions that our wrappers override, and makes system calls.

use std::{
    ffi::{c_char, c_void},
    mem,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

const RTLD_NEXT: *mut c_void = -1_isize as *mut c_void;

unsafe extern "C" {
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// A function of the next library that defines it, looked up once.
pub struct NextFunction {
    name: &'static std::ffi::CStr,
    address: AtomicUsize,
}

impl NextFunction {
    /// Creates the entry for the function of that name.
    pub const fn new(name: &'static std::ffi::CStr) -> Self {
        Self { name, address: AtomicUsize::new(0) }
    }

    /// Returns the function; `None` if no library defines it.
    ///
    /// # Safety
    /// `F` must be a function pointer of the function's type.
    pub unsafe fn get<F: Copy>(&self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<usize>()) };
        let mut address = self.address.load(Relaxed);
        if address == 0 {
            // SAFETY: the name is zero-terminated.
            address = unsafe { dlsym(RTLD_NEXT, self.name.as_ptr()) } as usize;
            self.address.store(address, Relaxed);
        }
        // SAFETY: required of the caller.
        (address != 0).then(|| unsafe { mem::transmute_copy(&address) })
    }
}

/// Makes a system call that only the plugin handles; leaves `errno` unchanged.
#[cfg(target_arch = "x86_64")]
pub fn report(what: u64, a: u64, b: u64, c: u64, d: u64) {
    // SAFETY: the kernel has no call of this number and modifies no memory.
    unsafe {
        std::arch::asm!("syscall", inlateout("rax") crate::shadow::report_protocol::REPORT => _, in("rdi") what, in("rsi") a,
            in("rdx") b, in("r10") c, in("r8") d, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
}

/// Makes a system call that only the plugin handles; leaves `errno` unchanged.
#[cfg(target_arch = "aarch64")]
pub fn report(what: u64, a: u64, b: u64, c: u64, d: u64) {
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("svc 0", in("x8") crate::shadow::report_protocol::REPORT, inlateout("x0") what => _, in("x1") a,
            in("x2") b, in("x3") c, in("x4") d, options(nostack));
    }
}
