//! An instance that is a process, with all that it starts.

use super::running::{Running, Start, ordered, with_descendants};
use crate::{Error, Result, template::CommandTemplate};
use manycore_control::{cleanup::kill_marked, measured_group::MeasuredGroup, tool::INSTANCE_VARIABLE};
use manycore_linux::child::{self, StartPlacement};
use rustix::process::{Pid, Signal, kill_process_group};
use std::{
    io::{self, BufRead, BufReader, PipeReader},
    process::{Child, Command, ExitStatus, Stdio},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant},
};

/// How long the last output of an instance that has ended is waited for.
const LAST_WORDS: Duration = Duration::from_secs(1);

/// A process in a control group of its own, or at least in a process group.
#[derive(Debug)]
pub(super) struct ProcessInstance {
    index: usize,
    child: Child,
    group: Option<MeasuredGroup>,
    /// What is in the environment of its processes if it has no control group.
    mark: Option<String>,
    /// The last line of what it printed.
    said: Arc<Mutex<String>>,
    /// Disconnected when its output has ended.
    reading: mpsc::Receiver<()>,
}

impl ProcessInstance {
    /// Starts `command`. Without limits and without the right to create control groups, it gets a process group only: daemons
    /// that have left it are found by their environment at the end.
    pub(super) fn start(command: &CommandTemplate, mut start: Start<'_>) -> Result<Self> {
        let index = start.values.index;
        let words = command.words(start.values);
        let failed = |source| Error::Start { index, program: words[0].clone(), source };
        let pipe = io::pipe().and_then(|(output, input)| Ok((output, input.try_clone()?, input)));
        let (output, stdout, stderr) =
            pipe.map_err(|source| Error::System { what: "cannot read the output of an instance", source })?;
        let group = match start.custody.as_deref_mut().map(|custody| custody.group(index, start.spec)) {
            Some(Ok(group)) => Some(group),
            Some(Err(why)) if start.spec.needs_group() => return Err(Error::Unlimited(why)),
            Some(Err(_)) | None => None,
        };
        let mut program = Command::new(&words[0]);
        program.args(&words[1..]).stdin(Stdio::null()).stdout(stdout).stderr(stderr);
        let tuning = &start.spec.tuning;
        program.envs(tuning.env.iter().map(|(name, value)| (name, value)));
        let mut mark = None;
        if let Some(custody) = start.custody.as_deref_mut().filter(|_| group.is_none()) {
            let assignment = format!("{INSTANCE_VARIABLE}={}", start.values.name);
            custody.add_mark(&assignment)?;
            program.env(INSTANCE_VARIABLE, &start.values.name);
            mark = Some(assignment);
        }
        let placement = StartPlacement {
            cpus: tuning.place(index).cloned(),
            memory: tuning.memory(index),
            ..StartPlacement::default()
        };
        let held = group.as_ref().map_or(Ok(()), |group| group.hold(&mut program));
        let started = held.and_then(|()| child::spawn_placed(&mut program, &placement));
        let child = started.map_err(|error| {
            // What is left of it is undone with the journal.
            let _ = group.as_ref().map(MeasuredGroup::remove);
            failed(error)
        })?;
        // It ends with the last process that has it.
        drop(program);
        let (said, reading) = keep_reading(output);
        let instance = Self { index, child, group, mark, said, reading };
        if let Some(custody) = start.custody.filter(|_| instance.group.is_none()) {
            custody.add_process_group(instance.child.id())?;
        }
        Ok(instance)
    }

