//! Hosts of `fleet`: a server of ssh and nodes of Slurm on this machine.

use super::{
    place::{TestHome, none_soon, soon},
    slurm::Cluster,
    text,
};
use manycore_linux::tasks;
use manycore_testkit::{Alone, ssh_server::SshServer};
use serde_json::Value;
use std::{
    fs,
    path::Path,
    process::{Child, Command, Output},
};

/// What a host measures in a second.
pub const MEASURE: [&str; 6] = ["eval", "--only", "latency", "--budget", "1s", "--quiet"];

/// Waits until no other test of `fleet` runs: they look for programs and directories that are left on this machine.
pub fn alone() -> Alone {
    manycore_testkit::alone("fleet").unwrap()
}

/// A directory, and hosts that are all this machine.
pub struct Fleet {
    /// Tests look for what is left on this machine, so there is one at a time.
    _alone: Alone,
    pub home: TestHome,
    pub server: Option<SshServer>,
    /// The options that name the hosts.
    pub options: Vec<String>,
    slurm: String,
}

impl Fleet {
    /// Returns hosts of these names over ssh. `None` if there is no server.
    pub fn ssh(hosts: &str) -> Option<Self> {
        let alone = alone();
        let server = SshServer::start().unwrap()?;
        let home = TestHome::new();
        fs::create_dir(home.path("tmp")).unwrap();
        fs::write(home.path("hosts"), hosts).unwrap();
        // The same server for each name.
        let ssh = server.ssh_with("fleet", "Host n1 n2 n3 m*").unwrap().join(" ");
        let options = ["--hosts", "hosts", "--ssh", &ssh].map(str::to_owned).to_vec();
        Some(Self { _alone: alone, home, server: Some(server), options, slurm: String::new() })
    }

    /// Returns all nodes of a cluster, one of which works at a time.
    pub fn slurm(cluster: &Cluster) -> Self {
        let home = TestHome::new();
        fs::create_dir(home.path("tmp")).unwrap();
        let options = ["--partition", "all", "--parallel", "1"].map(str::to_owned).to_vec();
        Self { _alone: alone(), home, server: None, options, slurm: cluster.conf().to_owned() }
    }

    /// Returns a command of `fleet` with the options that name the hosts.
    pub fn command(&self, words: &[&str]) -> Command {
        let options = self.options.iter().map(String::as_str);
        let (subcommand, rest) = words.split_first().unwrap();
        let line: Vec<&str> =
            ["fleet", *subcommand].into_iter().chain(options).chain(rest.iter().copied()).collect();
        let mut command = self.home.command(&line);
        command.env("TMPDIR", self.home.path("tmp")).env("SLURM_CONF", &self.slurm);
        command
    }

    /// Runs a command of `fleet`; returns what it printed and its messages.
    pub fn run(&self, code: i32, words: &[&str]) -> (String, String) {
        let run: Output = self.command(words).output().unwrap();
        let (printed, said) = (text(&run.stdout), text(&run.stderr));
        assert_eq!(run.status.code(), Some(code), "{words:?}: {printed}{said}");
        self.wait_until_nothing_is_left();
        (printed, said)
    }

    /// Waits until no program that was copied runs or is left, and no socket.
    pub fn wait_until_nothing_is_left(&self) {
        none_soon("programs are left on hosts", copies);
        none_soon("sockets are left", || names_in(&self.home.path("tmp")));
        if let Some(server) = &self.server {
            let config = server.path("fleet").display().to_string();
            none_soon("processes of ssh are left", || with(&config));
        }
    }

    /// Returns what is known of the hosts of a run.
    pub fn hosts(&self, out: &str) -> Value {
        let run = fs::read(self.home.path(out).join("fleet.json")).unwrap();
        serde_json::from_slice::<Value>(&run).unwrap()["hosts"].take()
    }

    /// Starts a measurement that takes long, and waits until it runs on a host.
    pub fn measuring(&self, out: &str) -> Child {
        let words = ["eval", "--only", "scaling", "--budget", "300s", "--quiet", "--out", out];
        let running = self.command(&words).spawn().unwrap();
        soon("nothing runs on the host", || !with("/manycore\0eval\0--budget=300s").is_empty());
        running
    }
}

fn names_in(folder: &Path) -> Vec<String> {
    fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect()
}

/// Returns the directories of programs that were copied.
pub fn copies() -> Vec<String> {
    let is_copy = |name: &String| {
        let rest = name.strip_prefix("manycore-").unwrap_or_default();
        rest.starts_with("fleet-")
            || rest.len() > 7
                && rest.starts_with(|letter: char| letter.is_ascii_digit())
                && rest.contains('-')
    };
    names_in(Path::new("/tmp")).into_iter().filter(is_copy).collect()
}

/// Returns the processes with a text in their command lines.
pub fn with(text: &str) -> Vec<u32> {
    let has = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(text)
    };
    tasks::all().into_iter().filter(has).collect()
}

/// Returns a cluster of Slurm; `None` where there is none, and prints why.
pub fn cluster(names: &[&str]) -> Option<Cluster> {
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
