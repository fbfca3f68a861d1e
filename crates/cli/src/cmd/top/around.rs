//! `--live` of other subcommands: the view of their processes while they work.

use crate::{
    cli::{Cli, Subcommand},
    failure::{Failure, Outcome},
    terminal::stdout_is_screen,
};
use manycore_render::terminal::Terminal;
use std::{
    env::{args_os, current_exe},
    ffi::OsString,
};

/// Runs this command line below `top`, without the option; what it prints is shown after the view.
///
/// # Errors
/// There is no terminal; those of the subcommand.
pub fn run(terminal: Terminal) -> Outcome {
    if !stdout_is_screen() {
        return Err(Failure::input(
            "--live needs a terminal on standard output, and TERM must name its kind",
        ));
    }
    let Cli { subcommand: Subcommand::Top(args), .. } = Cli::from_words(&words(args_os().skip(1)))? else {
        return Err(Failure::input("--live cannot be used here"));
    };
    super::run(&args, terminal)
}

/// Returns the command line of `top` for the words of another subcommand.
fn words(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut given: Vec<OsString> = given.collect();
    // An option of a measured command is not ours.
    let own = given.iter().position(|word| word == "--").unwrap_or(given.len());
    if let Some(at) = given[..own].iter().position(|word| word == "--live") {
        given.remove(at);
    }
    let this = current_exe().ok().filter(|path| path.exists());
    // The file may have been replaced since.
    let this = this.map_or_else(|| "/proc/self/exe".into(), OsString::from);
    ["manycore", "top", "--"].map(OsString::from).into_iter().chain([this]).chain(given).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_own_option_is_left_out() {
        let words = |line: &str| {
            let words = words(line.split(' ').map(OsString::from));
            words[4..].iter().map(|word| word.to_str().unwrap().to_owned()).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(words("run --live -- x --live"), "run -- x --live");
        assert_eq!(words("eval --live --quick"), "eval --quick");
    }
}
