//! `manycore fleet topo`: how the hardware of hosts differs.

use super::outputs::{collected, hosts_in_words};
use crate::{
    cli::FleetTopo,
    failure::{Failure, Outcome},
    output,
};
use manycore_fleet::{
    merge::{Difference, differences},
    properties::{USUAL_FLAGS, flag_differences},
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

/// Properties that are not compared here: those that differ on each host, such as the control group of a job, and [`FLAGS`].
const OWN: [&str; 4] = ["system.hostname", "allowed.effective_limit", "allowed.limits", FLAGS];
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
    let flags = |(_, machine): &(String, Value)| {
        let flags = machine["system"]["cpu_flags"].as_array().into_iter().flatten().filter_map(Value::as_str);
        flags.collect::<BTreeSet<&str>>().into_iter().collect::<Vec<_>>().join(" ")
    };
    let found = flag_differences(&machines.iter().map(flags).collect::<Vec<_>>());
    let mut hosts_by_difference: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for ((host, _), difference) in machines.iter().zip(found) {
        hosts_by_difference.entry(difference).or_default().push(host.clone());
    }
    let mut values: Vec<(String, Vec<String>)> = hosts_by_difference.into_iter().collect();
    values.sort_by_key(|(difference, hosts)| (difference != USUAL_FLAGS, Reverse(hosts.len())));
    (values.len() > 1).then(|| Difference { path: FLAGS.to_owned(), values })
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
    use manycore_topology::machine::{Allowed, Limit, System};
    use serde_json::json;

    #[test]
    fn the_bios_and_the_memory_modules_are_compared() {
        let host = |name: &str, bios: &str, modules: Option<&str>| {
            let (bios, memory_modules) = (Some(bios.to_owned()), modules.map(str::to_owned));
            let system = System { bios, memory_modules, ..System::default() };
            let machine = Machine { system, ..Machine::default() };
            (name.to_owned(), serde_json::to_value(machine).unwrap())
        };
        let hosts =
            [host("n1", "A 1", Some("2 of 2 slots")), host("n2", "A 1", None), host("n3", "A 2", None)];
        let (found, _) = differences(&hosts, &OWN);
        let paths: Vec<&str> = found.iter().map(|one| one.path.as_str()).collect();
        assert_eq!(paths, ["system.bios", "system.memory_modules"]);
        assert_eq!(found[0].values[1], ("A 2".to_owned(), vec!["n3".to_owned()]));
    }

    /// Regression: a host that may use one CPU was said to be like the others.
    #[test]
    fn allowed_cpus_are_compared_without_where_they_are_limited() {
        let host = |name: &str, cpus: &str| {
            let source = format!("/sys/fs/cgroup/job_{name}/cpuset.cpus");
            let limits = vec![Limit { source, cpus: None, quota_cpus: None }];
            let allowed = Allowed { cpus: cpus.parse().unwrap(), limits, ..Allowed::default() };
            (name.to_owned(), serde_json::to_value(Machine { allowed, ..Machine::default() }).unwrap())
        };
        assert_eq!(differences(&[host("n1", "0-1"), host("n2", "0-1")], &OWN), (vec![], 0));
        let (found, _) = differences(&[host("n1", "0-1"), host("n2", "0")], &OWN);
        assert_eq!(found.iter().map(|one| one.path.as_str()).collect::<Vec<_>>(), ["allowed.cpus"]);
    }

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
