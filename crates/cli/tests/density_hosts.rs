//! Tests of `density --load-host` with the real binary, over a server of ssh on this machine.

use crate::common;
use crate::common::{
    place::{TestHome, soon},
    slurm::Cluster,
    text,
};
use manycore_linux::tasks;
use manycore_testkit::{FreePort, ssh_server::SshServer};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::{
    fs,
    io::Read,
    os::unix::fs::symlink,
    process::{Child, Command, Output},
};

const SERVICE: &str = "python3 -m http.server --bind {address} {port}";

/// A directory, and a host that is this machine. Files and programs of a test are known by the path of the directory.
struct TestHost {
    home: TestHome,
    /// The server of the host, if it is reached by ssh.
    server: Option<SshServer>,
    /// The options that name the host.
    options: Vec<String>,
    /// The path of `manycore` on the host.
    program: String,
    ports: String,
    /// The configuration of Slurm.
    slurm: String,
}

impl TestHost {
    fn start() -> Option<Self> {
        let server = SshServer::start().unwrap()?;
        let ssh = server.ssh().unwrap().join(" ");
        let options = ["--load-host", SshServer::HOST, "--ssh", &ssh].map(str::to_owned);
        Some(Self { server: Some(server), ..Self::new(&options) })
    }

    fn new(options: &[String]) -> Self {
        let home = TestHome::new();
        fs::create_dir(home.path("tmp")).unwrap();
        let program = home.path("remote-manycore");
        symlink(common::program(), &program).unwrap();
        Self {
            program: program.display().to_string(),
            ports: FreePort::find_run(4).unwrap().to_string(),
            home,
            server: None,
            options: options.to_vec(),
            slurm: String::new(),
        }
    }

    /// Returns the words of the command line with these options.
    fn line<'a>(&'a self, load: &'a str, more: &[&'a str]) -> Vec<&'a str> {
        let line = ["density", "--service", SERVICE, "--load", load, "--ports", &self.ports];
        // The rate of another client is its own.
        let rate: &[&str] = if load.starts_with("http:") { &["--rate", "50/s"] } else { &[] };
        let own = ["--max", "2", "--bound", "p50 < 60s", "--slice", "200ms", "--quiet", "--out", "found"];
        let program = ["--load-program", &self.program];
        let host: Vec<&str> = self.options.iter().map(String::as_str).chain(program).collect();
        [&line[..], rate, &own, &["--force"], &host, more].concat()
    }

    fn density(&self, load: &str, more: &[&str]) -> Command {
        let mut command = self.home.command(&self.line(load, more));
        // Sockets of ssh are there.
        command.env("TMPDIR", self.home.path("tmp")).env("SLURM_CONF", &self.slurm);
        command
    }

    fn run(&self, code: i32, load: &str, more: &[&str]) -> (Output, String) {
        let run = self.density(load, more).output().unwrap();
        let said = String::from_utf8_lossy(&run.stderr).into_owned();
        assert_eq!(run.status.code(), Some(code), "{more:?}: {said}");
        self.wait_until_nothing_is_left();
        (run, said)
    }

    /// Returns the processes with a text in their command lines.
    fn with(text: &str) -> Vec<u32> {
        let has = |pid: &u32| {
            let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            String::from_utf8_lossy(&line).contains(text)
        };
        tasks::all().into_iter().filter(has).collect()
    }

    /// Waits until there is no process of the test on either side, but the server, and no file.
    fn wait_until_nothing_is_left(&self) {
        let home = self.home.path("").display().to_string();
        soon("a load is left on the host", || Self::with(&home).is_empty());
        if let Some(server) = &self.server {
            let config = server.path("config").display().to_string();
            soon("a process of ssh is left", || Self::with(&config).is_empty());
        }
        soon("a server is left", || Self::with(&format!("\0{}\0", self.ports)).is_empty());
        soon("a journal is left", || self.home.is_clean());
        soon("sockets are left", || fs::read_dir(self.home.path("tmp")).unwrap().count() == 0);
    }

    /// Starts a measurement, and waits until loads run on the host.
    fn loading(&self) -> Child {
        let running = self.density("http:/", &["--slice", "100s"]).spawn().unwrap();
        let line = format!("{}\0load-worker", self.program);
        soon("no load runs on the host", || !Self::with(&line).is_empty());
        running
    }
}

