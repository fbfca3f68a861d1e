//! Tests with known answers.

use super::{machines::*, *};

#[test]
fn two_cpus_have_one_plan_each() {
    let machine = two();
    assert_eq!(line(&machine, "close", 2), "0 1");
    assert_eq!(line(&machine, "spread", 3), "0 1 0");
    assert_eq!(line(&machine, "free", 2), "0-1 0-1");
    assert_eq!(line(&machine, "spread@llc", 2), "0-1 0-1");
    assert_eq!(line(&machine, "spread@core", 2), "0 1");
}

#[test]
fn widened_workers_have_neighbouring_cpus() {
    let wide = |machine: &Machine, policy: &str, count, width| {
        let plan = plan(machine, policy, count).widened(machine, width);
        plan.workers.iter().map(|worker| worker.cpus.to_string()).collect::<Vec<_>>().join(" ")
    };
    let machine = clustered();
    assert_eq!(wide(&machine, "close", 16, 2), "0-1 2-3 4-5 6-7 8-9 10-11 12-13 14-15");
    assert_eq!(wide(&machine, "spread", 16, 2), "0-1 8-9 4-5 12-13 2-3 10-11 6-7 14-15");
    assert_eq!(wide(&machine, "cpus=0,2,5,9,15", 5, 2), "0,2 9,15", "of the given CPUs only");
    assert_eq!(wide(&machine, "spread@cluster", 4, 2), "0-3 8-11 4-7 12-15", "wide enough");
    assert_eq!(wide(&two(), "close", 2, 3), "0-1", "as many as there are");
    assert_eq!(wide(&smt(), "close", 8, 2), "0,4 1,5 2,6 3,7");
    assert_eq!(wide(&smt(), "close+nosmt", 4, 2), "0-1 2-3");
    let nodes =
        |plan: PlacementPlan| plan.workers.into_iter().map(|worker| worker.memory_nodes).collect::<Vec<_>>();
    assert_eq!(nodes(plan(&two_packages(), "spread", 16).widened(&two_packages(), 8)), [[0], [1]]);
}

/// A package with an L3 of CPUs 0 to 3, low-power cores with an L2 of their own, and CPU 6 without any cache.
fn several_last_levels() -> Machine {
    let l2 = |list: &str| manycore_topology::machine::Cache { level: 2, ..l3(cpus(list)) };
    Machine {
        online: cpus("0-6"),
        packages: named(&["0-6"]),
        cores: named(&["0", "1", "2", "3", "4", "5", "6"]),
        caches: vec![l2("0-1"), l2("2-3"), l2("4-5"), l3(cpus("0-3"))],
        ..Machine::default()
    }
}

/// Regression test: one level was the last for all CPUs, and those without such a cache got no worker.
#[test]
fn cpus_without_the_largest_cache_get_workers() {
    let machine = several_last_levels();
    let plan = plan(&machine, "spread@llc", 7);
    assert_eq!(plan.cpus(), machine.online);
    let count = |list: &str| plan.workers.iter().filter(|worker| worker.cpus == cpus(list)).count();
    assert_eq!([count("0-3"), count("4-5"), count("6")], [4, 2, 1]);
}

/// Regression test: `close` took the first CPUs, of several caches and packages, where one holds all workers.
#[test]
fn close_workers_are_in_the_smallest_unit_that_holds_all() {
    let of = |machine: &Machine, free: &str, count| {
        let mut machine = machine.clone();
        machine.allowed.cpus = cpus(free);
        let plan = plan(&machine, "close", count);
        plan.cpus().to_string()
    };
    // Two packages of an L3 each, and two of two.
    let machine = two_packages();
    assert_eq!(of(&machine, "6-15", 8), "8-15");
    assert_eq!(of(&machine, "6-15", 2), "6-7", "the fewest CPUs are left over");
    assert_eq!(of(&machine, "6-15", 9), "6,8-15", "the one with the most CPUs first");
    let caches = Form { packages: 2, caches: 2, cores: 8, ..Form::ONE }.machine();
    assert_eq!(of(&caches, "4-7,12-15,16-19,24-31", 8), "24-31", "an L3, not a package with as many CPUs");
    assert_eq!(of(&caches, "4-7,12-15,16-19,24-31", 4), "4-7");
    assert_eq!(of(&caches, "4-7,12-15,16-19,24-31", 12), "16-19,24-31");
    assert_eq!(of(&caches, "0-31", 20), "0-19");
    let smt = Form { caches: 2, cores: 4, siblings: 2, ..Form::ONE }.machine();
    assert_eq!(of(&smt, "1,4-15", 3), "4-6");
    assert_eq!(of(&smt, "1-15", 2), "2-3", "a whole core");
}

#[test]
fn packages_are_filled_or_taken_in_turn() {
    let machine = two_packages();
    assert_eq!(line(&machine, "close", 10), "0 1 2 3 4 5 6 7 8 9");
    assert_eq!(line(&machine, "spread", 5), "0 8 1 9 2");
    assert_eq!(line(&machine, "spread@package", 3), "0-7 8-15 0-7");
    assert_eq!(line(&machine, "spread@core", 2), "0 8", "few workers go far apart");
}

