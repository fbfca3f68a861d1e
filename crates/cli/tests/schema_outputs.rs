//! What the program really writes has the schemas of `docs/schema`. Tests of other subcommands check what they make it
//! write by the same function, `common::schema::parse`.

use crate::common;
use crate::common::{
    interrupted, manycore,
    place::{KillOnDrop, TestHome, last, two_cpus},
    save,
    schema::{assert_valid, parse, problem},
    stolen_guest, watching, write,
};
use manycore_experiment::spawning::Work;
use manycore_testkit::SyntheticMachine;
use serde_json::{Value, json};
use std::fs;
use tempfile::TempDir;

/// Runs the program, which prints JSON of this kind.
fn printed(kind: &str, arguments: &[&str]) -> Value {
    let output = manycore().args(arguments).args(["--format", "json"]).assert().success();
    parse(kind, &output.get_output().stdout)
}

#[test]
fn machines_and_plans() {
    for name in ["clusters-128cpu", "guest-2cpu", "hybrid-16cpu", "server-64cpu"] {
        let file = format!("{}/../../fixtures/machines/{name}.machine", env!("CARGO_MANIFEST_DIR"));
        printed("machine", &["topo", "--machine", &file]);
        printed("plan", &["plan", "--machine", &file, "--workers", "2"]);
    }
    printed("machine", &["topo"]);
    printed("plan", &["plan"]);
}

/// Regression test: the list was refused as JSON.
#[test]
fn the_list_of_loads() {
    let list = printed("loads", &["bench", "list"]);
    assert!(list["loads"].as_array().unwrap().iter().any(|load| load["name"] == "counter"), "{list}");
}

#[test]
fn records_and_their_evaluations() {
    let small = |machine| SyntheticMachine { blocks: 8, ..machine };
    let folder = TempDir::new().unwrap();
    for (name, record) in [
        ("guest", stolen_guest()),
        ("part", interrupted()),
        ("server", small(SyntheticMachine::server()).record()),
        ("lock", small(SyntheticMachine::guest()).bench("lock")),
        ("idle", SyntheticMachine::guest().spawn(Work::Idle)),
        ("spin", SyntheticMachine::guest().spawn(Work::Spin)),
        ("io", SyntheticMachine::guest().spawn(Work::Io)),
    ] {
        assert_valid("record", &serde_json::to_value(&record).unwrap());
        let path = save(&folder, name, &record);
        printed("evaluation", &["report", path.to_str().unwrap()]);
    }
}

#[test]
fn guests_and_their_checks() {
    let folder = TempDir::new().unwrap();
    let fixture = |name: &str| format!("{}/../../fixtures/{name}", env!("CARGO_MANIFEST_DIR"));
    let (xml, machine) = (fixture("domains/web1.xml"), fixture("machines/clusters-128cpu.machine"));
    let guest = printed("guest", &["vm", "plan", &xml, "--machine", &machine]);
    let plan = write(folder.path(), "guest.json", guest.to_string().as_bytes());
    let check = ["vm", "check", "--guest", "--plan", plan.to_str().unwrap(), "--machine", &machine];
    let output = manycore().args(check).args(["--format", "json"]).output().unwrap();
    assert_eq!(parse("guest-check", &output.stdout)["matches"], false);
    printed("vms", &["vm", "list"]);
}

#[test]
fn a_snapshot_of_top() {
    let all = "system,units,cpus,processes,threads,interrupts,nodes,groups,findings";
    printed("top", &["top", "--once", "--interval", "200ms", "--show", all]);
}

#[test]
fn changes_and_where_tasks_ran() {
    let Some(cpus) = two_cpus() else { return };
    let (home, shell) = (TestHome::new(), KillOnDrop::shell());
    let (pid, place) = (shell.pid().to_string(), format!("cpus={}", last(&cpus)));
    home.stderr_of(0, &["pin", "--pid", &pid, "--place", &place, "--workers", "1", "--once"]);
    for journal in fs::read_dir(home.path("journals")).unwrap() {
        let Ok(lines) = fs::read_to_string(journal.unwrap().path()) else { continue };
        assert!(lines.lines().count() > 1, "{lines}");
        lines.lines().for_each(|line| drop(parse("journal", line)));
    }
    let listed = parse("undo-list", home.run(&["undo", "--list", "--format", "json"]).stdout);
    assert_eq!(listed["pending"].as_array().unwrap().len(), 1);
    let undone = parse("undo-result", home.run(&["undo", "--format", "json"]).stdout);
    assert_eq!(undone["undone"][0]["restored"]["tasks"], 1);
    home.stderr_of(0, &["run", "--place", "close", "--workers", "2", "--trace", "stay.json", "--", "true"]);
    assert_valid("placement-trace", &home.stay());
}

#[test]
fn audits_interrupts_and_the_guard() {
    let audit = manycore().args(["audit", "--budget", "100ms", "--format", "json"]).output().unwrap();
    assert!(parse("audit", &audit.stdout)["examined"]["processes"].is_u64());
    let interrupts = manycore().args(["irq", "show", "--all", "--format", "json"]).output().unwrap();
    match interrupts.status.code() {
        Some(0) => drop(parse("interrupts", &interrupts.stdout)),
        _ => println!("SKIPPED: {}", common::text(&interrupts.stderr)),
    }
    let mut shell = KillOnDrop::shell();
    let why = printed("guard-why", &["guard", "why", &shell.child().to_string()]);
    assert!(!why["outlooks"].as_array().unwrap().is_empty());
}

#[test]
fn limits_and_their_use() {
    let resctrl = watching::resctrl();
    let root = resctrl.path().to_str().unwrap();
    printed("qos", &["qos", "show", "--resctrl", root]);
    printed("qos-watch", &["qos", "watch", "--resctrl", root, "--interval", "100ms", "--count", "1"]);
}

#[test]
fn json_that_lacks_or_adds_something_is_refused() {
    let mut record = serde_json::to_value(interrupted()).unwrap();
    record["schema"] = "manycore/record/2".into();
    assert!(problem("record", &record).is_some());
    record["schema"] = "manycore/record/1".into();
    assert_eq!(problem("record", &record), None);
    record["more"] = true.into();
    assert!(problem("record", &record).unwrap().contains("more"));
    record.as_object_mut().unwrap().remove("more");
    record.as_object_mut().unwrap().remove("experiments");
    assert!(problem("record", &record).unwrap().contains("experiments"));
    assert!(problem("plan", &json!({"schema": "manycore/plan/1"})).is_some());
}
