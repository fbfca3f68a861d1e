//! Overlapping pinning.

use super::*;

#[test]
fn two_processes_on_one_cpu_are_named() {
    let finding = only(&eight(vec![
        busy(process(10, "redis", &["3"]), 0.5),
        busy(process(20, "nginx", &["3"]), 0.4),
        process(30, "cron", &["0-7"]),
    ]));
    assert_eq!(finding.headline, "redis (pid 10) and nginx (pid 20) have overlapping pinning on CPU 3");
    assert_eq!(finding.severity, Severity::Problem);
    assert_eq!(
        finding.evidence[1],
        "nginx (pid 20) is pinned to CPU 3: 1 pinned thread; used 0.40 CPUs during the audit, 4.0 s in total"
    );
    assert_eq!(finding.fix, "separate them (no pins on CPU 0): manycore pin --pid 20 --place cpus=0 --once");
    let FindingKind::OverlappingPins { cpus, claims } = finding.subject else { panic!("{finding:?}") };
    assert_eq!((cpus, claims.len()), (set("3"), 2));
}

#[test]
fn different_cpus_do_not_overlap() {
    assert!(find(&eight(vec![process(10, "a", &["3"]), process(20, "b", &["4"])])).is_empty());
    // A thread's set of several CPUs is not a claim.
    assert!(find(&eight(vec![process(10, "a", &["0-3"]), process(20, "b", &["2-5"])])).is_empty());
}

#[test]
fn inherited_pins_are_shared() {
    let mut child = process(20, "cc1", &["3"]);
    child.parent = 10;
    let mut grandchild = process(30, "as", &["3"]);
    grandchild.parent = 20;
    assert!(find(&eight(vec![process(10, "make", &["3"]), child, grandchild.clone()])).is_empty());
    grandchild.parent = 1;
    assert_eq!(find(&eight(vec![process(10, "make", &["3"]), grandchild])).len(), 1);
}

#[test]
fn a_service_that_is_pinned_as_a_whole_is_one_tenant() {
    let of = |mut process: Process| {
        process.limits.service = Some("/system.slice/db.service".to_owned());
        process
    };
    let workers = vec![of(process(10, "db", &["3"])), of(process(20, "db", &["3"]))];
    assert!(find(&eight(workers.clone())).is_empty());
    let with_free_master = [workers, vec![of(process(30, "master", &["0-7"]))]].concat();
    assert_eq!(find(&eight(with_free_master)).len(), 1);
}

#[test]
fn a_machine_with_one_cpu_has_no_pins() {
    let facts = AuditFacts {
        online: set("0"),
        processes: vec![process(10, "a", &["0"]), process(20, "b", &["0"])],
        ..AuditFacts::default()
    };
    assert!(find(&facts).is_empty());
    // A container with one CPU of a large machine, as seen from inside the container.
    let inside = |pid, name| within(process(pid, name, &["5"]), "/", "/", "5");
    assert!(find(&eight(vec![inside(10, "a"), inside(20, "b")])).is_empty());
}

#[test]
fn containers_that_overlap_are_found() {
    let one = within(process(10, "a", &["0-3"]), "/docker/one", "/docker/one", "0-3");
    let two = within(process(20, "b", &["2-5"]), "/docker/two", "/docker/two", "2-5");
    let finding = only(&eight(vec![one.clone(), two]));
    assert_eq!(
        finding.headline,
        "a (pid 10, group /docker/one) and b (pid 20, group /docker/two) have overlapping pinning on CPUs 2-3"
    );
    assert!(finding.fix.contains("docker update --cpuset-cpus 6-7 two"), "{}", finding.fix);
    let apart = within(process(20, "b", &["4-5"]), "/docker/two", "/docker/two", "4-5");
    assert!(find(&eight(vec![one, apart])).is_empty());
}

#[test]
fn threads_of_a_container_do_not_conflict_with_it() {
    let one = within(process(10, "a", &["0-3", "2"]), "/docker/one", "/docker/one", "0-3");
    assert!(find(&eight(vec![one.clone()])).is_empty());
    let nested = within(process(30, "c", &["0-3"]), "/docker/one/init", "/docker/one", "0-3");
    assert!(find(&eight(vec![one.clone(), nested])).is_empty());
    let stranger = process(20, "b", &["2"]);
    assert_eq!(
        only(&eight(vec![one, stranger])).headline,
        "a (pid 10, group /docker/one) and b (pid 20) have overlapping pinning on CPU 2"
    );
}

#[test]
fn two_processes_of_one_container_conflict() {
    let inside = |pid, name| within(process(pid, name, &["2"]), "/docker/one", "/docker/one", "0-3");
    assert_eq!(
        only(&eight(vec![inside(10, "a"), inside(20, "b")])).headline,
        "a (pid 10) and b (pid 20) have overlapping pinning on CPU 2"
    );
}

