//! Running virtual machines for reading.

use crate::usage::{DomainUsage, DomainsSnapshot, HostUsage, VcpuUsage};
use manycore_render::{
    document::Document,
    table::{Align, Table},
};
use manycore_text::{names::printable, units};
use std::collections::BTreeSet;

/// Returns the table of running virtual machines.
pub fn list(moment: &DomainsSnapshot) -> Document {
    let mut document = Document::new();
    if moment.domains.is_empty() {
        document.paragraph("No virtual machine is running.");
        return document;
    }
    let mut columns =
        vec![("id", Align::Right), ("pid", Align::Right), ("vcpus", Align::Right), ("memory", Align::Right)];
    let has_state = moment.domains.iter().any(|domain| domain.identity.state.is_some());
    if has_state {
        columns.push(("state", Align::Left));
    }
    columns.push(("uuid", Align::Left));
    let mut table = Table::numeric("", ("name", Align::Left), &[]);
    table.head.extend(columns.into_iter().map(|(name, align)| (name.to_owned(), align)));
    let nodes = nodes(moment);
    table.head.extend(nodes.iter().map(|node| (format!("node {node}"), Align::Right)));
    for domain in &moment.domains {
        let who = &domain.identity;
        let mut row = vec![
            printable(&who.name),
            who.id.map_or_else(dash, |id| id.to_string()),
            who.pid.to_string(),
            domain.vcpus.map_or_else(dash, |vcpus| vcpus.to_string()),
            units::bytes(domain.memory_bytes),
        ];
        if has_state {
            row.push(state(domain));
        }
        row.push(who.uuid.clone().map_or_else(dash, |uuid| printable(&uuid)));
        row.extend(nodes.iter().map(|node| by_node(domain, *node)));
        table.rows.push(row);
    }
    table.notes = dashes(&table);
    document.table(table);
    document
}

/// Columns and the reason why a figure in them is missing.
const DASH_REASONS: [(&str, &str); 10] = [
    ("id", "libvirt did not start the domain"),
    ("uuid", "the domain was started without a UUID"),
    ("state", "libvirt's state file cannot be read (try again as root), or libvirt did not start the domain"),
    ("vcpus", "the threads have no names: QEMU sets them with -name NAME,debug-threads=on"),
    ("cpu %", "the domain is new: a rate needs two readings"),
    ("wait %", "a virtual CPU of the domain is new, or the threads have no names"),
    ("exits/s", "debugfs cannot be read, or the domain does not run on KVM"),
    ("node", "the memory by node cannot be read (try again as root)"),
    ("on node", "the memory by node cannot be read (try again as root)"),
    ("traffic", "no resctrl group holds only this domain: 'manycore qos set' creates one"),
];

/// Returns an explanation of '-' for each column that has one.
fn dashes(table: &Table) -> Vec<String> {
    let has_dash = |name: &str| {
        let is_it =
            |head: &str| head == name || head.strip_prefix(name).is_some_and(|rest| rest.starts_with(' '));
        let mut columns = table.head.iter().enumerate().filter(|(_, (head, _))| is_it(head));
        columns.any(|(at, _)| table.rows.iter().any(|row| row.get(at).is_some_and(|cell| cell == "-")))
    };
    // Beside `traffic`, the columns called `node N` are parts of the traffic, not of the memory.
    let has_traffic = table.head.iter().any(|(head, _)| head == "traffic");
    let reasons = DASH_REASONS.iter().filter(|(name, _)| has_dash(name) && !(*name == "node" && has_traffic));
    reasons.map(|(name, why)| format!("- in {name}: {why}")).collect()
}

/// Returns the table of what the host and each domain used.
pub fn table(moment: &DomainsSnapshot) -> Document {
    let columns = Columns::new(moment);
    let mut table = Table::numeric(
        "",
        ("name", Align::Left),
        &columns.names().iter().map(String::as_str).collect::<Vec<_>>(),
    );
    for domain in &moment.domains {
        table.rows.push(columns.row(domain));
        table.rows.extend(domain.threads.iter().map(|thread| columns.vcpu(thread)));
    }
    let vcpus = moment.domains.iter().map(|domain| domain.vcpus).sum::<Option<usize>>();
    let vcpus = vcpus.map_or_else(String::new, |vcpus| format!(", {}", units::counted(vcpus, "virtual CPU")));
    let mut document = Document::new();
    document.strong(format!(
        "{}  {}{vcpus}",
        moment.time,
        units::counted(moment.domains.len(), "virtual machine")
    ));
    for line in host(&moment.host) {
        document.paragraph(line);
    }
    document.gap();
    table.notes = dashes(&table);
    document.table(table);
    document
}

