//! Tests of requests that cannot be met, and of their messages.

use super::{machines::*, *};

fn refused(machine: &Machine, place: &str) -> String {
    refusal(machine, place, 1, &Reserve::Nothing)
}

#[test]
fn counts_are_limited() {
    let count = |workers| refusal(&two(), "close", workers, &Reserve::Nothing);
    assert_eq!(count(0), "there are no workers to place; request at least 1");
    assert_eq!(count(1_000_000_000), "1000000000 workers are too many for a plan; request at most 65536");
    assert_eq!(plan(&two(), "spread@core", MAX_WORKERS).workers.len(), MAX_WORKERS);
}

#[test]
fn a_machine_of_billions_is_refused() {
    let machine = Machine { online: cpus("0-4294967294"), ..Machine::default() };
    assert!(refused(&machine, "free").contains("description has 4294967295 CPUs"));
    let damaged = Machine { cores: named(&["0-4294967294"]), ..two() };
    assert_eq!(line(&damaged, "close", 2), "0 1");
    assert!(refused(&two(), "cpus=0-4294967294").contains("2-4294967294 not present on this machine"));
}

#[test]
fn unusable_cpus_are_named() {
    assert_eq!(
        refused(&sparse(), "cpus=0-3,8,99"),
        "cpus=0-3,8,99: 99 not present on this machine, 1,3 offline, 0 not allowed (cpuset.cpus of /job); \
         CPUs that may be used: 2,8,10,100,102"
    );
    assert_eq!(
        refusal(&two(), "cpus=0", 1, &"cpus=0".parse().unwrap()),
        "cpus=0: 0 reserved; CPUs that may be used: 1"
    );
}

#[test]
fn a_reserve_leaves_one() {
    assert_eq!(
        refusal(&two(), "close", 1, &Reserve::Count(7)),
        "the reserve is 7 CPUs, but only 2 may be used; reserve at most 1"
    );
    assert!(refusal(&two(), "close", 1, &Reserve::Cpus(cpus("0-9"))).starts_with("the reserve is 2 CPUs"));
}

#[test]
fn a_reserve_for_threads_must_be_online() {
    let check = |list: &str| list.parse::<Reserve>().unwrap().check_online(&sparse());
    assert_eq!(
        check("cpus=1-2,99").unwrap_err().to_string(),
        "reserve cpus=1-2,99: 99 not present on this machine, 1 offline; CPUs that may be reserved: 2,8,10,100,102"
    );
    assert!(check("cpus=0,2").is_ok() && check("7").is_ok());
}

#[test]
fn no_cpus_at_all() {
    let isolated = Machine { isolated: cpus("0-1"), ..two() };
    assert_eq!(
        refused(&isolated, "free"),
        "no CPU may be used: online 0-1, allowed all, isolated 0-1; cpus=LIST may name isolated CPUs, \
         and +isolated uses all of them"
    );
    assert_eq!(line(&isolated, "cpus=1", 1), "1");
}

#[test]
fn isolated_cpus_are_used_only_if_named_or_included() {
    let limit = |source: &str, list: &str| manycore_topology::machine::Limit {
        source: source.to_owned(),
        cpus: Some(cpus(list)),
        quota_cpus: None,
    };
    // With `isolcpus=2-3` every process starts without CPUs 2 and 3, and the root cpuset contains them.
    let mut machine = Machine { online: cpus("0-3"), isolated: cpus("2-3"), ..Machine::default() };
    machine.allowed.cpus = cpus("0-1");
    machine.allowed.limits = vec![limit(manycore_topology::machine::AFFINITY, "0-1")];
    assert_eq!(line(&machine, "close", 2), "0 1");
    assert_eq!(line(&machine, "cpus=2,3", 2), "2 3");
    assert_eq!(line(&machine, "close+isolated", 4), "0 1 2 3");
    assert_eq!(line(&machine, "close+isolated+nosmt", 4), line(&machine, "close+nosmt+isolated", 4));
    for place in ["free+isolated", "spread@core+isolated"] {
        assert!(refused(&machine, place).contains("each worker needs its own"), "{place}");
    }
    // An affinity cannot exceed a cpuset.
    machine.allowed.limits.push(limit("/cg/cpuset.cpus.effective", "0-2"));
    assert_eq!(line(&machine, "cpus=2", 1), "2");
    let refused = refused(&machine, "cpus=3");
    assert!(refused.contains("3 isolated, and outside the control group's cpuset"), "{refused}");
}

#[test]
fn a_node_is_accepted_by_near() {
    let machine = clustered();
    assert_eq!(plan(&machine, "near=node1", machine.nodes[1].cpus.len()).cpus(), machine.nodes[1].cpus);
    assert!(refused(&clustered(), "near=node7").ends_with("no CPUs of node 7; nodes with CPUs: 0-1"));
}

#[test]
fn missing_levels_are_reported_with_the_nearest() {
    assert_eq!(
        refused(&two(), "spread@cluster"),
        "spread@cluster: this machine reports no cluster; the nearest is spread@llc"
    );
    assert_eq!(
        refused(&uneven(), "spread@package"),
        "spread@package: this machine reports no package; the nearest is spread@cluster"
    );
    let bare = Machine { online: cpus("0-1"), ..Machine::default() };
    assert_eq!(refused(&bare, "spread@core"), "spread@core: this machine reports no core; write spread");
}

#[test]
fn missing_devices_are_reported_with_similar_names() {
    assert_eq!(
        refused(&with_devices(), "near=eth7"),
        "near=eth7: this machine reports no such device; the nearest names are eth0, eth1, ib0, nvme0n1"
    );
    assert!(refused(&two(), "near=eth0").ends_with("it reports no devices"));
    let mut limited = with_devices();
    limited.allowed.cpus = cpus("0-3");
    assert_eq!(
        refused(&limited, "near=eth0"),
        "near=eth0: none of its CPUs 8-15 may be used: 8-15 not allowed; CPUs that may be used: 0-3 (use spread for them)"
    );
    let isolated = Machine { isolated: cpus("8-15"), ..with_devices() };
    assert!(refused(&isolated, "near=eth0").contains(": 8-15 isolated (near=eth0+isolated uses them); "));
    assert!(plan(&isolated, "near=eth0+isolated", 2).cpus().is_subset(&cpus("8-15")));
}

#[test]
fn texts_are_refused_with_the_choices() {
    let error = |text: &str| text.parse::<Policy>().unwrap_err().to_string();
    let choices = "is not a placement; write free, close, spread, spread@core|cluster|llc|node|package, \
                   cpus=LIST, near=DEVICE or near=nodeN; append +nosmt to use one CPU per core, +isolated to use \
                   isolated CPUs as well";
    for text in ["", "scatter", "free=1", "cpus@1", "near", "close+smt", "spread=core"] {
        assert_eq!(error(text), format!("'{text}' {choices}"));
    }
    assert!(error("spread@l2").starts_with("'l2' is not a level; write spread@core"));
    assert!(error("cpus=").starts_with("cpus=: '' is not a number"));
    assert!(error("cpus=3-1").ends_with("write 1-3"));
    assert!(error("near=").contains("names no device"));
    for text in ["-1", "", "two", "+2", "99999999999999999999999"] {
        assert!(text.parse::<Reserve>().is_err(), "{text}");
    }
    for text in ["bind=", "bind=1024", "interleave=0-4294967294", "local=0", "none"] {
        assert!(text.parse::<MemoryPlacement>().is_err(), "{text}");
    }
}