#[test]
fn pool_cpus_must_not_be_exclusive() {
    let pod = |pid, name: &str, cpus: &str| {
        let group = format!("/kubepods.slice/pod{name}/cri-containerd-{name}.scope");
        within(process(pid, name, &[cpus]), &group, &group, cpus)
    };
    let pool = vec![pod(10, "a", "0,3-7"), pod(20, "b", "0,3-7")];
    assert!(find(&eight([pool.clone(), vec![pod(30, "c", "1-2")]].concat())).is_empty());
    // A daemon of the host that is pinned to a CPU of the pool does not conflict with an exclusive claim.
    assert!(find(&eight([pool.clone(), vec![process(40, "d", &["4"])]].concat())).is_empty());
    let finding = only(&eight([pool, vec![pod(30, "c", "2-3")]].concat()));
    assert!(matches!(finding.subject, FindingKind::OverlappingPins { ref cpus, .. } if *cpus == set("3")));
}

#[test]
fn a_virtual_machine_is_one_tenant() {
    let scope = |id: u32| format!("/machine.slice/machine-qemu\\x2d{id}\\x2dvm.scope");
    let guest = |pid, id, cpus: [&str; 2]| {
        let emulator = format!("{}/libvirt/emulator", scope(id));
        let mut guest = within(process(pid, "qemu", &["0-1", cpus[0], cpus[1]]), &emulator, &emulator, "0-1");
        for (at, thread) in guest.threads.iter_mut().enumerate().skip(1) {
            let group = format!("{}/libvirt/vcpu{}", scope(id), at - 1);
            let own = GroupLimits {
                group: group.clone(),
                tenant: group,
                cpus: Some(thread.cpus.clone()),
                ..GroupLimits::default()
            };
            thread.limits = Some(own);
        }
        guest
    };
    // Emulators share CPUs 0 and 1 on purpose.
    assert!(find(&eight(vec![guest(10, 1, ["2", "3"]), guest(20, 2, ["4", "5"])])).is_empty());
    let finding = only(&eight(vec![guest(10, 1, ["2", "3"]), guest(20, 2, ["3", "4"])]));
    assert!(matches!(finding.subject, FindingKind::OverlappingPins { ref cpus, .. } if *cpus == set("3")));
    assert!(
        finding.headline.contains(&scope(1)) && finding.headline.contains(&scope(2)),
        "{}",
        finding.headline
    );
}

#[test]
fn idle_helpers_on_every_cpu_claim_none() {
    let all = ["0", "1", "2", "3", "4", "5", "6", "7"];
    let helper = busy(process(100, "tracer", &all), 0.0);
    assert!(find(&eight(vec![helper, process(10, "a", &["3"])])).is_empty());
    let worker = busy(process(100, "scylla", &all), 0.9);
    assert_eq!(find(&eight(vec![worker, process(10, "a", &["3"])])).len(), 1);
}

#[test]
fn one_finding_names_all_conflicting_tenants() {
    let many: Vec<Process> = (1..=5).map(|n| process(10 * n, "w", &["0"])).collect();
    assert_eq!(
        headlines(&eight(many)),
        ["w (pid 10), w (pid 20), w (pid 30), w (pid 40) and w (pid 50) have overlapping pinning on CPU 0"]
    );
}

/// A program with workers that it forked, all pinned to these CPUs.
fn program(pid: u32, name: &str, masks: &[&str]) -> Vec<Process> {
    let member = |(at, mask): (usize, &&str)| {
        let (id, suffix) = (pid + at as u32, if at == 0 { "" } else { "-worker" });
        let own = busy(process(id, &format!("{name}{suffix}"), &[mask]), if at == 0 { 0.0 } else { 0.45 });
        Process { forked: at > 0, parent: if at == 0 { 1 } else { pid }, ..own }
    };
    masks.iter().enumerate().map(member).collect()
}

fn pinned_tenants(facts: &AuditFacts) -> Vec<crate::PinnedTenant> {
    crate::find_pinned(facts, &find(facts))
}

#[test]
fn the_fix_names_all_processes_of_the_tenant_that_moves() {
    let idle = process(90, "redis", &["0"]);
    // `pin` moves descendants as well.
    let together = [vec![idle.clone()], program(10, "stress-ng", &["0", "0", "0"])].concat();
    let finding = only(&eight(together));
    assert_eq!(
        finding.headline,
        "stress-ng (pid 10 and 2 more) and redis (pid 90) have overlapping pinning on CPU 0"
    );
    assert_eq!(
        finding.fix,
        "separate them (no pins on CPUs 1-2): manycore pin --pid 10 --place cpus=1-2 --once"
    );
    assert!(finding.evidence[0].starts_with("stress-ng (pid 10 and 2 more) are pinned to CPU 0"));
    // The parent is elsewhere: each worker is named.
    let apart = [vec![idle], program(10, "stress-ng", &["0-7", "0", "0"])].concat();
    let facts = eight(apart);
    let overlap = find(&facts).into_iter().find(|one| one.headline.contains("overlapping")).unwrap();
    assert!(overlap.fix.contains("--pid 11,12 --place cpus=1-2 --once"), "{}", overlap.fix);
}

