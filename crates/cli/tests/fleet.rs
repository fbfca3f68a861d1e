//! Tests of `fleet` with the real binary, over a server of ssh and nodes of Slurm on this machine.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop anywhere")]

mod common;

use assert_cmd::cargo::cargo_bin;
use common::{
    place::{TestHome, soon},
    slurm::Cluster,
    text,
};
use manycore_fleet::evaluation::{FLEET_SCHEMA, FleetEvaluation};
use manycore_linux::tasks;
use manycore_testkit::ssh_server::SshServer;
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    process::{Child, Command, Output, Stdio},
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
};

/// What a host measures in a second.
const MEASURE: [&str; 6] = ["eval", "--only", "latency", "--budget", "1s", "--quiet"];

static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A directory, and hosts that are all this machine.
struct Fleet {
    /// Tests look for what is left on this machine, so there is one at a time.
    _alone: MutexGuard<'static, ()>,
    home: TestHome,
    server: Option<SshServer>,
    /// The options that name the hosts.
    options: Vec<String>,
    slurm: String,
}

impl Fleet {
    /// Returns hosts of these names over ssh. `None` if there is no server.
    fn ssh(hosts: &str) -> Option<Self> {
        let alone = alone();
        let server = SshServer::start().unwrap()?;
        let home = TestHome::new();
        fs::create_dir(home.path("tmp")).unwrap();
        fs::write(home.path("hosts"), hosts).unwrap();
        // The same server for each name.
        let ssh = server.ssh_with("fleet", "Host n1 n2 n3").unwrap().join(" ");
        let options = ["--hosts", "hosts", "--ssh", &ssh].map(str::to_owned).to_vec();
        Some(Self { _alone: alone, home, server: Some(server), options, slurm: String::new() })
    }

    /// Returns all nodes of a cluster, one of which works at a time.
    fn slurm(cluster: &Cluster) -> Self {
        let home = TestHome::new();
        fs::create_dir(home.path("tmp")).unwrap();
        let options = ["--partition", "all", "--parallel", "1"].map(str::to_owned).to_vec();
        Self { _alone: alone(), home, server: None, options, slurm: cluster.conf().to_owned() }
    }

    fn command(&self, words: &[&str]) -> Command {
        let options = self.options.iter().map(String::as_str);
        let (subcommand, rest) = words.split_first().unwrap();
        let line: Vec<&str> =
            ["fleet", *subcommand].into_iter().chain(options).chain(rest.iter().copied()).collect();
        let mut command = self.home.command(&line);
        command.env("TMPDIR", self.home.path("tmp")).env("SLURM_CONF", &self.slurm);
        command
    }

    fn run(&self, code: i32, words: &[&str]) -> (String, String) {
        let run: Output = self.command(words).output().unwrap();
        let (printed, said) = (text(&run.stdout), text(&run.stderr));
        assert_eq!(run.status.code(), Some(code), "{words:?}: {printed}{said}");
        self.wait_until_nothing_is_left();
        (printed, said)
    }

    /// Waits until no program that was copied runs or is left, and no socket.
    fn wait_until_nothing_is_left(&self) {
        soon("a program is left on a host", || copies().is_empty());
        soon("sockets are left", || fs::read_dir(self.home.path("tmp")).unwrap().count() == 0);
        if let Some(server) = &self.server {
            let config = server.path("fleet").display().to_string();
            soon("a process of ssh is left", || with(&config).is_empty());
        }
    }

    fn hosts(&self, out: &str) -> Value {
        let run = fs::read(self.home.path(out).join("fleet.json")).unwrap();
        serde_json::from_slice::<Value>(&run).unwrap()["hosts"].take()
    }

    /// Starts a measurement that takes long, and waits until it runs on a host.
    fn measuring(&self, out: &str) -> Child {
        let words = ["eval", "--only", "scaling", "--budget", "300s", "--quiet", "--out", out];
        let running = self.command(&words).spawn().unwrap();
        soon("nothing runs on the host", || !with("/manycore\0eval\0--budget=300s").is_empty());
        running
    }
}

