//! Tests of `fleet` with the real binary, over nodes of Slurm on this machine.

use crate::common::{
    fleet::{Fleet, MEASURE, cluster, copies, with},
    place::soon,
    program, text,
};
use manycore_fleet::evaluation::{FleetEvaluation, Verdict};
use manycore_linux::tasks;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{fs, os::unix::fs::PermissionsExt, thread, time::Duration};

#[test]
fn nodes_of_slurm_that_are_down_do_not_hold_up_the_others() {
    let Some(mut cluster) = cluster(&["n1", "n2"]) else { return };
    let fleet = Fleet::slurm(&cluster);
    assert!(cluster.run("scontrol update nodename=n2 state=drain reason='bad DIMM'").status.success());
    let words = [&MEASURE[..], &["--out", "found"]].concat();
    fleet.run(1, &words);
    let hosts = fleet.hosts("found");
    assert_eq!((&hosts["n1"]["state"], &hosts["n2"]["state"]), (&Value::from("done"), &Value::from("down")));
    assert!(hosts["n2"]["why"].as_str().unwrap().contains("bad DIMM"), "{hosts}");
    assert!(cluster.run("scontrol update nodename=n2 state=resume").status.success());
    soon("the node is not back", || text(&cluster.run("sinfo -h -n n2 -o %T").stdout).trim() == "idle");
    // A node that another job has.
    assert!(
        cluster
            .run("sbatch --nodelist=n2 --exclusive --output=/dev/null --wrap 'sleep 100'")
            .status
            .success()
    );
    let (_, said) = fleet.run(1, &["topo", "--wait", "3s"]);
    assert!(said.contains("n2: late: Slurm has not granted it within 3 s"), "{said}");
    assert!(cluster.run("scancel --user=root").status.success());
    // Jobs that no waiting helps.
    assert!(cluster.run("scontrol update partitionname=all MaxTime=2").status.success());
    let (_, said) = fleet.run(1, &["topo"]);
    assert!(said.contains("n2: failed: Slurm allows only shorter jobs there (PartitionTimeLimit)"), "{said}");
    assert!(cluster.run("scontrol update partitionname=all MaxTime=INFINITE").status.success());
    let mut running = fleet.measuring("killed");
    running.kill().unwrap();
    running.wait().unwrap();
    fleet.wait_until_nothing_is_left();
    soon("a job is left", || cluster.run("squeue -h").stdout.is_empty());
    cluster.kill_node("n2");
}

/// Regression: sbatch waits by itself where a controller has as many jobs as it may (`MaxJobCount`), and the nodes that had
/// their job were not measured meanwhile.
#[test]
fn a_controller_that_takes_no_more_jobs_does_not_hold_up_those_that_run() {
    let Some(cluster) = cluster(&["n1", "n2", "n3"]) else { return };
    let mut fleet = Fleet::slurm(&cluster);
    fleet.options[3] = "3".to_owned();
    let real = manycore::program::find("sbatch").unwrap();
    let script = format!(
        "#!/bin/sh\n[ -z \"$(squeue -h)\" ] || {{\necho 'sbatch: error: Slurm temporarily unable to accept job, \
         sleeping and retrying' >&2\nexec sleep 600\n}}\nexec {} \"$@\"\n",
        real.display()
    );
    fs::create_dir(fleet.home.path("programs")).unwrap();
    executable(&fleet, "programs/sbatch", &script);
    let path = format!("{}:{}", fleet.home.path("programs").display(), std::env::var("PATH").unwrap());
    let measure = [&MEASURE[..5], &["--out", "found"]].concat();
    let run = fleet.command(&measure).env("PATH", &path).output().unwrap();
    let said = text(&run.stderr);
    assert!(run.status.success(), "{said}");
    let hosts = fleet.hosts("found");
    assert!(["n1", "n2", "n3"].iter().all(|node| hosts[node]["state"] == "done"), "{hosts}");
    fleet.wait_until_nothing_is_left();
    // Jobs of others: the run waits as long as for a node.
    assert!(cluster.run("sbatch --output=/dev/null --wrap 'sleep 100'").status.success());
    let run = fleet.command(&["topo", "--wait", "2s"]).env("PATH", &path).output().unwrap();
    let said = text(&run.stderr);
    assert_eq!(run.status.code(), Some(1), "{said}");
    assert!(said.contains("temporarily unable to accept job"), "{said}");
}

fn executable(fleet: &Fleet, name: &str, text: &str) -> String {
    let path = fleet.home.path(name);
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path.display().to_string()
}

#[test]
fn a_node_of_slurm_that_fails_is_measured_again() {
    let Some(mut cluster) = cluster(&["n1"]) else { return };
    let fleet = Fleet::slurm(&cluster);
    let words = ["eval", "--only", "latency", "--budget", "20s", "--out", "found"];
    let mut running = fleet.command(&words).spawn().unwrap();
    // srun has the same words before the node has started the program.
    let is_program = |pid: &u32| tasks::name(*pid).is_some_and(|name| name == "manycore");
    let measures =
        || with("/manycore\0eval\0--budget=20s").into_iter().filter(is_program).collect::<Vec<_>>();
    soon("nothing runs on the node", || !measures().is_empty());
    cluster.kill_node("n1");
    // The steps of a job have processes of their own, and the job one that holds its node.
    for pid in with("slurmstepd: [").into_iter().chain(with("sleep\x001920")) {
        let _ended = kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL);
    }
    soon("the measurement is left", || measures().is_empty());
    let waits = || !text(&cluster.run("squeue -h -t pending").stdout).is_empty();
    soon("no other job waits", || waits() || running.try_wait().unwrap().is_some());
    if running.try_wait().unwrap().is_some() {
        let ended = running.wait_with_output().unwrap();
        panic!("the run has ended: {}{}{}", text(&ended.stdout), text(&ended.stderr), fleet.hosts("found"));
    }
    cluster.start_node("n1").unwrap();
    let mut has_own_directory = false;
    while running.try_wait().unwrap().is_none() {
        has_own_directory |= copies().iter().any(|name| name.starts_with("manycore-2-"));
        thread::sleep(Duration::from_millis(2));
    }
    let ended = running.wait_with_output().unwrap();
    let said = text(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    assert!(said.contains("n1: tried again: "), "{said}");
    assert!(has_own_directory, "the next run has no directory of its own: {said}");
    assert_eq!(fleet.hosts("found")["n1"]["state"], "done");
    fleet.wait_until_nothing_is_left();
}

