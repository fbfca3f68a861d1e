//! The mechanism of adds: finds glibc's registration of restartable sequences, without needing it at link
//! time.

use crate::possible;
use std::{fmt, sync::OnceLock};

/// The mechanism of adds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Engine {
    /// Plain adds in the line of the CPU, as restartable sequences in areas that glibc has registered.
    Rseq,
    /// Atomic adds in lines that belong to threads.
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
    /// Returns the engine of the calling thread. It differs from [`engine`] if this thread is not registered
    /// and others are.
    pub fn of_thread() -> Self {
        let Registration { offset, cpus } = Registration::of_process();
        if crate::sequence::cpu_id(offset) < cpus { Self::Rseq } else { Self::Atomics }
    }
}

/// Returns the mechanism of this process. It does not change while the process runs.
pub fn engine() -> Engine {
    if Registration::of_process().cpus > 0 { Engine::Rseq } else { Engine::Atomics }
}

/// Location of the area of restartable sequences (`struct rseq` of `linux/rseq.h`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Registration {
    /// Bytes from a thread's thread pointer to its area; 0 if there is none.
    pub offset: isize,
    /// CPU numbers below this have a row. 0 if there is no area, so that no number has a row.
    pub cpus: u32,
}

impl Registration {
    /// No thread has an area.
    pub const NONE: Self = Self { offset: 0, cpus: 0 };

    /// Returns the registration that glibc has made in this process.
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
    const MIN_AREA_BYTES: u32 = 20;

    /// Returns `__rseq_offset`, if `__rseq_size` shows that there is a registration. The size is 0 if the
    /// kernel refused the registration or the user disabled it (glibc manual, "Restartable Sequences").
    pub fn offset() -> Option<isize> {
        let size = symbol(b"__rseq_size\0")?.cast::<u32>();
        let offset = symbol(b"__rseq_offset\0")?.cast::<isize>();
        // SAFETY: glibc exports the two as `const unsigned int` and `const ptrdiff_t`, and has written them before
        // any code of the program runs.
        let (size, offset) = unsafe { (*size, *offset) };
        (size >= MIN_AREA_BYTES && offset != 0).then_some(offset)
    }

    /// Looks up a symbol; `name` ends in a zero byte.
    fn symbol(name: &'static [u8]) -> Option<*const c_void> {
        debug_assert_eq!(name.last(), Some(&0));
        // SAFETY: the name ends in a zero byte; the default handle needs no opening.
        let found = unsafe { libc::dlsym(libc::RTLD_DEFAULT, name.as_ptr().cast()) };
        (!found.is_null()).then_some(found.cast_const())
    }

    /// Keeps the library that contains this code from being unloaded, because threads keep a pointer to a
    /// descriptor in it. If the code is in the program itself, which is never unloaded, `dlopen` has no
    /// effect.
    pub fn stay_loaded() {
        let here = stay_loaded as fn() as *const c_void;
        let mut of = std::mem::MaybeUninit::<libc::Dl_info>::zeroed();
        // SAFETY: `dladdr` writes a `Dl_info`, whose name is a string that lives as long as the object that
        // contains this code. With RTLD_NOLOAD, `dlopen` runs no code of any library.
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

/// No registration: another C library, or a statically linked glibc, in which symbols cannot be looked up.
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