#[test]
fn nodes_come_before_clusters() {
    let machine = clustered();
    assert_eq!(line(&machine, "spread", 8), "0 8 4 12 1 9 5 13");
    assert_eq!(line(&machine, "spread@cluster", 4), "0-3 8-11 4-7 12-15");
    assert_eq!(line(&machine, "spread@node", 3), "0-7 8-15 0-7");
    assert_eq!(line(&machine, "close", 5), "0 1 2 3 4");
}

#[test]
fn a_node_of_two_packages_lies_around_them() {
    let mut machine = two_packages();
    machine.nodes.truncate(1);
    machine.nodes[0].cpus = machine.online.clone();
    assert_eq!(line(&machine, "spread@node", 1), "0-15");
    assert_eq!(line(&machine, "spread", 2), "0 8");
}

#[test]
fn siblings_are_last_when_spread_and_next_when_close() {
    let machine = smt();
    assert_eq!(line(&machine, "close", 8), "0 4 1 5 2 6 3 7");
    assert_eq!(line(&machine, "spread", 8), "0 2 1 3 4 6 5 7");
    assert_eq!(line(&machine, "close+nosmt", 5), "0 1 2 3 0");
    assert_eq!(line(&machine, "free+nosmt", 1), "0-3");
    assert_eq!(line(&machine, "spread@llc+nosmt", 2), "0-1 2-3");
    assert_eq!(line(&machine, "cpus=4,0,7+nosmt", 3), "0 7 0");
}

#[test]
fn only_usable_cpus_are_used() {
    let mut machine = sparse();
    assert_eq!(line(&machine, "free", 1), "2,8,10,100,102");
    assert_eq!(line(&machine, "spread", 5), "2 100 8 102 10");
    assert_eq!(line(&machine, "close", 6), "2 8 10 100 102 2");
    machine.isolated = cpus("2,100");
    assert_eq!(line(&machine, "free", 1), "8,10,102");
    assert_eq!(line(&machine, "cpus=100,8", 2), "100 8");
}

#[test]
fn uneven_clusters_are_used_evenly() {
    let machine = uneven();
    assert_eq!(line(&machine, "spread", 8), "0 3 4 1 5 6 2 7");
    let deal = |workers| {
        let placed = placed(&machine, "spread@cluster", workers);
        let small = placed.iter().filter(|cpus| *cpus == "0-2").count();
        (small, workers - small)
    };
    assert_eq!([1, 2, 3, 4, 8, 16].map(deal), [(0, 1), (1, 1), (1, 2), (2, 2), (3, 5), (6, 10)]);
}

#[test]
fn fast_cores_come_first() {
    let machine = hybrid();
    assert_eq!(line(&machine, "close", 8), "4 5 6 7 0 1 2 3");
    assert_eq!(line(&machine, "spread", 8), "4 6 0 2 1 3 5 7");
}

#[test]
fn lists_keep_their_order_and_begin_again() {
    let machine = two_packages();
    assert_eq!(line(&machine, "cpus=9,0-1,9", 6), "9 0 1 9 9 0");
}

#[test]
fn memory_is_on_the_own_or_the_nearest_node() {
    let machine = expanded();
    let nodes = |place, workers| {
        plan(&machine, place, workers)
            .workers
            .into_iter()
            .map(|worker| worker.memory_nodes)
            .collect::<Vec<_>>()
    };
    assert_eq!(nodes("cpus=0,2", 2), [[0], [3]], "of two equally near nodes the one of the faster tier");
    assert_eq!(nodes("free", 1), [[0, 3]]);
    assert_eq!(plan(&two_packages(), "close", 1).workers[0].memory_nodes, [0]);
    let without = Machine { nodes: Vec::new(), ..expanded() };
    assert!(plan(&without, "close", 1).workers[0].memory_nodes.is_empty());
    let mut untold = expanded();
    untold.nodes.iter_mut().for_each(|node| (node.distances, node.tier) = (Vec::new(), None));
    assert_eq!(plan(&untold, "cpus=2", 1).workers[0].memory_nodes, [0, 2, 3]);
}

#[test]
fn devices_draw_workers_near() {
    let machine = with_devices();
    for name in ["eth0", "0000:3b:00.0", "3b:00.0", "3B:00.0", "ib0"] {
        assert_eq!(line(&machine, &format!("near={name}"), 3), "8 12 9", "{name}");
    }
    assert_eq!(line(&machine, "near=nvme0n1", 2), "0 8");
    let why = |name: &str| plan(&machine, &format!("near={name}"), 1).workers[0].why.clone();
    assert!(why("eth0").ends_with("; near eth0 (0000:3b:00.0) on node 1"), "{}", why("eth0"));
    assert!(
        why("nvme0n1")
            .ends_with("the firmware reports no node for nvme0n1 (0001:01:00.0), so all CPUs count as near")
    );
    assert!(why("eth1").ends_with("eth1 (0000:02:00.0) is on node 0 and near all CPUs"));
}

