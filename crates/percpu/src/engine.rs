//! Which mechanism adds: what glibc registered, found without needing it at link time.

use crate::possible;
use std::{fmt, sync::OnceLock};

/// How adds are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Engine {
    /// Plain adds in the line of the CPU, guarded by restartable sequences that glibc registered.
    Rseq,
    /// Atomic adds in lines of threads.
    Atomics,
}

impl fmt::Display for Engine {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.pad(match self {
            Self::Rseq => "restartable sequences",
            Self::Atomics => "sharded atomics",
        })
    }
}

impl Engine {
    /// The engine of the calling thread. It differs from [`engine`] where this thread is not registered and others
    /// are.
    pub fn of_thread() -> Self {
        let Registration { offset, cpus } = Registration::of_process();
        if crate::sequence::cpu_id(offset) < cpus { Self::Rseq } else { Self::Atomics }
    }
}

/// The mechanism of this process. It does not change while the process lives.
pub fn engine() -> Engine {
    if Registration::of_process().cpus > 0 { Engine::Rseq } else { Engine::Atomics }
}

/// Where the area of restartable sequences (`struct rseq` of `linux/rseq.h`) is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    /// Bytes from a thread's thread pointer to its area; 0 where there is none.
    pub offset: isize,
    /// CPU numbers below this have a row; 0 where there is no area, so that no number has.
    pub cpus: u32,
}

impl Registration {
    /// No area in any thread.
    pub const NONE: Self = Self { offset: 0, cpus: 0 };

    /// What glibc registered in this process.
    pub fn of_process() -> Self {
        static FOUND: OnceLock<Registration> = OnceLock::new();
        *FOUND.get_or_init(|| {
            if !crate::sequence::PRESENT {
                return Self::NONE;
            }
            let Some(offset) = glibc::offset() else { return Self::NONE };
            glibc::stay_loaded();
            Self { offset, cpus: possible::cpus() }
        })
    }
}

#[cfg(all(target_env = "gnu", not(target_feature = "crt-static")))]
mod glibc {
    use std::ffi::c_void;

    /// Bytes of the area up to the end of `flags`: the fields that the first kernels with restartable sequences had.
    const LEAST: u32 = 20;

    /// `__rseq_offset`, where `__rseq_size` says that there is a registration: it is 0 where the kernel refused or
    /// the user switched it off (glibc manual, "Restartable Sequences").
    pub fn offset() -> Option<isize> {
        let size = symbol(b"__rseq_size\0")?.cast::<u32>();
        let offset = symbol(b"__rseq_offset\0")?.cast::<isize>();
        // SAFETY: glibc exports the two as `const unsigned int` and `const ptrdiff_t`, and has written them before
        // any code of the program runs.
        let (size, offset) = unsafe { (*size, *offset) };
        (size >= LEAST && offset != 0).then_some(offset)
    }

    /// `name` ends in a zero byte.
    fn symbol(name: &'static [u8]) -> Option<*const c_void> {
        debug_assert_eq!(name.last(), Some(&0));
        // SAFETY: the name ends in a zero byte; the default handle needs no opening.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr().cast()) };
        (!found.is_null()).then_some(found.cast_const())
    }

    /// Keeps the library that this code is in from being unloaded: threads keep a pointer to a descriptor in it.
    /// The program itself is never unloaded, and `dlopen` then finds nothing to do.
    pub fn stay_loaded() {
        let here = stay_loaded as fn() as *const c_void;
        let mut of = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: `dladdr` writes a `Dl_info`, whose name is a string that lives as long as the object that this
        // code is in; with RTLD_NOLOAD, `dlopen` runs no code of any library.
        unsafe {
            if libc::dladdr(here, of.as_mut_ptr()) != 0 && !of.assume_init().dli_fname.is_null() {
                libc::dlopen(
                    of.assume_init().dli_fname,
                    libc::RTLD_LAZY | libc::RTLD_NOLOAD | libc::RTLD_NODELETE,
                );
            }
        }
    }
}

/// No registration: another C library, or glibc linked statically, which has nothing to look names up in.
#[cfg(not(all(target_env = "gnu", not(target_feature = "crt-static"))))]
mod glibc {
    pub fn offset() -> Option<isize> {
        None
    }

    pub fn stay_loaded() {}
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn engines_have_names() {
        assert_eq!(Engine::Rseq.to_string(), "restartable sequences");
        assert_eq!(format!("{:>16}", Engine::Atomics), " sharded atomics");
    }

    #[test]
    fn a_thread_is_registered_only_where_the_process_is() {
        let of_new_thread = std::thread::spawn(Engine::of_thread).join().unwrap();
        assert_eq!(of_new_thread, engine());
        assert_eq!(Engine::of_thread(), engine());
    }
}
