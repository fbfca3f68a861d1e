//! `manycore --help`: the subcommands in groups, from the definition of the command line.

use super::{example, headed, wrap::wrap};
use clap::{Command, builder::StyledStr};

/// Groups of subcommands, in the order in which they are shown. Subcommands that are in none are shown last.
const GROUPS: [(&str, &[&str]); 5] = [
    ("Measure:", &["eval", "bench", "compare", "scale", "tune", "spawn", "density"]),
    ("Look:", &["topo", "top", "trace", "audit", "falseshare", "report", "doctor"]),
    ("Place:", &["plan", "run", "pin", "irq", "sched", "undo"]),
    ("Isolate:", &["qos", "vm", "guard"]),
    ("Many hosts:", &["fleet"]),
];

/// Heading of the other subcommands.
const OTHER: &str = "Other:";

const EXAMPLES: &str = "\
  manycore eval   evaluate this machine in 90 seconds
  manycore compare './old' './new'   which one is faster?
  manycore tune -- ./solver   find its best placement";

const HELP: &str = "\
'manycore SUBCOMMAND --help' has examples and all options of a subcommand, 'manycore SUBCOMMAND -h' a summary, and \
'manycore config' shows your defaults.";

/// Returns the help of the program.
pub(super) fn overview(program: &Command, width: usize) -> StyledStr {
    let about = program.get_about().map(ToString::to_string).unwrap_or_default();
    let examples = example::section("Examples:", &example::parse(EXAMPLES), width);
    let mut text = format!(
        "{}\n{}",
        wrap(&format!("manycore: {about}"), width),
        "Usage: manycore SUBCOMMAND [OPTIONS] [-- COMMAND]\n\n",
    );
    text += &examples;
    for (heading, commands) in groups(program) {
        text += &format!("\n{heading}\n");
        for command in commands {
            let about = command.get_about().map(ToString::to_string).unwrap_or_default();
            text += &wrap(&format!("  {:<11}  {about}", command.get_name()), width);
        }
    }
    let after = program.get_after_help().map(ToString::to_string).unwrap_or_default();
    text += &format!("\n{}\n{}", wrap(HELP, width), wrap(&after, width));
    headed(text.trim_end())
}

/// Returns the visible subcommands in their groups. Each is in exactly one group.
fn groups(program: &Command) -> Vec<(&'static str, Vec<&Command>)> {
    let visible =
        || program.get_subcommands().filter(|command| !command.is_hide_set() && command.get_name() != "help");
    let grouped = |name: &str| GROUPS.iter().any(|(_, names)| names.contains(&name));
    let named = |names: &[&str]| {
        names.iter().filter_map(|name| visible().find(|known| known.get_name() == *name)).collect()
    };
    let mut groups: Vec<_> = GROUPS.iter().map(|(heading, names)| (*heading, named(names))).collect();
    groups.push((OTHER, visible().filter(|command| !grouped(command.get_name())).collect()));
    groups
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::Cli;
    use clap::CommandFactory;

    #[test]
    fn every_subcommand_is_in_one_group_and_takes_one_line() {
        let program = Cli::command();
        let all = groups(&program);
        let shown: Vec<&str> =
            all.iter().flat_map(|(_, commands)| commands).map(|command| command.get_name()).collect();
        let visible = program.get_subcommands().filter(|command| !command.is_hide_set());
        for command in visible {
            let name = command.get_name();
            assert_eq!(shown.iter().filter(|shown| **shown == name).count(), 1, "{name}");
        }
        for width in [60, 80, 100] {
            let text = overview(&program, width).to_string();
            for name in &shown {
                let line = text.lines().find(|line| line.starts_with(&format!("  {name:<11}  "))).unwrap();
                let about = program.find_subcommand(name).unwrap().get_about().unwrap().to_string();
                assert!(line.ends_with(&about), "{line}");
            }
            assert!(text.lines().all(|line| line.chars().count() <= width), "{text}");
        }
    }

    #[test]
    fn the_overview_matches_its_snapshot() {
        insta::assert_snapshot!(overview(&Cli::command(), 80).to_string());
    }
}
