//! Tests of `fleet` with the real binary, over a server of ssh on this machine.

use crate::common::{
    fleet::{Fleet, MEASURE, alone, with},
    place::{TestHome, soon},
    text,
};
use assert_cmd::cargo::cargo_bin;
use manycore_fleet::evaluation::{FLEET_SCHEMA, FleetEvaluation};
use manycore_testkit::SyntheticMachine;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    os::unix::fs::PermissionsExt,
    path::Path,
    process::{Command, Stdio},
    thread,
};

#[test]
fn records_of_hosts_come_back_by_ssh_and_a_second_run_measures_what_is_left() {
    let Some(fleet) = Fleet::ssh("n1\n# in the cellar\nn2\nn9\n") else { return };
    let words = [&MEASURE[..], &["--out", "found"]].concat();
    // The name of no host.
    fleet.run(1, &words);
    let hosts = fleet.hosts("found");
    assert_eq!((&hosts["n1"]["state"], &hosts["n2"]["state"]), (&Value::from("done"), &Value::from("done")));
    assert_eq!(hosts["n9"]["state"], "unreachable", "{hosts}");
    for name in ["n1", "n2"] {
        let folder = fleet.home.path("found/nodes").join(name);
        let record: Value = serde_json::from_slice(&fs::read(folder.join("record.json")).unwrap()).unwrap();
        assert_eq!(record["experiments"][0]["id"], "latency");
        assert!(fs::read_to_string(folder.join("report.html")).unwrap().contains("<html"));
    }
    let before = fs::metadata(fleet.home.path("found/nodes/n1/record.json")).unwrap().modified().unwrap();
    fs::write(fleet.home.path("hosts"), "n1\nn2\nn3\n").unwrap();
    let words: Vec<&str> = words.iter().copied().filter(|word| *word != "--quiet").collect();
    let (_, said) = fleet.run(0, &words);
    assert!(said.contains("2 of 3 hosts have their result already"), "{said}");
    let after = fs::metadata(fleet.home.path("found/nodes/n1/record.json")).unwrap().modified().unwrap();
    assert_eq!(before, after);
    assert_eq!(fleet.hosts("found")["n3"]["state"], "done");
    let (_, said) = fleet.run(2, &["eval", "--only", "stream", "--out", "found"]);
    assert!(said.contains("found holds the results of 'eval --budget=1s --only=latency"), "{said}");
}

#[test]
fn equal_outputs_are_printed_once() {
    let Some(fleet) = Fleet::ssh("n1\nn2") else { return };
    let (printed, _) = fleet.run(0, &["run", "--", "topo", "--format", "json"]);
    assert!(printed.starts_with("2 hosts: n[1-2]"), "{printed}");
    assert_eq!(printed.matches("manycore/machine/1").count(), 1);
    let (printed, _) = fleet.run(0, &["topo"]);
    assert!(printed.contains("2 hosts have the same hardware"), "{printed}");
    let (printed, said) = fleet.run(1, &["run", "--out", "kept", "--", "report", "no-such"]);
    assert!(printed.contains("exit code 2") && said.contains("2 hosts of 2 failed"), "{printed}{said}");
    assert!(fleet.hosts("kept")["n1"]["why"].as_str().unwrap().contains("no-such"));
    // Processes of other tests may be pinned to the same CPUs.
    let audit = fleet.command(&["audit", "--quiet"]).output().unwrap();
    let printed = text(&audit.stdout);
    assert!(matches!(audit.status.code(), Some(0 | 1)), "{printed}{}", text(&audit.stderr));
    assert!(printed.contains("of 2 hosts have no finding"), "{printed}");
    // Each run has a directory of its own, which the third line names.
    let differs = fleet.home.path("differs");
    fs::write(&differs, "#!/bin/sh\nprintf '%s\\n' one two \"$0\" four five\n").unwrap();
    fs::set_permissions(&differs, fs::Permissions::from_mode(0o755)).unwrap();
    let differs = differs.display().to_string();
    let (printed, _) = fleet.run(0, &["run", "--program", &differs, "--", "topo"]);
    assert!(printed.contains("n2, lines that differ from n1\n  two\n- /"), "{printed}");
    assert_eq!(printed.matches("five").count(), 1, "{printed}");
}

