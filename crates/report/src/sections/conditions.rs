//! The machine, its state at the start, and the run.

use crate::sections::{NamedEvaluation, Table, compare};
use manycore_experiment::record::{Record, StartConditions};
use manycore_render::{
    figure::{factor, grouped},
    table::Align,
};
use manycore_text::units::bytes;
use manycore_topology::{Machine, machine::CacheKind};
use std::collections::BTreeMap;

pub(super) fn single(named: &NamedEvaluation) -> Vec<Table> {
    vec![conditions_table(std::slice::from_ref(named))]
}

pub(super) fn side_by_side(all: &[NamedEvaluation]) -> Vec<Table> {
    vec![conditions_table(all)]
}

/// Order of the rows.
const ORDER: [&str; 23] = [
    "host",
    "hardware",
    "BIOS",
    "CPU",
    "CPUs",
    "allowed",
    "caches",
    "memory",
    "memory modules",
    "hypervisor",
    "operating system",
    "kernel",
    "microcode",
    "settings",
    "frequency governor",
    "clock source",
    "load at the start",
    "memory available",
    "swap in use",
    "CPU pressure (PSI, 10 s)",
    "started",
    "duration",
    "run",
];

/// Returns the table. Its title is that of the section. For one record, the head of the column is "value",
/// because the record's name would not be informative.
fn conditions_table(all: &[NamedEvaluation]) -> Table {
    let position = |name: &str| ORDER.iter().position(|other| *other == name);
    let show = |key: &(Option<usize>, &str)| key.1.to_owned();
    let mut table = compare("", ("what", Align::Left), all, show, |named| {
        rows(&named.record).into_iter().map(|(name, value)| ((position(name), name), value)).collect()
    });
    table.head.iter_mut().for_each(|head| head.1 = Align::Left);
    if let ([_], [_, value]) = (all, &mut table.head[..]) {
        "value".clone_into(&mut value.0);
    }
    table
}

/// Returns the conditions of a record: what each is, and its value.
pub fn rows(record: &Record) -> Vec<(&'static str, String)> {
    let system = &record.machine.system;
    let unknown = |value: &Option<String>| value.clone().unwrap_or_else(|| "unknown".to_owned());
    let mut rows = vec![
        ("host", unknown(&system.hostname)),
        ("hardware", unknown(&system.hardware)),
        ("CPU", unknown(&system.cpu_model)),
        ("CPUs", cpus(&record.machine)),
        ("allowed", allowed_cpus(&record.machine)),
        ("caches", caches(&record.machine)),
        ("memory", memory(&record.machine)),
        ("hypervisor", system.hypervisor.clone().unwrap_or_else(|| "none detected".to_owned())),
        ("operating system", unknown(&system.os)),
        (
            "kernel",
            format!("{} {}", unknown(&system.kernel), system.architecture.as_deref().unwrap_or_default()),
        ),
    ];
    rows.extend(system.bios.clone().map(|bios| ("BIOS", bios)));
    rows.extend(system.memory_modules.clone().map(|modules| ("memory modules", modules)));
    rows.extend(state(&record.conditions));
    rows.extend(run(record));
    rows
}

/// Formats the counts of the machine's parts: `16 online, 8 cores with SMT, 1 package, 1 NUMA node`.
pub fn cpus(machine: &Machine) -> String {
    let counted = |count: usize, name: &str| {
        (count > 0).then(|| format!("{count} {name}{}", if count == 1 { "" } else { "s" }))
    };
    let smt = if machine.has_smt() { " with SMT" } else { "" };
    let parts = [
        Some(format!("{} online", machine.online.len())),
        counted(machine.cores.len(), "core").map(|cores| format!("{cores}{smt}")),
        counted(machine.clusters.len(), "cluster"),
        counted(machine.packages.len(), "package"),
        counted(machine.nodes.len(), "NUMA node"),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

fn allowed_cpus(machine: &Machine) -> String {
    let allowed = &machine.allowed;
    let cpus = if allowed.cpus.is_empty() { "unknown".to_owned() } else { format!("CPUs {}", allowed.cpus) };
    let quota = allowed.quota_cpus.map(|quota| format!(", quota of {quota:.2} CPUs")).unwrap_or_default();
    let binding = match allowed.effective_limit.as_str() {
        "" | "nothing" => String::new(),
        binding => format!(" (limited by {binding})"),
    };
    format!("{cpus}{quota}{binding}")
}

/// Lists each kind of cache with its number and size: `8 x L1d 32 KiB`.
fn caches(machine: &Machine) -> String {
    let mut kinds: BTreeMap<(u32, CacheKind, Option<u64>), usize> = BTreeMap::new();
    for cache in &machine.caches {
        *kinds.entry((cache.level, cache.kind, cache.size_bytes)).or_default() += 1;
    }
    let one = |((level, kind, size), count): ((u32, CacheKind, Option<u64>), usize)| {
        let letter = match kind {
            CacheKind::Data => "d",
            CacheKind::Instruction => "i",
            CacheKind::Unified => "",
        };
        format!("{count} x L{level}{letter} {}", size.map(bytes).unwrap_or_default()).trim_end().to_owned()
    };
    let text = kinds.into_iter().map(one).collect::<Vec<_>>().join(", ");
    if text.is_empty() { "unknown".to_owned() } else { text }
}

fn memory(machine: &Machine) -> String {
    let total = machine.system.memory_bytes.map_or_else(|| "unknown".to_owned(), bytes);
    match machine.nodes.len() {
        0 | 1 => total,
        nodes => format!("{total} on {nodes} NUMA nodes"),
    }
}

fn state(conditions: &StartConditions) -> Vec<(&'static str, String)> {
    let mut rows = Vec::new();
    rows.extend(conditions.microcode.clone().map(|revision| ("microcode", revision)));
    if !conditions.settings.is_empty() {
        let all: Vec<String> =
            conditions.settings.iter().map(|(name, value)| format!("{name}={value}")).collect();
        rows.push(("settings", all.join(", ")));
    }
    if !conditions.governors.is_empty() || conditions.turbo.is_some() {
        let turbo = match conditions.turbo {
            Some(true) => ", turbo on",
            Some(false) => ", turbo off",
            None => "",
        };
        let governors = match conditions.governors.join(", ") {
            none if none.is_empty() => "unknown".to_owned(),
            governors => governors,
        };
        rows.push(("frequency governor", format!("{governors}{turbo}")));
    }
    rows.extend(conditions.clock_source.clone().map(|source| ("clock source", source)));
    rows.extend(conditions.load_average.map(|[one, five, fifteen]| {
        ("load at the start", format!("{} {} {}", factor(one), factor(five), factor(fifteen)))
    }));
    rows.extend(conditions.memory_available_bytes.map(|free| ("memory available", bytes(free))));
    rows.extend(conditions.swap_used_bytes.map(|used| ("swap in use", bytes(used))));
    rows.extend(
        conditions.cpu_pressure_percent.map(|share| ("CPU pressure (PSI, 10 s)", format!("{share:.1} %"))),
    );
    rows
}

fn run(record: &Record) -> Vec<(&'static str, String)> {
    let took =
        format!("{} s{}", grouped(record.seconds), if record.interrupted { ", interrupted" } else { "" });
    vec![
        ("started", record.started.clone()),
        ("duration", took),
        ("run", format!("manycore {} {}, seed {}", record.version, record.command(), record.seed)),
    ]
}
