//! The add as a restartable sequence: one file for each architecture that has one.
//!
//! What the kernel demands (`kernel/rseq.c`, `linux/rseq.h`), and what all files here do:
//!
//! ```text
//!     rseq_cs = descriptor            the thread says which sequence it is about to enter
//! 24: if cpu != cpu_id goto 26        from here on, whoever is preempted, migrated or signalled goes on at 26
//!     cell = first + cpu * stride
//!     new = *cell
//!     new += n
//!     *cell = new                     the commit is one instruction, the last one
//! 25: ...
//!
//!     RSEQ_SIG                        the kernel jumps only to where the registered signature stands before
//! 26: new = atomic add of n to shard 0
//!     goto 25
//! ```
//!
//! `rseq_cs` is written only by registered threads, and right before the first instruction of the sequence, so that a
//! handler that comes between and enters a sequence of its own does no harm: either the write is still to come, or
//! the thread is already in the sequence and is sent to 26. It is left as it is afterwards, as the interface
//! allows: the kernel sees that the thread is elsewhere, and clears it. `cpu_id` is only read, and nothing else of the
//! area is looked at.
//!
//! The descriptor's section bears the name by which debuggers and tracers find such sequences. The way out lies in the
//! same section as the function, behind it, so that the two are kept or thrown away together.

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