/// Returns `host: 3.2 of 64 CPUs busy, 2.9 in guests; memory 120 GiB of 256 GiB` and a line such as `traffic:
/// 1.84 GB/s to and from memory`.
fn host(host: &HostUsage) -> Vec<String> {
    let cpus = |percent: Option<f64>| percent.map_or_else(dash, |percent| format!("{:.1}", percent / 100.0));
    let mut text = format!("host: {} of {} busy", cpus(host.cpu_percent), units::counted(host.cpus, "CPU"));
    text.push_str(&format!(", {} in guests", cpus(host.guest_percent)));
    if host.steal_percent.is_some_and(|percent| percent >= 0.05) {
        text.push_str(&format!(", {} stolen", cpus(host.steal_percent)));
    }
    let used = host.memory_bytes.saturating_sub(host.available_bytes);
    text.push_str(&format!("; memory {} of {}", units::bytes(used), units::bytes(host.memory_bytes)));
    let mut lines = vec![text];
    if let Some(bandwidth) = host.bytes_per_second {
        let mut text = format!("traffic: {} to and from memory", units::rate(bandwidth));
        let parts: Vec<String> = host
            .bytes_per_second_by_node
            .iter()
            .filter_map(|(place, rate)| Some(format!("{place} {}", units::rate((*rate)?))))
            .collect();
        if parts.len() > 1 {
            text.push_str(&format!(" ({})", parts.join(", ")));
        }
        if host.groups_without_rate > 0 {
            let groups = units::counted(host.groups_without_rate, "group");
            text.push_str(&format!(", not counting {groups} without readable counters"));
        }
        lines.push(text);
    }
    lines
}

/// The columns of the table.
#[allow(clippy::struct_excessive_bools, reason = "one for each column that may be absent")]
struct Columns {
    has_state: bool,
    has_vcpus: bool,
    has_exits: bool,
    nodes: BTreeSet<u32>,
    has_traffic: bool,
    places: BTreeSet<String>,
}

impl Columns {
    fn new(moment: &DomainsSnapshot) -> Self {
        let places: BTreeSet<String> = moment.host.bytes_per_second_by_node.keys().cloned().collect();
        Self {
            has_state: moment.domains.iter().any(|domain| domain.identity.state.is_some()),
            has_vcpus: moment.domains.iter().any(|domain| !domain.threads.is_empty()),
            has_exits: moment.domains.iter().any(|domain| domain.exits_per_second.is_some()),
            nodes: nodes(moment),
            has_traffic: !places.is_empty(),
            places: if places.len() > 1 { places } else { BTreeSet::new() },
        }
    }

    fn names(&self) -> Vec<String> {
        let mut names: Vec<String> =
            ["pid", "vcpus", "cpu %", "guest %", "sys %", "wait %", "switch/s"].map(str::to_owned).to_vec();
        if self.has_vcpus {
            "on CPU".clone_into(&mut names[1]);
        }
        if self.has_state {
            names.insert(1, "state".to_owned());
        }
        names.extend(self.has_exits.then(|| "exits/s".to_owned()));
        names.push("memory".to_owned());
        names.extend(self.nodes.iter().map(|node| format!("on node {node}")));
        names.extend(self.has_traffic.then(|| "traffic".to_owned()));
        names.extend(self.places.iter().cloned());
        names
    }

    fn row(&self, domain: &DomainUsage) -> Vec<String> {
        let mut row = vec![
            printable(&domain.identity.name),
            domain.identity.pid.to_string(),
            match domain.vcpus {
                _ if self.has_vcpus => String::new(),
                vcpus => vcpus.map_or_else(dash, |vcpus| vcpus.to_string()),
            },
            percent(domain.cpu_percent),
            percent(domain.guest_percent),
            percent(domain.system_percent),
            percent(domain.wait_percent),
            count(domain.switches_per_second),
        ];
        if self.has_state {
            row.insert(2, state(domain));
        }
        row.extend(self.has_exits.then(|| count(domain.exits_per_second)));
        row.push(units::bytes(domain.memory_bytes));
        row.extend(self.nodes.iter().map(|node| by_node(domain, *node)));
        row.extend(self.has_traffic.then(|| domain.bytes_per_second.map_or_else(dash, units::rate)));
        let at = |place: &String| domain.bytes_per_second_by_node.get(place).copied().flatten();
        row.extend(self.places.iter().map(|place| at(place).map_or_else(dash, units::rate)));
        row
    }

