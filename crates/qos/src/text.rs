//! Limits of memory bandwidth and cache as text.

mod proof;

pub use proof::proofs;

use crate::{
    applied::Applied,
    told::{Told, words},
};
use manycore_linux::resctrl::{
    dialect::{AMD_UNIT, Bounds, Control, Dialect, Offer, Scope},
    rates::{Monitor, Reading},
    state::{Group, Owner, Role, State},
};
use manycore_render::table::{Align, Table};
use manycore_text::{names::printable, units};
use manycore_topology::CpuSet;

/// Mount options that are not shown, because most file systems have them.
const USUAL: [&str; 7] = ["rw", "relatime", "noatime", "nosuid", "nodev", "noexec", "seclabel"];

/// Number of tasks of a group that are listed; the rest is only counted.
const TASKS: usize = 40;

/// Returns what can be set and the groups as text; `tasks` are listed if the state holds a single group.
pub fn state(state: &State, tasks: Option<&[u32]>) -> String {
    let offer = &state.offer;
    let options: Vec<&str> =
        state.options.iter().map(String::as_str).filter(|option| !USUAL.contains(option)).collect();
    let options =
        if options.is_empty() { String::new() } else { format!(", mounted with {}", options.join(",")) };
    let mut text =
        format!("Cache and memory bandwidth: {}, at {}{options}\n", offer.dialect.name(), state.root);
    if tasks.is_none() {
        text.push_str("\nWhat can be set\n\n");
        if offer.controls.is_empty() {
            text.push_str("  Nothing: resctrl only monitors here.\n");
        } else {
            text.push_str(&controls(offer).text());
        }
        text.push_str(&room(state));
        text.push_str("\nGroups\n\n");
    } else {
        text.push('\n');
    }
    text.push_str(&groups(state).text());
    if let Some(tasks) = tasks {
        let shown: Vec<String> = tasks.iter().take(TASKS).map(u32::to_string).collect();
        let more = tasks.len().saturating_sub(TASKS);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let none = if tasks.is_empty() { "none" } else { "" };
        text.push_str(&format!("\n  tasks: {}{more}{none}\n", shown.join(" ")));
    } else if offer.dialect.monitors_tell_rates() {
        text.push_str("\n  memory: the current rate, as the kernel reports it.\n");
    } else {
        text.push_str(
            "\n  memory: bytes read and written since resctrl was mounted or the group was created.\n",
        );
    }
    text
}

/// Returns how many of the available groups and monitors are in use.
fn room(state: &State) -> String {
    let (there, all) = (state.control_groups().count(), state.groups.len());
    let groups = state.offer.groups.map(|most| format!("{there} of {most} groups with limits"));
    let monitors = state.offer.monitors.map(|most| format!("{all} of {most} monitors"));
    let parts: Vec<String> = [groups, monitors].into_iter().flatten().collect();
    if parts.is_empty() { String::new() } else { format!("\n  In use: {}.\n", parts.join(", ")) }
}

fn controls(offer: &Offer) -> Table {
    let row = |(name, control): (&String, &Control)| {
        vec![
            name.clone(),
            meaning(name).to_owned(),
            domains(offer, name, control),
            range(offer, name, control),
        ]
    };
    let columns =
        [("line", Align::Left), ("what", Align::Left), ("domains", Align::Left), ("values", Align::Left)];
    table(&columns, offer.controls.iter().map(row).collect())
}

/// Describes a line of `schemata`, with the option of `qos set` that writes it.
fn meaning(line: &str) -> &'static str {
    match line {
        "L2" | "L2PBM" => "portion of the L2 (--cache l2=)",
        "L3" | "L3PBM" => "portion of the L3 (--cache l3=)",
        "L2CODE" => "the same for code (--cache l2code=)",
        "L3CODE" => "the same for code (--cache l3code=)",
        "L2DATA" => "the same for data (--cache l2data=)",
        "L3DATA" => "the same for data (--cache l3data=)",
        "MB" | "MBMAX" => "maximum bandwidth (--bandwidth)",
        "MBMIN" => "minimum bandwidth (--min-bandwidth)",
        "MBHDL" => "maximum is a hard limit (--hardlimit)",
        "MBPRI" => "bandwidth priority (--priority)",
        "SMBA" => "maximum bandwidth of slow memory",
        "L3PRI" | "L2PRI" => "priority of cache lines",
        "L3MAX" => "maximum share of the L3",
        "L3MIN" => "minimum share of the L3",
        _ => "",
    }
}

fn domains(offer: &Offer, line: &str, control: &Control) -> String {
    let set: CpuSet = control.domains.iter().copied().collect();
    let word = match offer.dialect.scope(line) {
        Scope::Node => "node",
        Scope::Cache(_) => "cache",
    };
    format!("{word} {}", set.brief())
}

