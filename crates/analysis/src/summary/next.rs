//! The commands that follow from a section.

use crate::{Comparison, Disturbance};
use manycore_experiment::{
    Record,
    record::{Experiment, SAME_NAME, parameter, variant_label},
};
use manycore_text::names::printable_text;

/// Stands for a command of the reader's choice.
const PLACEHOLDER: &str = "COMMAND";

/// The command that measures sections of an evaluation again, without their names.
pub(super) const AGAIN: &str = "manycore eval --standard --only ";

/// Share of CPU time of other work from which it is worth a look what it is.
const OTHER_WORK: f64 = 0.05;

/// Returns what a command does, as a phrase that follows it.
pub(super) fn purpose(command: &str) -> &'static str {
    match command.split(' ').nth(1).unwrap_or_default() {
        "audit" => "finds processes that compete for the same CPUs",
        "eval" => "measures these sections again, for narrower intervals",
        "compare" => "measures more pairs, for an answer",
        "scale" => "measures how a command of yours scales over workers",
        "tune" => "searches the best placement of a command",
        "falseshare" => "finds the cache lines that threads share",
        "topo" => "shows CPUs, caches and memory nodes",
        "run" => "runs the command with this placement",
        "qos" => "checks the limits again",
        _ => "",
    }
}

/// Returns the command that shows what else runs on the machine, where that took CPU time.
pub(super) fn audit(disturbance: &Disturbance) -> Option<String> {
    disturbance.other_work.filter(|share| *share > OTHER_WORK).map(|_| "manycore audit".to_owned())
}

/// Returns the command that measures sections of an evaluation again, for narrower intervals. `None` where the record
/// is not one of an evaluation.
pub(super) fn evaluate_again(record: &Record, sections: &str) -> Option<String> {
    (record.subcommand == "eval").then(|| format!("{AGAIN}{sections}"))
}

/// Returns a command of `manycore` for the measured command, or for one of the reader's choice where the record does
/// not measure one.
pub(super) fn for_command(options: &str, record: &Record) -> Option<String> {
    let measured = ["compare", "scale", "tune"].contains(&record.subcommand.as_str());
    let subject = if measured { measured_command(record)? } else { PLACEHOLDER };
    Some(format!("manycore {options} -- {subject}"))
}

/// Returns the command that compares the same variants again with `pairs` pairs. `None` where the record does not
/// show all that distinguishes the variants.
pub(super) fn compare_again(record: &Record, comparison: &Comparison, pairs: usize) -> Option<String> {
    let subject = measured_command(record)?;
    let names = comparison.variants.iter().map(|variant| variant.name.trim_end_matches(SAME_NAME));
    let names: Vec<&str> = names.collect();
    let place = comparison.variants.iter().position(|variant| variant.treatment == comparison.reference)?;
    let reference = if place == 0 { String::new() } else { format!(" --reference {}", variant_label(place)) };
    let [a, b] = names[..] else { return several_again(&names, &format!("{pairs}{reference}")) };
    let a = place_of(a, subject).map(|place| option("--a", place))?;
    let b = match place_of(b, subject) {
        Some(place) => option("--b", place),
        None => format!(" --vs {}", quoted(bare(b)?)),
    };
    Some(format!("manycore compare --pairs {pairs}{reference}{a}{b} -- {subject}"))
}

/// Returns the command that compares more than two commands again.
fn several_again(names: &[&str], options: &str) -> Option<String> {
    let commands: Option<Vec<String>> = names.iter().map(|name| bare(name).map(quoted)).collect();
    Some(format!("manycore compare --pairs {options} {}", commands?.join(" ")))
}

/// Returns a command without a placement and an environment, which could not be told from the command itself.
fn bare(name: &str) -> Option<&str> {
    words(name).filter(|name| !name.ends_with(')') && !has_assignment(name))
}

/// Returns the placement in the name of a variant: nothing for the bare command. `None` where the name is another one.
fn place_of<'a>(name: &'a str, command: &str) -> Option<&'a str> {
    let rest = name.strip_prefix(command)?;
    let place = match rest {
        "" => return Some(""),
        rest => rest.strip_prefix(" (")?.strip_suffix(')')?,
    };
    let plain = |c: char| c.is_ascii_alphanumeric() || "=@+,-.".contains(c);
    (!place.is_empty() && place.chars().all(plain)).then_some(place)
}

fn option(name: &str, value: &str) -> String {
    if value.is_empty() { String::new() } else { format!(" {name} {value}") }
}

fn has_assignment(command: &str) -> bool {
    command.split(' ').next().is_some_and(|word| word.contains('='))
}

/// Returns the measured command as typed in a shell. `None` where its metrics were read from its output, or where it is
/// the load on a service, because the record does not show all options.
fn measured_command(record: &Record) -> Option<&str> {
    let is_read_or_load = |experiment: &Experiment| {
        experiment.metrics.first().is_some_and(|metric| metric.name != "wall")
            || experiment.parameters.contains_key(parameter::SERVICE)
    };
    if record.experiments.iter().any(is_read_or_load) {
        return None;
    }
    words(&record.subject)
}

/// Returns a command line whose words a shell takes as they are. A record may come from elsewhere: in one that was
/// written by hand, `;` or `$(...)` would make the copied line run something else.
fn words(line: &str) -> Option<&str> {
    let mut quote = None;
    for c in line.chars() {
        match (quote, c) {
            (None, '\'' | '"') => quote = Some(c),
            (Some(open), c) if c == open => quote = None,
            (Some('"'), '$' | '`' | '\\' | '!') => return None,
            (None, c) if !(c.is_alphanumeric() || " %+,-./:=@_^{}".contains(c)) => return None,
            _ => {}
        }
    }
    let whole = quote.is_none() && !line.trim().is_empty();
    (whole && !line.contains(char::is_control) && printable_text(line) == line).then_some(line)
}

/// Returns a command line as one word of a shell.
fn quoted(line: &str) -> String {
    format!("'{}'", line.replace('\'', r"'\''"))
}

/// Returns a command from the record where a shell takes its words as they are.
pub(super) fn from_record(command: &str) -> Option<String> {
    words(command).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_words_that_a_shell_takes_as_they_are_can_be_copied() {
        for good in
            ["gzip -9 -k -c big.log", "sh -c 'a; b'", "make -j{workers}", "printf \"it's\"", "LANG=C ls"]
        {
            assert_eq!(words(good), Some(good));
        }
        let bad = [
            "ls; rm -rf x",
            "ls $(id)",
            "a | b",
            "a \"$(id)\"",
            "a\nb",
            "a 'b",
            "a > b",
            "a & b",
            "",
            " ",
            "a\u{202e}b",
        ];
        for bad in bad {
            assert_eq!(words(bad), None, "{bad:?}");
        }
        assert_eq!(quoted("sh -c 'a'"), r"'sh -c '\''a'\'''");
    }

    #[test]
    fn a_placement_is_read_from_the_name_of_a_variant() {
        assert_eq!(place_of("./a 1 (spread@llc+nosmt)", "./a 1"), Some("spread@llc+nosmt"));
        assert_eq!(place_of("./a 1", "./a 1"), Some(""));
        for other in ["./a 1 (close, memory bind)", "X=1 ./a 1", "./a 1 ($(id))", "./b"] {
            assert_eq!(place_of(other, "./a 1"), None, "{other}");
        }
    }
}
