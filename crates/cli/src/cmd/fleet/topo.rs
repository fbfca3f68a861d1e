//! `manycore fleet topo`: how the hardware of hosts differs.

use super::outputs::{collected, hosts_in_words};
use crate::{
    cli::FleetTopo,
    failure::{Failure, Outcome},
    output,
};
use manycore_fleet::merge::differences;
use manycore_render::{
    document::Document,
    table::{Align::Left, Table},
    terminal::Terminal,
};
use manycore_text::{names::printable, units::counted};
use manycore_topology::Machine;

/// What is different on each host, or follows from other processes.
const OWN: [&str; 3] = ["system.hostname", "allowed", "system.cpu_flags"];
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
    let (differences, left_out) = differences(&machines, &OWN);
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

fn shortened(value: &str) -> String {
    let shown = printable(value);
    if shown.chars().count() <= LONGEST {
        shown
    } else {
        shown.chars().take(LONGEST).chain("...".chars()).collect()
    }
}