#[test]
fn a_reserve_takes_whole_slow_low_cores() {
    let kept = |machine: &Machine, count| {
        let plan = "free".parse::<Policy>().unwrap().plan(machine, 1, &Reserve::Count(count)).unwrap();
        machine.online.difference(&plan.cpus()).to_string()
    };
    assert_eq!([1, 2, 3].map(|count| kept(&smt(), count)), ["0", "0,4", "0-1,4"]);
    assert_eq!([1, 4, 5, 6].map(|count| kept(&hybrid(), count)), ["0", "0-3", "0-4", "0-5"]);
    let policy = "cpus=0-1".parse::<Policy>().unwrap();
    assert!(
        policy.plan(&two_packages(), 2, &Reserve::Count(14)).is_ok(),
        "CPUs that cpus=LIST names are reserved last"
    );
    let reserve = "cpus=0-3,99".parse().unwrap();
    let spread = "spread".parse::<Policy>().unwrap().plan(&two_packages(), 2, &reserve).unwrap();
    assert_eq!(spread.cpus().to_string(), "4,8");
}

#[test]
fn reasons_are_explained() {
    let whys = |machine: &Machine, place, workers| {
        plan(machine, place, workers).workers.into_iter().map(|worker| worker.why).collect::<Vec<_>>()
    };
    assert_eq!(
        whys(&smt(), "spread", 9)[3..],
        [
            "CPU 3: core 3 of L3 2-3,6-7, the first free core of the least used L3",
            "CPU 4: core 0 of L3 0-1,4-5, an SMT sibling, as every core has a worker",
            "CPU 6: core 2 of L3 2-3,6-7, an SMT sibling, as every core has a worker",
            "CPU 5: core 1 of L3 0-1,4-5, an SMT sibling, as every core has a worker",
            "CPU 7: core 3 of L3 2-3,6-7, an SMT sibling, as every core has a worker",
            "CPU 0: core 0 of L3 0-1,4-5, shared with worker 0",
        ]
    );
    assert_eq!(
        whys(&smt(), "close", 5),
        [
            "CPU 0: core 0 of L3 0-1,4-5, the first",
            "CPU 4: core 0 of L3 0-1,4-5, SMT sibling of worker 0",
            "CPU 1: core 1 of L3 0-1,4-5, the next in the L3 of worker 1",
            "CPU 5: core 1 of L3 0-1,4-5, SMT sibling of worker 2",
            "CPU 2: core 2 of L3 2-3,6-7, the next in the package of worker 3",
        ]
    );
    assert_eq!(whys(&hybrid(), "close", 5)[4], "CPU 0: core 0 of L3 0-7, the first efficiency core");
    assert_eq!(
        whys(&uneven(), "spread@cluster", 3)[1],
        "CPUs 3-7: cluster 1, 2 of 3 workers for 5 of 8 CPUs"
    );
    assert_eq!(whys(&two(), "free", 1), ["CPUs 0-1: all that may be used; the scheduler chooses"]);
    assert_eq!(
        whys(&two(), "cpus=1,0", 3)[1..],
        [
            "CPU 0: core 0 of L3 0-1, number 2 of the list",
            "CPU 1: core 1 of L3 0-1, shared with worker 0: the list begins again"
        ]
    );
}

#[test]
fn plans_count_their_sharing() {
    let machine = two_packages();
    let shared = |place, workers| {
        let sharing = plan(&machine, place, workers).cpu_sharing();
        (sharing.workers, sharing.most)
    };
    assert_eq!(shared("close", 16), (0, 1));
    assert_eq!(shared("close", 18), (4, 2));
    assert_eq!(shared("free", 3), (3, 3));
    assert_eq!(shared("spread@package", 3), (2, 2));
    assert!(plan(&machine, "close", 16).check_exclusive().is_ok());
    assert!(plan(&machine, "free", 16).check_exclusive().is_ok());
    assert_eq!(
        plan(&machine, "spread@package", 17).check_exclusive().unwrap_err().to_string(),
        "17 workers on CPUs 0-15 cannot have one CPU each; at most 16 can"
    );
    assert!(plan(&machine, "cpus=0,0,1", 2).check_exclusive().is_err());
    assert!(plan(&machine, "close", 3).one_cpu_each() && !plan(&machine, "free", 3).one_cpu_each());
}

#[test]
fn a_plan_is_a_file() {
    let machine = two();
    let plan = plan(&machine, "close", 1);
    let json = serde_json::json!({
        "schema": "manycore/plan/1",
        "machine_fingerprint": machine.fingerprint(),
        "policy": "close",
        "workers": [{"cpus": "0", "memory_nodes": [0], "why": "CPU 0: core 0 of L3 0-1, the first"}],
    });
    assert_eq!(serde_json::to_value(&plan).unwrap(), json);
    assert_eq!(serde_json::from_value::<PlacementPlan>(json).unwrap(), plan);
}