fn range(offer: &Offer, line: &str, control: &Control) -> String {
    match &control.bounds {
        Bounds::Mask { full, least_bits, sparse } => {
            let gaps = if *sparse { "gaps allowed" } else { "no gaps" };
            format!("{full:x} ({} ways), at least {least_bits}, {gaps}", full.count_ones())
        }
        Bounds::Number { .. } if line == "MB" && offer.megabytes => "any MB/s".to_owned(),
        Bounds::Number { .. } if matches!(line, "MB" | "SMBA") && offer.dialect == Dialect::AmdPqos => {
            format!("MB/s, in steps of {AMD_UNIT} MB/s")
        }
        Bounds::Number { least, most, step } => {
            let unit = if matches!(line, "MB" | "MBMAX" | "MBMIN" | "L3MAX" | "L3MIN") { " %" } else { "" };
            let steps = if *step > 1 { format!(", in steps of {step}") } else { String::new() };
            format!("{least} to {most}{unit}{steps}")
        }
    }
}

fn groups(state: &State) -> Table {
    let row = |group: &Group| {
        let limits = match group.role {
            Role::Monitor => "as its parent group".to_owned(),
            _ => limits(&state.offer, group),
        };
        let mode = group.mode.as_deref().filter(|mode| *mode != "shareable");
        let mode = mode.map(|mode| format!(", {mode}")).unwrap_or_default();
        // A monitoring group is listed below its parent group.
        let (above, name) = group.name.rsplit_once("mon_groups/").unwrap_or(("", group.title()));
        let name = if group.role == Role::Monitor && state.groups.len() > 1 {
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

fn owner(owner: &Owner) -> String {
    match owner {
        Owner::Kernel => "-".to_owned(),
        Owner::Manycore { .. } => "manycore".to_owned(),
        Owner::Libvirt { domain, .. } => format!("libvirt: {domain}"),
        Owner::Kubernetes => "Kubernetes".to_owned(),
        Owner::Container { id } => format!("container {}", &id[..12]),
        Owner::Unknown => "unknown".to_owned(),
    }
}

/// Returns the limits of a group: `MB: 50 %, L3 0: 3ff (10 of 20 ways)`. Domains with the same value are
/// merged, and values that do not limit are left out.
fn limits(offer: &Offer, group: &Group) -> String {
    let mut parts = Vec::new();
    for line in &group.schemata.0 {
        let Some(control) = offer.control(&line.name) else { continue };
        let mut values: Vec<u64> =
            line.values.values().copied().filter(|value| *value != control.open).collect();
        values.dedup();
        for value in values {
            let same = line.values.iter().filter(|(_, other)| **other == value).map(|(domain, _)| *domain);
            let same: CpuSet = same.collect();
            let on =
                if same.len() == line.values.len() { String::new() } else { format!(" {}", same.brief()) };
            let part = format!("{}{on}: {}", line.name, words(offer, &line.name, value));
            if !parts.contains(&part) {
                parts.push(part);
            }
        }
    }
    if parts.is_empty() { "none".to_owned() } else { parts.join(", ") }
}

/// Returns the sum over all domains. If a domain has no reading, its state is returned instead, since the sum
/// would be too small.
fn sum(monitors: &[Monitor], of: impl Fn(&Monitor) -> Option<Reading>) -> String {
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

/// Returns the changes of `qos set`, made or planned, as text.
pub fn applied(applied: &Applied) -> String {
    let is_done = applied.journal.is_some();
    let group = applied.group.as_deref().unwrap_or("manycore-PID");
    let kind = if applied.made { "new group" } else { "group" };
    let would = if is_done { "" } else { "dry run: " };
    let mut text = format!("{would}{kind} {group} for {} ({})\n\n", applied.target, applied.dialect.name());
    let row = |told: &Told| {
        let show = |value: Option<u64>| {
            value.map_or_else(|| "-".to_owned(), |value| words(&applied.offer, &told.line, value))
        };
        let mut row = vec![
            told.asked.clone(),
            format!("{} {}", told.line, told.domain),
            show(told.before),
            show(Some(told.written)),
        ];
        if is_done {
            row.push(show(told.in_force));
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
    text.push_str(&table(&columns, applied.limits.iter().map(row).collect()).text());
    text.push('\n');
    let mut reasons: Vec<String> = Vec::new();
    for told in &applied.limits {
        let Some(why) = &told.why else { continue };
        let reason = format!("  {} ({}): {why}\n", told.asked, told.line);
        if !reasons.contains(&reason) {
            reasons.push(reason);
        }
    }
    text.extend(reasons);
    text.extend(applied.notes.iter().map(|note| format!("  {note}\n")));
    text.push_str(&members(applied, is_done));
    if let Some(journal) = &applied.journal {
        text.push_str(&format!("manycore undo {journal} restores the previous state.\n"));
    }
    text
}

/// Describes the members of the group: `3 tasks: in it; threads and children inherit it`.
fn members(applied: &Applied, is_done: bool) -> String {
    let verb = if is_done { "in it" } else { "to be put into it" };
    match (applied.tasks, applied.cpus.is_empty()) {
        (0, true) => String::new(),
        (0, false) => format!("  CPUs {}: {verb}\n", applied.cpus.brief()),
        (count, _) => {
            format!("  {}: {verb}; threads and children inherit it\n", units::counted(count, "task"))
        }
    }
}

fn table(columns: &[(&str, Align)], rows: Vec<Vec<String>>) -> Table {
    let head = columns.iter().map(|&(name, align)| (name.to_owned(), align)).collect();
    Table { title: String::new(), head, rows, notes: Vec::new(), raw: false }
}

#[cfg(test)]
mod tests;
