//! Jobs of Slurm that hold one node each. Slurm queues them.

use crate::{Error, RemoteConnection, RemoteHost, Result, end::EndCommand, local, run};
use std::{
    collections::BTreeMap,
    path::Path,
    process,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// How long a command of Slurm may take. They wait for a controller that restarts.
const ANSWER: Duration = Duration::from_mins(1);
/// Longest reason of a job or node that is kept, in characters.
const MOST: usize = 200;

/// What holds a node: a job lasts as long as its script. The script removes what steps of the job leave in directories of
/// [`BatchJobs::make_directory`], because Slurm kills steps whose srun was killed. They may write while they end.
const HOLDER: &str = "\
clean() { rm -rf /tmp/manycore-\"$SLURM_JOB_ID\"-??????; }
trap 'clean; sleep 1; clean' EXIT
trap 'exit 143' HUP INT TERM
sleep SECONDS & wait $!";
/// How a message of sbatch ends that waits for seconds before it tries again (`src/sbatch/sbatch.c`).
const RETRIES: &str = "sleeping and retrying";
/// How long a short command on a node may take.
const SHORT: Duration = Duration::from_secs(30);

/// A node, as Slurm knows it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchNode {
    /// Its name.
    pub name: String,
    /// Its state in lower case, without marks such as `*`: `idle`, `allocated`, `down`.
    pub state: String,
    /// Why it is in that state, where Slurm has a reason.
    pub reason: Option<String>,
}

impl BatchNode {
    /// Whether jobs can run on it, now or after those that it has.
    pub fn takes_jobs(&self) -> bool {
        let out = ["down", "drain", "fail", "unk", "power", "maint", "reboot", "future", "planned_down"];
        !out.iter().any(|state| self.state.starts_with(state))
    }
}

/// Where a job is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BatchPhase {
    /// It waits for its node, for this reason of Slurm: `Resources`, `Priority`.
    Waiting(String),
    /// It has its node.
    Running,
    /// It ends.
    Ending,
}

/// The jobs of one run. Those that are left are cancelled when the value is dropped, and when this process is killed.
#[derive(Debug)]
pub struct BatchJobs {
    name: String,
    partition: Option<String>,
    limit: Duration,
    _ender: EndCommand,
}

impl BatchJobs {
    /// Begins a run, whose jobs may take `limit` each. They are submitted to a partition, or to the default one.
    ///
    /// # Errors
    /// [`Error::System`].
    pub fn new(partition: Option<&str>, limit: Duration) -> Result<Self> {
        // Unique among those of this user on all hosts with this controller, as far as that is possible.
        let began = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let name = format!("manycore-fleet-{}-{}", process::id(), began.as_millis());
        let ender = EndCommand::start(&["scancel"], format!("--name={name}"))
            .map_err(|source| Error::System { what: "cannot start a process that cancels jobs", source })?;
        Ok(Self { name, partition: partition.map(str::to_owned), limit, _ender: ender })
    }

    /// Submits a job that holds a whole node. Returns its number. The attempt ends when `stops` is true, and when sbatch would
    /// try again later.
    ///
    /// Slurm does not requeue the job if the node fails: another one is to be submitted. What ends the first run of a job
    /// can come after Slurm has begun the second one. It ends that run, too, or leaves a job without nodes that counts as
    /// running, and `srun` in such a job crashes the controller of Slurm 22.05 (`build_job_info_resp` in
    /// `src/slurmctld/job_mgr.c`).
    ///
    /// # Errors
    /// [`Error::Unreachable`]: Slurm refuses it. Those of starting programs.
    pub fn submit(&self, node: &str, stops: &dyn Fn() -> bool) -> Result<u64> {
        let host = RemoteHost::Slurm(Some(node.to_owned()));
        let minutes = self.limit.as_secs().div_ceil(60) + 1;
        // Most options of sbatch can also come from its environment.
        let mut words = ["--parsable", "--nodes=1", "--ntasks=1", "--exclusive", "--mem=0", "--no-requeue"]
            .map(str::to_owned)
            .to_vec();
        words.extend([
            format!("--nodelist={node}"),
            format!("--time={minutes}"),
            format!("--job-name={}", self.name),
        ]);
        words.extend(["--chdir=/", "--output=/dev/null", "--error=/dev/null"].map(str::to_owned));
        words.extend(self.partition.iter().map(|partition| format!("--partition={partition}")));
        words.push(format!("--wrap={}", HOLDER.replace("SECONDS", &(minutes * 60).to_string())));
        let output = ask_until("sbatch", &words, &host, &|line| line.ends_with(RETRIES) || stops())?;
        let first = output.lines().next().unwrap_or_default();
        let number = first.split(';').next().unwrap_or_default().trim().parse();
        number.map_err(|_| Error::Unreachable { host, why: format!("sbatch printed '{}'", shortened(first)) })
    }

