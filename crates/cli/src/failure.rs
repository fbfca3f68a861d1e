//! The reasons for which a run fails, and their exit codes.

mod density;
mod irq;
mod qos;
mod sched;

use crate::output;
use manycore_control::setting::SettingError;
use manycore_evaluate::LoadOption;
use std::{
    fmt::Display,
    os::unix::process::ExitStatusExt,
    process::{ExitCode, ExitStatus},
};

/// The reason for which a run failed. Each variant has one documented exit code and one message for standard
/// error.
#[derive(Debug)]
pub enum Failure {
    /// 1: the requested check failed.
    Check(String),
    /// 2: the command line or an input file is wrong.
    Input(String),
    /// 3: a required permission, file system or program is missing, or an output cannot be written.
    Missing(String),
    /// 4: a measured command, worker or scheduler failed.
    Measured(String),
    /// 130: interrupted; the results so far are saved.
    Interrupted(String),
    /// The exit status of a command that was run on behalf of the user. The command has printed its own
    /// messages.
    Status(u8),
    /// The pipe to which the output is written was closed (`manycore topo | head`); nothing is printed.
    ReaderGone,
}

/// The result of a subcommand or of a step of it.
pub type Outcome<T = ()> = Result<T, Failure>;

impl Failure {
    /// Prints the message on standard error and returns the exit code.
    pub fn report(&self) -> ExitCode {
        let code = match self {
            Self::Check(_) => 1,
            Self::Input(_) => 2,
            Self::Missing(_) => 3,
            Self::Measured(_) => 4,
            Self::Interrupted(_) => 130,
            Self::Status(code) => return ExitCode::from(*code),
            Self::ReaderGone => return ExitCode::SUCCESS,
        };
        output::note(&format!("manycore: {}", self.message()));
        ExitCode::from(code)
    }

    /// Returns the message; empty for variants that print nothing.
    pub fn message(&self) -> &str {
        match self {
            Self::Check(message)
            | Self::Input(message)
            | Self::Missing(message)
            | Self::Measured(message)
            | Self::Interrupted(message) => message,
            Self::Status(_) | Self::ReaderGone => "",
        }
    }

    /// Returns the failure of an input that cannot be used: exit code 2.
    pub fn input(message: impl Display) -> Self {
        Self::Input(message.to_string())
    }

    /// Returns the failure of something that the machine lacks: exit code 3.
    pub fn missing(message: impl Display) -> Self {
        Self::Missing(message.to_string())
    }
}

/// Returns the outcome of a command that was run on behalf of the user: its exit status, as shells convert it (the exit
/// code, or 128 + N after signal N), if that is not 0. `reported` is the outcome of what was done around it.
///
/// # Errors
/// [`Failure::Status`], or the failure of `reported`.
pub fn of_command(status: ExitStatus, reported: Outcome) -> Outcome {
    let code = status.code().or_else(|| Some(128 + status.signal()?)).map_or(4, |code| code as u8);
    match (code, reported) {
        (0, reported) => reported,
        (code, Ok(())) => Err(Failure::Status(code)),
        (code, Err(failure)) => {
            failure.report();
            Err(Failure::Status(code))
        }
    }
}

impl From<manycore_falseshare::Error> for Failure {
    fn from(error: manycore_falseshare::Error) -> Self {
        use manycore_falseshare::Error;
        match error {
            Error::OtherArchitecture { .. } | Error::Request(_) => Self::input(error),
            Error::NoEvents(_) => Self::missing(format!("{error}; --engine emulation needs no such events")),
            Error::NoEmulator(_) | Error::NoPlugins(_) => Self::missing(format!(
                "{error}; --engine sampling needs no emulator, but a CPU with Intel PEBS or AMD IBS"
            )),
            _ => Self::missing(error),
        }
    }
}

impl From<manycore_linux::input_file::InputError> for Failure {
    fn from(error: manycore_linux::input_file::InputError) -> Self {
        Self::input(error)
    }
}

impl From<manycore_guard_daemon::Failure> for Failure {
    fn from(failure: manycore_guard_daemon::Failure) -> Self {
        let message = failure.to_string();
        match failure.code() {
            0 => Self::ReaderGone,
            2 => Self::Input(message),
            130 => Self::Interrupted(message),
            _ => Self::Missing(message),
        }
    }
}

impl From<manycore_vm::Error> for Failure {
    fn from(error: manycore_vm::Error) -> Self {
        use manycore_vm::{Error, error::VirshError};
        match error {
            Error::Plan(_)
            | Error::Virsh(VirshError::NoDomain(_))
            | Error::Xml { .. }
            | Error::NotRunning { .. }
            | Error::UnnamedThreads { .. }
            | Error::System(_) => Self::input(error),
            Error::Virsh(_) | Error::NoResctrl(_) | Error::Resctrl(_) => Self::missing(error),
        }
    }
}

