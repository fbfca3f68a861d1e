//! What surrounds the runs of a variant: commands before and after them, and failures that do not end the measurement.

use crate::with_workers;
use std::{
    collections::BTreeSet,
    fmt::{self, Display, Formatter},
    os::unix::process::ExitStatusExt,
    process::ExitStatus,
};

/// When a hook runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HookKind {
    /// Once for each variant, before its first run.
    Setup,
    /// Before each run.
    Prepare,
    /// After each run.
    Conclude,
    /// Once for each variant, at the end.
    Cleanup,
}

impl HookKind {
    /// All of them, in their order around a run.
    pub const ALL: [Self; 4] = [Self::Setup, Self::Prepare, Self::Conclude, Self::Cleanup];

    /// Its name: that of the option and of the parameter in the record.
    pub fn name(self) -> &'static str {
        match self {
            Self::Setup => "setup",
            Self::Prepare => "prepare",
            Self::Conclude => "conclude",
            Self::Cleanup => "cleanup",
        }
    }
}

impl Display for HookKind {
    fn fmt(&self, out: &mut Formatter) -> fmt::Result {
        out.write_str(self.name())
    }
}

/// Commands around the runs of a variant, as program and arguments. Their time is in no sample.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Hooks {
    /// Once, before its first run.
    pub setup: Option<Vec<String>>,
    /// Before each run.
    pub prepare: Option<Vec<String>>,
    /// After each run.
    pub conclude: Option<Vec<String>>,
    /// Once, at the end, also after an error or a signal.
    pub cleanup: Option<Vec<String>>,
}

impl Hooks {
    /// Returns a command.
    pub fn command(&self, kind: HookKind) -> Option<&[String]> {
        match kind {
            HookKind::Setup => self.setup.as_deref(),
            HookKind::Prepare => self.prepare.as_deref(),
            HookKind::Conclude => self.conclude.as_deref(),
            HookKind::Cleanup => self.cleanup.as_deref(),
        }
    }

    /// Returns the hooks with `change` made to each command.
    ///
    /// # Errors
    /// Those of `change`.
    pub fn try_map<E>(&self, change: impl Fn(&[String]) -> Result<Vec<String>, E>) -> Result<Self, E> {
        let changed = |command: &Option<Vec<String>>| command.as_deref().map(&change).transpose();
        Ok(Self {
            setup: changed(&self.setup)?,
            prepare: changed(&self.prepare)?,
            conclude: changed(&self.conclude)?,
            cleanup: changed(&self.cleanup)?,
        })
    }

    /// Returns the hooks with the number of workers in place of `{workers}`.
    #[must_use]
    pub fn with_workers(&self, workers: usize) -> Self {
        let filled = |command: &Option<Vec<String>>| {
            command.as_deref().map(|command| with_workers(command, workers).0)
        };
        Self {
            setup: filled(&self.setup),
            prepare: filled(&self.prepare),
            conclude: filled(&self.conclude),
            cleanup: filled(&self.cleanup),
        }
    }
}

/// Failures of the command that count as runs, instead of ending the measurement.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum IgnoredFailures {
    /// None.
    #[default]
    None,
    /// Every failure.
    All,
    /// Those with these exit codes. A signal has the code that a shell gives it, 128 and its number.
    Codes(BTreeSet<i32>),
}

impl IgnoredFailures {
    /// Whether a run that ended like this counts.
    pub fn counts(&self, status: ExitStatus) -> bool {
        status.success()
            || match self {
                Self::None => false,
                Self::All => true,
                Self::Codes(codes) => codes.contains(&exit_code(status)),
            }
    }
}

/// Returns an exit code as a shell does: 128 and the number of the signal that ended a process.
pub(crate) fn exit_code(status: ExitStatus) -> i32 {
    status.code().or(status.signal().map(|signal| 128 + signal)).unwrap_or(-1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_listed_exit_codes_count() {
        let ended = |code: i32| ExitStatus::from_raw(code << 8);
        let killed = ExitStatus::from_raw(9);
        let codes = IgnoredFailures::Codes([1, 137].into());
        for (ignored, counted) in [
            (&IgnoredFailures::None, [true, false, false, false]),
            (&IgnoredFailures::All, [true, true, true, true]),
            (&codes, [true, true, false, true]),
        ] {
            assert_eq!([ended(0), ended(1), ended(2), killed].map(|status| ignored.counts(status)), counted);
        }
    }

    #[test]
    fn hooks_have_the_number_of_workers() {
        let words = |line: &str| Some(line.split(' ').map(str::to_owned).collect::<Vec<_>>());
        let hooks =
            Hooks { prepare: words("split -n {workers} big"), cleanup: words("rm x"), ..Hooks::default() };
        let four = hooks.with_workers(4);
        assert_eq!((four.prepare, four.cleanup), (words("split -n 4 big"), words("rm x")));
        assert_eq!(hooks.command(HookKind::Setup), None);
    }
}