fn parameters(host: &TestHost) -> Value {
    let record = fs::read(host.home.path("found/record.json")).unwrap();
    serde_json::from_slice::<Value>(&record).unwrap()["experiments"][0]["parameters"].take()
}

#[test]
fn loads_of_the_own_generator_run_on_the_host() {
    let Some(host) = TestHost::start() else { return };
    let measure = || host.density("http:/", &["--format", "json"]).output().unwrap();
    let Some(run) = host.home.undisturbed(measure) else { return };
    let said = String::from_utf8_lossy(&run.stderr).into_owned();
    assert_eq!(run.status.code(), Some(0), "{said}");
    host.wait_until_nothing_is_left();
    let printed: Value = serde_json::from_slice(&run.stdout).unwrap();
    let answer = &printed["density"]["variants"][0]["answer"];
    assert_eq!((&answer["low"], &answer["high"]), (&Value::from(2), &Value::Null), "{said}");
    let name = format!("{} (this machine)", SshServer::HOST);
    assert_eq!(parameters(&host)["load_hosts"], name.as_str());
    assert_eq!(printed["density"]["load_hosts"], name.as_str());
    let part = printed["density"]["variants"][0]["client_part"].as_array().unwrap();
    assert_eq!(part.len(), 2, "the client's own part at each count: {part:?}");
    let text = host.home.run(&["report", "found"]);
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert!(text.contains(&format!("Loads run on {name}")), "{text}");
}

#[test]
fn clients_of_other_programs_run_on_hosts_and_end_with_each_slice() {
    let Some(host) = TestHost::start() else { return };
    let output = format!("{}/../experiment/tests/metrics/wrk-latency.txt", env!("CARGO_MANIFEST_DIR"));
    // The client of the second instance does not end by itself.
    let script = format!(
        "[ {{index}} = 0 ] || exec sleep 61237.{{port}}; sleep 0.2; cat {output}; pwd >>{}/ran",
        host.home.path("").display()
    );
    let load = format!("sh -c '{script}'");
    host.run(0, &load, &["--metric", "wrk", "--load-host", SshServer::HOST]);
    assert!(fs::read_to_string(host.home.path("ran")).unwrap().lines().count() >= 2);
    assert!(TestHost::with("61237.").is_empty());
    let name = format!("{} (this machine)", SshServer::HOST);
    assert_eq!(parameters(&host)["load_hosts"], format!("{name}, {name}").as_str());
    assert_eq!(parameters(&host)["load_generator"], "sh");
}

#[test]
fn nothing_is_left_on_the_host_after_sigkill() {
    let Some(host) = TestHost::start() else { return };
    let mut running = host.loading();
    running.kill().unwrap();
    running.wait().unwrap();
    host.wait_until_nothing_is_left();
}

#[test]
fn nothing_is_left_on_the_host_after_an_interruption() {
    let Some(host) = TestHost::start() else { return };
    let mut running = host.loading();
    kill_process(Pid::from_child(&running), Signal::INT).unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(130));
    host.wait_until_nothing_is_left();
}

/// It ends the measurement: a number of instances does not fail because of it.
#[test]
fn a_connection_that_ends_is_an_error() {
    let Some(host) = TestHost::start() else { return };
    let mut running = host.loading();
    let socket = format!("-M\0-N\0-S\0{}", host.home.path("tmp").display());
    let [master] = TestHost::with(&socket)[..] else { panic!("there is one connection") };
    kill_process(Pid::from_raw(master as i32).unwrap(), Signal::KILL).unwrap();
    assert_eq!(running.wait().unwrap().code(), Some(4));
    let mut said = String::new();
    running.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    assert!(said.contains("the connection to load-host has ended"), "{said}");
    host.wait_until_nothing_is_left();
}

