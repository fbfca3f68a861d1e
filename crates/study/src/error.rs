//! Why a study can fail.

use crate::life::HookKind;
use manycore_control::{scheduler::SchedulerError, setting::SettingError};
use manycore_topology::CpuSet;
use std::{io, process::ExitStatus, time::Duration};

/// Why a study failed.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A command has no program.
    #[error("the command is empty")]
    EmptyCommand,
    /// A command line cannot be split into words.
    #[error("a quote is not closed in the command {0:?}")]
    OpenQuote(String),
    /// The command has no placeholder for its number of workers.
    #[error("the command has no {{workers}} where it takes its number of workers")]
    NoWorkersPlaceholder,
    /// The budget does not suffice for a result.
    #[error("too few runs fit: {fitting} in {} s, and {needed} are needed", budget.as_secs_f64())]
    BudgetTooSmall {
        /// Rounds that fit: `2 pairs`.
        fitting: String,
        /// The smallest number of rounds for a result.
        needed: usize,
        /// The budget.
        budget: Duration,
        /// The smallest budget for a result, in whole seconds.
        needed_seconds: u64,
    },
    /// More candidates than a search can measure.
    #[error("{count} candidates are too many (at most {max})")]
    TooManyCandidates {
        /// Candidates that differ on this machine.
        count: usize,
        /// Limit.
        max: usize,
    },
    /// Nothing to search.
    #[error("no candidate differs from today's behaviour on this machine")]
    NoCandidates,
    /// A service cannot change its memory policy.
    #[error(
        "a service keeps its memory while its CPUs are switched: memory policies need commands that start anew"
    )]
    MemoryOfService,
    /// The load on a service cannot run on the requested CPUs.
    #[error("CPUs {requested} were requested for the load, and only CPUs {usable} can be used here")]
    LoadCpus {
        /// The requested CPUs.
        requested: CpuSet,
        /// Those that this process may use.
        usable: CpuSet,
    },
    /// Tasks have no choice between units of a level whose sharing was to be observed.
    #[error("{}", nothing_to_share(wanted, there, usable))]
    NothingToShare {
        /// The requested level, or `auto`.
        wanted: String,
        /// The levels at which they have a choice.
        there: Vec<&'static str>,
        /// The CPUs that this process may use.
        usable: CpuSet,
    },
    /// A metric has the name of one of the metrics of sharing.
    #[error("--sharing measures {0}: choose another name for your metric")]
    SharingMetric(String),
    /// The port of a service is in use.
    #[error(
        "port {0} is already in use: stop the process that listens there, or give the service another port"
    )]
    PortInUse(u16),
    /// The system refused something that the measurement needs.
    #[error("cannot {action}: {source}")]
    System {
        /// What was tried: `start sysbench`.
        action: String,
        /// Why it failed.
        source: io::Error,
    },
    /// A command did not end in time.
    #[error("{command} did not end within {} s{}", limit.as_secs_f64(),
        if *.killed { "; it did not end on SIGTERM and was killed" } else { "" })]
    Timeout {
        /// The command.
        command: String,
        /// The time limit.
        limit: Duration,
        /// Whether SIGTERM did not end it.
        killed: bool,
    },
    /// A command ended with an error.
    #[error("{command} failed{} ({status}): {output}{}", on_run(*.earlier), after_success(*.earlier))]
    CommandFailed {
        /// The command.
        command: String,
        /// Number of earlier runs of the command, which succeeded.
        earlier: usize,
        /// Its exit status.
        status: ExitStatus,
        /// The end of its standard error.
        output: String,
    },
    /// A hook ended with an error.
    #[error("the {kind} command {command} of {variant} failed ({status}): {output}")]
    HookFailed {
        /// Which one.
        kind: HookKind,
        /// The command.
        command: String,
        /// The variant.
        variant: String,
        /// Its exit status.
        status: ExitStatus,
        /// The end of its standard error.
        output: String,
    },
    /// Caches cannot be dropped.
    #[error("cannot write /proc/sys/vm/drop_caches: {0}")]
    DropCaches(io::Error),
    /// A setting of the machine cannot be switched.
    #[error(transparent)]
    Setting(#[from] SettingError),
    /// A scheduler cannot be switched, or was not in force during a run.
    #[error(transparent)]
    Scheduler(SchedulerError),
    /// The output of a command has no usable figures.
    #[error("{command}: {why}")]
    NoFigures {
        /// The command.
        command: String,
        /// What is wrong with the output.
        why: String,
    },
    /// A service did not become ready in time.
    #[error("the service {service} is not ready after {} s{}", limit.as_secs_f64(),
        probe.as_ref().map(|probe| format!("; {probe} did not succeed")).unwrap_or_default())]
    ServiceNotReady {
        /// The service.
        service: String,
        /// The time limit.
        limit: Duration,
        /// The command that has to succeed.
        probe: Option<String>,
    },
    /// A service ended while it was needed.
    #[error("the service {service} ended ({status}): {output}")]
    ServiceEnded {
        /// The service.
        service: String,
        /// Its exit status.
        status: ExitStatus,
        /// The end of its standard error.
        output: String,
    },
    /// A service that was running before the run ended.
    #[error("the service {0} ended")]
    ServiceGone(String),
    /// The experiment has no sample.
    #[error("nothing was measured")]
    NothingMeasured,
    /// A placement is not possible, or cannot be applied.
    #[error(transparent)]
    Placement(#[from] manycore_control::Error),
    /// The experiment failed.
    #[error(transparent)]
    Experiment(manycore_experiment::Error),
    /// The run was interrupted by a signal.
    #[error("interrupted")]
    Interrupted,
}

