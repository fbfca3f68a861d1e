//! A snapshot as tables.

mod resources;

use crate::{
    findings::Finding,
    snapshot::{
        CpuPercent, CpuRow, GroupRow, InterruptRow, LatencyRow, Migrations, NodeRow, SystemRow, TaskRow,
        TopSnapshot, UnitRow,
    },
};
use manycore_render::{
    document::{Document, Item},
    figure::optional,
    table::{Align, Table},
    terminal::Mark,
};
use manycore_text::units::bytes;

/// Columns of shares of CPUs, by the names of mpstat(1).
const CPU_COLUMNS: [&str; 8] = ["%usr", "%nice", "%sys", "%iowait", "%irq", "%soft", "%steal", "%idle"];

/// Most CPUs of a set that are listed in a table.
const MOST_CPUS: usize = 24;

/// Whether each line begins with the time, so that lines of several snapshots can be told apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Times {
    /// Only the heading has the time.
    Heading,
    /// Hours, minutes and seconds (UTC).
    Clock,
    /// Date and time (RFC 3339).
    Full,
}

/// Returns a snapshot as tables.
pub fn document(snapshot: &TopSnapshot, times: Times) -> Document {
    let mut document = Document::new();
    // Hours, minutes and seconds of RFC 3339.
    let clock = snapshot.time.get(11..19).unwrap_or(&snapshot.time);
    if times == Times::Heading {
        document.paragraph(format!("{clock} UTC, {:.1} s", snapshot.seconds));
    }
    let form = if times == Times::Full { Form::Numbers } else { Form::Readable };
    let tables = [
        snapshot.system.as_ref().map(|row| system(row, form)),
        Some(units(&snapshot.units)),
        Some(cpus(&snapshot.cpus)),
        Some(tasks("Processes", &snapshot.processes, snapshot.has_counters, form)),
        Some(tasks("Threads", &snapshot.threads, snapshot.has_counters, form)),
        Some(resources::memory(&snapshot.memory, form)),
        Some(interrupts(snapshot)),
        Some(nodes(&snapshot.nodes, form)),
        Some(groups(&snapshot.groups, form)),
        Some(resources::guests(&snapshot.guests)),
        Some(resources::bandwidth(&snapshot.bandwidth, form)),
        snapshot.latency.as_ref().map(latency),
        snapshot.findings.as_deref().filter(|_| form == Form::Numbers).map(findings),
    ];
    for mut table in tables.into_iter().flatten().filter(|table| !table.rows.is_empty()) {
        let time = match times {
            Times::Heading => None,
            Times::Clock => Some(clock),
            Times::Full => Some(snapshot.time.as_str()),
        };
        if let Some(time) = time {
            table.head.insert(0, ("time".to_owned(), Align::Left));
            table.key_columns += 1;
            table.rows.iter_mut().for_each(|row| row.insert(0, time.to_owned()));
        }
        document.table(table);
    }
    if form == Form::Readable
        && let Some(all) = &snapshot.findings
    {
        match times {
            Times::Heading if all.is_empty() => document.paragraph("No findings."),
            Times::Clock if !all.is_empty() => document.paragraph(format!("{clock} UTC")),
            _ => {}
        }
        for one in all {
            document.item(finding(one));
        }
    }
    document
}

/// How figures are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    /// Sizes with a unit, and bounds with a sign.
    Readable,
    /// Numbers only. The heads of sizes have the unit.
    Numbers,
}

impl Form {
    fn size(self, kib: u64) -> String {
        match self {
            Self::Readable => bytes(kib << 10),
            Self::Numbers => kib.to_string(),
        }
    }

    fn head(self, readable: &'static str, numbers: &'static str) -> &'static str {
        if self == Self::Readable { readable } else { numbers }
    }
}

fn figure(value: f64) -> String {
    format!("{value:.1}")
}

fn or_dash<T>(value: Option<T>, show: impl Fn(T) -> String) -> String {
    value.map_or_else(|| "-".to_owned(), show)
}

fn shares(all: &CpuPercent) -> [String; 8] {
    [all.usr, all.nice, all.sys, all.iowait, all.irq, all.soft, all.steal, all.idle].map(figure)
}

