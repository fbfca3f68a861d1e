//! The add as a restartable sequence: one file for each architecture that has one.
//!
//! The requirements of the kernel (`kernel/rseq.c`, `linux/rseq.h`), which all files here fulfil:
//!
//! ```text
//!     rseq_cs = descriptor            announces the sequence that the thread is about to enter
//! 24: if cpu != cpu_id goto 26        from here on, preemption, migration or a signal leads to 26
//!     cell = first + cpu * stride
//!     new = *cell
//!     new += n
//!     *cell = new                     the commit is one instruction, the last one
//! 25: ...
//!
//!     RSEQ_SIG                        the kernel jumps only to code that follows the registered signature
//! 26: new = atomic add of n to shard 0
//!     goto 25
//! ```
//!
//! `rseq_cs` is written only by registered threads, and directly before the first instruction of the
//! sequence. A signal handler that runs in between and enters a sequence of its own therefore does no harm:
//! either the write is still to come, or the thread is already in the sequence and is sent to 26. `rseq_cs`
//! is not cleared afterwards, which the interface allows: the kernel sees that the thread is outside of the
//! sequence, and clears it. `cpu_id` is only read, and no other field of the area is used.
//!
//! The descriptor's section has the name by which debuggers and tracers find such sequences. The abort
//! handler is in the same section as the function, behind it, so that the linker keeps or discards both.

#[cfg(all(target_os = "linux", target_arch = "x86_64", target_pointer_width = "64", not(miri)))]
#[path = "x86_64.rs"]
mod arch;

#[cfg(all(target_os = "linux", target_arch = "aarch64", target_endian = "little", not(miri)))]
#[path = "aarch64.rs"]
mod arch;

#[cfg(not(all(
    target_os = "linux",
    any(
        all(target_arch = "x86_64", target_pointer_width = "64"),
        all(target_arch = "aarch64", target_endian = "little")
    ),
    not(miri)
)))]
#[path = "absent.rs"]
mod arch;

pub(crate) use arch::{PRESENT, add, cpu_id};

#[cfg(all(test, any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
mod tests;
