//! Nodes of Slurm.

use crate::{Error, RemoteHost, Result, run};
use manycore_linux::child;
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    env,
    io::{BufRead, BufReader, Read},
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// How long Slurm may take until it grants a node, in seconds.
const GRANTED_WITHIN: u64 = 60;
/// How long a job may take to end.
const END: Duration = Duration::from_secs(10);
/// Longest output of salloc that is read, in bytes.
const MOST: u64 = 64 << 10;

/// A job with a node, or the job in which this process runs.
#[derive(Debug)]
pub(crate) struct SlurmJob {
    /// Words before those of a command.
    srun: Vec<String>,
    /// Holds the job, if it is ours.
    salloc: Option<Child>,
}

impl SlurmJob {
    /// Uses the job in which this process runs, or creates one that has a whole node and ends with this process.
    pub(crate) fn open(host: &RemoteHost, node: Option<&str>) -> Result<Self> {
        let words = ["srun", "--nodes=1", "--ntasks=1", "--overlap", "--cpu-bind=none"];
        let mut srun: Vec<String> = words.map(str::to_owned).to_vec();
        let mut salloc = None;
        if env::var_os("SLURM_JOB_ID").is_none() {
            let (child, job) = allocate(host, node)?;
            srun.push(format!("--jobid={job}"));
            salloc = Some(child);
        }
        match (node, env::var("SLURMD_NODENAME")) {
            (Some(node), _) => srun.push(format!("--nodelist={node}")),
            // Another node of the job than this one.
            (None, Ok(own)) if salloc.is_none() => srun.push(format!("--exclude={own}")),
            (None, _) => {}
        }
        Ok(Self { srun, salloc })
    }

    /// Returns the words of a step that runs a command. A shell starts it, so that its exit status says whether it exists.
    pub(crate) fn words(&self, words: &[String]) -> Vec<String> {
        let shell = ["sh", "-c", "exec \"$@\"", "sh"].map(str::to_owned);
        self.srun.iter().cloned().chain(shell).chain(words.iter().cloned()).collect()
    }
}

impl Drop for SlurmJob {
    fn drop(&mut self) {
        let Some(mut salloc) = self.salloc.take() else { return };
        // The command of salloc ends with its input, and salloc gives the node back.
        drop(salloc.stdin.take());
        let ended = child::wait_until(&mut salloc, Instant::now() + END);
        if !matches!(ended, Ok(Some(_))) {
            terminate(&mut salloc);
        }
    }
}

/// Creates a job with a node. Returns what holds it, and its number.
fn allocate(host: &RemoteHost, node: Option<&str>) -> Result<(Child, u64)> {
    let mut command = Command::new("salloc");
    command.args([
        "--nodes=1",
        "--exclusive",
        &format!("--immediate={GRANTED_WITHIN}"),
        "--job-name=manycore",
    ]);
    command.args(node.map(|node| format!("--nodelist={node}")));
    command.args(["sh", "-c", "echo \"$SLURM_JOB_ID\"; read -r _"]);
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // salloc gives the node back after SIGTERM, and not after SIGKILL.
    let mut child = child::spawn_terminated(&mut command)
        .map_err(|source| run::of_start("salloc".to_owned(), host, source))?;
    let mut line = String::new();
    if let Some(output) = child.stdout.take() {
        // Without a line, the number is missing below.
        let _read = BufReader::new(output.take(MOST)).read_line(&mut line);
    }
    if let Ok(job) = line.trim().parse() {
        return Ok((child, job));
    }
    drop(child.stdin.take());
    let mut said = String::new();
    let _read = child.stderr.take().map(|errors| errors.take(MOST).read_to_string(&mut said));
    terminate(&mut child);
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("salloc granted no node");
    Err(Error::Unreachable { host: host.clone(), why: last.trim().to_owned() })
}

/// Ends salloc.
fn terminate(salloc: &mut Child) {
    if let Some(group) = Pid::from_raw(salloc.id() as i32) {
        let _ = kill_process_group(group, Signal::TERM);
    }
    if !matches!(child::wait_until(salloc, Instant::now() + END), Ok(Some(_))) {
        child::kill(salloc);
    }
}
