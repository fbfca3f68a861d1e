//! Records changes to the machine before they are made, so that they can be undone: when the command ends, on
//! a signal, and after SIGKILL by a later process that reads the journal.
//!
//! A journal is a file of JSON lines: a [`Header`], then one [`Change`] per line, each written completely
//! before the change is made. The owner of the journal holds a lock on it (`flock(2)`), which the kernel
//! releases when the owner ends for any reason. All recorded changes are to state in the kernel's memory,
//! which a reboot clears, so a journal of an earlier boot is only removed.
//!
//! `change` is the data, `directory` where journals are, `pending` reads them, `placed` finds the CPUs that
//! they gave to threads, `undo` restores what they recorded, and `store` writes them. Each uses only those named before it.

mod change;
mod directory;
mod pending;
mod placed;
pub mod report;
mod store;
mod undo;

pub use change::{Change, Header, JOURNAL_SCHEMA, Owner};
pub use directory::{FOLDER_VARIABLE, ROOTS_FOLDER, folder, make_folder};
pub use pending::{Pending, pending};
pub use placed::{PlacedProcess, placed};
pub use store::Journal;
pub use undo::UndoResult;

#[cfg(test)]
mod tests;
