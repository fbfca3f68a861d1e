//! The subcommand `config`, which shows a user's defaults.

use super::Format;
use clap::Args;

/// Show your defaults and where they come from
///
/// Defaults of options come from ~/.config/manycore/config.toml and from variables such as `MANYCORE_BUDGET`.
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  manycore config                 each setting, its value, and the file or variable that sets it
  manycore config --example       a file with all settings, as comments
  MANYCORE_BUDGET=5m manycore config

The command line comes before variables, variables before the file, the file before the built-in default. A setting is \
the default of the option of that name, for all subcommands that have it, or for one in a table such as [compare]. \
$XDG_CONFIG_HOME replaces ~/.config. The file is only used if no other user can change it: it and the directories above \
it belong to root or to you, and others cannot write to them.

Variables: MANYCORE_BUDGET, MANYCORE_EQUIVALENT, MANYCORE_PLACE, MANYCORE_RESULTS, MANYCORE_FORMAT, MANYCORE_COLOR, \
MANYCORE_VERBOSE, MANYCORE_QUIET, MANYCORE_SEED.")]
pub struct Config {
    /// Print a file with all settings, as comments
    #[arg(long)]
    pub example: bool,
    /// Output format
    #[arg(long, value_enum, default_value_t = Format::Text, conflicts_with = "example")]
    pub format: Format,
}
