//! Limits of memory bandwidth and cache for reading.

mod enforcement;

pub use enforcement::enforcement;

use crate::{
    changes::LimitChanges,
    limit_outcome::{LimitOutcome, format_value},
};
use manycore_linux::resctrl::{
    dialect::{AMD_UNIT, Capabilities, ControlLine, Dialect, DomainKind, ValueRange},
    rates::{MonitorReading, Reading},
    state::{GroupOwner, GroupRole, QosGroup, QosState},
};
use manycore_render::{
    document::Document,
    table::{Align, Table},
};
use manycore_text::{names::printable, units};
use manycore_topology::CpuSet;

/// Mount options that are not shown, because most file systems have them.
const COMMON_OPTIONS: [&str; 7] = ["rw", "relatime", "noatime", "nosuid", "nodev", "noexec", "seclabel"];

/// Number of tasks of a group that are listed; the rest is only counted.
const MAX_TASKS: usize = 40;

/// Returns the option that sets a line of `schemata`, if there is one.
pub type OptionOfLine = fn(&str) -> Option<&'static str>;

/// Returns what can be set and the groups; `tasks` are listed if the state holds a single group. `option` names the
/// option of each line.
pub fn state(state: &QosState, tasks: Option<&[u32]>, option: OptionOfLine) -> Document {
    let capabilities = &state.capabilities;
    let options: Vec<&str> =
        state.options.iter().map(String::as_str).filter(|option| !COMMON_OPTIONS.contains(option)).collect();
    let options =
        if options.is_empty() { String::new() } else { format!(", mounted with {}", options.join(",")) };
    let mut document = Document::new();
    document.strong(format!(
        "Cache and memory bandwidth: {}, at {}{options}",
        capabilities.dialect.name(),
        state.root
    ));
    document.gap();
    if tasks.is_none() {
        document.strong("What can be set");
        document.gap();
        if capabilities.controls.is_empty() {
            document.indented(2, "Nothing: resctrl only monitors here.");
        } else {
            document.table(controls(capabilities, option));
        }
        if let Some(in_use) = groups_in_use(state) {
            document.gap();
            document.indented(2, in_use);
        }
        document.gap();
        document.strong("Groups");
        document.gap();
    }
    document.table(groups(state));
    document.gap();
    document.indented(2, tasks.map_or_else(|| memory_note(capabilities).to_owned(), task_list));
    document
}

fn task_list(tasks: &[u32]) -> String {
    let shown: Vec<String> = tasks.iter().take(MAX_TASKS).map(u32::to_string).collect();
    let more = tasks.len().saturating_sub(MAX_TASKS);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    let none = if tasks.is_empty() { "none" } else { "" };
    format!("tasks: {}{more}{none}", shown.join(" "))
}

fn memory_note(capabilities: &Capabilities) -> &'static str {
    if capabilities.dialect.monitors_report_rates() {
        "memory: the current rate, as the kernel reports it."
    } else {
        "memory: bytes read and written since resctrl was mounted or the group was created."
    }
}

/// Returns how many of the available groups and monitors are in use.
fn groups_in_use(state: &QosState) -> Option<String> {
    let (there, all) = (state.control_groups().count(), state.groups.len());
    let groups = state.capabilities.groups.map(|maximum| format!("{there} of {maximum} groups with limits"));
    let monitors = state.capabilities.monitors.map(|maximum| format!("{all} of {maximum} monitors"));
    let parts: Vec<String> = [groups, monitors].into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("In use: {}.", parts.join(", ")))
}

fn controls(capabilities: &Capabilities, option: OptionOfLine) -> Table {
    let row = |(name, control): (&String, &ControlLine)| {
        vec![
            name.clone(),
            option(name)
                .map_or_else(|| meaning(name).to_owned(), |option| format!("{} ({option})", meaning(name))),
            domains(capabilities, name, control),
            range(capabilities, name, control),
        ]
    };
    let columns =
        [("line", Align::Left), ("what", Align::Left), ("domains", Align::Left), ("values", Align::Left)];
    table(&columns, capabilities.controls.iter().map(row).collect())
}