/// Returns the directories of programs that were copied.
fn copies() -> Vec<String> {
    let names =
        fs::read_dir("/tmp").unwrap().map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned());
    let is_copy = |name: &String| {
        let rest = name.strip_prefix("manycore-").unwrap_or_default();
        rest.starts_with("fleet-")
            || rest.len() > 7
                && rest.starts_with(|letter: char| letter.is_ascii_digit())
                && rest.contains('-')
    };
    names.filter(is_copy).collect()
}

/// Returns the processes with a text in their command lines.
fn with(text: &str) -> Vec<u32> {
    let has = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    };
    tasks::all().into_iter().filter(has).collect()
}

/// Returns a cluster of Slurm; `None` where there is none, and prints why.
fn cluster(names: &[&str]) -> Option<Cluster> {
    if !["slurmctld", "slurmd", "srun", "sbatch", "sbcast"]
        .into_iter()
        .all(|name| manycore::program::find(name).is_some())
    {
        println!("SKIPPED: Slurm is not installed");
        return None;
    }
    match Cluster::with_nodes(names) {
        Ok(cluster) => Some(cluster),
        Err(why) => {
            println!("SKIPPED: Slurm does not come up here: {why}");
            None
        }
    }
}

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
    let (printed, _) = fleet.run(0, &["audit", "--quiet"]);
    assert!(printed.contains("of 2 hosts have no finding"), "{printed}");
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
    let (_, said) = fleet.run(1, &["topo"]);
    assert!(said.contains("n1: unreachable: ") && said.contains("ost key"), "{said}");
    fleet.options[3] = own;
    let (_, said) = fleet.run(1, &["topo", "--program", "/bin/false"]);
    assert!(said.contains("n1: failed: ") && said.contains("does not run here (Linux"), "{said}");
    let (_, said) = fleet.run(1, &["run", "--time", "1s", "--", "eval", "--budget", "300s"]);
    assert!(said.contains("n1: late: ") && said.contains("--time"), "{said}");
    fs::write(fleet.home.path("hosts"), "n1\n-oProxyCommand=touch x\n").unwrap();
    let (_, said) = fleet.run(2, &["topo"]);
    assert!(said.contains("hosts, line 2: "), "{said}");
    fs::write(fleet.home.path("hosts"), "# none\n").unwrap();
    let (_, said) = fleet.run(2, &["topo"]);
    assert!(said.contains("hosts names no host"), "{said}");
}

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
    let mut running = fleet.measuring("killed");
    running.kill().unwrap();
    running.wait().unwrap();
    fleet.wait_until_nothing_is_left();
    soon("a job is left", || cluster.run("squeue -h").stdout.is_empty());
    cluster.kill_node("n2");
}

#[test]
fn a_node_of_slurm_that_fails_is_measured_again() {
    let Some(mut cluster) = cluster(&["n1"]) else { return };
    let fleet = Fleet::slurm(&cluster);
    let words = ["eval", "--only", "latency", "--budget", "20s", "--out", "found"];
    let running = fleet.command(&words).spawn().unwrap();
    let measures = || with("/manycore\0eval\0--budget=20s");
    soon("nothing runs on the node", || !measures().is_empty());
    cluster.kill_node("n1");
    // The steps of a job have processes of their own, and the job one that holds its node.
    for pid in with("slurmstepd: [").into_iter().chain(with("sleep\x001920")) {
        let _ended = kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL);
    }
    let state = || text(&cluster.run("squeue -h -o %T").stdout).trim().to_owned();
    soon("the job is not requeued", || state() == "PENDING");
    soon("the measurement is left", || measures().is_empty());
    // Slurm would wait for two minutes.
    assert!(cluster.run("scontrol update JobId=1 StartTime=now").status.success());
    cluster.start_node("n1").unwrap();
    // The script of the job's first run may still remove its directories.
    soon("the second run has no directory of its own", || {
        copies().iter().any(|name| name.starts_with("manycore-1-1-"))
    });
    let ended = running.wait_with_output().unwrap();
    assert!(ended.status.success(), "{}", text(&ended.stderr));
    assert!(text(&ended.stderr).contains("n1: tried again: "), "{}", text(&ended.stderr));
    assert_eq!(fleet.hosts("found")["n1"]["state"], "done");
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
