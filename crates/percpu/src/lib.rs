//! Counters that many threads add to, each CPU in its own cache line and without atomic instructions.
//!
//! A shared atomic counter moves its cache line to each CPU that adds. Here each CPU has a line of its own, and
//! an add is a plain load, add and store in it: no lock prefix, no exclusive load. What makes that safe is
//! Linux's [restartable sequences]: the kernel sends a thread that it preempts, migrates or signals in the
//! middle of the three instructions to another path, which adds with one atomic instruction elsewhere. So an add
//! never retries, never waits, and is never lost or made twice.
//!
//! ```
//! use crate::PerCpuCounter;
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
//! The registration of restartable sequences belongs to the C library: glibc 2.35 and newer registers an area for
//! each thread, and this crate uses that one and never registers another. It is used on x86-64 and AArch64. Where
//! it is absent (an older glibc, musl, `GLIBC_TUNABLES=glibc.pthread.rseq=0`, valgrind, a seccomp filter, another
//! architecture, a statically linked glibc), adds are atomic adds in lines that threads have for themselves as far
//! as there are enough. [`engine`] tells which it is; [`Engine::of_thread`] for the calling thread, because each
//! add looks whether its own thread is registered: one that is not adds atomically to lines that the others never
//! touch, and all is counted.
//!
//! # What is promised
//!
//! - **Adds** of any thread, in any mixture, are all counted, exactly once. An add is one to its own thread at
//!   once; to others it is visible as a relaxed atomic store is. It orders nothing else.
//! - **Overflow** wraps, as [`i64::wrapping_add`] does, also in the sum: a counter counts modulo 2⁶⁴.
//! - **Signal handlers** may add: [`PerCpuCounter::add_local`] and `sub_local` are async-signal-safe from the counter's
//!   first use on, which allocates its memory. They take no lock, allocate nothing and never wait. (Where this crate is in a library that is loaded with `dlopen` and
//!   there are no restartable sequences, the first use of thread-local storage in a thread may allocate: add once
//!   in the thread before its handlers do.)
//! - **Fork**: the child has a copy of all counters as they are in the instant of the fork, and parent and child
//!   count on their own. The kernel keeps the registration in the child. Adds that other threads of the parent are in
//!   the middle of are in the child's copy or not, as with any variable. A counter in memory that is
//!   shared between processes is not possible.
//! - **Threads that end** leave what they added where it is, in the line of a CPU.
//! - **CPUs that come and go**: there is a line for each CPU that the kernel calls possible, so CPUs may go off and
//!   on line; the line of one that is off keeps its count. A CPU number beyond those (a container that hides CPUs in
//!   `/sys`) is treated as no registration.
//! - **Debuggers** that step through an add do not hang it, since it never starts anew: it takes the other path.
//! - **Unloading**: the kernel may read the descriptor of the last sequence of a thread at any later time, so a
//!   library with this crate in it stays in memory after `dlclose` once a counter was made.
//! - **Raw threads** that share the thread-local storage of another (`clone` with `CLONE_VM` and without
//!   `CLONE_SETTLS`, `vfork`) may not add, as they may do little else.
//!
//! # How near `approx` is
//!
//! See [`PerCpuCounter::approx`]: the error has a bound, which is proven there.
//!
//! [restartable sequences]: https://www.kernel.org/doc/html/latest/userspace-api/rseq.html

mod area;
mod counter;
mod engine;
mod near;
mod possible;
mod sequence;
mod thread;

pub use counter::{Counter, Iter, PerCpuCounter, PerCpuCounters};
pub use engine::{Engine, engine};

/// Cases of property tests: few under Miri, which has no files to keep failures in.
#[cfg(test)]
fn cases() -> proptest::test_runner::Config {
    use proptest::test_runner::Config;
    if cfg!(miri) {
        Config { cases: 16, failure_persistence: None, ..Config::default() }
    } else {
        Config::default()
    }
}
