//! The scheduler for reading.

use super::report::{
    DomainLevel, DomainSource, EnergyAware, FairAlgorithm, KernelScheduler, SchedulerReport,
};
use manycore_render::{
    document::{Document, Item},
    table::{Align, Table},
};
use manycore_text::names::printable;
use manycore_topology::CpuSet;

/// Number of domains that are listed in a row; the rest is only counted.
const MAX_LISTED_DOMAINS: usize = 4;

/// Returns the scheduler in force as text.
pub fn document(report: &SchedulerReport) -> Document {
    let mut document = Document::new();
    document.heading("Scheduler");
    document.field("in force", in_force(report));
    document.field("kernel", printable(report.kernel.as_deref().unwrap_or("unknown")));
    sched_ext(report, &mut document);
    kernel_scheduler(report, &mut document);
    features(&report.kernel_scheduler, &mut document);
    domains(report, &mut document);
    consequences(report, &mut document);
    missing(report, &mut document);
    document
}

/// Returns which scheduler schedules normal tasks.
fn in_force(report: &SchedulerReport) -> String {
    let own = match report.kernel_scheduler.algorithm {
        FairAlgorithm::Eevdf => "EEVDF",
        FairAlgorithm::Cfs => "CFS",
        FairAlgorithm::Unknown => "unknown algorithm",
    };
    let own = format!("{own}, the kernel's own ({})", printable(&report.kernel_scheduler.evidence));
    let Some(name) = report.sched_ext.scheduler.as_deref().map(printable) else { return own };
    match report.sched_ext.all_tasks {
        Some(true) => format!("{name} (sched_ext), for all normal tasks"),
        Some(false) => format!("{name} (sched_ext) for tasks of SCHED_EXT; for all others {own}"),
        None => format!("{name} (sched_ext)"),
    }
}

fn sched_ext(report: &SchedulerReport, document: &mut Document) {
    let state = &report.sched_ext;
    let words = match state.state.as_str() {
        "absent" => absent(report).to_owned(),
        "disabled" => "no scheduler loaded".to_owned(),
        other => printable(other),
    };
    let loads = state.enable_sequence.map(|count| format!("loads since boot: {count}"));
    let rejected =
        state.rejected_tasks.filter(|count| *count > 0).map(|count| format!("rejected tasks: {count}"));
    let parts: Vec<String> = [Some(words), loads, rejected].into_iter().flatten().collect();
    document.field("sched_ext", parts.join("; "));
    let events = state.events.iter().filter(|(_, count)| **count > 0);
    let events: Vec<String> = events.map(|(name, count)| format!("{} {count}", printable(name))).collect();
    if !events.is_empty() {
        document.field("events", events.join(", "));
    }
}

fn kernel_scheduler(report: &SchedulerReport, document: &mut Document) {
    let scheduler = &report.kernel_scheduler;
    if let Some(mode) = &scheduler.preemption {
        document.field("preemption", printable(mode));
    }
    for (title, name) in [("base slice", "base_slice_ns"), ("latency target", "latency_ns")] {
        if let Some(&nanoseconds) = scheduler.tunables.get(name) {
            document.field(title, format!("{} ms", nanoseconds as f64 / 1e6));
        }
    }
    let on_off = |setting: Option<bool>| setting.map(|on| if on { "on" } else { "off" });
    let cache_aware = match scheduler.features {
        Some(_) => "not in this kernel",
        None => "unknown",
    };
    document.field("cache-aware", on_off(scheduler.cache_aware).unwrap_or(cache_aware));
    document.field("autogroup", on_off(scheduler.autogroup).unwrap_or(absent(report)));
    document.field(
        "energy-aware",
        match scheduler.energy_aware {
            EnergyAware::On => "on",
            EnergyAware::Off => "off",
            EnergyAware::Impossible => "not possible on this machine",
            EnergyAware::Absent => absent(report),
        },
    );
    document.field("SMT", on_off(report.smt).unwrap_or("unknown"));
}

