//! Slow nodes for Slurm: a list for `srun -x`, and the lines that drain them. Nothing here runs them.

use super::{
    view::{View, worst},
    words::{figure_name, first_cause, slower},
};
use crate::{
    evaluation::{FleetEvaluation, Node},
    hostlist::{compress, is_name},
};
use manycore_render::figure::percent_number;

/// Longest reason, in characters.
const LONGEST: usize = 160;

/// The slow nodes as a list of hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NodeList {
    /// Slurm's notation: `n[3,7-9]`. Empty where no node is slow.
    pub text: String,
    /// Slow nodes whose names are not safe in a command.
    pub left_out: Vec<String>,
}

/// Lines that drain the slow nodes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DrainLines {
    /// Commands for a shell, one for each reason.
    pub lines: Vec<String>,
    /// Slow nodes whose names are not safe in a command.
    pub left_out: Vec<String>,
}

/// Returns the slow nodes in Slurm's notation, for `srun -x`.
pub fn node_list(evaluation: &FleetEvaluation) -> NodeList {
    let (safe, left_out) = split(&View::new(evaluation).slow);
    NodeList { text: compress(&safe.into_iter().map(|(name, _)| name).collect::<Vec<_>>()), left_out }
}

/// Returns the commands that drain the slow nodes, those with the same reason in one, the slowest first.
pub fn drain(evaluation: &FleetEvaluation) -> DrainLines {
    let (safe, left_out) = split(&View::new(evaluation).slow);
    let mut groups: Vec<(String, Vec<String>)> = Vec::new();
    let mut places = std::collections::HashMap::new();
    for (name, node) in safe {
        let reason = reason(evaluation, node);
        let place = *places.entry(reason.clone()).or_insert(groups.len());
        match groups.get_mut(place) {
            Some((_, names)) => names.push(name),
            None => groups.push((reason, vec![name])),
        }
    }
    let line = |(reason, names): &(String, Vec<String>)| {
        format!("scontrol update nodename={} state=drain reason=\"{reason}\"", compress(names))
    };
    DrainLines { lines: groups.iter().map(line).collect(), left_out }
}

/// Separates nodes with names that are safe in a command from the others. A node of `slurm:n1` is called `n1`.
fn split<'a>(nodes: &[&'a Node]) -> (Vec<(String, &'a Node)>, Vec<String>) {
    let (mut safe, mut left_out) = (Vec::new(), Vec::new());
    for node in nodes {
        let name = node.name.strip_prefix("slurm:").unwrap_or(&node.name);
        if is_name(name) {
            safe.push((name.to_owned(), *node));
        } else {
            left_out.push(node.name.clone());
        }
    }
    (safe, left_out)
}

/// Says why a node is slow: `manycore: stream: triad 9.8 % slower (8.9 to 10.7), stress-ng used 1.9 CPUs`.
fn reason(evaluation: &FleetEvaluation, node: &Node) -> String {
    let mut words = "manycore: slow".to_owned();
    if let Some((figure, one)) = worst(evaluation, node) {
        words = format!("manycore: {} {}", figure_name(figure), slower(one.deficit));
        let (low, high) = one.interval;
        if low.is_finite() && high.is_finite() {
            words += &format!(" ({} to {})", percent_number(low), percent_number(high));
        }
    }
    if let Some(cause) = first_cause(node) {
        words += &format!(", {cause}");
    }
    quotable(&words)
}

/// Replaces characters that have a meaning within double quotes of a shell, or for Slurm, and shortens the rest.
fn quotable(words: &str) -> String {
    let safe = |letter: char| match letter {
        _ if letter.is_ascii_alphanumeric() || " .,:;%()+-_/@".contains(letter) => letter,
        _ => '?',
    };
    words.chars().take(LONGEST).map(safe).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reasons_hold_nothing_that_a_shell_reads() {
        let hostile = "a\"; reboot; `id` $(id) ${x} \\ !x 'y' \n\u{1b}é|&<>*?#~=";
        assert_eq!(quotable(hostile), "a?; reboot; ?id? ?(id) ??x? ? ?x ?y? ????????????");
        assert_eq!(quotable(&"x".repeat(999)).len(), LONGEST);
    }
}
