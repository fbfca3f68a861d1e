//! Wrappers of the functions that take and release locks. While one runs, a word of the thread contains the
//! address of the call, which the plugin reads. So the C library's accesses to the lock are attributed to the
//! program's line of code.

use crate::{
    callers,
    next::{NextFunction, report},
    shadow::report_protocol::{OF_LOCK, REPORT_LOCK_CALLS},
};
use std::{
    arch::naked_asm,
    cell::Cell,
    ffi::{c_int, c_void},
};

const ENOSYS: c_int = 38;

thread_local! {
    /// The lock function call that this thread is in; 0 outside of such calls.
    static CALL: Cell<u64> = const { Cell::new(0) };
    /// Whether the address of `CALL` was reported to the plugin.
    static IS_REPORTED: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, which calls `function` of the C library. `caller` is the return address of the wrapper's call.
fn run_lock_function(caller: u64, function: usize, work: impl FnOnce() -> c_int) -> c_int {
    CALL.with(|call| {
        if !IS_REPORTED.replace(true) {
            let (start, end) = callers::span_of(function);
            report(REPORT_LOCK_CALLS, call.as_ptr() as u64, start as u64, end as u64, 0);
        }
        // In a signal handler, another call may already be in progress. The byte before the return address
        // belongs to the call.
        let before = call.replace(caller.wrapping_sub(1) | OF_LOCK);
        let result = work();
        call.set(before);
        result
    })
}

/// Defines a function whose only argument is a lock. It jumps on with its return address as the second argument.
macro_rules! one {
    ($($name:ident by $inner:ident),* $(,)?) => { $(
        /// Like the function of the C library.
        ///
        /// # Safety
        /// As for that function.
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(lock: *mut c_void) -> c_int {
            #[cfg(target_arch = "x86_64")]
            naked_asm!("mov rsi, [rsp]", "jmp {}", sym $inner);
            #[cfg(target_arch = "aarch64")]
            naked_asm!("mov x1, x30", "b {}", sym $inner);
        }

        unsafe extern "C" fn $inner(lock: *mut c_void, caller: u64) -> c_int {
            type It = unsafe extern "C" fn(*mut c_void) -> c_int;
            static NEXT: NextFunction = NextFunction::new(match std::ffi::CStr::from_bytes_with_nul(
                concat!(stringify!($name), "\0").as_bytes(),
            ) {
                Ok(name) => name,
                Err(_) => c"",
            });
            // SAFETY: it has the function's type, and the caller passes a valid argument.
            unsafe {
                let Some(next) = NEXT.get::<It>() else { return ENOSYS };
                run_lock_function(caller, next as *const () as usize, || next(lock))
            }
        }
    )* };
}

one! {
    pthread_mutex_lock by mutex_lock,
    pthread_mutex_trylock by mutex_trylock,
    pthread_mutex_unlock by mutex_unlock,
    pthread_spin_lock by spin_lock,
    pthread_spin_trylock by spin_trylock,
    pthread_spin_unlock by spin_unlock,
    pthread_rwlock_rdlock by rwlock_rdlock,
    pthread_rwlock_tryrdlock by rwlock_tryrdlock,
    pthread_rwlock_wrlock by rwlock_wrlock,
    pthread_rwlock_trywrlock by rwlock_trywrlock,
    pthread_rwlock_unlock by rwlock_unlock,
    sem_post by semaphore_post,
    sem_trywait by semaphore_trywait,
}
