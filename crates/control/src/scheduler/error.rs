//! Why a scheduler cannot be switched.

use crate::Error;
use std::{io, process::ExitStatus, time::Duration};

/// Why a scheduler cannot be switched, or was not in force during a run.
#[derive(Debug, thiserror::Error)]
pub enum SchedulerError {
    /// The kernel cannot load schedulers.
    #[error(
        "cannot load the scheduler '{label}': this kernel has no sched_ext (/sys/kernel/sched_ext is missing); it needs \
         Linux 6.12 or newer with CONFIG_SCHED_CLASS_EXT. Here, only 'kernel' can be measured"
    )]
    Absent {
        /// What the user calls the scheduler.
        label: String,
    },
    /// This process may not load schedulers.
    #[error("cannot load the scheduler '{label}': that needs root (CAP_BPF or CAP_SYS_ADMIN); run with sudo")]
    NotPermitted {
        /// What the user calls the scheduler.
        label: String,
    },
    /// A scheduler is loaded that this run has not loaded.
    #[error(
        "the sched_ext scheduler '{name}' is loaded already: stop its program first (for example 'systemctl stop scx', or \
         'manycore undo' if manycore left it behind)"
    )]
    Loaded {
        /// The kernel's name of it.
        name: String,
    },
    /// Another run switches schedulers.
    #[error("another manycore switches schedulers at present ({journal}): wait for its end")]
    InUse {
        /// Name of its journal.
        journal: String,
    },
    /// There is no such program.
    #[error(
        "there is no program '{program}' for the scheduler '{label}'; write kernel, cluster:spread, cluster:pack, or an \
         installed program that loads a sched_ext scheduler, such as scx_lavd"
    )]
    NoProgram {
        /// The program.
        program: String,
        /// What the user calls the scheduler.
        label: String,
    },
    /// A program cannot be started.
    #[error("cannot start the program of the scheduler '{label}': {error}")]
    Start {
        /// What the user calls the scheduler.
        label: String,
        /// The error of the system call.
        error: io::Error,
    },
    /// A program ended before its scheduler was loaded.
    #[error(
        "the program of the scheduler '{label}' ended before its scheduler was loaded ({status}): {output}"
    )]
    Ended {
        /// What the user calls the scheduler.
        label: String,
        /// Its exit status.
        status: ExitStatus,
        /// The end of its standard error.
        output: String,
    },
    /// A program does not load a scheduler.
    #[error("the program of the scheduler '{label}' loaded none within {} s: {output}", .limit.as_secs())]
    NotLoaded {
        /// What the user calls the scheduler.
        label: String,
        /// The time limit.
        limit: Duration,
        /// The end of its standard error.
        output: String,
    },
    /// A program loaded another scheduler than expected.
    #[error(
        "the program of '{label}' loaded the scheduler '{found}'; one named '{expected}...' was expected"
    )]
    OtherName {
        /// What the user calls the scheduler.
        label: String,
        /// How its name begins.
        expected: String,
        /// The kernel's name of the one that is loaded.
        found: String,
    },
    /// A scheduler was not in force until the end of a run.
    #[error(
        "the scheduler '{label}' was not in force to the end of the run: {found}; the run does not count: {output}"
    )]
    ThrownOut {
        /// What the user calls the scheduler.
        label: String,
        /// What was found instead.
        found: String,
        /// The end of its program's standard error.
        output: String,
    },
    /// Another program loaded a scheduler while the kernel's own one was to be measured.
    #[error(
        "another program loaded the scheduler '{name}' during a run of 'kernel', which does not count; stop it"
    )]
    Foreign {
        /// The kernel's name of it.
        name: String,
    },
    /// A scheduler is still loaded after the end of its program.
    #[error("the scheduler '{name}' is still loaded {} s after the end of its program: {found}", .limit.as_secs())]
    StillLoaded {
        /// The kernel's name of it, or the label where none is known.
        name: String,
        /// The state of `sched_ext`.
        found: String,
        /// The time limit.
        limit: Duration,
    },
    /// The caller gave up.
    #[error("interrupted")]
    Interrupted,
    /// The journal or the cleanup process cannot be used.
    #[error(transparent)]
    Control(#[from] Error),
}

impl SchedulerError {
    /// Whether the request is wrong: another one can succeed on this machine.
    pub fn is_request(&self) -> bool {
        matches!(self, Self::NoProgram { .. })
    }

    /// Whether a scheduler failed that the machine could have loaded.
    pub fn is_of_measurement(&self) -> bool {
        matches!(
            self,
            Self::Start { .. }
                | Self::Ended { .. }
                | Self::NotLoaded { .. }
                | Self::OtherName { .. }
                | Self::ThrownOut { .. }
                | Self::Foreign { .. }
                | Self::StillLoaded { .. }
        )
    }
}
