//! Nodes of Slurm.

use crate::{Error, RemoteHost, Result, end::EndCommand, run};
use manycore_linux::child;
use std::{
    env,
    io::Read,
    process::{Command, Stdio},
};

/// How long Slurm may take until it grants a node, in seconds.
const GRANTED_WITHIN: u64 = 60;
/// Longest output of salloc that is read, in bytes.
const MOST: u64 = 64 << 10;
/// What precedes the number of a job in the output of salloc.
const GRANTED: &str = "Granted job allocation ";

/// A job with a node, or the job in which this process runs.
#[derive(Debug)]
pub(crate) struct SlurmJob {
    /// Words before those of a command.
    srun: Vec<String>,
    /// Ends the job if it is ours. (Some versions of salloc hold a job themselves, but spin for ever if their command ends
    /// while they get SIGTERM.)
    _ender: Option<EndCommand>,
}

impl SlurmJob {
    /// Uses the job in which this process runs, or creates one that has a whole node and ends with this process.
    pub(crate) fn open(host: &RemoteHost, node: Option<&str>) -> Result<Self> {
        let mut srun = step();
        let mut ender = None;
        if env::var_os("SLURM_JOB_ID").is_none() {
            let job = allocate(host, node)?;
            let started = EndCommand::start(&["scancel"], job.to_string());
            ender = Some(started.map_err(|source| run::of_start("sh".to_owned(), host, source))?);
            srun.push(format!("--jobid={job}"));
        }
        match (node, env::var("SLURMD_NODENAME")) {
            (Some(node), _) => srun.push(format!("--nodelist={node}")),
            // Another node of the job than this one.
            (None, Ok(own)) if ender.is_none() => srun.push(format!("--exclude={own}")),
            (None, _) => {}
        }
        Ok(Self { srun, _ender: ender })
    }

    /// Uses a job that has a node and lasts as long as its owner lets it.
    pub(crate) fn of(job: u64) -> Self {
        let mut srun = step();
        srun.push(format!("--jobid={job}"));
        Self { srun, _ender: None }
    }

    /// Returns the words of a step that runs a command. A shell starts it, so that its exit status says whether it exists.
    pub(crate) fn words(&self, words: &[String]) -> Vec<String> {
        let shell = ["sh", "-c", "exec \"$@\"", "sh"].map(str::to_owned);
        self.srun.iter().cloned().chain(shell).chain(words.iter().cloned()).collect()
    }
}

fn step() -> Vec<String> {
    ["srun", "--nodes=1", "--ntasks=1", "--overlap", "--cpu-bind=none"].map(str::to_owned).to_vec()
}

/// Creates a job with a node, which has no process until a step of it is started. Returns its number.
fn allocate(host: &RemoteHost, node: Option<&str>) -> Result<u64> {
    let mut command = Command::new("salloc");
    command.args([
        "--no-shell",
        "--nodes=1",
        "--exclusive",
        &format!("--immediate={GRANTED_WITHIN}"),
        "--job-name=manycore",
    ]);
    command.args(node.map(|node| format!("--nodelist={node}")));
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped());
    // While it waits for a node, salloc withdraws the job after SIGTERM, and not after SIGKILL.
    let mut salloc = child::spawn_terminated(&mut command)
        .map_err(|source| run::of_start("salloc".to_owned(), host, source))?;
    let mut said = String::new();
    let _read = salloc.stderr.take().map(|errors| errors.take(MOST).read_to_string(&mut said));
    let ended = salloc.wait();
    if let Some(job) = granted(&said).filter(|_| ended.is_ok_and(|status| status.success())) {
        return Ok(job);
    }
    let last = said.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("salloc granted no node");
    Err(Error::Unreachable { host: host.clone(), why: last.trim().to_owned() })
}

/// Returns the number of the job that salloc names.
fn granted(said: &str) -> Option<u64> {
    said.lines().find_map(|line| line.split_once(GRANTED)?.1.trim().parse().ok())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_number_of_a_job_is_what_salloc_was_granted() {
        let said = "salloc: Pending job allocation 7\nsalloc: Granted job allocation 41\nsalloc: Nodes n0 are ready for job\n";
        assert_eq!(granted(said), Some(41));
        assert_eq!(granted("salloc: error: Job submit/allocate failed: Invalid partition"), None);
    }
}