#[test]
fn hosts_that_cannot_load_have_their_exit_codes_and_say_what_to_do() {
    let Some(host) = TestHost::start() else { return };
    let said = |code, load: &str, more: &[&str]| host.run(code, load, more).1;
    let hostile = said(2, "http:/", &["--load-host=-oProxyCommand=touch x"]);
    assert!(hostile.contains("is no host: expected one of ssh such as user@host, slurm:NODE"), "{hostile}");
    let everywhere = said(2, "http:/", &["--address", "0.0.0.0"]);
    assert!(
        everywhere.contains("does not lead from") && everywhere.contains("--address 192.0.2.1"),
        "{everywhere}"
    );
    let cpus = said(2, "http:/", &["--load-cpus", "8191"]);
    assert!(cpus.contains("a load cannot run on CPUs 8191"), "{cpus}");
    let missing = said(3, "http:/", &["--load-program", "/no/manycore"]);
    assert!(
        missing.contains("/no/manycore cannot be started on") && missing.contains("--load-program"),
        "{missing}"
    );
    let other = said(3, "http:/", &["--load-program", "echo"]);
    assert!(other.contains("echo on load-host is") && other.contains("and this is manycore "), "{other}");
    let client = said(3, "no-such-client {port}", &["--metric", "wrk"]);
    assert!(client.contains("no-such-client cannot be started on load-host"), "{client}");
    let ssh = said(3, "http:/", &["--ssh", "no-such-ssh"]);
    assert!(ssh.contains("no-such-ssh is not installed here"), "{ssh}");
    let closed = host.server.as_ref().unwrap().ssh_with("closed", "Port 1").unwrap().join(" ");
    let closed = said(3, "http:/", &["--ssh", &closed]);
    assert!(
        closed.contains("load-host cannot be reached: ssh: connect to host 127.0.0.1 port 1"),
        "{closed}"
    );
    let client = said(4, "sh -c 'echo broken {port} >&2; exit 3'", &["--metric", "wrk"]);
    assert!(client.contains("(sh on load-host) failed") && client.contains("broken"), "{client}");
}

/// Outside of a job, one is created for the measurement; inside of one, its node is used.
#[test]
fn loads_run_on_a_node_of_slurm() {
    if !["slurmctld", "slurmd", "srun", "salloc"]
        .into_iter()
        .all(|name| manycore::program::find(name).is_some())
    {
        println!("SKIPPED: Slurm is not installed");
        return;
    }
    let cluster = match Cluster::start() {
        Ok(cluster) => cluster,
        Err(why) => return println!("SKIPPED: Slurm does not come up here: {why}"),
    };
    let no_job = || soon("a job is left", || cluster.run("squeue -h").stdout.is_empty());
    let options = ["--load-host", "slurm"].map(str::to_owned);
    let host = TestHost { slurm: cluster.conf().to_owned(), ..TestHost::new(&options) };
    host.run(0, "http:/", &[]);
    assert_eq!(parameters(&host)["load_hosts"], "slurm (this machine)");
    no_job();
    let mut running = host.loading();
    assert!(text(&cluster.run("squeue -h").stdout).contains("manycore"));
    running.kill().unwrap();
    running.wait().unwrap();
    host.wait_until_nothing_is_left();
    no_job();
    let mut inside = Command::new("salloc");
    inside.args(["--nodes=1", "--job-name=outer"]).arg(common::program()).args(host.line("http:/", &[]));
    inside.current_dir(host.home.0.path()).env("MANYCORE_STATE", host.home.path("journals"));
    let inside = inside.env("SLURM_CONF", cluster.conf()).output().unwrap();
    assert!(inside.status.success(), "{}", text(&inside.stderr));
    host.wait_until_nothing_is_left();
    let unknown = host.run(3, "http:/", &["--load-host", "slurm:no-such-node"]).1;
    assert!(unknown.contains("slurm:no-such-node cannot be reached: salloc: error:"), "{unknown}");
    no_job();
}
