//! `fleet report` with the real binary, over directories of records.

use crate::common::{place::TestHome, text};
use manycore_experiment::Record;
use manycore_fleet::evaluation::{FLEET_SCHEMA, FleetEvaluation, Verdict};
use manycore_testkit::SyntheticMachine;
use std::{fs, os::unix::fs::PermissionsExt, process::Command};

/// The nodes of a run.
const NODES: u64 = 8;

/// The node that is slow where one is.
const SLOW: u64 = 3;

/// Writes the record of a node, whose rate is that of its machine times `share`.
fn write(home: &TestHome, folder: &str, node: u64, (share, seed): (f64, u64), change: impl Fn(&mut Record)) {
    let server = SyntheticMachine::server();
    let machine = SyntheticMachine {
        hostname: format!("n{node}"),
        rate: server.rate * share,
        noise: 0.01,
        seed,
        ..server
    };
    let mut record = machine.record();
    change(&mut record);
    let folder = home.path(folder).join(format!("nodes/n{node}"));
    fs::create_dir_all(&folder).unwrap();
    fs::write(folder.join("record.json"), serde_json::to_vec(&record).unwrap()).unwrap();
}

/// Writes the records of a run: the slow node has a share `speed` of the speed of the others, and another governor.
fn write_run(home: &TestHome, folder: &str, speed: f64) {
    for node in 1..=NODES {
        let is_slow = node == SLOW && speed < 1.0;
        write(home, folder, node, (if is_slow { speed } else { 1.0 }, node), |record| {
            if is_slow {
                record.conditions.governors = vec!["powersave".to_owned()];
            }
        });
    }
}

/// Runs `fleet report`; returns what it printed.
fn report(home: &TestHome, code: i32, words: &[&str]) -> String {
    let line = [&["fleet", "report"], words].concat();
    let run = home.run(&line);
    let (printed, said) = (text(&run.stdout), text(&run.stderr));
    assert_eq!(run.status.code(), Some(code), "{words:?}: {printed}{said}");
    printed
}

#[test]
fn a_slow_node_is_in_every_format() {
    let home = TestHome::new();
    write_run(&home, "f", 0.7);
    let printed = report(&home, 1, &["f", "--html"]);
    assert!(printed.contains("1 of 8 nodes is slow: n3"), "{printed}");
    assert!(printed.contains("different governor: powersave"), "{printed}");
    let page = fs::read_to_string(home.path("f/fleet.html")).unwrap();
    assert!(page.contains("1 of 8 nodes is slow: n3"), "{page}");

    let format = |name| report(&home, 1, &["f", "--format", name]);
    let found: FleetEvaluation = serde_json::from_str(&format("json")).unwrap();
    assert_eq!(found.schema, FLEET_SCHEMA);
    for node in &found.nodes {
        assert_eq!(node.verdict == Verdict::Slow, node.name == "n3", "{node:?}");
    }
    assert_eq!(format("nodelist"), "n3\n");
    let csv = format("csv");
    let rows = |verdict: &str| csv.lines().filter(|line| line.contains(verdict)).collect::<Vec<_>>();
    let slow = rows(",slow,");
    assert!(!slow.is_empty() && slow.iter().all(|row| row.contains("n3")), "{csv}");
    assert!(format("markdown").contains("1 of 8 nodes is slow: n3"));
    let metrics = format("prometheus");
    let is_named = |line: &&str| line.contains("n3") && !line.starts_with('#');
    assert!(metrics.lines().filter(is_named).count() > 1, "{metrics}");
}