    fn vcpu(&self, thread: &VcpuUsage) -> Vec<String> {
        let mut row = vec![
            format!("  vcpu {}", thread.vcpu),
            thread.tid.to_string(),
            thread.cpu.map_or_else(dash, |cpu| cpu.to_string()),
            percent(thread.cpu_percent),
            percent(thread.guest_percent),
            percent(thread.system_percent),
            percent(thread.wait_percent),
            count(thread.switches_per_second),
        ];
        if self.has_state {
            row.insert(2, String::new());
        }
        row.resize(self.names().len() + 1, String::new());
        row
    }
}

/// `running`, `paused`.
fn state(domain: &DomainUsage) -> String {
    domain.identity.state.as_ref().map_or_else(dash, |state| printable(state))
}

fn nodes(moment: &DomainsSnapshot) -> BTreeSet<u32> {
    moment.domains.iter().flat_map(|domain| domain.memory_by_node.keys().copied()).collect()
}

fn by_node(domain: &DomainUsage, node: u32) -> String {
    domain.memory_by_node.get(&node).map_or_else(dash, |bytes| units::bytes(*bytes))
}

fn percent(share: Option<f64>) -> String {
    share.map_or_else(dash, |share| format!("{share:.1}"))
}

fn count(rate: Option<f64>) -> String {
    rate.map_or_else(dash, |rate| format!("{rate:.0}"))
}

fn dash() -> String {
    "-".to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_linux::vms::DomainIdentity;
    use std::collections::BTreeMap;

    fn domain(name: &str, pid: u32, cpu: Option<f64>) -> DomainUsage {
        let identity =
            DomainIdentity { name: name.to_owned(), pid, id: Some(pid / 100), ..DomainIdentity::default() };
        DomainUsage {
            identity,
            vcpus: Some(4),
            cpu_percent: cpu,
            guest_percent: cpu.map(|cpu| cpu * 0.9),
            system_percent: cpu.map(|cpu| cpu * 0.05),
            wait_percent: Some(12.5),
            switches_per_second: Some(1234.4),
            memory_bytes: 4 << 30,
            ..DomainUsage::default()
        }
    }

    fn moment() -> DomainsSnapshot {
        let host = HostUsage {
            cpus: 64,
            cpu_percent: Some(1234.0),
            guest_percent: Some(1000.0),
            steal_percent: Some(0.0),
            memory_bytes: 256 << 30,
            available_bytes: 100 << 30,
            ..HostUsage::default()
        };
        let domains = vec![domain("web1", 812, Some(390.0)), domain("bell\u{7} and ü", 900, None)];
        DomainsSnapshot {
            time: "2026-11-22T10:00:00Z".to_owned(),
            seconds: 1.0,
            host,
            domains,
            ..DomainsSnapshot::default()
        }
    }

    #[test]
    fn tables_match_snapshots() {
        insta::assert_snapshot!("table", table(&moment()));
        insta::assert_snapshot!("list", list(&moment()));
        let mut nameless = moment();
        nameless.domains[1].vcpus = None;
        insta::assert_snapshot!("nameless", table(&nameless));
        let mut paused = moment();
        paused.domains[0].identity.state = Some("paused".to_owned());
        insta::assert_snapshot!("paused", format!("{}{}", table(&paused), list(&paused)));
        assert_eq!(list(&DomainsSnapshot::default()).to_string(), "No virtual machine is running.\n");
    }

    #[test]
    fn columns_depend_on_known_values() {
        let mut moment = moment();
        let places = |rates: [f64; 2]| -> BTreeMap<String, Option<f64>> {
            ["node 0", "node 1"]
                .iter()
                .zip(rates)
                .map(|(place, rate)| ((*place).to_owned(), Some(rate)))
                .collect()
        };
        moment.host.bytes_per_second = Some(4e9);
        moment.host.bytes_per_second_by_node = places([3e9, 1e9]);
        let first = &mut moment.domains[0];
        first.bytes_per_second = Some(1.5e9);
        first.bytes_per_second_by_node = places([1.5e9, 0.0]);
        first.exits_per_second = Some(45_000.0);
        let vcpu =
            VcpuUsage { vcpu: 0, tid: 820, cpu: Some(17), cpu_percent: Some(99.0), ..VcpuUsage::default() };
        first.threads = vec![vcpu.clone(), VcpuUsage { vcpu: 1, tid: 821, ..vcpu }];
        insta::assert_snapshot!("wide", table(&moment));
        moment.host.groups_without_rate = 2;
        let text = table(&moment).to_string();
        // The line is wrapped.
        let words = text.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(
            words.contains("node 1 1.00 GB/s), not counting 2 groups without readable counters name"),
            "{text}"
        );
    }
}