    /// Returns where the jobs of this run are. Those that have ended are absent.
    ///
    /// # Errors
    /// [`Error::Unreachable`]: Slurm does not answer. Those of starting programs.
    pub fn phases(&self) -> Result<BTreeMap<u64, BatchPhase>> {
        let name = format!("--name={}", self.name);
        let words = ["--noheader", &name, "--format=%i|%T|%r"].map(str::to_owned);
        let output = ask("squeue", &words, &RemoteHost::Slurm(None))?;
        Ok(output.lines().filter_map(phase).collect())
    }

    /// Cancels a job. One that has ended is no error.
    pub fn cancel(&self, job: u64) {
        let words = ["--quiet".to_owned(), job.to_string()];
        let _ended = ask("scancel", &words, &RemoteHost::Slurm(None));
    }

    /// Copies a file to the node of a job that runs.
    ///
    /// # Errors
    /// [`Error::Unreachable`]: the node has no space, or has failed. Those of starting programs.
    pub fn copy(&self, job: u64, node: &str, from: &Path, to: &str) -> Result {
        let host = RemoteHost::Slurm(Some(node.to_owned()));
        let words =
            [format!("--jobid={job}"), "--force".to_owned(), from.display().to_string(), to.to_owned()];
        ask("sbcast", &words, &host).map(drop)
    }

    /// Makes a private directory on the node of a job, which is removed when the job ends. Returns its path.
    ///
    /// # Errors
    /// Those of [`RemoteConnection::output`]; [`Error::Unreachable`]: the node has no space.
    pub fn make_directory(&self, job: u64, node: &str) -> Result<String> {
        let words = ["mktemp".to_owned(), "-d".to_owned(), format!("/tmp/manycore-{job}-XXXXXX")];
        let connection = self.connect(job, node);
        let made = connection.output(&words, SHORT)?;
        let path = made.stdout.trim();
        if made.succeeded && path.starts_with("/tmp/manycore-") {
            return Ok(path.to_owned());
        }
        Err(Error::Unreachable { host: connection.host().clone(), why: made.last_line })
    }

    /// Whether a job still has its node. `directory` is that of [`Self::make_directory`]: the script of the job removes it before
    /// Slurm reports that the job has ended.
    ///
    /// # Errors
    /// It is not known: those of [`Self::phases`] and [`RemoteConnection::output`].
    pub fn holds(&self, job: u64, node: &str, directory: &str) -> Result<bool> {
        if self.phases()?.get(&job) != Some(&BatchPhase::Running) {
            return Ok(false);
        }
        let words = ["test", "-d", directory].map(str::to_owned);
        Ok(self.connect(job, node).output(&words, SHORT)?.succeeded)
    }

    /// Connects to the node of a job that runs.
    pub fn connect(&self, job: u64, node: &str) -> RemoteConnection {
        RemoteConnection::in_job(node, job)
    }
}

/// Returns the nodes of a partition, or those of a list in Slurm's syntax, or both; each once.
///
/// # Errors
/// [`Error::Unreachable`]: Slurm does not answer, or knows none of them. Those of starting programs.
pub fn batch_nodes(partition: Option<&str>, list: Option<&str>) -> Result<Vec<BatchNode>> {
    let mut words = ["--noheader", "--Node", "--format=%N|%T|%E"].map(str::to_owned).to_vec();
    words.extend(partition.map(|partition| format!("--partition={partition}")));
    words.extend(list.map(|list| format!("--nodes={list}")));
    let output = ask("sinfo", &words, &RemoteHost::Slurm(None))?;
    // A node has a line for each of its partitions.
    let nodes: BTreeMap<String, BatchNode> =
        output.lines().filter_map(node).map(|node| (node.name.clone(), node)).collect();
    Ok(nodes.into_values().collect())
}

