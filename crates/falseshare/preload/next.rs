//! The functions that ours stand before, and system calls.

use std::{
    ffi::{c_char, c_void},
    mem,
    sync::atomic::{AtomicUsize, Ordering::Relaxed},
};

const RTLD_NEXT: *mut c_void = -1_isize as *mut c_void;

unsafe extern "C" {
    fn dlsym(library: *mut c_void, name: *const c_char) -> *mut c_void;
}

/// A function of the next library that has it, looked up once.
pub struct Next {
    name: &'static std::ffi::CStr,
    address: AtomicUsize,
}

impl Next {
    /// The function of that name.
    pub const fn new(name: &'static std::ffi::CStr) -> Self {
        Self { name, address: AtomicUsize::new(0) }
    }

    /// It, as an `F`, which must be a function pointer of its type; `None` where no library has it.
    ///
    /// # Safety
    /// `F` is the function's type.
    pub unsafe fn get<F: Copy>(&self) -> Option<F> {
        const { assert!(size_of::<F>() == size_of::<usize>()) };
        let mut address = self.address.load(Relaxed);
        if address == 0 {
            // SAFETY: the name ends with a zero.
            address = unsafe { dlsym(RTLD_NEXT, self.name.as_ptr()) } as usize;
            self.address.store(address, Relaxed);
        }
        // SAFETY: the caller says so.
        (address != 0).then(|| unsafe { mem::transmute_copy(&address) })
    }
}

/// A system call that nothing but the plugin sees; leaves `errno` alone.
#[cfg(target_arch = "x86_64")]
pub fn tell(what: u64, a: u64, b: u64, c: u64, d: u64) {
    // SAFETY: the kernel knows no call of this number and touches nothing.
    unsafe {
        std::arch::asm!("syscall", inlateout("rax") crate::shadow::calls::TELL => _, in("rdi") what, in("rsi") a,
            in("rdx") b, in("r10") c, in("r8") d, lateout("rcx") _, lateout("r11") _, options(nostack));
    }
}

/// A system call that nothing but the plugin sees; leaves `errno` alone.
#[cfg(target_arch = "aarch64")]
pub fn tell(what: u64, a: u64, b: u64, c: u64, d: u64) {
    // SAFETY: as above.
    unsafe {
        std::arch::asm!("svc 0", in("x8") crate::shadow::calls::TELL, inlateout("x0") what => _, in("x1") a,
            in("x2") b, in("x3") c, in("x4") d, options(nostack));
    }
}