/// Returns what the absence of a setting means.
fn absent(report: &SchedulerReport) -> &'static str {
    if report.live { "not in this kernel" } else { "not in the copy" }
}

fn features(scheduler: &KernelScheduler, document: &mut Document) {
    let Some(features) = &scheduler.features else { return };
    for (title, wanted) in [("features on", true), ("features off", false)] {
        let names = features.iter().filter(|(_, on)| **on == wanted).map(|(name, _)| printable(name));
        document.field(title, names.collect::<Vec<_>>().join(" "));
    }
}

fn domains(report: &SchedulerReport, document: &mut Document) {
    document.gap();
    document.heading("Scheduling domains");
    document.paragraph(match report.domains.source {
        DomainSource::Schedstat => "As the kernel built them (/proc/schedstat), smallest first.",
        DomainSource::Debugfs => "Names from debugfs, CPUs from the topology, smallest first.",
        DomainSource::Derived => "Derived from the topology by the kernel's rules, smallest first.",
    });
    if report.domains.levels.is_empty() {
        document.indented(2, "There are none.");
    } else {
        document.gap();
        document.table(table(&report.domains.levels));
    }
    document.gap();
    let clusters = &report.clusters;
    let answer = match (clusters.groups.is_empty(), clusters.are_domain) {
        (true, _) => "none",
        (false, true) => "a domain",
        (false, false) => "not a domain",
    };
    document.field("clusters", format!("{answer}: {}", printable(&clusters.reason)));
    for (name, cpus) in [("isolated", &report.domains.isolated), ("in no domain", &report.domains.outside)] {
        if !cpus.is_empty() {
            document.field(name, cpus.brief());
        }
    }
}

fn table(levels: &[DomainLevel]) -> Table {
    let row = |level: &DomainLevel| {
        let sizes = level.groups.iter().map(CpuSet::len);
        let (least, most) = (sizes.clone().min().unwrap_or(0), sizes.max().unwrap_or(0));
        let size = if least == most { most.to_string() } else { format!("{least} to {most}") };
        vec![
            printable(&level.name),
            meaning(&level.name).to_owned(),
            level.groups.len().to_string(),
            size,
            listed(&level.groups),
        ]
    };
    let columns = [
        ("name", Align::Left),
        ("CPUs that share", Align::Left),
        ("domains", Align::Right),
        ("CPUs each", Align::Right),
        ("CPUs", Align::Left),
    ];
    Table::new("", &columns).with_rows(levels.iter().map(row).collect())
}

/// Returns what the CPUs of a domain share.
fn meaning(name: &str) -> &'static str {
    match name {
        "SMT" => "a core",
        "CLS" => "a cluster",
        "MC" => "a last-level cache",
        "PKG" | "DIE" => "a package",
        "NODE" => "a node",
        "NUMA" => "several nodes",
        _ => "",
    }
}

fn listed(groups: &[CpuSet]) -> String {
    let named = groups.iter().take(MAX_LISTED_DOMAINS).map(CpuSet::brief);
    let more = groups.len().saturating_sub(MAX_LISTED_DOMAINS);
    let more = (more > 0).then(|| format!("{more} more"));
    named.chain(more).collect::<Vec<_>>().join("; ")
}

fn consequences(report: &SchedulerReport, document: &mut Document) {
    document.gap();
    document.heading("For the threads of one process");
    for one in &report.consequences {
        let evidence: Vec<String> = one.evidence.iter().map(|text| printable(text)).collect();
        document.item(Item::new("-", None, one.text.clone()).with_detail("because", evidence.join("; ")));
    }
    if let Some(next) = &report.next {
        document.gap();
        document.field("next", next.clone());
    }
}

fn missing(report: &SchedulerReport, document: &mut Document) {
    if report.missing.is_empty() {
        return;
    }
    document.gap();
    document.heading("Not readable");
    for one in &report.missing {
        let words = format!("{}: {}", one.what, one.reason);
        document.item(Item::new("-", None, words).with_detail("to read it", one.remedy.clone()));
    }
}