#[test]
fn an_interrupted_measurement_leaves_nothing_and_is_continued() {
    let Some(fleet) = Fleet::ssh("n1\nn2") else { return };
    let mut running = fleet.measuring("found");
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(130));
    fleet.wait_until_nothing_is_left();
    assert_eq!(fleet.hosts("found")["n1"]["state"], "interrupted");
}

#[test]
fn a_killed_measurement_leaves_nothing_on_the_hosts() {
    let Some(fleet) = Fleet::ssh("n1\nn2") else { return };
    let mut running = fleet.measuring("found");
    running.kill().unwrap();
    running.wait().unwrap();
    fleet.wait_until_nothing_is_left();
}

#[test]
fn hosts_that_fail_are_listed_with_the_reason() {
    let Some(mut fleet) = Fleet::ssh("n1") else { return };
    let server = fleet.server.as_ref().unwrap();
    // The key of the server has changed.
    let port = server.port();
    let stranger = fs::read_to_string(server.path("stranger.pub")).unwrap();
    fs::write(server.path("changed"), format!("[127.0.0.1]:{port} {stranger}")).unwrap();
    let changed = format!("Host n1\nUserKnownHostsFile {}", server.path("changed").display());
    let changed = server.ssh_with("changed-config", &changed).unwrap().join(" ");
    let own = std::mem::replace(&mut fleet.options[3], changed);
    // Nothing else has the reason, so it is printed with --quiet as well.
    let (_, said) = fleet.run(1, &["topo", "--quiet"]);
    assert!(said.contains("n1: unreachable: ") && said.contains("ost key"), "{said}");
    fleet.options[3] = own;
    let (_, said) = fleet.run(1, &["topo", "--program", "/bin/false"]);
    assert!(said.contains("n1: failed: ") && said.contains("does not run here (Linux"), "{said}");
    // Regression: results stayed in the home directory of the host.
    let kept = || {
        let results = Path::new(&std::env::var("HOME").unwrap_or_default()).join("manycore-results");
        fs::read_dir(results).map_or(0, |entries| 1 + entries.count())
    };
    let before = kept();
    let (_, said) = fleet.run(1, &["run", "--time", "1s", "--", "eval", "--budget", "300s"]);
    assert!(said.contains("n1: late: ") && said.contains("--time"), "{said}");
    assert_eq!(kept(), before);
    fs::write(fleet.home.path("hosts"), "n1\n-oProxyCommand=touch x\n").unwrap();
    let (_, said) = fleet.run(2, &["topo"]);
    assert!(said.contains("hosts, line 2: "), "{said}");
    fs::write(fleet.home.path("hosts"), "# none\n").unwrap();
    let (_, said) = fleet.run(2, &["topo"]);
    assert!(said.contains("hosts names no host"), "{said}");
}

#[test]
fn a_budget_that_a_host_has_no_time_for_is_refused() {
    let home = TestHome::new();
    fs::write(home.path("hosts"), "n1\n").unwrap();
    for (budget, time, is_refused) in [("10m", "5m", true), ("5m", "5m", true), ("10s", "5m", false)] {
        // A program that cannot be read ends a run that is not refused.
        let words =
            ["--hosts", "hosts", "--program", "none", "--out", "f", "--budget", budget, "--time", time];
        let run = home.run(&[&["fleet", "eval"], &words[..]].concat());
        let said = text(&run.stderr);
        assert_eq!(run.status.code(), Some(2), "{said}");
        assert_eq!(
            said.contains("is not within the 300 s that a host may work: give a longer --time"),
            is_refused,
            "{said}"
        );
    }
    assert!(!home.path("f").exists());
}

