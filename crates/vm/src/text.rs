//! Plans and checks of virtual machines in words.

use crate::domain::{Guest, Planned, Topology, check::Check};
use manycore_render::table::{Align, Table};
use manycore_text::{names::printable, units};
use manycore_topology::CpuSet;
use similar::TextDiff;
use std::time::Duration;

/// How long the smallest change is looked for; what is not compared by then is written as taken out and put in whole.
const PATIENCE: Duration = Duration::from_secs(1);

/// What the plan comes to in comments, then the change as a unified diff, which `patch` reads.
pub fn change(name: &str, before: &str, planned: &Planned) -> String {
    let summary = summary(planned);
    let comments: String = summary.split_inclusive('\n').flat_map(|line| ["# ", line]).collect();
    if before == planned.xml {
        return format!("{comments}# Nothing is to be changed: the domain is as planned.\n");
    }
    let diff = TextDiff::configure().timeout(PATIENCE).diff_lines(before, planned.xml.as_str());
    let diff = diff.unified_diff().context_radius(3).header(name, name).to_string();
    format!("{comments}{diff}")
}

/// What the guest gets, in a few lines.
pub fn summary(planned: &Planned) -> String {
    let Planned { guest, host_nodes, .. } = planned;
    let pinned = CpuSet::union_of(guest.pins.iter().flatten());
    let mut text = format!(
        "{}: {} on CPUs {}\n",
        printable(&guest.name),
        units::counted(guest.pins.len(), "virtual CPU"),
        pinned.brief()
    );
    if let Some(emulator) = &guest.emulator {
        let threads = match guest.iothreads.len() {
            0 => "the emulator".to_owned(),
            count => format!("the emulator and {}", units::counted(count, "I/O thread")),
        };
        text.push_str(&format!("{threads} on CPUs {}\n", emulator.brief()));
    }
    for (cell, host) in guest.cells.iter().zip(host_nodes) {
        let devices = guest.devices.iter().filter(|device| device.node == Some(cell.id)).count();
        text.push_str(&format!(
            "node {}: node {host} of the host, virtual CPUs {}, {}, {}\n",
            cell.id,
            cell.vcpus.brief(),
            units::bytes(cell.memory_kib << 10),
            units::counted(devices, "device")
        ));
    }
    text + &topology(guest)
}

fn topology(guest: &Guest) -> String {
    let Some(Topology { sockets, dies, clusters, cores, threads }) = guest.topology else {
        return String::new();
    };
    let parts =
        [(sockets, "socket"), (dies, "die"), (clusters, "cluster"), (cores, "core"), (threads, "thread")];
    let told = parts.iter().enumerate().filter(|(at, (count, _))| *count > 1 || [0, 3].contains(at));
    let words: Vec<String> = told.map(|(_, (count, what))| units::counted(*count as usize, what)).collect();
    let caches = if guest.cache_passthrough { "; the host's caches" } else { "" };
    format!("topology: {}{caches}\n", words.join(" x "))
}

/// What was planned beside what was found, and the sum.
pub fn check(check: &Check) -> String {
    let mut of = check.of.clone();
    if let Some(first) = of.get_mut(0..1) {
        first.make_ascii_uppercase();
    }
    let (judged, right) = check.count();
    let head = ["", "planned", "found"].map(|name| (name.to_owned(), Align::Left));
    let head = std::iter::once(("what".to_owned(), Align::Left)).chain(head).collect();
    let rows = check.lines.iter().map(|line| {
        let mark = match line.holds {
            Some(true) => "ok",
            Some(false) => "NO",
            None => "-",
        };
        let planned = if line.holds.is_none() { "-" } else { &line.planned };
        [line.what.as_str(), mark, planned, &line.found].map(str::to_owned).to_vec()
    });
    let table = Table { title: String::new(), head, rows: rows.collect(), notes: Vec::new(), raw: false };
    let sum = match (judged, judged - right) {
        (0, _) => "Nothing was planned: this is what there is.".to_owned(),
        (_, 0) => "All is as planned.".to_owned(),
        (_, wrong) => format!("{wrong} of {judged} are not as planned."),
    };
    format!("{of}\n\n{}\n{sum}\n", table.text())
}