impl From<manycore_spawn::Error> for Failure {
    fn from(error: manycore_spawn::Error) -> Self {
        use manycore_spawn::Error;
        match error {
            Error::NotStartedByTool => Self::input(error),
            Error::Cleanup(error) => error.into(),
            Error::Failed(message) => Self::Measured(message),
            Error::Interrupted => Self::Interrupted(error.to_string()),
            error if error.is_missing() => Self::missing(error),
            error => Self::input(error),
        }
    }
}

impl From<manycore_experiment::Error> for Failure {
    fn from(error: manycore_experiment::Error) -> Self {
        use manycore_experiment::Error;
        match error {
            Error::Unavailable(message) => Self::Missing(message),
            Error::InvalidMetric(message) => Self::Input(message),
            Error::Interrupted => Self::Interrupted(error.to_string()),
            error => Self::Measured(error.to_string()),
        }
    }
}

impl From<manycore_control::Error> for Failure {
    fn from(error: manycore_control::Error) -> Self {
        if error.is_request() { Self::input(error) } else { Self::missing(error) }
    }
}

impl From<SettingError> for Failure {
    fn from(error: SettingError) -> Self {
        if error.is_request() {
            Self::input(error)
        } else if error.is_of_measurement() {
            Self::Measured(error.to_string())
        } else {
            Self::missing(error)
        }
    }
}

impl From<manycore_study::Error> for Failure {
    fn from(error: manycore_study::Error) -> Self {
        use manycore_study::Error as E;
        match error {
            E::Placement(cause) => cause.into(),
            E::Experiment(cause) => cause.into(),
            E::Interrupted => Self::Interrupted(error.to_string()),
            E::System { .. } => Self::missing(error),
            E::BudgetTooSmall { needed_seconds, .. } => {
                Self::input(format!("{error}: use --budget {needed_seconds}s"))
            }
            E::TooManyCandidates { .. } => {
                Self::input(format!("{error}; give fewer with --workers, --place, --memory and --settings"))
            }
            E::NoCandidates => Self::input(format!("{error}; give other --workers or --place")),
            E::NoWorkersPlaceholder => {
                Self::input(format!("{error}: put it there, or run copies of the command with --copies"))
            }
            E::Setting(cause) => cause.into(),
            E::Scheduler(cause) if cause.is_request() => Self::input(cause),
            E::Scheduler(cause) if cause.is_of_measurement() => Self::Measured(cause.to_string()),
            E::Scheduler(cause) => Self::missing(cause),
            E::DropCaches(_) => Self::missing(format!("{error}; --drop-caches needs root")),
            E::MemoryOfService => Self::input(format!("memory policies do not work with --service: {error}")),
            E::LoadCpus { requested, usable } => {
                Self::input(format!("--load-cpus {requested}: only CPUs {usable} can be used here"))
            }
            E::EmptyCommand
            | E::OpenQuote(_)
            | E::PortInUse(_)
            | E::NothingToShare { .. }
            | E::SharingMetric(_) => Self::input(error),
            E::Timeout { .. } => Self::Measured(format!("{error} (--timeout sets the limit)")),
            E::CommandFailed { .. }
            | E::HookFailed { .. }
            | E::NoFigures { .. }
            | E::ServiceNotReady { .. }
            | E::ServiceEnded { .. }
            | E::ServiceGone(_)
            | E::NothingMeasured => Self::Measured(error.to_string()),
        }
    }
}

impl From<manycore_evaluate::Error> for Failure {
    fn from(error: manycore_evaluate::Error) -> Self {
        use manycore_evaluate::Error as Cause;
        match error {
            Cause::InvalidOption { option, reason } => Self::Input(format!("{} {reason}", flag(option))),
            Cause::Conflict { option, other, reason } => {
                Self::Input(format!("{} cannot be combined with {}: {reason}", flag(option), flag(other)))
            }
            Cause::UnknownLoad { .. } => Self::Input(format!("{error} ('manycore bench' lists all)")),
            Cause::Unavailable(message) => Self::Missing(message),
            Cause::Failed(message) => Self::Measured(message),
            Cause::Interrupted => Self::Interrupted(error.to_string()),
        }
    }
}

/// Returns the flag of `bench` that sets an option.
fn flag(option: LoadOption) -> &'static str {
    match option {
        LoadOption::Cpus => "--cpus",
        LoadOption::Workers => "--workers",
        LoadOption::Seconds => "--budget",
        LoadOption::Kernels => "--kernel",
        LoadOption::Array => "--array",
        LoadOption::Nodes => "--nodes",
        LoadOption::Unixbench => "--unixbench",
        LoadOption::UnixbenchFolder => "--unixbench-dir",
    }
}
