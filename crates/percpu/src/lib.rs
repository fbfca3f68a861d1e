//! Counters for adds by many threads: each CPU has its own cache line, and adds need no atomic instructions.
//!
//! A shared atomic counter moves its cache line to each CPU that adds. Here each CPU has its own line, and an
//! add is a plain load, add and store in it: no lock prefix, no exclusive load. Linux's [restartable
//! sequences] make that safe: if the kernel preempts, migrates or signals a thread in the middle of the three
//! instructions, the thread resumes on another path, which adds with one atomic instruction elsewhere. So an
//! add never retries, never waits, and is counted exactly once.
//!
//! ```
//! use manycore_percpu::PerCpuCounter;
//!
//! let requests = PerCpuCounter::new();
//! std::thread::scope(|scope| {
//!     for _ in 0..4 {
//!         scope.spawn(|| (0..1000).for_each(|_| requests.add_local(1)));
//!     }
//! });
//! assert_eq!(requests.sum(), 4000);
//! println!("counted with {}", requests.engine());
//! ```
//!
//! # Which engine is in use
//!
//! The C library registers restartable sequences: glibc 2.35 and newer registers an area for each thread.
//! This crate uses that area and never registers another one. It does so on x86-64 and AArch64. Without a
//! registration (an older glibc, musl, `GLIBC_TUNABLES=glibc.pthread.rseq=0`, valgrind, a seccomp filter,
//! another architecture, a statically linked glibc), adds are atomic, in lines that belong to one thread each
//! as long as there are enough of them. [`engine`] returns the engine of the process, and
//! [`Engine::of_thread`] that of the calling thread. They can differ, because each add checks whether its own
//! thread is registered. Unregistered threads add atomically to lines that the others never touch, and all
//! adds are counted.
//!
//! # Guarantees
//!
//! - **Adds** of all threads, in any mixture, are counted exactly once. A thread sees its own add at once; to
//!   other threads, it is visible like a relaxed atomic store. It does not order other memory accesses.
//! - **Overflow** wraps, as [`i64::wrapping_add`] does, also in the sum: a counter counts modulo 2⁶⁴.
//! - **Signal handlers** may add: [`PerCpuCounter::add_local`] and `sub_local` are async-signal-safe after
//!   the counter's first use, which allocates its memory. They take no lock, allocate nothing and never wait.
//!   (There is one exception: if this crate is in a library that was loaded with `dlopen`, and there are no
//!   restartable sequences, the first use of thread-local storage in a thread may allocate. Add once in the
//!   thread before its handlers do.)
//! - **Fork**: the child has a copy of all counters as they are at the moment of the fork, and parent and
//!   child count independently. The kernel keeps the registration in the child. Adds that other threads of
//!   the parent are in the middle of may or may not be in the child's copy, as with any variable. A counter
//!   in memory that is shared between processes is not possible.
//! - **Threads that end** do not take their adds with them: these are in the lines of CPUs.
//! - **CPU hotplug**: there is a line for each possible CPU of the kernel, so CPUs may go offline and come
//!   online. The line of an offline CPU keeps its count. A CPU number beyond the possible ones (in a
//!   container that hides CPUs in `/sys`) is treated as a missing registration.
//! - **Debuggers** that step through an add do not hang it, since it never restarts: it takes the other path.
//! - **Unloading**: the kernel may read the descriptor of a thread's last sequence at any later time, so a
//!   library that contains this crate stays in memory after `dlclose` once a counter has been created.
//! - **Raw threads** that share the thread-local storage of another thread (`clone` with `CLONE_VM` and
//!   without `CLONE_SETTLS`, `vfork`) must not add; there is little else that they are allowed to do.
//!
//! # The error of `approx`
//!
//! See [`PerCpuCounter::approx`]: the error has a bound, which is proven there.
//!
//! [restartable sequences]: https://www.kernel.org/doc/html/latest/userspace-api/rseq.html
#![warn(missing_debug_implementations)]

mod area;
mod counter;
mod engine;
mod near;
mod possible;
mod sequence;
mod thread;

pub use counter::{Counter, Iter, PerCpuCounter, PerCpuCounters};
pub use engine::{Engine, engine};

/// Returns the configuration of property tests: few cases under Miri, which has no files for failing cases.
#[cfg(test)]
fn cases() -> proptest::test_runner::Config {
    use proptest::test_runner::Config;
    if cfg!(miri) {
        Config { cases: 16, failure_persistence: None, ..Config::default() }
    } else {
        Config::default()
    }
}