    fn signal(&self, signal: Signal) -> io::Result<()> {
        match kill_process_group(Pid::from_child(&self.child), signal) {
            // It has ended; the check that follows says so.
            Ok(()) | Err(rustix::io::Errno::SRCH) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    fn exit_status(&mut self) -> Result<Option<ExitStatus>> {
        let status = self.child.try_wait();
        status.map_err(|source| Error::System { what: "cannot wait for an instance", source })
    }
}

impl Running for ProcessInstance {
    fn pause(&mut self) -> Result {
        let paused = match &self.group {
            Some(group) => group.freeze(),
            None => self.signal(Signal::STOP),
        };
        paused.map_err(|source| Error::Manage { index: self.index, what: "paused", source })
    }

    fn resume(&mut self) -> Result {
        let resumed = match &self.group {
            Some(group) => group.thaw(),
            None => self.signal(Signal::CONT),
        };
        resumed.map_err(|source| Error::Manage { index: self.index, what: "resumed", source })
    }

    fn check(&mut self) -> Result {
        let Some(status) = self.exit_status()? else { return Ok(()) };
        // A service that went into the background goes on in processes of its group.
        let goes_on = || self.group.as_ref().is_some_and(|group| !group.members().is_empty());
        if status.success() && goes_on() {
            return Ok(());
        }
        // What it has started may hold its output open.
        let _read = self.reading.recv_timeout(LAST_WORDS);
        Err(Error::Ended { index: self.index, status: status.to_string(), last: self.last() })
    }

    fn wait(&mut self, until: Instant) -> Result {
        if self.exit_status()?.is_some() {
            // Its process went into the background, where nothing reports its end.
            thread::sleep(until.saturating_duration_since(Instant::now()));
            return Ok(());
        }
        let waited = child::wait_until(&mut self.child, until);
        waited.map(drop).map_err(|source| Error::System { what: "cannot wait for an instance", source })
    }

    fn processes(&self) -> Vec<u32> {
        let first = self.child.id();
        self.group.as_ref().map_or_else(|| with_descendants(first), |group| ordered(first, group.members()))
    }

    fn last(&self) -> String {
        self.said.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn memory(&self) -> Option<u64> {
        self.group.as_ref()?.memory()
    }
}

impl Drop for ProcessInstance {
    fn drop(&mut self) {
        // Frozen processes end only when their group thaws. What is left of it is undone with the journal.
        let _ = self.group.as_ref().map(MeasuredGroup::remove);
        // A process that was reaped has given its id back: a process group of that id may be another one.
        if matches!(self.child.try_wait(), Ok(None)) {
            child::kill(&mut self.child);
        }
        if let Some(mark) = &self.mark {
            kill_marked(mark);
        }
    }
}

/// Reads an output in a thread that ends with it. Returns its last line so far, and what is disconnected at its end.
fn keep_reading(output: PipeReader) -> (Arc<Mutex<String>>, mpsc::Receiver<()>) {
    let said = Arc::new(Mutex::new(String::new()));
    let (is_reading, reading) = mpsc::channel();
    let kept = Arc::clone(&said);
    let _reader = thread::spawn(move || {
        keep_last(BufReader::new(output), &kept);
        drop(is_reading);
    });
    (said, reading)
}

/// Keeps the last line of an output that is not empty. Reads to its end, so that the program is never blocked, and keeps
/// little of a line, however long it is.
fn keep_last(mut output: impl BufRead, said: &Mutex<String>) {
    const LONGEST: usize = 500;
    let mut line: Vec<u8> = Vec::new();
    loop {
        let Ok(bytes) = output.fill_buf() else { return };
        let end = bytes.iter().position(|byte| *byte == b'\n');
        let part = &bytes[..end.unwrap_or(bytes.len())];
        line.extend_from_slice(&part[..part.len().min(LONGEST - line.len())]);
        let (is_last, taken) = (bytes.is_empty(), end.map_or(bytes.len(), |end| end + 1));
        output.consume(taken);
        if end.is_some() || is_last {
            let text = String::from_utf8_lossy(&line).trim().to_owned();
            if !text.is_empty() {
                *said.lock().unwrap_or_else(PoisonError::into_inner) = text;
            }
            line.clear();
        }
        if is_last {
            return;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_line_is_kept_whatever_the_length_of_lines() {
        let last = |text: &[u8]| {
            let said = Mutex::new(String::new());
            keep_last(BufReader::with_capacity(7, text), &said);
            said.into_inner().unwrap()
        };
        assert_eq!(last(b"one\ntwo \n\n  \n"), "two");
        assert_eq!(last(b"one\nthe end"), "the end");
        assert_eq!(last(b""), "");
        assert_eq!(last(&vec![b'x'; 100_000]), "x".repeat(500));
    }
}
