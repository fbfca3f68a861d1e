//! Runs manycore on many hosts, and takes back what it found.
//!
//! Nothing is installed on the hosts, and nothing stays there. The program is copied to a private directory for each run
//! (`visit.sh`), over the connection of ssh or with `sbcast`. By Slurm, each node has a job of its own, which holds the
//! whole node: Slurm queues it, and another one follows if the node fails. One array job for all nodes cannot do that, as the
//! elements of an array cannot be bound to different nodes.
//!
//! Hosts that are down, late or fail are reported, and the others go on.

mod slurm;
mod ssh;
mod visit;

pub use visit::Reply;

use std::{path::PathBuf, time::Duration};
use visit::Failure;

/// How often a host is tried that is lost during its run.
const ATTEMPTS: usize = 3;
/// How often the state of jobs is asked for.
const TICK: Duration = Duration::from_secs(1);

/// What runs on each host.
#[derive(Clone, Debug)]
pub struct Work {
    /// The program that is copied there.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// Whether it writes a record into the directory of `--out`, which is sent back. What it prints is, otherwise.
    pub sends_record: bool,
    /// How long it may take on a host.
    pub limit: Duration,
}

/// How the hosts are reached.
#[derive(Clone, Debug)]
pub enum Way {
    /// By ssh: the program with its options.
    Ssh(Vec<String>),
    /// By jobs of Slurm.
    Slurm {
        /// The partition of the jobs; `None` is the default one.
        partition: Option<String>,
        /// How long a job may wait for its node.
        wait: Duration,
    },
}

/// What happened to a host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum HostEvent {
    /// It waits for this reason: `Resources`.
    Waits(String),
    /// The run begins.
    Begins,
    /// The host was lost, and is tried again.
    Again(String),
    /// It is down, by its manager.
    Down(String),
    /// It did not get its turn in time, or took too long.
    Late(String),
    /// It cannot be reached.
    Unreachable(String),
    /// The run failed.
    Failed(String),
    /// The user interrupted.
    Interrupted,
}

/// Receives events, in the thread that collects.
pub trait Observer {
    /// Something happened to a host. All but the first three are the end of it.
    fn event(&mut self, host: &str, event: HostEvent);
    /// A host has replied, which is the end of it.
    fn reply(&mut self, host: &str, reply: Reply);
    /// Called about once a second.
    fn tick(&mut self);
}

/// Runs `work` on the hosts, at most `parallel` at the same time. It ends soon after [`manycore_experiment::interrupt`] is
/// requested.
///
/// # Errors
/// Slurm does not answer at the beginning. Errors of a single host are events of it.
pub fn collect(
    hosts: &[String],
    way: &Way,
    work: &Work,
    parallel: usize,
    observer: &mut dyn Observer,
) -> Result<(), manycore_remote::Error> {
    match way {
        Way::Ssh(ssh) => {
            ssh::collect(hosts, ssh, work, parallel, observer);
            Ok(())
        }
        Way::Slurm { partition, wait } => {
            slurm::collect(hosts, partition.as_deref(), *wait, work, parallel, observer)
        }
    }
}

/// Returns how a run that failed ended.
fn end_of(failure: Failure, work: &Work) -> HostEvent {
    match failure {
        Failure::Interrupted => HostEvent::Interrupted,
        Failure::Lost(why) | Failure::Unreachable(why) => HostEvent::Unreachable(why),
        Failure::Failed(why) => HostEvent::Failed(why),
        Failure::TooLong => HostEvent::Late(format!(
            "the run has taken longer than {} s: --time gives it more",
            work.limit.as_secs()
        )),
    }
}
