//! `manycore fleet topo`: how the hardware of hosts differs.

use super::outputs::{collected, hosts_in_words};
use crate::{
    cli::FleetTopo,
    failure::{Failure, Outcome},
    output,
};
use manycore_fleet::{
    merge::{Difference, differences},
    properties::flag_difference,
};
use manycore_render::{
    document::Document,
    table::{Align::Left, Table},
    terminal::Terminal,
};
use manycore_text::{names::printable, units::counted};
use manycore_topology::Machine;
use serde_json::Value;
use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

/// Properties that are not compared here: those that differ on each host or follow from other processes, and [`FLAGS`].
const OWN: [&str; 3] = ["system.hostname", "allowed", FLAGS];
/// The flags of CPUs: a long list, of which the difference is shown.
const FLAGS: &str = "system.cpu_flags";
/// Longest value that is shown, in characters.
const LONGEST: usize = 60;
/// Most CPUs of a machine. The kernel has at most 8,192 (`CONFIG_NR_CPUS`).
const MOST_CPUS: usize = 1 << 16;

/// Shows the machine that most hosts are, and what differs on others.
///
/// # Errors
/// Those of collecting; [`Failure::Check`] where a host has no result.
pub fn run(args: &FleetTopo, terminal: Terminal) -> Outcome {
    let arguments = ["topo", "--format", "json"].map(str::to_owned).to_vec();
    let mut found = collected(&args.hosts, arguments, None, false)?;
    let machines = found.values(|value| {
        let machine: Machine = serde_json::from_value(value.clone())?;
        Ok(machine.online.len() <= MOST_CPUS)
    });
    let (mut differences, left_out) = differences(&machines, &OWN);
    differences.extend(different_flags(&machines));
    let mut document = Document::new();
    if let Some((host, value)) = machines.first() {
        document.strong(format!("{}, of {}", printable(host), counted(machines.len(), "host")));
        let machine: Machine = serde_json::from_value(value.clone()).map_err(Failure::missing)?;
        document.append(manycore_topo::text::render(&machine));
    }
    if differences.is_empty() && machines.len() > 1 {
        document.paragraph(format!("{} have the same hardware.", counted(machines.len(), "host")));
    } else if !differences.is_empty() {
        let mut table = Table::new("what differs", &[("property", Left), ("value", Left), ("hosts", Left)]);
        for difference in &differences {
            for (index, (value, hosts)) in difference.values.iter().enumerate() {
                let path = if index == 0 { printable(&difference.path) } else { String::new() };
                table.rows.push(vec![path, shortened(value), hosts_in_words(hosts)]);
            }
        }
        document.table(table);
    }
    if left_out > 0 {
        document.paragraph(format!("{left_out} more properties differ."));
    }
    output::document(&document, terminal)?;
    found.end()
}

/// Returns how the flags of CPUs differ from those of most hosts. `None` where they do not.
fn different_flags(machines: &[(String, Value)]) -> Option<Difference> {
    let mut hosts_by_flags: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (host, machine) in machines {
        let flags = machine["system"]["cpu_flags"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let flags: BTreeSet<&str> = flags.collect();
        let flags: Vec<&str> = flags.into_iter().collect();
        hosts_by_flags.entry(flags.join(" ")).or_default().push(host.clone());
    }
    let mut found: Vec<(String, Vec<String>)> = hosts_by_flags.into_iter().collect();
    found.sort_by_key(|(_, hosts)| Reverse(hosts.len()));
    let usual = found.first().filter(|_| found.len() > 1)?.0.clone();
    let values = found.into_iter().map(|(flags, hosts)| (flag_difference(&usual, &flags), hosts)).collect();
    Some(Difference { path: FLAGS.to_owned(), values })
}

fn shortened(value: &str) -> String {
    let shown = printable(value);
    if shown.chars().count() <= LONGEST {
        shown
    } else {
        shown.chars().take(LONGEST).chain("...".chars()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Regression: hosts were said to have the same hardware although their CPUs had other flags.
    #[test]
    fn flags_that_some_hosts_lack_are_a_difference() {
        let host = |name: &str, flags: &[&str]| (name.to_owned(), json!({"system": {"cpu_flags": flags}}));
        let same = [host("n1", &["avx2", "fma"]), host("n2", &["fma", "avx2"])];
        assert_eq!(different_flags(&same), None);
        let other = [same.as_slice(), &[host("n3", &["avx2", "sgx"])]].concat();
        let values = different_flags(&other).unwrap().values;
        let expected = [("the usual ones", vec!["n1", "n2"]), ("without fma, with sgx", vec!["n3"])];
        let expected =
            expected.map(|(text, hosts)| (text.to_owned(), hosts.into_iter().map(str::to_owned).collect()));
        assert_eq!(values, expected);
    }
}