/// A result with the error of this crate.
pub type Result<T = (), E = Error> = std::result::Result<T, E>;

impl Error {
    /// Returns the error of a system call, to be completed with its cause: `cannot ACTION: CAUSE`.
    pub(crate) fn system(action: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let action = action.into();
        move |source| Self::System { action, source }
    }

    /// Returns whether the measured command or service failed, so that another one may still be measured.
    pub fn is_of_command(&self) -> bool {
        matches!(
            self,
            Self::Timeout { .. }
                | Self::CommandFailed { .. }
                | Self::NoFigures { .. }
                | Self::ServiceNotReady { .. }
                | Self::ServiceEnded { .. }
                | Self::ServiceGone(_)
                | Self::NothingMeasured
        )
    }
}

impl From<manycore_experiment::Error> for Error {
    fn from(error: manycore_experiment::Error) -> Self {
        match error {
            manycore_experiment::Error::Interrupted => Self::Interrupted,
            other => Self::Experiment(other),
        }
    }
}

impl From<SchedulerError> for Error {
    fn from(error: SchedulerError) -> Self {
        match error {
            SchedulerError::Interrupted => Self::Interrupted,
            other => Self::Scheduler(other),
        }
    }
}

/// Returns ` on its 2nd run`; nothing for the first run.
fn on_run(earlier: usize) -> String {
    let number = earlier + 1;
    let ending = match (number % 10, number % 100) {
        (_, 11..=13) => "th",
        (1, _) => "st",
        (2, _) => "nd",
        (3, _) => "rd",
        _ => "th",
    };
    if earlier == 0 { String::new() } else { format!(" on its {number}{ending} run") }
}

/// A command that fails after it has succeeded has often removed or replaced what it reads.
fn after_success(earlier: usize) -> String {
    let before = match earlier {
        0 => return String::new(),
        1 => "the 1st succeeded".to_owned(),
        _ => format!("the {earlier} runs before succeeded"),
    };
    format!("; {before}: does it change its input? Measure a command that leaves its input as it was")
}

fn nothing_to_share(wanted: &str, there: &[&str], usable: &CpuSet) -> String {
    let there = match there {
        [] => "at no level of this machine".to_owned(),
        there => format!("here at {}", there.join(", ")),
    };
    let what = if wanted == "auto" { "unit" } else { wanted };
    format!(
        "--sharing={wanted}: tasks on CPUs {usable} have no choice between sharing a {what} and using an idle one; they \
         have one {there}"
    )
}

#[cfg(test)]
mod tests {
    use super::{after_success, on_run};

    #[test]
    fn runs_are_numbered() {
        assert_eq!((on_run(0), after_success(0)), (String::new(), String::new()));
        for (earlier, number) in
            [(1, "2nd"), (2, "3rd"), (3, "4th"), (10, "11th"), (20, "21st"), (110, "111th")]
        {
            assert_eq!(on_run(earlier), format!(" on its {number} run"));
        }
        assert!(after_success(1).starts_with("; the 1st succeeded: does it change its input?"));
        assert!(after_success(7).starts_with("; the 7 runs before succeeded: "));
    }
}