fn system(row: &SystemRow, form: Form) -> Table {
    let sizes = [form.head("memory", "memory_kib"), form.head("available", "available_kib")];
    let figures = [&CPU_COLUMNS[..], &["%wait", "runnable", "blocked", "cswch/s", "new/s"], &sizes];
    let title = "The machine, in percent of one CPU";
    let mut table = Table::numeric(title, ("cpus", Align::Right), &figures.concat());
    let mut cells = vec![row.cpus.to_string()];
    cells.extend(shares(&row.cpu_percent));
    cells.extend([
        figure(row.wait_percent),
        or_dash(row.runnable, |count| count.to_string()),
        or_dash(row.blocked, |count| count.to_string()),
        optional(row.switches_per_second, figure),
        optional(row.created_per_second, figure),
        or_dash(row.memory_kib, |kib| form.size(kib)),
        or_dash(row.available_kib, |kib| form.size(kib)),
    ]);
    table.rows.push(cells);
    table
}

fn units(rows: &[UnitRow]) -> Table {
    let figures = [&CPU_COLUMNS[..], &["%wait", "runnable"]].concat();
    let table = Table::numeric("Units, in percent of one CPU", ("unit", Align::Left), &figures);
    let row = |row: &UnitRow| {
        let mut cells = vec![format!("{} {}", row.level.name(), row.cpus.within(MOST_CPUS))];
        cells.extend(shares(&row.cpu_percent));
        cells.extend([figure(row.wait_percent), row.runnable.to_string()]);
        cells
    };
    table.with_rows(rows.iter().map(row).collect())
}

fn cpus(rows: &[CpuRow]) -> Table {
    let has_mhz = rows.iter().any(|row| row.mhz.is_some());
    let has_celsius = rows.iter().any(|row| row.celsius.is_some());
    let mut figures = [&CPU_COLUMNS[..], &["%wait"]].concat();
    figures.extend(has_mhz.then_some("mhz"));
    figures.extend(has_celsius.then_some("celsius"));
    let table = Table::numeric("CPUs", ("cpu", Align::Right), &figures);
    let row = |row: &CpuRow| {
        let mut cells = vec![row.cpu.to_string()];
        let unknown = || std::array::from_fn(|_| "-".to_owned());
        cells.extend(row.cpu_percent.as_ref().map_or_else(unknown, shares));
        cells.push(figure(row.wait_percent));
        cells.extend(has_mhz.then(|| or_dash(row.mhz, |mhz| mhz.to_string())));
        cells.extend(has_celsius.then(|| optional(row.celsius, figure)));
        cells
    };
    table.with_rows(rows.iter().map(row).collect())
}

fn tasks(title: &str, rows: &[TaskRow], has_counters: bool, form: Form) -> Table {
    let are_threads = rows.iter().any(|row| row.tid.is_some());
    let second = if are_threads { "tid" } else { "threads" };
    let mut figures =
        vec!["pid", second, "%cpu", "%wait", "cswch/s", "nvcswch/s", "migr/s", form.head("rss", "rss_kib")];
    figures.extend(has_counters.then_some(["ipc", "miss/s"]).into_iter().flatten());
    let mut table = Table::numeric(title, ("command", Align::Left), &figures);
    table.key_columns = if are_threads { 3 } else { 2 };
    table.head.extend(["user", "state", "cpu", "allowed", "plan"].map(|name| (name.to_owned(), Align::Left)));
    if rows.iter().any(|row| !row.migrations.are_exact && row.migrations.all() > 0.0) {
        table.notes.push("≥: differences of the last CPU between two samples; there may be more".to_owned());
    }
    let row = |row: &TaskRow| {
        let mut cells = vec![
            row.name.clone(),
            row.pid.to_string(),
            row.tid.map_or(row.threads as u64, u64::from).to_string(),
            figure(row.cpu_percent),
            optional(row.wait_percent, figure),
            optional(row.cswch_per_second, figure),
            optional(row.nvcswch_per_second, figure),
            migrations(&row.migrations, form),
            form.size(row.resident_kib),
        ];
        if has_counters {
            cells.push(optional(row.ipc, |ipc| format!("{ipc:.2}")));
            cells.push(optional(row.cache_misses_per_second, figure));
        }
        cells.extend([
            or_dash(row.user.clone(), |user| user),
            row.state.to_string(),
            row.last_cpus.within(MOST_CPUS),
            or_dash(row.allowed.as_ref(), |cpus| cpus.within(MOST_CPUS)),
            or_dash(row.plan, |plan| plan.name().to_owned()),
        ]);
        cells
    };
    table.with_rows(rows.iter().map(row).collect())
}

