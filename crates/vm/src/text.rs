//! Plans and checks of virtual machines for reading.

use crate::domain::{DomainPlan, GuestHardware, Topology, check::CheckReport};
use manycore_render::{
    document::Document,
    table::{Align, Table},
    terminal::Mark,
};
use manycore_text::{names::printable, units};
use manycore_topology::CpuSet;
use similar::TextDiff;
use std::time::Instant;

/// Most lines from the first to the last change whose smallest diff is searched: the search can take time in the square of
/// their number. More lines are shown as removed and added. A domain has some hundred lines.
const MOST_DIFF_LINES: usize = 20_000;

/// Returns a summary of the plan as comments, then the change as a unified diff for `patch`.
pub fn change(name: &str, before: &str, planned: &DomainPlan) -> String {
    let summary = summary(planned);
    let comments: String = summary.split_inclusive('\n').flat_map(|line| ["# ", line]).collect();
    if before == planned.xml {
        return format!("{comments}# Nothing to change: the domain matches the plan.\n");
    }
    let mut diff = TextDiff::configure();
    if changed_lines(before, &planned.xml) > MOST_DIFF_LINES {
        // The search ends at once.
        diff.deadline(Instant::now());
    }
    let diff = diff.diff_lines(before, planned.xml.as_str());
    let diff = diff.unified_diff().context_radius(3).header(name, name).to_string();
    format!("{comments}{diff}")
}

/// Returns the lines of both texts from the first to the last one that differs.
fn changed_lines(before: &str, after: &str) -> usize {
    let [before, after] = [before, after].map(|text| text.lines().collect::<Vec<_>>());
    let begin = before.iter().zip(&after).take_while(|(old, new)| old == new).count();
    let (before, after) = (&before[begin..], &after[begin..]);
    let end = before.iter().rev().zip(after.iter().rev()).take_while(|(old, new)| old == new).count();
    before.len() + after.len() - 2 * end
}

/// Returns what the guest gets, in a few lines.
pub fn summary(planned: &DomainPlan) -> String {
    let DomainPlan { guest, host_nodes, .. } = planned;
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

fn topology(guest: &GuestHardware) -> String {
    let Some(Topology { sockets, dies, clusters, cores, threads }) = guest.topology else {
        return String::new();
    };
    let parts =
        [(sockets, "socket"), (dies, "die"), (clusters, "cluster"), (cores, "core"), (threads, "thread")];
    let shown = parts.iter().enumerate().filter(|(at, (count, _))| *count > 1 || [0, 3].contains(at));
    let words: Vec<String> = shown.map(|(_, (count, what))| units::counted(*count as usize, what)).collect();
    let caches = if guest.cache_passthrough { "; the host's caches" } else { "" };
    format!("topology: {}{caches}\n", words.join(" x "))
}

/// Returns the totals, then the table of planned and found values.
pub fn check(report: &CheckReport) -> Document {
    let mut subject = report.subject.clone();
    if let Some(first) = subject.get_mut(0..1) {
        first.make_ascii_uppercase();
    }
    let (planned, matching) = report.planned_and_matching();
    let rows = report.properties.iter().map(|property| {
        let mark = match property.matches {
            Some(true) => "ok",
            Some(false) => "NO",
            None => "-",
        };
        let planned = if property.matches.is_none() { "-" } else { &property.planned };
        [property.name.as_str(), mark, planned, &property.found].map(str::to_owned).to_vec()
    });
    let head = ["what", "matches", "planned", "found"].map(|name| (name, Align::Left));
    let mut table = Table::new("", &head).with_rows(rows.collect());
    table.verdict_column = Some(1);
    let mut document = Document::new();
    document.strong(subject);
    match (planned, planned - matching) {
        (0, _) => document.paragraph("No plan was given: the table shows what was found."),
        (_, 0) => document.marked(Mark::Good, "Everything matches the plan."),
        (_, wrong) => document.marked(Mark::Bad, format!("{wrong} of {planned} differ from the plan.")),
    }
    document.gap();
    document.table(table);
    document
}
