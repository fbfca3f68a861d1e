//! The usage of groups: a table for a terminal, and lines for pipes.

use manycore_linux::resctrl::watch::{GroupUse, MissingRate, UsageSnapshot};
use manycore_render::{
    document::Document,
    table::{Align, Table},
    terminal::padded,
};
use manycore_text::{names::printable, units};
use std::collections::{BTreeMap, VecDeque};

/// Number of readings in the history that is drawn.
const HISTORY: usize = 16;

/// The latest rates of each group.
#[derive(Debug, Default)]
pub struct RateHistory(BTreeMap<String, VecDeque<Option<f64>>>);

impl RateHistory {
    /// Adds one reading. Groups that no longer exist are removed.
    pub fn add(&mut self, snapshot: &UsageSnapshot) {
        self.0.retain(|name, _| snapshot.groups.iter().any(|group| group.name == *name));
        for group in &snapshot.groups {
            let history = self.0.entry(group.name.clone()).or_default();
            history.push_back(group.memory_bytes_per_second);
            if history.len() > HISTORY {
                history.pop_front();
            }
        }
    }

    /// Returns bars relative to the highest rate of all groups; a blank where there was no reading.
    fn bars(&self, name: &str) -> String {
        const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        let highest = self.0.values().flatten().flatten().copied().fold(0.0, f64::max);
        let bar = |figure: &Option<f64>| match figure {
            None => ' ',
            Some(figure) if highest > 0.0 => BARS[((figure / highest * 8.0) as usize).min(7)],
            Some(_) => BARS[0],
        };
        self.0.get(name).into_iter().flatten().map(bar).collect()
    }
}

/// Returns one reading of all groups as a table.
pub fn table(snapshot: &UsageSnapshot, rates: &RateHistory, root: &str) -> Document {
    let domains = snapshot.domains();
    let single = domains.len() < 2;
    let mut head = vec!["memory", "local", "cache"];
    if !single {
        head.extend(domains.iter().map(String::as_str));
    }
    let mut table = Table::numeric("", ("group", Align::Left), &head);
    table.head.push(("history".to_owned(), Align::Left));
    for group in &snapshot.groups {
        let mut row = vec![
            printable(&group.name),
            memory(group, units::rate),
            group.local_bytes_per_second.map_or_else(dash, units::rate),
            group.cache_bytes.map_or_else(dash, units::bytes),
        ];
        if !single {
            row.extend(domains.iter().map(|domain| in_domain(group, domain, units::rate)));
        }
        row.push(rates.bars(&group.name));
        table.rows.push(row);
    }
    let all = &snapshot.all;
    let mut row = vec![
        "(all)".to_owned(),
        all.memory_bytes_per_second.map_or_else(dash, units::rate),
        String::new(),
        all.cache_bytes.map_or_else(dash, units::bytes),
    ];
    if !single {
        row.extend(
            domains.iter().map(|domain| all.domains.get(domain).copied().map_or_else(dash, units::rate)),
        );
    }
    table.rows.push(row);
    let mut document = Document::new();
    document.strong(format!("{}  {root}, {}", snapshot.time, units::counted(snapshot.groups.len(), "group")));
    document.gap();
    document.table(table);
    if all.groups_without_rate > 0 {
        let groups = units::counted(all.groups_without_rate, "group");
        document.indented(2, format!("(all): excludes {groups} without a rate"));
    }
    document
}

/// Returns the column names of [`lines`] for the domains of this reading.
pub fn head(snapshot: &UsageSnapshot) -> String {
    let mut line = format!(
        "{:<20}  {:<24}  {:>11}  {:>10}  {:>10}",
        "time", "group", "memory MB/s", "local MB/s", "cache KiB"
    );
    line.extend(snapshot.domains().iter().map(|domain| format!("  {domain:>11}")));
    line + "\n"
}