/// Describes a line of `schemata`.
fn meaning(line: &str) -> &'static str {
    match line {
        "L2" | "L2PBM" => "portion of the L2",
        "L3" | "L3PBM" => "portion of the L3",
        "L2CODE" | "L3CODE" => "the same for code",
        "L2DATA" | "L3DATA" => "the same for data",
        "MB" | "MBMAX" => "maximum bandwidth",
        "MBMIN" => "minimum bandwidth",
        "MBHDL" => "maximum is a hard limit",
        "MBPRI" => "bandwidth priority",
        "SMBA" => "maximum bandwidth of slow memory",
        "L3PRI" | "L2PRI" => "priority of cache lines",
        "L3MAX" => "maximum share of the L3",
        "L3MIN" => "minimum share of the L3",
        _ => "",
    }
}

fn domains(capabilities: &Capabilities, line: &str, control: &ControlLine) -> String {
    let set: CpuSet = control.domains.iter().copied().collect();
    let word = match capabilities.dialect.domain_kind(line) {
        DomainKind::Node => "node",
        DomainKind::Cache(_) => "cache",
    };
    format!("{word} {}", set.brief())
}

fn range(capabilities: &Capabilities, line: &str, control: &ControlLine) -> String {
    match &control.bounds {
        ValueRange::Mask { full, min_bits, sparse } => {
            let gaps = if *sparse { "gaps allowed" } else { "no gaps" };
            format!("{full:x} ({} ways), at least {min_bits}, {gaps}", full.count_ones())
        }
        ValueRange::Number { .. } if line == "MB" && capabilities.megabytes => "any MB/s".to_owned(),
        ValueRange::Number { .. }
            if matches!(line, "MB" | "SMBA") && capabilities.dialect == Dialect::AmdPqos =>
        {
            format!("MB/s, in steps of {AMD_UNIT} MB/s")
        }
        ValueRange::Number { minimum, maximum, step } => {
            let unit = if matches!(line, "MB" | "MBMAX" | "MBMIN" | "L3MAX" | "L3MIN") { " %" } else { "" };
            let steps = if *step > 1 { format!(", in steps of {step}") } else { String::new() };
            format!("{minimum} to {maximum}{unit}{steps}")
        }
    }
}

fn groups(state: &QosState) -> Table {
    let row = |group: &QosGroup| {
        let limits = match group.role {
            GroupRole::Monitor => "as its parent group".to_owned(),
            _ => limits(&state.capabilities, group),
        };
        let mode = group.mode.as_deref().filter(|mode| *mode != "shareable");
        let mode = mode.map(|mode| format!(", {mode}")).unwrap_or_default();
        // A monitoring group is listed below its parent group.
        let (above, name) = group.name.rsplit_once("mon_groups/").unwrap_or(("", group.display_name()));
        let name = if group.role == GroupRole::Monitor && state.groups.len() > 1 {
            format!("+ {name}")
        } else {
            format!("{above}{name}")
        };
        vec![
            printable(&name),
            printable(&owner(&group.owner)),
            group.tasks.to_string(),
            if group.cpus.is_empty() { "-".to_owned() } else { group.cpus.brief() },
            format!("{limits}{mode}"),
            sum(&group.monitors, |monitor| monitor.occupancy),
            sum(&group.monitors, |monitor| monitor.total),
        ]
    };
    let columns = [
        ("group", Align::Left),
        ("owner", Align::Left),
        ("tasks", Align::Right),
        ("CPUs", Align::Left),
        ("limits", Align::Left),
        ("in cache", Align::Right),
        ("memory", Align::Right),
    ];
    table(&columns, state.groups.iter().map(row).collect())
}

fn owner(owner: &GroupOwner) -> String {
    match owner {
        GroupOwner::Kernel => "-".to_owned(),
        GroupOwner::Manycore { .. } => "manycore".to_owned(),
        GroupOwner::Libvirt { domain, .. } => format!("libvirt: {domain}"),
        GroupOwner::Kubernetes => "Kubernetes".to_owned(),
        GroupOwner::Container { id } => format!("container {}", &id[..12]),
        GroupOwner::Unknown => "unknown".to_owned(),
    }
}

