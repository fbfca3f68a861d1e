//! A Slurm cluster for a test.

use super::{sh, text};
use std::{
    fs,
    path::Path,
    process::{Command, Output, Stdio},
};
use tempfile::TempDir;

/// A Slurm cluster of only this machine, without munge; stopped when the value is dropped.
pub struct Cluster {
    daemons: Vec<std::process::Child>,
    conf: String,
    _folder: TempDir,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        for daemon in &mut self.daemons {
            let _ = daemon.kill();
            let _ = daemon.wait();
        }
    }
}

impl Cluster {
    /// Starts it; returns an error if it does not become ready.
    pub fn start() -> Result<Self, String> {
        let folder = TempDir::new().unwrap();
        let conf = folder.path().join("slurm.conf");
        let log = configure(folder.path(), &conf);
        let start = |program: &str| {
            let mut command = Command::new(program);
            command.arg("-D").env("SLURM_CONF", &conf).stdin(Stdio::null());
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().map_err(|error| error.to_string())
        };
        let mut cluster = Self { daemons: Vec::new(), conf: conf.display().to_string(), _folder: folder };
        for program in ["slurmctld", "slurmd"] {
            cluster.daemons.push(start(program)?);
        }
        for _ in 0..150 {
            if text(&cluster.run("sinfo -h -o %T").stdout).trim() == "idle" {
                return Ok(cluster);
            }
            std::thread::sleep(std::time::Duration::from_millis(100));
        }
        let logs = ["slurmctld.log", "slurmd.log"]
            .map(|name| fs::read_to_string(log.join(name)).unwrap_or_default());
        Err(logs.iter().flat_map(|log| log.lines().rev().take(2)).collect::<Vec<_>>().join("; "))
    }

    /// Returns the path of its configuration, for `SLURM_CONF`.
    pub fn conf(&self) -> &str {
        &self.conf
    }

    pub fn run(&self, script: &str) -> Output {
        sh(&format!("export SLURM_CONF={}\ntimeout 30 {script}", self.conf))
    }
}

/// Writes the configuration; returns the directory of the log files.
fn configure(folder: &Path, conf: &Path) -> std::path::PathBuf {
    let port = || std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let output = |script: &str| text(&sh(script).stdout).trim().to_owned();
    let (host, user, cpus) = (output("hostname -s"), output("id -un"), output("nproc --all"));
    let at = folder.display();
    let lines = [
        "ClusterName=plan".to_owned(),
        format!("SlurmctldHost={host}(127.0.0.1)"),
        "AuthType=auth/none\nCredType=cred/none\nMpiDefault=none".to_owned(),
        format!("SlurmctldPort={}\nSlurmdPort={}\nSlurmUser={user}\nSlurmdUser={user}", port(), port()),
        format!("StateSaveLocation={at}/state\nSlurmdSpoolDir={at}/spool"),
        format!("SlurmctldPidFile={at}/slurmctld.pid\nSlurmdPidFile={at}/slurmd.pid"),
        format!("SlurmctldLogFile={at}/slurmctld.log\nSlurmdLogFile={at}/slurmd.log"),
        "ProctrackType=proctrack/linuxproc\nTaskPlugin=task/affinity\nReturnToService=2".to_owned(),
        "SelectType=select/cons_tres\nSelectTypeParameters=CR_CPU".to_owned(),
        format!("NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN"),
        format!("PartitionName=all Nodes={host} Default=YES MaxTime=INFINITE State=UP"),
    ];
    for name in ["state", "spool"] {
        fs::create_dir(folder.join(name)).unwrap();
    }
    fs::write(conf, lines.join("\n") + "\n").unwrap();
    folder.to_owned()
}