#[test]
fn draining_commands_are_printed_and_run_by_nobody_but_the_user() {
    let home = TestHome::new();
    write_run(&home, "f", 0.7);
    fs::create_dir(home.path("bin")).unwrap();
    // It writes each of its arguments on a line.
    let program = home.path("bin/scontrol");
    fs::write(&program, "#!/bin/sh\nprintf '%s\\n' \"$@\" >>called\n").unwrap();
    fs::set_permissions(&program, fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", home.path("bin").display(), std::env::var("PATH").unwrap());

    let mut drain = home.command(&["fleet", "report", "f", "--drain"]);
    let run = drain.env("PATH", &path).output().unwrap();
    assert_eq!(run.status.code(), Some(1), "{}", text(&run.stderr));
    assert!(!home.path("called").exists());
    let script = text(&run.stdout);
    let mut shell = Command::new("sh");
    shell.args(["-c", &script]).env("PATH", &path).current_dir(home.path("")).status().unwrap();
    let called = fs::read_to_string(home.path("called")).unwrap();
    let words: Vec<&str> = called.lines().collect();
    assert_eq!(words[..2], ["update", "nodename=n3"], "{called}");
    assert_eq!(words[2].to_lowercase(), "state=drain", "{called}");
    assert!(words.len() == 4 && words[3].to_lowercase().starts_with("reason=manycore"), "{called}");

    write_run(&home, "healthy", 1.0);
    assert_eq!(report(&home, 0, &["healthy", "--drain"]), "");
}

#[test]
fn a_single_node_is_judged_by_a_baseline() {
    let home = TestHome::new();
    write_run(&home, "healthy", 1.0);
    let printed = report(&home, 0, &["healthy"]);
    assert!(printed.contains("None of 8 nodes is slow"), "{printed}");
    fs::write(home.path("baseline.json"), report(&home, 0, &["healthy", "--format", "json"])).unwrap();

    write(&home, "slow", 1, (0.7, 21), |_| ());
    write(&home, "well", 1, (1.0, 22), |_| ());
    let printed = report(&home, 0, &["slow"]);
    assert!(printed.contains("No node can be judged"), "{printed}");
    let printed = report(&home, 1, &["slow", "--baseline", "baseline.json"]);
    assert!(printed.contains("1 of 1 node is slow: n1"), "{printed}");
    report(&home, 0, &["well", "--baseline", "baseline.json"]);
}

#[test]
fn a_change_is_dated_and_what_else_changed_is_named() {
    const RUNS: usize = 12;
    const FIRST_SLOW: usize = 6;
    let home = TestHome::new();
    let folders: Vec<String> = (0..RUNS).map(|run| format!("run{run}")).collect();
    for (run, folder) in folders.iter().enumerate() {
        let is_slower = |node| node == SLOW && run >= FIRST_SLOW;
        for node in 1..=NODES {
            let speed = if is_slower(node) { 0.8 } else { 1.0 };
            write(&home, folder, node, (speed, run as u64 * NODES + node), |record| {
                record.started = format!("2026-03-{:02}T08:00:00Z", run + 1);
                if is_slower(node) {
                    record.machine.system.kernel = Some("6.13.0".to_owned());
                }
            });
        }
    }
    // As a pattern of the shell names them, the last one included.
    let line: Vec<&str> = ["run11", "--format", "json", "--history"]
        .into_iter()
        .chain(folders.iter().map(String::as_str))
        .collect();
    let found: FleetEvaluation = serde_json::from_str(&report(&home, 1, &line)).unwrap();
    assert!(!found.changes.is_empty());
    for change in &found.changes {
        assert_eq!(change.node, "n3", "{change:?}");
        let (before, after) = &change.between;
        assert!(before.starts_with("2026-03-06") && after.starts_with("2026-03-07"), "{change:?}");
        let kernel = ("kernel", "6.12.0", "6.13.0");
        let is_kernel = |(name, old, new): &(String, String, String)| {
            (name.as_str(), old.as_str(), new.as_str()) == kernel
        };
        assert!(change.properties.iter().any(is_kernel), "{change:?}");
    }
    let healthy: Vec<&str> =
        ["run5", "--history"].into_iter().chain(folders[..FIRST_SLOW].iter().map(String::as_str)).collect();
    let printed = report(&home, 0, &healthy).replace('\n', " ");
    assert!(printed.contains("No change was found over 6 runs, from 2026-03-01"), "{printed}");
    // The folder may be the last word as well.
    let [first, second] = [["run1", "--history", "run0"], ["--history", "run0", "run1"]];
    assert_eq!(report(&home, 0, &first), report(&home, 0, &second));
    let said = home.stderr_of(2, &["fleet", "report", "--history", "run0"]);
    assert!(said.contains("--history needs the DIR"), "{said}");
    let few = ["fleet", "report", "run1", "--history", "run0", "run1"];
    let said = text(&home.run(&few).stderr);
    assert!(said.contains("Changes over time need at least 6 runs, and there are 2."), "{said}");
    // A run without a result does not hide the others.
    fs::create_dir(home.path("none")).unwrap();
    let with_none = home.run(&["fleet", "report", "run1", "--history", "run0", "none"]);
    let said = text(&with_none.stderr);
    assert!(said.contains("none: no records") && said.contains("there are 2."), "{said}");
}

#[test]
fn records_that_cannot_be_read_are_listed() {
    let home = TestHome::new();
    write_run(&home, "f", 1.0);
    let record = |node: &str| home.path("f").join("nodes").join(node).join("record.json");
    fs::write(record("n1"), "{\"schema\":").unwrap();
    fs::write(record("n2"), "{\"schema\": \"manycore/record/999\"}").unwrap();
    let printed = report(&home, 0, &["f"]);
    assert!(printed.contains("None of 6 nodes is slow"), "{printed}");
    assert!(printed.contains("n1") && printed.contains("n2"), "{printed}");

    fs::create_dir(home.path("empty")).unwrap();
    let said = home.stderr_of(2, &["fleet", "report", "empty"]);
    assert!(said.contains("has no records"), "{said}");
    let said = home.stderr_of(2, &["fleet", "report", "f", "--kinds-by", "cpu model"]);
    assert!(
        said.contains("no node has the property cpu model: the records have BIOS, CPU id, CPU model"),
        "{said}"
    );
    fs::write(home.path("other.json"), "{\"schema\": \"manycore/record/1\"}").unwrap();
    let said = home.stderr_of(2, &["fleet", "report", "f", "--baseline", "other.json"]);
    assert!(said.contains("other.json"), "{said}");
}

#[test]
fn missing_words_are_named() {
    let home = TestHome::new();
    let said = |words: &[&str]| {
        let run = home.run(words);
        assert_eq!(run.status.code(), Some(2), "{words:?}");
        text(&run.stderr)
    };
    let nowhere = said(&["fleet", "report", "nowhere"]);
    assert!(
        nowhere.contains("there is no folder nowhere: name one that 'manycore fleet eval' has filled"),
        "{nowhere}"
    );
    for subcommand in ["eval", "topo", "audit"] {
        let said = said(&["fleet", subcommand]);
        for option in ["--nodes", "--partition", "--hosts"] {
            assert!(said.contains(option), "{said}");
        }
    }
}