/// Returns the limits of a group: `MB: 50 %, L3 0: 3ff (10 of 20 ways)`. Domains with the same value are
/// merged, and values that do not limit are left out.
fn limits(capabilities: &Capabilities, group: &QosGroup) -> String {
    let mut parts = Vec::new();
    for line in &group.schemata.0 {
        let Some(control) = capabilities.control(&line.name) else { continue };
        let mut values: Vec<u64> =
            line.values.values().copied().filter(|value| *value != control.unlimited).collect();
        values.dedup();
        for value in values {
            let same = line.values.iter().filter(|(_, other)| **other == value).map(|(domain, _)| *domain);
            let same: CpuSet = same.collect();
            let on =
                if same.len() == line.values.len() { String::new() } else { format!(" {}", same.brief()) };
            let part = format!("{}{on}: {}", line.name, format_value(capabilities, &line.name, value));
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
    }
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

/// Returns the sum over all domains. If a domain has no reading, its state is returned instead, since the sum
/// would be too small.
fn sum(monitors: &[MonitorReading], of: impl Fn(&MonitorReading) -> Option<Reading>) -> String {
    let readings: Vec<Reading> = monitors.iter().filter_map(of).collect();
    let (mut bytes, mut rate) = (None::<u64>, None::<u64>);
    for reading in &readings {
        match *reading {
            Reading::Bytes(more) => bytes = Some(bytes.unwrap_or(0).saturating_add(more)),
            Reading::MegabytesPerSecond(more) => rate = Some(rate.unwrap_or(0).saturating_add(more)),
            Reading::Unavailable => return "unavailable".to_owned(),
            Reading::Unassigned => return "unassigned".to_owned(),
            Reading::Error => return "error".to_owned(),
        }
    }
    match (bytes, rate) {
        (_, Some(rate)) => format!("{rate} MB/s"),
        (Some(bytes), None) => units::bytes(bytes),
        (None, None) => "-".to_owned(),
    }
}

/// Returns the changes of `qos set`, made or planned.
pub fn changes(changes: &LimitChanges) -> Document {
    let is_done = changes.journal.is_some();
    let group = changes.group.as_deref().unwrap_or("manycore-PID");
    let kind = if changes.created { "new group" } else { "group" };
    let would = if is_done { "" } else { "dry run: " };
    let mut document = Document::new();
    document.strong(format!("{would}{kind} {group} for {} ({})", changes.target, changes.dialect.name()));
    document.gap();
    document.table(limit_table(changes, is_done));
    document.gap();
    for line in
        reasons(&changes.limits).iter().chain(&changes.notes).cloned().chain(members(changes, is_done))
    {
        document.indented(2, line);
    }
    if let Some(journal) = &changes.journal {
        document.paragraph(format!("manycore undo {journal} restores the previous state."));
    }
    document
}

fn limit_table(changes: &LimitChanges, is_done: bool) -> Table {
    let row = |outcome: &LimitOutcome| {
        let show = |value: Option<u64>| {
            value.map_or_else(
                || "-".to_owned(),
                |value| format_value(&changes.capabilities, &outcome.line, value),
            )
        };
        let mut row = vec![
            outcome.requested.clone(),
            format!("{} {}", outcome.line, outcome.domain),
            show(outcome.before),
            show(Some(outcome.written)),
        ];
        if is_done {
            row.push(show(outcome.in_force));
        }
        row
    };
    let mut columns = vec![
        ("requested", Align::Left),
        ("domain", Align::Left),
        ("before", Align::Left),
        ("written", Align::Left),
    ];
    if is_done {
        columns.push(("in force", Align::Left));
    }
    table(&columns, changes.limits.iter().map(row).collect())
}

/// Returns why values in force are not the requested ones, one line for all domains with the same reason.
fn reasons(limits: &[LimitOutcome]) -> Vec<String> {
    let mut reasons: Vec<String> = Vec::new();
    for outcome in limits {
        let Some(why) = &outcome.why else { continue };
        let reason = format!("{} ({}): {why}", outcome.requested, outcome.line);
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    reasons
}

/// Describes the members of the group: `3 tasks are in the group; new threads and children inherit it`.
fn members(changes: &LimitChanges, is_done: bool) -> Option<String> {
    let (are, belong) =
        if is_done { ("are in", "belong to") } else { ("would be moved into", "would belong to") };
    match (changes.tasks, changes.cpus.is_empty()) {
        (0, true) => None,
        (0, false) => Some(format!("CPUs {} {belong} the group", changes.cpus.brief())),
        (count, _) => {
            let are = if count == 1 && is_done { "is in" } else { are };
            let tasks = units::counted(count, "task");
            Some(format!("{tasks} {are} the group; new threads and children inherit it"))
        }
    }
}

fn table(columns: &[(&str, Align)], rows: Vec<Vec<String>>) -> Table {
    Table::new("", columns).with_rows(rows)
}

#[cfg(test)]
mod tests;
