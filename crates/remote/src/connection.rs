//! A connection to a host, and commands over it.

use crate::{RemoteHost, Result, slurm::SlurmJob, ssh::SshMasters};
use std::process::Command;

/// A connection to a host. It must be opened and dropped in the same thread, and lasts at most as long as that thread.
#[derive(Debug)]
pub struct RemoteConnection {
    host: RemoteHost,
    way: Way,
}

#[derive(Debug)]
enum Way {
    Ssh(SshMasters),
    Slurm(SlurmJob),
}

impl RemoteConnection {
    /// Connects to a host. `ssh` is the program with its options, such as `ssh -F FILE`.
    ///
    /// # Errors
    /// [`crate::Error::MissingProgram`], [`crate::Error::Unreachable`], [`crate::Error::TooLate`], [`crate::Error::System`].
    pub fn open(host: &RemoteHost, ssh: &[String]) -> Result<Self> {
        let way = match host {
            RemoteHost::Ssh(destination) => Way::Ssh(SshMasters::open(host, destination, ssh)?),
            RemoteHost::Slurm(node) => Way::Slurm(SlurmJob::open(host, node.as_deref())?),
        };
        Ok(Self { host: host.clone(), way })
    }

    /// Connects to the node of a job of Slurm. The job stays when the connection is dropped.
    pub(crate) fn in_job(node: &str, job: u64) -> Self {
        Self { host: RemoteHost::Slurm(Some(node.to_owned())), way: Way::Slurm(SlurmJob::of(job)) }
    }

    /// The host.
    pub fn host(&self) -> &RemoteHost {
        &self.host
    }

    /// Whether a connection of ssh to the host has ended.
    pub(crate) fn is_lost(&self) -> bool {
        matches!(&self.way, Way::Ssh(masters) if masters.is_lost())
    }

    /// Wraps a command: it runs on the host when the result is started.
    pub(crate) fn command(&self, session: usize, words: &[String]) -> Result<Command> {
        let words = match &self.way {
            Way::Ssh(masters) => masters.words(&self.host, session, words)?,
            Way::Slurm(job) => job.words(words),
        };
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        Ok(command)
    }
}

/// A script that runs its arguments, and kills its process group when its standard input ends. Commands over ssh and Slurm
/// have a process group of their own.
const SUPERVISOR: &str =
    r#"exec 3<&0 </dev/null; (read -r _ <&3; kill -KILL 0) >/dev/null 2>&1 & exec 3<&-; exec "$@""#;

/// Returns the words of a command that is killed there, with the processes in its group, when its standard input here is closed.
/// It reads an empty one itself.
pub fn supervised(words: &[String]) -> Vec<String> {
    let script = ["sh", "-c", SUPERVISOR, "sh"].map(str::to_owned);
    script.into_iter().chain(words.iter().cloned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_linux::child;
    use std::{
        io::{BufRead, BufReader},
        process::Stdio,
    };

    fn start(script: &str) -> std::process::Child {
        let words = supervised(&["sh", "-c", script].map(str::to_owned));
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).stdin(Stdio::piped()).stdout(Stdio::piped());
        child::spawn(&mut command).unwrap()
    }

    #[test]
    fn a_supervised_command_ends_with_its_input() {
        let mut child = start("sleep 1000 & echo started; wait");
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "started\n");
        drop(child.stdin.take());
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&child.wait().unwrap()), Some(9));
    }

    #[test]
    fn a_supervised_command_reads_nothing_and_has_its_own_status() {
        let mut child = start("read -r line || exit 7");
        // The watching shell waits for its end.
        let _input = child.stdin.take();
        assert_eq!(child.wait().unwrap().code(), Some(7));
    }
}
