//! Finds cache lines that threads share although they use different bytes of them (false sharing).
//!
//! ```text
//! command -> observe -> Observation -> Findings -> text
//!            emulator                  sharing     text
//!            memory_sampling
//!            symbols
//! ```
//!
//! [`observe()`] runs a command. Of its engines, [`emulator`] follows every memory access, and in `memory_sampling` the
//! CPU records some of them. `symbols` adds the names of code and data. [`sharing::Findings::from_observation`] evaluates the
//! observation without any access to the system, and [`text`] renders the findings. [`shadow`] is the state that the
//! emulator's plugin keeps of a program.
//!
//! # Observation and findings
//!
//! An observation (`sharing`) holds the lines that several threads touched and at least one wrote: how often each
//! line was transferred, how many transfers were due to false sharing, and which thread touched which bytes from
//! which address. Two engines produce it. `emulator` follows each access in QEMU. `memory_sampling` reads samples of
//! PEBS or IBS. `symbols` then adds the names of all addresses, so a saved observation can be evaluated again on a
//! machine without any of the files. The evaluation is pure. Lines of one array, of one allocation site or of the
//! same code form one finding. Lines of libraries and of the language's runtime are listed separately, because they
//! are not what a user changes to fix a program.
//!
//! A line is reported as falsely shared if at least half of its transfers, and at least 50 of them, are due to false
//! sharing. The share distinguishes a lock with its data (a quarter at most) from independent neighbours (nearly
//! all), however long the program ran. The number excludes what happens once, while threads start and end (1 to 6
//! transfers in programs without a problem). For a line with true sharing, the avoidable part is reported with the
//! fields that cause it, if each of them has a writer of its own: the head and the tail of a queue, but not a lock
//! and its data.
//!
//! What was found counts more than how the program ended. After a crash, Ctrl-C or a timeout the findings are
//! reported, and the exit code is 1.
//!
//! # Emulation
//!
//! The program runs unmodified in QEMU's user-mode emulator (`emulator`). Three parts meet there:
//!
//! | part | where it runs | what it does |
//! |---|---|---|
//! | plugin (`plugin/`, `shadow`) | in the emulator | handles each access and each system call; runs programs that are started in the emulator, too |
//! | library (`preload/`) | in the program, by `LD_PRELOAD` | reports blocks of the allocator and calls of lock functions, with their callers |
//! | region (`shadow::region`) | shared memory | made by the observer, written by the plugin |
//!
//! **The region** is a memfd that the observer reads after the end. So the observation survives a crash, SIGKILL and
//! a timeout; nothing is written at the end. The file has its final size from the start and takes memory only where
//! it is written. Plugin, library and region are reached by their paths below `/proc/PID/fd` of the observer. So no
//! file is left behind, and a program that closes all its descriptors loses nothing. Where these paths lead elsewhere
//! (in another root, or in another process namespace), a program runs unobserved, and the report says so. Inherited
//! descriptors would lead further, but programs count and close their descriptors. Each process has a slot, including
//! forked children. The library sends messages to the plugin by a system call with a number that does not exist. The
//! observed program could write to the region. The reader therefore keeps the region's dimensions itself and trusts
//! no index, chain or count in it.
//!
//! **Programs that are started** are followed at the system call. The plugin reads the file, the arguments and the
//! environment from the program's memory, and executes the emulator with them in place of the call. So every function
//! of the C library, a direct system call, a static program, a cleared environment and `/proc/self/exe` (behind which
//! the kernel has the emulator) are handled in the same way. Where the emulator cannot be used (another user, root or
//! namespace, set-user-ID, another architecture), the program runs unobserved, and there is no clean verdict. A
//! signal is lost if it arrives in the fraction of a millisecond in which the plugin prepares the call: the emulator
//! has already accepted it, and its program is replaced.
//!
//! **System calls**: data that a call reads or writes counts as an access of the calling thread, because the kernel
//! accesses it on that CPU. A table lists the buffers of calls that move data, and results of common calls that are
//! structures. `io_uring` is not among them: `qemu-user` does not offer it, and programs do without. What other calls
//! write is not observed, and the report says so.
//!
//! **Locks**: an access of the C library to a lock is attributed to the program's line that called the library. The
//! library stores the caller's address in a word of the thread, which the plugin uses as long as the instruction is
//! the C library's. An instruction that exchanges values (`xchg`, `cmpxchg`) is taken for a lock of the program.
//!
//! **Generated code** has names where its runtime wrote them for profilers (`symbols::generated`). The program, or
//! another user, could have written that file. It must be a regular file of our user with a single name, not a link,
//! and not older than the run, and only names of observed addresses are used. Named code is the program's unless its
//! name is one of the runtime or its library. Code without a name may be the program's, and an interpreter accesses
//! memory for the program as well as for itself: if such code shares a line, there is no clean verdict. The files of
//! an interpreter are recognized by their name and a function in them, and count as the runtime.
//!
//! **Terminal and end**: the command shares our process group where there is a terminal. So it can read from the
//! terminal, and Ctrl-C and Ctrl-Z reach both. A cleanup process kills everything observed if this program is killed.
//! The kernel's parent-death signal cannot do this: it follows the parent's thread, and would kill children of
//! programs whose threads end.
//!
//! **Build**: the build script compiles plugin and library with plain rustc, and embeds both files. Cargo has no
//! stable way to include what another crate builds. QEMU's header is not needed: the few functions are declared by
//! hand and are the same in all versions of the interface. The plugin states the interface version of the QEMU that
//! loads it, recognized by the functions that came with each version. Version 1 (QEMU 7.2) is tested. Versions 2 to 5
//! (QEMU 9.0 to 10.2) follow the header and are not tested.
//!
//! # Classifying accesses
//!
//! For each access the engine decides two things.
//!
//! 1. *Does the line belong to this thread?* There is one word for each line (`shadow::owner_table`). A line is
//!    followed from the third time on that it changes its owner, if any thread wrote it since the first change. So
//!    data that `main` prepares, a worker uses and `main` collects costs nothing, and earlier accesses do not count.
//! 2. *Does the thread own the line at this moment?* (`shadow::lines`) As in a coherent cache, a line is owned by one
//!    thread that wrote it or by all threads that have read it since. When another thread takes the line, the
//!    ownership period that ends is classified: its transfer was false sharing if the period accessed nothing that
//!    other threads had written, and wrote nothing that they had accessed. Memory that the allocator or the kernel
//!    hands out again, and stacks of new threads, have no history.
//!
//! An access with nothing new (the thread's own line, or a followed line in the state in which the same instruction
//! accessed it before) is only counted.
//!
//! # Cost
//!
//! A transfer costs some hundreds of nanoseconds, because the record of the line moves between caches with the line.
//! After 16,384 transfers of a line, further ones happen only within windows of 4 ms. One window in sixteen is open,
//! selected by its number, and each transfer in it counts as sixteen. Outside of open windows no thread takes the
//! line, so all threads count their accesses on the fast path; at every 1,024th access a thread checks whether a
//! window is open. The number of accesses stays exact.
//!
//! Starting a thread takes some milliseconds in the emulator, longer than many short programs work. Its threads would
//! run one after the other and never meet. So the first million accesses of each thread are stretched by short
//! sleeps, a tenth of a second in total. A thread that has ended causes no transfers: threads that are joined before
//! the next one starts share nothing.
//!
//! Threads run truly in parallel, on the machine's CPUs. An access takes two to eight times as long as in plain QEMU,
//! and some dozens of times as long as on the CPU, with about the same factor for all. So transfers show that threads
//! meet on a line, which threads these are, and roughly how often an access moves the line. They do not show
//! nanoseconds. Threads that never run at the same time, because CPUs are busy or few, meet only as often as they
//! alternate.
#![deny(unsafe_code)]

mod cursor;
pub mod emulator;
mod error;
mod memory_sampling;
mod observe;
pub mod shadow;
pub mod sharing;
mod symbols;
pub mod text;

pub use error::{Error, Result};
pub use observe::{EngineChoice, Options, could_have_sampled, observe, sampled_events};