#[test]
fn a_controller_that_restarts_is_waited_for() {
    let Some(mut cluster) = cluster(&["n1", "n2"]) else { return };
    let fleet = Fleet::slurm(&cluster);
    let words = ["eval", "--only", "latency", "--budget", "20s", "--out", "found"];
    let running = fleet.command(&words).spawn().unwrap();
    soon("nothing runs on a node", || !with("/manycore\0eval\0--budget=20s").is_empty());
    cluster.kill_controller();
    let waits =
        || fleet.hosts("found")["n2"]["why"].as_str().is_some_and(|why| why.contains("Unable to contact"));
    soon("the silent controller is not reported", waits);
    cluster.start_controller().unwrap();
    let ended = running.wait_with_output().unwrap();
    let said = text(&ended.stderr);
    assert!(ended.status.success(), "{said}");
    let hosts = fleet.hosts("found");
    assert!(["n1", "n2"].iter().all(|node| hosts[node]["state"] == "done"), "{hosts}");
    fleet.wait_until_nothing_is_left();
}

/// Regression: a run that ended because its job ended was reported as a failure of the program, where Slurm had not yet learned
/// that the job has ended.
#[test]
fn a_run_that_ends_with_its_job_is_tried_again() {
    let Some(cluster) = cluster(&["n1"]) else { return };
    let fleet = Fleet::slurm(&cluster);
    let (own, tried) = (program(), fleet.home.path("tried"));
    let ends = format!(
        "#!/bin/sh\nif [ \"$1\" != --version ] && [ ! -e {tried} ]; then\n: >{tried}\n\
         scancel --batch --signal=TERM \"$SLURM_JOB_ID\"\nwhile [ -e \"$0\" ]; do sleep 0.01; done\nexit 0\nfi\n\
         exec {} \"$@\"\n",
        own.display(),
        tried = tried.display()
    );
    let ends = executable(&fleet, "ends", &ends);
    let measure = [&MEASURE[..5], &["--program", &ends, "--out", "found"]].concat();
    let (_, said) = fleet.run(0, &measure);
    assert!(said.contains("n1: tried again: Slurm took the node away"), "{said}");
    assert_eq!(fleet.hosts("found")["n1"]["state"], "done");
}

/// The nodes share this machine, so they are measured one after the other, and the load runs only while one of them is.
#[test]
fn a_load_on_one_of_four_nodes_is_found_and_named() {
    let Some(cluster) = cluster(&["n1", "n2", "n3", "n4"]) else { return };
    let fleet = Fleet::slurm(&cluster);
    let hog = executable(&fleet, "hog", "#!/bin/sh\nwhile :; do :; done\n");
    let own = program().display().to_string();
    // Four processes for each CPU leave a fifth of the speed: more than anything else on this machine takes.
    let measures = format!(
        "#!/bin/sh\ntrap 'kill $hogs; exit 143' TERM\nhogs=\n[ \"$1\" = --version ] || [ \"$SLURMD_NODENAME\" != n3 ] ||\n\
         for _ in $(seq $((4 * $(nproc)))); do {hog} & hogs=\"$hogs $!\"; done\n\
         {own} \"$@\" & wait $!; code=$?\n[ -z \"$hogs\" ] || kill $hogs\nexit $code\n"
    );
    let measures = executable(&fleet, "measures", &measures);
    // Where other machines take much of the others' time, that no node is found is right. Another one never is.
    for attempt in ["first", "second", "third", "last"] {
        let words = ["eval", "--only", "matrix", "--budget", "3s", "--program", &measures, "--out", attempt];
        let run = fleet.command(&words).output().unwrap();
        fleet.wait_until_nothing_is_left();
        let printed = text(&run.stdout);
        let found = reported(&fleet, attempt);
        let is_noisy = found.detectable().is_none_or(|(least, _)| least > 0.5);
        if attempt != "last" && run.status.code() == Some(0) && is_noisy {
            continue;
        }
        assert!(printed.contains("1 of 4 nodes is slow: n3"), "{printed}{}", text(&run.stderr));
        check_load(&found);
        break;
    }
    assert!(with(&hog).is_empty(), "the load is left");
}

/// Returns the evaluation of the records in a folder.
fn reported(fleet: &Fleet, folder: &str) -> FleetEvaluation {
    let format = ["fleet", "report", folder, "--format", "json"];
    serde_json::from_slice(&fleet.home.run(&format).stdout).unwrap()
}

/// Checks that the load on n3 is the first cause.
fn check_load(found: &FleetEvaluation) {
    let slow: Vec<_> = found.nodes.iter().filter(|node| node.verdict == Verdict::Slow).collect();
    assert_eq!(slow.iter().map(|node| node.name.as_str()).collect::<Vec<_>>(), ["n3"]);
    assert!(slow[0].causes[0].starts_with("hog used "), "{:?}", slow[0].causes);
}
