//! A Slurm cluster for a test.

use super::{sh, text};
use manycore_linux::tasks;
use manycore_testkit::{Alone, FreePort, alone};
use rustix::process::{Pid, Signal, kill_process};
use std::{
    collections::BTreeMap,
    fs,
    path::Path,
    process::{self, Command, Output, Stdio},
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// A Slurm cluster of only this machine, without munge; stopped when the value is dropped.
pub struct Cluster {
    daemons: Vec<process::Child>,
    /// The daemons of nodes with names of their own.
    nodes: BTreeMap<String, process::Child>,
    conf: String,
    folder: TempDir,
    /// No other process gets them while a daemon is down.
    _ports: Vec<FreePort>,
    /// Daemons of several clusters would need the processes and the time of all CPUs, and tests kill steps by name.
    _alone: Alone,
}

/// Longest time until all nodes are idle.
const START: Duration = Duration::from_mins(2);

impl Drop for Cluster {
    fn drop(&mut self) {
        if std::thread::panicking() {
            let ended = self.daemons.iter_mut().filter_map(|daemon| daemon.try_wait().unwrap());
            println!("daemons that have ended: {:?}\n{}", ended.collect::<Vec<_>>(), self.last_messages(20));
        }
        for daemon in self.daemons.iter_mut().chain(self.nodes.values_mut()) {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
        // The steps of jobs outlive a daemon that is killed, in its directory.
        let is_own = |pid: &u32| {
            let [name, folder] = ["comm", "cwd"].map(|file| format!("/proc/{pid}/{file}"));
            let is_step = fs::read_to_string(name).is_ok_and(|name| name.starts_with("slurmstepd"));
            is_step && fs::read_link(folder).is_ok_and(|folder| folder == self.folder.path())
        };
        for pid in tasks::all().into_iter().filter(is_own) {
            let _ = kill_process(Pid::from_raw(pid as i32).unwrap(), Signal::KILL);
        }
    }
}

impl Cluster {
    /// Starts it; returns an error if it does not become ready.
    pub fn start() -> Result<Self, String> {
        let mut cluster = Self::configured(&[]);
        for program in ["slurmctld", "slurmd"] {
            cluster.daemons.push(cluster.daemon(program, &[])?);
        }
        cluster.ready()
    }

    /// Starts one with nodes of these names, all of which are this machine.
    pub fn with_nodes(names: &[&str]) -> Result<Self, String> {
        let mut cluster = Self::configured(names);
        cluster.start_controller()?;
        for name in names {
            cluster.start_node(name)?;
        }
        cluster.ready()
    }

    fn configured(names: &[&str]) -> Self {
        let alone = alone("slurm").unwrap();
        let folder = TempDir::new().unwrap();
        let conf = folder.path().join("slurm.conf");
        let ports: Vec<FreePort> = (0..names.len() + 2).map(|_| FreePort::find().unwrap()).collect();
        configure(folder.path(), &conf, names, &ports);
        let conf = conf.display().to_string();
        Self { daemons: Vec::new(), nodes: BTreeMap::new(), conf, folder, _ports: ports, _alone: alone }
    }

    fn daemon(&self, program: &str, arguments: &[&str]) -> Result<process::Child, String> {
        let mut command = Command::new(program);
        command.arg("-D").args(arguments).env("SLURM_CONF", &self.conf).stdin(Stdio::null());
        // A daemon that is killed may leave a core file where it was started.
        command.current_dir(self.folder.path());
        command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(|error| error.to_string())
    }

    /// Starts the daemon of a node.
    pub fn start_node(&mut self, name: &str) -> Result<(), String> {
        let daemon = self.daemon("slurmd", &["-N", name])?;
        self.nodes.insert(name.to_owned(), daemon);
        Ok(())
    }

    /// Kills the daemon of a node.
    pub fn kill_node(&mut self, name: &str) {
        let mut daemon = self.nodes.remove(name).unwrap();
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    /// Starts the controller.
    pub fn start_controller(&mut self) -> Result<(), String> {
        let daemon = self.daemon("slurmctld", &[])?;
        self.daemons.push(daemon);
        Ok(())
    }

    /// Kills the controller.
    pub fn kill_controller(&mut self) {
        let mut daemon = self.daemons.pop().unwrap();
        daemon.kill().unwrap();
        daemon.wait().unwrap();
    }

    /// Waits until all nodes are idle.
    fn ready(self) -> Result<Self, String> {
        let end = Instant::now() + START;
        while Instant::now() < end {
            let states = text(&self.run("sinfo -h -N -o %T").stdout);
            if !states.is_empty() && states.lines().all(|state| state.trim() == "idle") {
                return Ok(self);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        Err(self.last_messages(2).replace('\n', "; "))
    }

    /// Returns the last lines of what the controller and the nodes have logged.
    fn last_messages(&self, lines: usize) -> String {
        let logs = ["slurmctld.log", "slurmd.log"]
            .map(|name| fs::read_to_string(self.folder.path().join(name)).unwrap_or_default());
        let last = |log: &String| log.lines().rev().take(lines).map(str::to_owned).collect::<Vec<_>>();
        logs.iter().flat_map(|log| last(log).into_iter().rev()).collect::<Vec<_>>().join("\n")
    }

    /// Returns the path of its configuration, for `SLURM_CONF`.
    pub fn conf(&self) -> &str {
        &self.conf
    }

    pub fn run(&self, script: &str) -> Output {
        sh(&format!("export SLURM_CONF={}\ntimeout 60 {script}", self.conf))
    }
}

/// Writes the configuration: of one node with the name of this machine, or of nodes with these names. Needs two ports more
/// than names.
fn configure(folder: &Path, conf: &Path, names: &[&str], ports: &[FreePort]) {
    let output = |script: &str| text(&sh(script).stdout).trim().to_owned();
    let (host, user, cpus) = (output("hostname -s"), output("id -un"), output("nproc --all"));
    let at = folder.display();
    let nodes: Vec<String> = match names {
        [] => vec![format!("NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN")],
        names => names
            .iter()
            .zip(&ports[2..])
            .map(|(name, port)| {
                let port = port.number();
                format!("NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={cpus} State=UNKNOWN")
            })
            .collect(),
    };
    // Daemons on one host need directories of their own.
    let own = if names.is_empty() { "spool" } else { "spool/%n" };
    let lines = [
        "ClusterName=plan".to_owned(),
        format!("SlurmctldHost={host}(127.0.0.1)"),
        "AuthType=auth/none\nCredType=cred/none\nMpiDefault=none".to_owned(),
        format!(
            "SlurmctldPort={}\nSlurmdPort={}\nSlurmUser={user}\nSlurmdUser={user}",
            ports[0].number(),
            ports[1].number()
        ),
        format!("StateSaveLocation={at}/state\nSlurmdSpoolDir={at}/{own}"),
        format!("SlurmctldPidFile={at}/slurmctld.pid\nSlurmdPidFile={at}/slurmd-%n.pid"),
        format!("SlurmctldLogFile={at}/slurmctld.log\nSlurmdLogFile={at}/slurmd.log"),
        "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/affinity\nReturnToService=2".to_owned(),
        "SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU".to_owned(),
        "SlurmdTimeout=20\nMessageTimeout=3\nSlurmdParameters=config_overrides".to_owned(),
        nodes.join("\n"),
        "PartitionName=all Nodes=ALL Default=YES MaxTime=INFINITE State=UP".to_owned(),
    ];
    let directories = names.iter().map(|name| format!("spool/{name}"));
    for name in ["state", "spool"].map(str::to_owned).into_iter().chain(directories) {
        fs::create_dir(folder.join(name)).unwrap();
    }
    fs::write(conf, lines.join("\n") + "\n").unwrap();
}