/// The program of the hosts sends records that are there, the next one each time: first those of all hosts, then those of the
/// second measurement. Hosts work one after the other.
#[test]
fn slow_and_inconclusive_hosts_are_measured_again() {
    let names: Vec<String> = (1..=12).map(|host| format!("m{host}")).collect();
    let Some(mut fleet) = Fleet::ssh(&names.join("\n")) else { return };
    fleet.options.extend(["--parallel", "1"].map(str::to_owned));
    let at = fleet.home.path("records").display().to_string();
    fs::create_dir(&at).unwrap();
    let write = |number: u64, name: &str, share: f64, noise: f64| {
        let server = SyntheticMachine::server();
        let rate = server.rate * share;
        let machine = SyntheticMachine { hostname: name.to_owned(), rate, noise, seed: number, ..server };
        fs::write(format!("{at}/{number}"), serde_json::to_vec(&machine.record()).unwrap()).unwrap();
    };
    for (number, name) in (1..).zip(&names) {
        let (share, noise) = match name.as_str() {
            "m3" | "m5" => (0.7, 0.01),
            "m7" => (1.0, 0.2),
            _ => (1.0, 0.01),
        };
        write(number, name, share, noise);
    }
    // The second measurements of m3, and of m7; m5 is lost.
    write(13, "m3", 1.0, 0.01);
    write(15, "m7", 1.0, 0.01);
    let program = format!(
        "#!/bin/sh\n[ \"$1\" != --version ] || exit 0\nwhile [ \"$1\" != --out ]; do shift; done\n\
         [ ! -e {at}/hangs ] || exec sleep 12345\necho >>{at}/calls\nmkdir \"$2\" && cp {at}/$(wc -l <{at}/calls) \"$2/record.json\"\n"
    );
    let path = fleet.home.path("sends");
    fs::write(&path, program).unwrap();
    let path = path.display().to_string();
    let (printed, said) = fleet.run(1, &["eval", "--confirm", "--program", &path, "--out", "found"]);
    assert!(said.contains("3 nodes to measure again."), "{said}");
    assert!(said.contains("m5: failed: cp: "), "{said}");
    assert!(printed.contains("1 of 12 nodes is slow: m5"), "{printed}");
    let hosts = fleet.hosts("found");
    assert!(names.iter().all(|name| hosts[name]["state"] == "done"), "{hosts}");
    for (host, number) in [("m3", 13), ("m5", 5), ("m7", 15)] {
        let kept = fs::read(fleet.home.path("found/nodes").join(host).join("record.json")).unwrap();
        assert!(kept == fs::read(format!("{at}/{number}")).unwrap(), "{host}");
    }

    // Regression: the first Ctrl-C in the second measurement ended the program without a report.
    fs::write(format!("{at}/hangs"), "").unwrap();
    let mut again = fleet.command(&["eval", "--confirm", "--program", &path, "--out", "found"]);
    let again = again.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    soon("nothing is measured again", || !with("sleep\x0012345").is_empty());
    kill_process(Pid::from_child(&again), Signal::INT).unwrap();
    let ended = again.wait_with_output().unwrap();
    let (printed, said) = (text(&ended.stdout), text(&ended.stderr));
    assert_eq!(ended.status.code(), Some(130), "{printed}{said}");
    assert!(printed.contains("1 of 12 nodes is slow: m5"), "{printed}");
    assert!(said.contains("interrupted: what 12 hosts sent is in found"), "{said}");
    fleet.wait_until_nothing_is_left();
}

#[test]
fn an_interrupted_check_leaves_nothing() {
    let _alone = alone();
    let home = tempfile::tempdir().unwrap();
    let (baseline, temporary) = (home.path().join("baseline.json"), home.path().join("tmp"));
    fs::create_dir(&temporary).unwrap();
    let empty = FleetEvaluation { schema: FLEET_SCHEMA.to_owned(), ..FleetEvaluation::default() };
    fs::write(&baseline, serde_json::to_vec(&empty).unwrap()).unwrap();
    let mut command = Command::new(cargo_bin("manycore"));
    command.args(["fleet", "check"]).arg(&baseline).env("TMPDIR", &temporary).stderr(Stdio::null());
    let mut check = command.spawn().unwrap();
    let is_empty = || fs::read_dir(&temporary).unwrap().next().is_none();
    while is_empty() {
        assert_eq!(check.try_wait().unwrap(), None);
        thread::yield_now();
    }
    kill_process(Pid::from_child(&check), Signal::TERM).unwrap();
    assert_eq!(check.wait().unwrap().code(), Some(130));
    assert!(is_empty());
}
