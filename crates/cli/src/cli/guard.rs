//! The subcommand `guard`: options of the small program, and those that need the view.

use clap::{Arg, ArgAction, ArgMatches, Args, Command, Error, FromArgMatches};
use manycore_guard_daemon::Guard;

/// Options of `guard`.
#[derive(Debug)]
pub struct GuardArgs {
    /// Those of the program `manycore-guard`.
    pub guard: Guard,
    /// Whether the view of `top` is shown.
    pub live: bool,
}

fn live() -> Arg {
    Arg::new("live")
        .long("live")
        .action(ArgAction::SetTrue)
        .help("Show the view of `top` meanwhile; decisions are printed after it")
}

// Derived, a flattened field would lose the description and the examples of its type.
impl Args for GuardArgs {
    fn augment_args(command: Command) -> Command {
        Guard::augment_args(command).arg(live())
    }

    fn augment_args_for_update(command: Command) -> Command {
        Guard::augment_args_for_update(command).arg(live())
    }
}

impl FromArgMatches for GuardArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, Error> {
        Ok(Self { guard: Guard::from_arg_matches(matches)?, live: matches.get_flag("live") })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}
