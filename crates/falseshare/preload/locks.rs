//! The functions that take and give back locks. While one runs, the plugin finds in a word of the thread which call
//! led there, so that the program's own line is named for what the C library does to the lock.

use crate::shadow::calls::{OF_LOCK, TELL_CALLS};
use crate::{
    callers,
    next::{Next, tell},
};
use std::{
    arch::naked_asm,
    cell::Cell,
    ffi::{c_int, c_void},
};

const ENOSYS: c_int = 38;

thread_local! {
    /// The call of a lock's function that this thread is in; 0 outside of them.
    static CALL: Cell<u64> = const { Cell::new(0) };
    /// Whether the plugin knows where that is.
    static IS_TOLD: Cell<bool> = const { Cell::new(false) };
}

/// Runs `work`, the function at `function` of the C library, which was called so that it returns to `caller`.
fn called(caller: u64, function: usize, work: impl FnOnce() -> c_int) -> c_int {
    CALL.with(|call| {
        if !IS_TOLD.replace(true) {
            let (start, end) = callers::span_of(function);
            tell(TELL_CALLS, call.as_ptr() as u64, start as u64, end as u64, 0);
        }
        // Within a signal handler there may be one already. The byte before the return address is the call's.
        let before = call.replace(caller.wrapping_sub(1) | OF_LOCK);
        let result = work();
        call.set(before);
        result
    })
}

/// A function that takes a lock alone: it jumps on with its return address behind its argument.
macro_rules! one {
    ($($name:ident by $inner:ident),* $(,)?) => { $(
        /// As in the C library.
        ///
        /// # Safety
        /// As there.
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
            static NEXT: Next = Next::new(match std::ffi::CStr::from_bytes_with_nul(
                concat!(stringify!($name), "\0").as_bytes(),
            ) {
                Ok(name) => name,
                Err(_) => c"",
            });
            // SAFETY: it is the function's type, and the caller gives what it takes.
            unsafe {
                let Some(next) = NEXT.get::<It>() else { return ENOSYS };
                called(caller, next as *const () as usize, || next(lock))
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
