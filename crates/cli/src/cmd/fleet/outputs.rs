//! `manycore fleet run`: any subcommand on many hosts, and what they printed.

use super::{
    collecting::{Sends, collect},
    hosts::Targets,
};
use crate::{
    cli::{Cli, FleetHosts, FleetRunArgs},
    failure::{Failure, Outcome},
    output,
};
use clap::CommandFactory;
use manycore_fleet::{
    folder::{HostOutput, HostState},
    hostlist::{compress, is_name},
    merge::{changed_lines, same_outputs},
};
use manycore_render::{document::Document, terminal::Terminal};
use manycore_text::{names::printable, units::counted};
use serde_json::Value;
use std::{
    collections::BTreeSet,
    path::Path,
    time::{Duration, Instant},
};

/// How long outputs are compared by lines. Others are printed as a whole.
const MOST_DIFF_TIME: Duration = Duration::from_secs(5);

/// Prints equal outputs once, with the hosts that have them, the most frequent output first. Similar ones are shown by the lines in
/// which they differ from it.
///
/// # Errors
/// Those of [`collect`]; [`Failure::Check`] where a host has no result, or manycore failed there.
pub fn run(args: &FleetRunArgs, terminal: Terminal) -> Outcome {
    let word = args.arguments.first().map_or("", String::as_str);
    if !word.starts_with('-') && Cli::command().find_subcommand(word).is_none() {
        let word = printable(word);
        return Err(Failure::input(format!("{word} is no subcommand of manycore: see 'manycore --help'")));
    }
    let found = collected(&args.hosts, args.arguments.clone(), args.out.as_deref(), false)?;
    let outputs = found.outputs.iter().map(|(host, output, code)| (host.clone(), output.clone(), *code));
    let groups = same_outputs(outputs.collect());
    let end = Instant::now() + MOST_DIFF_TIME;
    for group in &groups {
        let first = &groups[0];
        let changed = if group == first { None } else { changed_lines(&first.output, &group.output, end) };
        let hosts = hosts_in_words(&group.hosts);
        let code = if group.code == 0 { String::new() } else { format!(", exit code {}", group.code) };
        let than = match changed.as_deref() {
            Some("") => format!(", the same output as {}", hosts_in_words(&first.hosts)),
            Some(_) => format!(", lines that differ from {}", hosts_in_words(&first.hosts)),
            None => String::new(),
        };
        let mut document = Document::new();
        document.strong(format!("{hosts}{code}{than}"));
        output::document(&document, terminal)?;
        let text = changed.unwrap_or_else(|| String::from_utf8_lossy(&group.output).into_owned());
        if !text.is_empty() {
            output::print(&format!("{}\n", text.trim_end()))?;
        }
    }
    found.end()
}

/// What hosts printed.
#[derive(Debug)]
pub struct Collected {
    /// The hosts that ran it, with what they printed and the exit code.
    pub outputs: Vec<HostOutput>,
    /// The number of hosts.
    hosts: usize,
    /// Whether exit code 1 is an answer, as that of a check.
    is_check: bool,
}

impl Collected {
    /// The outputs of hosts on which manycore did not fail.
    pub fn good(&self) -> impl Iterator<Item = &HostOutput> {
        self.outputs.iter().filter(|(_, _, code)| self.is_good(*code))
    }

    fn is_good(&self, code: i32) -> bool {
        (0..=i32::from(self.is_check)).contains(&code)
    }

    /// Returns the JSON that hosts printed. A host whose output is no JSON, or is not valid, has no result: a note names it.
    pub fn values(&mut self, is_valid: impl Fn(&Value) -> serde_json::Result<bool>) -> Vec<(String, Value)> {
        let mut values = Vec::new();
        let mut unreadable = BTreeSet::new();
        for (host, output, _) in self.good() {
            let read = serde_json::from_slice(output).and_then(|value| Ok((is_valid(&value)?, value)));
            if let Ok((true, value)) = read {
                values.push((host.clone(), value));
            } else {
                unreadable.insert(host.clone());
            }
        }
        if !unreadable.is_empty() {
            let hosts: Vec<String> = unreadable.iter().cloned().collect();
            output::note(&format!("No result that can be read came from {}.", hosts_in_words(&hosts)));
        }
        self.outputs.retain(|(host, ..)| !unreadable.contains(host));
        values
    }

    /// # Errors
    /// [`Failure::Check`] where a host has no result, or manycore failed there.
    pub fn end(&self) -> Outcome {
        let good = self.good().count();
        if good == self.hosts {
            return Ok(());
        }
        let failed = counted(self.hosts - good, "host");
        Err(Failure::Check(format!("{failed} of {} failed, or sent no result", self.hosts)))
    }
}

/// Runs manycore on hosts and returns what it printed. It is kept in `out`, if that is given. `is_check` says whether exit code 1
/// is an answer.
///
/// # Errors
/// Those of [`collect`].
pub fn collected(
    args: &FleetHosts,
    arguments: Vec<String>,
    out: Option<&Path>,
    is_check: bool,
) -> Outcome<Collected> {
    let temporary = match out {
        Some(_) => None,
        None => Some(tempfile::tempdir().map_err(Failure::missing)?),
    };
    let path = out.unwrap_or_else(|| temporary.as_ref().map_or(Path::new("."), |folder| folder.path()));
    let collected = collect(args, &Targets::of(args)?, arguments, Sends::Output, path, &[]);
    let folder = collected.map_err(|failure| match (failure, out) {
        // What was sent is gone with the directory.
        (Failure::Interrupted(_), None) => Failure::Interrupted("interrupted".to_owned()),
        (failure, _) => failure,
    })?;
    let outputs = folder.outputs().map_err(Failure::missing)?;
    let collected = Collected { outputs, hosts: folder.run().hosts.len(), is_check };
    for (host, status) in &folder.run().hosts {
        // Hosts without an output have a note already.
        if let Some(code) =
            status.code.filter(|code| status.state == HostState::Done && !collected.is_good(*code))
        {
            let why =
                if status.why.is_empty() { String::new() } else { format!(": {}", printable(&status.why)) };
            output::note(&format!("{}: exit code {code}{why}", printable(host)));
        }
    }
    Ok(collected)
}

/// Returns the names of hosts, in the notation of Slurm where they can be names of nodes.
pub fn hosts_in_words(hosts: &[String]) -> String {
    let names = if hosts.iter().all(|host| is_name(host)) { compress(hosts) } else { hosts.join(",") };
    let names = printable(&names);
    if hosts.len() == 1 { names } else { format!("{} hosts: {names}", hosts.len()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_without_json_does_not_take_the_results_of_others() {
        let output = |host: &str, text: &str| (host.to_owned(), text.as_bytes().to_vec(), 0);
        let outputs = vec![
            output("n1", "{\"a\": 1}"),
            output("n2", "Welcome!\n{\"a\": 1}"),
            output("n3", "{\"a\": 2}"),
        ];
        let mut found = Collected { outputs, hosts: 3, is_check: false };
        let values = found.values(|value| Ok(value["a"] == 1));
        assert_eq!(values, [("n1".to_owned(), serde_json::json!({"a": 1}))]);
        assert!(found.end().unwrap_err().message().contains("2 hosts of 3 failed"));
    }
}