#[test]
fn an_idle_process_is_not_moved_for_a_busy_one() {
    let (idle, hog) = (process(90, "redis", &["3"]), busy(process(10, "batch", &["3"]), 0.9));
    for order in [vec![idle.clone(), hog.clone()], vec![hog.clone(), idle.clone()]] {
        assert!(only(&eight(order)).fix.contains("--pid 10 "));
    }
    // None is busy: the one that has worked most.
    let worked = Process { cpu_seconds: 50.0, ..process(10, "batch", &["3"]) };
    let worked =
        Process { threads: vec![Thread { cpu_seconds: Some(50.0), ..worked.threads[0].clone() }], ..worked };
    let finding = only(&eight(vec![worked, idle]));
    assert!(finding.severity == Severity::Risk && finding.fix.contains("--pid 10 "), "{}", finding.fix);
}

#[test]
fn workers_of_one_program_are_one_tenant_wherever_their_parent_runs() {
    for parent in ["0", "1", "0-1"] {
        let facts = AuditFacts { online: set("0-1"), ..eight(program(10, "stress-ng", &[parent, "0", "0"])) };
        let found: Vec<Finding> =
            find(&facts).into_iter().filter(|one| one.headline.contains("overlapping")).collect();
        assert!(found.is_empty(), "{parent}: {found:#?}");
    }
    // Two programs that one shell has pinned one by one are two tenants, whatever their names.
    let started = |pid| Process { parent: 5, ..busy(process(pid, "sh", &["0"]), 0.5) };
    let shell = process(5, "sh", &["0-7"]);
    assert_eq!(find(&eight(vec![shell.clone(), started(10), started(20)])).len(), 1);
    // Process 1 adopts the daemons of all programs.
    let daemon = |pid| Process { forked: true, ..busy(process(pid, "init-like", &["0"]), 0.5) };
    assert_eq!(find(&eight(vec![process(1, "init", &["0-7"]), daemon(10), daemon(20)])).len(), 1);
}

#[test]
fn a_program_confined_to_one_cpu_is_named_with_the_reason_why_it_is_no_problem() {
    let facts = AuditFacts { online: set("0-1"), ..eight(program(10, "stress-ng", &["0", "0", "0"])) };
    assert!(find(&facts).is_empty());
    let tenants = pinned_tenants(&facts);
    let [tenant] = tenants.as_slice() else { panic!("{tenants:#?}") };
    assert_eq!((tenant.claim.processes.len(), tenant.claim.busy_threads), (3, 2));
    assert_eq!(tenant.why, "no other tenant is pinned to this CPU");
    assert_eq!(
        tenant.more.as_deref(),
        Some(
            "its 2 busy threads share 1 CPU; to give them more: manycore pin --pid 10 --place cpus=0-1 --once"
        )
    );
    // What a finding is about is not listed, nor what is idle.
    let others = vec![busy(process(90, "redis", &["0"]), 0.2), process(95, "idle", &["1"])];
    let facts = AuditFacts { processes: [facts.processes, others].concat(), ..facts };
    assert!(!find(&facts).is_empty() && pinned_tenants(&facts).is_empty());
}

#[test]
fn a_pin_of_manycore_is_a_claim_and_is_undone() {
    let pinned = |owner| {
        let pin = ManycorePin { change: "pin-77".to_owned(), owner };
        // On two CPUs, threads on both do not make it a monitor.
        Process { pinned_by: Some(pin), ..busy(process(90, "redis", &["0", "1"]), 0.0) }
    };
    let fix = |owner| {
        let processes = vec![pinned(owner), busy(process(10, "batch", &["0"]), 0.9)];
        only(&AuditFacts { online: set("0-1"), ..eight(processes) }).fix
    };
    assert_eq!(fix(None), "undo the pinning: manycore undo pin-77");
    assert_eq!(fix(Some(77)), "undo the pinning: kill -INT 77 ends the manycore that keeps it there");
}

#[test]
fn where_all_cpus_are_claimed_the_pinning_of_all_processes_is_removed() {
    let other = busy(process(90, "redis", &["0"]), 0.2);
    let processes = [program(10, "stress-ng", &["0", "0"]), vec![other, process(95, "x", &["1"])]].concat();
    let fix = only(&AuditFacts { online: set("0-1"), ..eight(processes) }).fix;
    assert!(fix.ends_with("share the CPUs: taskset -acp 0-1 90"), "{fix}");
}