fn ask(program: &str, words: &[String], host: &RemoteHost) -> Result<String> {
    ask_until(program, words, host, &|_| false)
}

/// As [`ask`], until `stops` is true of the last line that the program has printed as a message.
fn ask_until(
    program: &str,
    words: &[String],
    host: &RemoteHost,
    stops: &dyn Fn(&str) -> bool,
) -> Result<String> {
    let answer = local::output(program, words, ANSWER, stops);
    let answer = answer.map_err(|source| run::of_start(program.to_owned(), host, source))?;
    let answer = answer.ok_or_else(|| Error::TooLate { host: host.clone(), seconds: ANSWER.as_secs() })?;
    if answer.succeeded {
        return Ok(answer.stdout);
    }
    let why = if answer.last_line.is_empty() { format!("{program} failed") } else { answer.last_line };
    Err(Error::Unreachable { host: host.clone(), why })
}

/// Reads a line of squeue.
fn phase(line: &str) -> Option<(u64, BatchPhase)> {
    let mut fields = line.splitn(3, '|');
    let number = fields.next()?.trim().parse().ok()?;
    let phase = match fields.next()?.trim() {
        "RUNNING" => BatchPhase::Running,
        "PENDING" | "CONFIGURING" | "REQUEUED" | "REQUEUE_HOLD" | "SUSPENDED" => {
            BatchPhase::Waiting(shortened(fields.next().unwrap_or_default()))
        }
        _ => BatchPhase::Ending,
    };
    Some((number, phase))
}

/// Reads a line of sinfo.
fn node(line: &str) -> Option<BatchNode> {
    let mut fields = line.splitn(3, '|').map(str::trim);
    let (name, state) = (fields.next()?, fields.next()?);
    let reason = fields.next().filter(|reason| !reason.is_empty() && *reason != "none").map(shortened);
    // Marks: * does not answer, ~ # % power saving, $ maintenance, @ reboot, ^ reboot, ! power down, - planned.
    let plain = state.trim_end_matches(|mark: char| !mark.is_ascii_alphanumeric()).to_lowercase();
    // A node that does not answer takes no job, whatever its state was.
    let state = if state.ends_with('*') && plain != "down" {
        format!("down ({plain}, does not answer)")
    } else {
        plain
    };
    (!name.is_empty()).then(|| BatchNode { name: name.to_owned(), state, reason })
}

fn shortened(text: &str) -> String {
    text.trim().chars().take(MOST).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn jobs_wait_run_or_end() {
        assert_eq!(phase("12|PENDING|Resources"), Some((12, BatchPhase::Waiting("Resources".to_owned()))));
        assert_eq!(phase("12|RUNNING|None"), Some((12, BatchPhase::Running)));
        assert_eq!(phase("12|COMPLETING|None"), Some((12, BatchPhase::Ending)));
        assert_eq!(phase("slurm_load_jobs error: x|y"), None);
        assert_eq!(phase(""), None);
    }

    #[test]
    fn nodes_that_are_down_drained_or_silent_take_no_jobs() {
        let takes = |line: &str| node(line).unwrap().takes_jobs();
        assert!(
            ["n1|idle|none", "n1|allocated|none", "n1|mixed-|none", "n1|completing|"]
                .map(takes)
                .iter()
                .all(|&takes| takes)
        );
        let out = [
            "n1|down*|Not responding",
            "n1|drained|bad DIMM",
            "n1|idle*|none",
            "n1|draining|x",
            "n1|idle~|none",
        ];
        assert_eq!(out.map(takes), [false, false, false, false, true]);
        assert_eq!(node("n1|drained|bad | DIMM").unwrap().reason.unwrap(), "bad | DIMM");
    }
}
