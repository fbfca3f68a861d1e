use super::{facts::Debugfs, *};
use manycore_render::{terminal::Terminal, wrap::columns_of};
use manycore_topology::{
    SysTree,
    capture::Capture,
    synthetic::{MachineSpec, Numbering},
};
use proptest::prelude::*;

/// A guest with 16 CPUs, 4 clusters and 2 nodes; its kernel is 7.2. Its files as they were.
const LAB: &str = include_str!("../../../../fixtures/schedulers/kernel-7.2-16cpu.machine");
/// The same with SMT, CPUs 2 and 3 isolated, and domains in debugfs.
const ISOLATED: &str = include_str!("../../../../fixtures/schedulers/kernel-7.2-16cpu-isolated.machine");

fn report(files: Capture) -> SchedulerReport {
    conclude(&facts::read(&SysTree::from_capture(files)).unwrap())
}

/// The report of a saved machine without the files whose paths begin with one of `without`.
fn saved(text: &str, without: &[&str]) -> SchedulerReport {
    let mut skips = false;
    let kept = text.lines().filter(|line| {
        if !line.starts_with(['\t', ' ']) {
            skips = without.iter().any(|path| line.starts_with(path));
        }
        !skips
    });
    report(Capture::parse(&kept.collect::<Vec<_>>().join("\n")).unwrap())
}

fn on_80_columns(report: &SchedulerReport) -> String {
    document(report).text(Terminal::new(80, false))
}

/// A machine whose kernel has this release.
fn machine(spec: &MachineSpec, release: &str) -> Capture {
    let mut files = spec.capture();
    files.add_file("proc/sys/kernel/osrelease", release);
    files
}

fn clustered(packages: u32, clusters: u32) -> MachineSpec {
    MachineSpec { packages, clusters, cores: 4, ..MachineSpec::default() }
}

fn levels(report: &SchedulerReport) -> Vec<(&str, &[manycore_topology::CpuSet])> {
    report.domains.levels.iter().map(|level| (level.name.as_str(), level.groups.as_slice())).collect()
}

fn sentences(report: &SchedulerReport) -> String {
    report.consequences.iter().map(|one| one.text.as_str()).collect::<Vec<_>>().join("\n")
}

#[test]
fn a_kernel_with_clusters_and_cache_aware_balancing() {
    let report = saved(LAB, &[]);
    assert_eq!((report.clusters.are_domain, report.last_level_caches), (true, 2));
    insta::assert_snapshot!(on_80_columns(&report));
}

#[test]
fn isolated_cpus_and_flags_of_domains() {
    let report = saved(ISOLATED, &[]);
    let cls = report.domains.levels.iter().find(|level| level.name == "CLS").unwrap();
    assert!(cls.flags.iter().any(|flag| flag == "SD_CLUSTER"), "{:?}", cls.flags);
    assert_eq!(report.domains.outside.to_string(), "2-3");
    insta::assert_snapshot!(on_80_columns(&report));
}

#[test]
fn all_sources_describe_the_same_domains() {
    for text in [LAB, ISOLATED] {
        let listed = saved(text, &[]);
        let derived = saved(text, &["proc/schedstat", "sys/kernel/debug"]);
        assert_eq!(
            (listed.domains.source, derived.domains.source),
            (DomainSource::Schedstat, DomainSource::Derived)
        );
        assert_eq!(levels(&listed), levels(&derived));
        assert_eq!(listed.domains.outside, derived.domains.outside);
    }
    let listed = saved(ISOLATED, &[]);
    let named = saved(ISOLATED, &["proc/schedstat"]);
    assert_eq!(named.domains.source, DomainSource::Debugfs);
    assert_eq!(named.domains, Domains { source: DomainSource::Debugfs, ..listed.domains });
}

#[test]
fn masks_without_names_are_named_by_the_topology() {
    let mut old = LAB.to_owned();
    for (from, to) in [("version 17", "version 15"), ("CLS ", ""), ("MC ", ""), ("NUMA ", "")] {
        old = old.replace(from, to);
    }
    assert!(!old.contains("CLS"));
    assert_eq!(levels(&saved(&old, &[])), levels(&saved(LAB, &[])));
}

#[test]
fn without_debugfs_the_release_decides() {
    let new = saved(LAB, &["sys/kernel/debug", "proc/schedstat", "sys/kernel/sched_ext"]);
    assert_eq!(new.kernel_scheduler.algorithm, FairAlgorithm::Eevdf);
    assert_eq!((new.kernel_scheduler.features.as_ref(), new.kernel_scheduler.cache_aware), (None, None));
    assert!(!sentences(&new).contains("ache-aware"), "unknown, since 7.2 may have it");
    insta::assert_snapshot!(on_80_columns(&new));
    let old = report(machine(&clustered(1, 2), "5.10.0"));
    assert_eq!(old.kernel_scheduler.algorithm, FairAlgorithm::Cfs);
    assert!(!old.clusters.are_domain && old.clusters.reason.contains("older than 5.16"));
}

#[test]
fn each_reason_for_missing_files_has_a_remedy() {
    let read = || facts::read(&SysTree::from_capture(Capture::parse(LAB).unwrap())).unwrap();
    for (debugfs, reason, remedy) in [
        (Debugfs::NotMounted, "not mounted", "mount -t debugfs"),
        (Debugfs::Forbidden, "only root", "sudo manycore sched show"),
        (Debugfs::LockedDown, "locked down", "boot without lockdown"),
        (Debugfs::WithoutScheduler, "no files of the scheduler", "CONFIG_SCHED_DEBUG"),
        (Debugfs::NotCopied, "copy has no", "copy that directory"),
    ] {
        let missing = conclude(&Facts { debugfs, ..read() }).missing;
        assert!(missing[0].reason.contains(reason) && missing[0].remedy.contains(remedy), "{missing:?}");
        assert_eq!(missing.len(), 1, "{missing:?}");
    }
}

