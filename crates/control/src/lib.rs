//! Changes to a running system that are journalled first and can be undone.
//!
//! # Journal
//!
//! A journal (`journal`) is a file of JSON lines below `/run/manycore`: a header, then one line for each change. A
//! line is written completely before its change is made. The owner holds a lock on the file. The kernel releases the
//! lock when the owner ends for any reason, so `undo` recognizes abandoned journals.
//!
//! - A process is identified by its id and its start time.
//! - A value (an affinity, a file, a limit) is restored only where it is still the value that was written.
//! - A task that was created after the last line is attributed to a journal in one of three ways: it inherited from a
//!   process of the journal, it is in a control group of the journal, or its environment has the variable that `run`
//!   sets.
//! - Several journals may place the same task. If the older one is undone first, its recorded original affinity is
//!   passed on to the newer one. So placements of one process can end in any order.
//! - Everything in a journal is state in the kernel's memory. A journal of an earlier boot is only removed, and the
//!   folder need not survive a reboot.
//! - A journal is read again under its lock before it is undone, and the journals of one folder are undone one at a
//!   time. `undo` beside a command that is still writing undoes everything or nothing yet.
//!
//! # Cleanup
//!
//! Some things would outlive this program if it were killed with SIGKILL: control groups, scratch folders, System V
//! objects, observed processes. A cleanup process (`cleanup`) removes them. It is another instance of the program.
//! Its standard input is a pipe whose other end only this program holds. Each thing is announced through the pipe
//! before it exists, or at once where its name is not known before. When the pipe closes, the cleanup process removes
//! what was announced. If `Cleanup` is dropped, it ends without effect. `evaluate`, `spawn` and `falseshare` use the
//! same one.
//!
//! # Placing
//!
//! `run` and `pin` differ only in their first step. The parts (`placement`):
//!
//! | part | what it does |
//! |---|---|
//! | `ResolvedPlacement` | the requested plan on this machine |
//! | `command_processes` | finds all processes that a command has started, by its control group and as our descendants |
//! | `AffinityEnforcer` | assigns tasks to workers as they appear, weights them by CPU time, follows CPUs that go offline and come back |
//! | `PlacementJournal` | journals each change before it is made, and records where tasks ran (`PlacementTrace`) |
//! | `PlacementSession` | waits for new tasks, ended tasks and signals; moves the processes into a cpuset; undoes everything at the end |
//!
//! The enforcer runs in a thread with the lowest real-time priority where that is permitted. It sleeps nearly always,
//! and must not wait behind the threads that it places. Programs that it starts get the priority that they would have
//! had.
//!
//! `run` and `pin` learn of new tasks from the process events connector where it is permitted, and by polling
//! elsewhere. Commands that are only measured are always polled: that works without privileges, costs the same for
//! every user, and leaves nothing behind. Polling reads the last process id in `/proc/loadavg`, after 1 ms at first
//! and every 8 ms at most, and scans only when it has changed. The affinities of tasks are compared to detect tasks
//! that changed their own. A task whose affinity is wider than its worker's CPUs, but still within the placement, is
//! placed again: the kernel widens affinities when CPUs go offline and when cpusets change. It does not count as the
//! task's own choice.
//!
//! A working task is moved only from a CPU with several working tasks to a CPU with none. If there are more working
//! tasks than CPUs, no task is moved.
//!
//! `sched run --with affinity` decides itself which thread gets which CPUs. `ConfinedThreads` journals and makes each change,
//! and a cleanup process undoes all of them if the program is killed; `FollowedCommand` is a command whose threads it moves.
//! Such a command starts without a placement, and in no control group of its own.
//!
//! # Control groups
//!
//! A command has a control group of its own from its first instruction (`command_group`). Entering the group must not
//! wait for a grace period of the kernel, which takes 10 ms and more. In version 1, a thread that writes itself into
//! `tasks` does not wait; in version 2, `clone3` starts the command in the group. The group has no limits and no
//! controller that would change anything. In version 2, the same group later becomes the cpuset. The CPU time of the
//! group is what a check compares the observed CPU time with. Without a group, that is the CPU time of all children
//! that were waited for and of all live descendants, because this process is their subreaper.
//!
//! The command starts with its affinity set, and enters a cpuset (`cpuset`) after 100 ms, because entering one costs
//! a grace period of 20 ms and more. A command survives SIGKILL of the `run` around it, unlike a command that is
//! measured: a tool that places a service must not be able to end it. `undo` releases it.
//!
//! # Settings
//!
//! `setting` switches files below `/sys` and `/proc/sys` between the runs of an experiment. Each value is in the journal
//! before it is written first. `undo` restores the original where the file has any of these values.
//!
//! # Schedulers
//!
//! `scheduler` switches the scheduler of all tasks between the runs of an experiment. A `sched_ext` scheduler is loaded as
//! long as its program runs. The program is in the journal before it is started, with a mark for its environment, and is
//! recorded once more with its id. After each step and each run, the kernel's state is read: a scheduler that the kernel
//! has removed meanwhile is an error.
//!
//! `memory_group` is a control group with a memory limit, for programs that may need more memory than there is.
//!
//! # Instances
//!
//! Instances of a service that is measured end with this program, unlike what `run` and `pin` place. `measured_group` is the
//! control group of one: with limits, frozen while the instance is not needed, and killed as a whole. `container` and
//! `domain` remove containers and virtual machines by the names that a journal has. `tool` runs the programs that manage
//! them.
#![deny(unsafe_code)]

pub mod cleanup;
pub mod command_group;
pub mod container;
pub mod cpuset;
pub mod domain;
pub mod error;
mod group_dir;
mod group_end;
mod group_limits;
mod group_place;
pub mod journal;
pub mod measured_group;
pub mod memory_group;
pub mod placement;
pub mod scheduler;
pub mod setting;
pub mod tool;

pub use error::{Error, GroupError, Result};