/// Returns one line per group, and a line for the sum if there are several groups.
pub fn lines(snapshot: &UsageSnapshot) -> String {
    let megabytes = |rate: f64| format!("{:.1}", rate / 1e6);
    let domains = snapshot.domains();
    let line = |group: &GroupUse| {
        let mut line = format!(
            "{:<20}  {}  {:>11}  {:>10}  {:>10}",
            snapshot.time,
            padded(&printable(&group.name), 24),
            memory(group, megabytes),
            group.local_bytes_per_second.map_or_else(dash, megabytes),
            group.cache_bytes.map_or_else(dash, |bytes| (bytes >> 10).to_string()),
        );
        line.extend(domains.iter().map(|domain| format!("  {:>11}", in_domain(group, domain, megabytes))));
        line + "\n"
    };
    let mut lines: String = snapshot.groups.iter().map(line).collect();
    if snapshot.groups.len() > 1 {
        let all = &snapshot.all;
        lines.push_str(&format!(
            "{:<20}  {:<24}  {:>11}  {:>10}  {:>10}",
            snapshot.time,
            "(all)",
            all.memory_bytes_per_second.map_or_else(dash, megabytes),
            "-",
            all.cache_bytes.map_or_else(dash, |bytes| (bytes >> 10).to_string()),
        ));
        let of = |domain| all.domains.get(domain).copied().map_or_else(dash, megabytes);
        lines.extend(domains.iter().map(|domain| format!("  {:>11}", of(domain))));
        lines.push('\n');
    }
    lines
}

fn memory(group: &GroupUse, show: impl Fn(f64) -> String) -> String {
    group.memory_bytes_per_second.map_or_else(|| missing_word(group.missing), show)
}

fn in_domain(group: &GroupUse, title: &str, show: impl Fn(f64) -> String) -> String {
    let domain = group.domains.iter().find(|domain| domain.display_name() == title);
    domain.map_or_else(dash, |domain| {
        domain.memory_bytes_per_second.map_or_else(|| missing_word(domain.missing), show)
    })
}

/// Returns the word that is shown in place of a missing figure.
fn missing_word(missing: Option<MissingRate>) -> String {
    match missing {
        Some(MissingRate::New) => "new",
        Some(MissingRate::Unavailable) => "unavailable",
        Some(MissingRate::Unassigned) => "unassigned",
        Some(MissingRate::Error) => "error",
        None => "-",
    }
    .to_owned()
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_linux::resctrl::{
        rates::{MonitorReading, Reading},
        watch::{GroupReadings, MonitorReadings},
    };

    fn readings_at(at: u64, groups: &[(&str, [Reading; 2])]) -> MonitorReadings {
        let readings = |totals: &[Reading; 2]| {
            let monitor = |(domain, total): (usize, &Reading)| MonitorReading {
                resource: "L3".to_owned(),
                domain: domain as u32,
                occupancy: Some(Reading::Bytes(3 << 20)),
                total: Some(*total),
                local: Some(*total),
            };
            GroupReadings {
                at_ns: at * 1_000_000_000,
                instance: 1,
                monitors: totals.iter().enumerate().map(monitor).collect(),
            }
        };
        groups.iter().map(|(name, totals)| ((*name).to_owned(), readings(totals))).collect()
    }

    #[test]
    fn usage_as_text() {
        use Reading::{Bytes, Unavailable};
        let before = readings_at(
            0,
            &[("", [Bytes(0), Bytes(0)]), ("qemu-10-web", [Bytes(5), Bytes(5)]), ("x", [Bytes(1), Bytes(1)])],
        );
        let after = readings_at(
            1,
            &[
                ("", [Bytes(2_000_000), Bytes(0)]),
                ("late", [Bytes(1), Bytes(1)]),
                ("qemu-10-web", [Bytes(1_500_000_005), Bytes(40_000_005)]),
                ("x", [Bytes(1), Unavailable]),
            ],
        );
        let snapshot = UsageSnapshot::between("2026-11-22T10:00:00Z".to_owned(), &before, &after, |_| true);
        let mut rates = RateHistory::default();
        rates.add(&snapshot);
        rates.add(&snapshot);
        insta::assert_snapshot!("table", table(&snapshot, &rates, "/sys/fs/resctrl"));
        insta::assert_snapshot!("lines", head(&snapshot) + &lines(&snapshot));
    }
}