#[test]
fn features_decide_before_the_release() {
    let mut files = machine(&MachineSpec::default(), "5.10.0-with-new-code");
    files.add_file("sys/kernel/debug/sched/features", "PLACE_LAG NO_NEXT_BUDDY");
    let new = report(files.clone()).kernel_scheduler;
    assert_eq!((new.algorithm, new.evidence.as_str()), (FairAlgorithm::Eevdf, "has the feature PLACE_LAG"));
    files.add_file("sys/kernel/debug/sched/features", "GENTLE_FAIR_SLEEPERS START_DEBIT");
    assert_eq!(report(files).kernel_scheduler.algorithm, FairAlgorithm::Cfs);
}

#[test]
fn hybrid_machines_have_a_cluster_domain_since_6_6() {
    let spec = MachineSpec { efficiency_cores: 4, ..clustered(1, 3) };
    let old = report(machine(&spec, "6.5.0"));
    assert!(!old.clusters.are_domain && old.clusters.reason.contains("hybrid"), "{:?}", old.clusters);
    assert!(sentences(&old).contains("does not see the 3 clusters"), "{}", sentences(&old));
    assert!(levels(&old).iter().all(|(name, _)| *name != "CLS"));
    assert!(report(machine(&spec, "6.6.0")).clusters.are_domain);
}

#[test]
fn one_cluster_is_nothing_to_spread_over() {
    let one = report(machine(&clustered(1, 1), "6.12.0"));
    assert!(one.clusters.groups.is_empty(), "a cluster of all CPUs of a last-level cache is none");
    assert!(sentences(&one).contains("only cores"), "{}", sentences(&one));
    assert_eq!(one.next, None);
    insta::assert_snapshot!(on_80_columns(&one));
}

#[test]
fn a_cluster_switch_that_is_off_is_the_reason() {
    let mut files = machine(&clustered(2, 4), "6.6.0-72.0.0.oe2403");
    assert!(report(files.clone()).clusters.are_domain);
    files.add_file("proc/sys/kernel/sched_cluster", "0");
    let off = report(files).clusters;
    assert_eq!((off.are_domain, off.reason.as_str()), (false, "kernel.sched_cluster is 0"));
}

#[test]
fn a_machine_with_320_cpus() {
    let spec =
        MachineSpec { threads: 2, nodes: 2, cores: 4, numbering: Numbering::Halves, ..clustered(2, 10) };
    let large = report(machine(&spec, "6.12.0"));
    assert_eq!(spec.cpus(), 320);
    let counts: Vec<(&str, usize)> =
        levels(&large).into_iter().map(|(name, groups)| (name, groups.len())).collect();
    assert_eq!(counts, [("SMT", 160), ("CLS", 40), ("MC", 4), ("NUMA", 2), ("NUMA", 1)]);
    insta::assert_snapshot!(on_80_columns(&large));
}

#[test]
fn one_cpu_has_no_domain() {
    let single = report(machine(&MachineSpec { cores: 1, ..MachineSpec::default() }, "6.12.0"));
    assert!(single.domains.levels.is_empty() && single.domains.outside.to_string() == "0");
    assert!(on_80_columns(&single).contains("There are none."));
}

/// A machine with a scheduler of this name.
fn with_scheduler(name: &str, all_tasks: &str) -> SchedulerReport {
    let mut files = Capture::parse(LAB).unwrap();
    for (file, text) in [
        ("state", "enabled"),
        ("switch_all", all_tasks),
        ("nr_rejected", "3"),
        ("enable_seq", "7"),
        ("root/ops", name),
        ("root/events", "SCX_EV_SELECT_CPU_FALLBACK 0\nSCX_EV_DISPATCH_KEEP_LAST 123\nbroken\n"),
    ] {
        files.add_file(&format!("sys/kernel/sched_ext/{file}"), text);
    }
    report(files)
}

#[test]
fn a_loaded_scheduler_is_in_force() {
    let all = with_scheduler("simple", "1");
    assert_eq!(all.sched_ext.events["SCX_EV_DISPATCH_KEEP_LAST"], 123);
    assert!(!sentences(&all).contains("ache-aware"), "the kernel's rules do not hold: {}", sentences(&all));
    insta::assert_snapshot!(on_80_columns(&all));
    let part = with_scheduler("simple", "0");
    assert_eq!(part.sched_ext.all_tasks, Some(false));
    assert!(sentences(&part).contains("SCHED_EXT only") && sentences(&part).contains("Cache-aware"));
}

proptest! {
    #[test]
    fn names_of_schedulers_are_printed_safely(name in "[\\x00-\\x7f\u{202e}\u{200b}]{1,128}", columns in 60usize..160) {
        let text = document(&with_scheduler(&name, "1")).text(Terminal::new(columns, false));
        for line in text.lines() {
            prop_assert!(columns_of(line) <= columns, "{}", line);
        }
        let is_hostile = |letter: char| letter != '\n' && !manycore_text::names::is_shown(letter);
        prop_assert!(!text.contains(is_hostile), "{:?}", text);
    }
}