fn migrations(all: &Migrations, form: Form) -> String {
    let is_bound = form == Form::Readable && !all.are_exact && all.all() > 0.0;
    format!("{}{}", if is_bound { "≥" } else { "" }, figure(all.all()))
}

fn interrupts(snapshot: &TopSnapshot) -> Table {
    let mut table = Table::numeric("Interrupts", ("irq", Align::Left), &["intr/s"]);
    table.head.extend(["most on", "handlers"].map(|name| (name.to_owned(), Align::Left)));
    let row = |row: &InterruptRow| {
        let most = row.by_cpu.iter().max_by(|a, b| a.1.total_cmp(b.1));
        let most = most.map_or_else(String::new, |(cpu, rate)| format!("CPU {cpu}: {rate:.1}"));
        vec![row.name.clone(), figure(row.per_second), most, row.handlers.clone()]
    };
    table.with_rows(snapshot.interrupts.iter().map(row).collect())
}

fn nodes(rows: &[NodeRow], form: Form) -> Table {
    let sizes = [("memory", "memory_kib"), ("free", "free_kib"), ("files", "files_kib")];
    let sizes = sizes.map(|(readable, numbers)| form.head(readable, numbers));
    let figures = [&sizes[..], &["local/s", "other/s", "missed/s"]].concat();
    let table = Table::numeric("Memory by node; pages per second", ("node", Align::Right), &figures);
    let row = |row: &NodeRow| {
        vec![
            row.node.to_string(),
            form.size(row.total_kib),
            form.size(row.free_kib),
            form.size(row.file_kib),
            optional(row.local_pages_per_second, figure),
            optional(row.other_pages_per_second, figure),
            optional(row.missed_pages_per_second, figure),
        ]
    };
    table.with_rows(rows.iter().map(row).collect())
}

fn groups(rows: &[GroupRow], form: Form) -> Table {
    let sizes = [form.head("memory", "memory_kib"), form.head("limit", "limit_kib")];
    let figures =
        [&["%cpu", "%throttled", "%quota"], &sizes[..], &["processes", "%cpu psi", "%mem psi", "%io psi"]]
            .concat();
    let table = Table::numeric("Control groups", ("group", Align::Left), &figures);
    let row = |row: &GroupRow| {
        let mut cells = vec![row.path.clone()];
        let percents = [row.cpu_percent, row.throttled_percent, row.quota_percent];
        cells.extend(percents.map(|value| optional(value, figure)));
        cells.extend(
            [row.memory_bytes, row.memory_limit_bytes]
                .map(|size| or_dash(size, |size| form.size(size >> 10))),
        );
        cells.push(row.processes.to_string());
        cells.extend([0, 1, 2].map(|at| optional(row.pressure_percent.map(|all| all[at]), figure)));
        cells
    };
    table.with_rows(rows.iter().map(row).collect())
}

fn latency(row: &LatencyRow) -> Table {
    let figures = ["count", "p50", "p99", "p99.9"];
    let mut table =
        Table::numeric("Latencies in us; each figure is an upper limit", ("from", Align::Left), &figures);
    let cells = |what: &str, count: u64, us: &[Option<f64>; 3]| {
        let quantile = |us: &Option<f64>| us.map_or_else(|| "more".to_owned(), |us| format!("{us:.0}"));
        let mut cells = vec![what.to_owned(), count.to_string()];
        cells.extend(us.iter().map(|us| if count > 0 { quantile(us) } else { "-".to_owned() }));
        cells
    };
    table.rows = vec![
        cells("wake-up to running", row.wakeups, &row.wakeup_us),
        cells("displaced to running again", row.displaced, &row.displaced_us),
    ];
    table
}

fn findings(all: &[Finding]) -> Table {
    let mut table = Table::numeric("Findings", ("finding", Align::Left), &["seconds"]);
    table.head.push(("fix".to_owned(), Align::Left));
    let row = |one: &Finding| {
        vec![one.text.clone(), figure(one.seconds), one.fix.clone().unwrap_or_else(|| "-".to_owned())]
    };
    table.with_rows(all.iter().map(row).collect())
}

fn finding(finding: &Finding) -> Item {
    let item = Item::new("", Some(Mark::Warning), &finding.text);
    match &finding.fix {
        Some(fix) => item.with_detail("fix", fix),
        None => item,
    }
}
