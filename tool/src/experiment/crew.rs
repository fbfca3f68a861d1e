//! Workers that stay alive while treatments are switched under them.

use super::{interrupt, worker};
use crate::failure::{Failure, Outcome};
use manycore_host::{
    board::{Board, ENDLESS, NOT_WATCHED, Slot},
    child,
};
use manycore_workload::Kind;
use std::{
    os::fd::AsFd,
    process::{Child, Command, Stdio},
    sync::{Arc, atomic::Ordering::Relaxed},
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// How often the state of the workers is looked at while they are waited for.
const LOOK: Duration = Duration::from_millis(100);

/// How long a worker may take to start, or to end.
const PATIENCE: Duration = Duration::from_secs(30);

/// Threads (first) and processes (after them), each with a slot on one board.
pub struct Crew {
    board: Arc<Board>,
    threads: Vec<JoinHandle<()>>,
    processes: Vec<Child>,
    active: Vec<bool>,
}

impl Crew {
    /// Starts `threads` threads and `processes` processes with the load `kind`; all idle.
    ///
    /// # Errors
    /// [`Failure::Missing`] where the machine cannot give so many.
    pub fn hire(kind: Kind, threads: usize, processes: usize) -> Outcome<Self> {
        let count = threads + processes;
        let cannot = |what: &str, error: std::io::Error| {
            Failure::missing(format!("cannot start {what}: {error}; see ulimit -u and the cgroup's pids.max"))
        };
        let board = Arc::new(Board::new(count).map_err(|error| cannot("workers", error))?);
        let mut crew = Self {
            board: Arc::clone(&board),
            threads: Vec::new(),
            processes: Vec::new(),
            active: vec![false; count],
        };
        for index in 0..threads {
            let board = Arc::clone(&board);
            let thread = std::thread::Builder::new().name(format!("worker {index}"));
            let handle = thread.spawn(move || worker::work(&board.slots()[index], kind));
            crew.threads.push(handle.map_err(|error| cannot("a worker thread", error))?);
        }
        for index in threads..count {
            crew.processes
                .push(start_process(&board, kind, index).map_err(|error| cannot("a worker process", error))?);
        }
        let deadline = Instant::now() + PATIENCE;
        for index in 0..count {
            while crew.board.slots()[index].wait_entered(LOOK).is_none() {
                crew.check()?;
                if Instant::now() > deadline {
                    return Err(Failure::missing("worker processes do not start"));
                }
            }
        }
        Ok(crew)
    }

    /// The workers' slots.
    pub fn slots(&self) -> &[Slot] {
        self.board.slots()
    }

    /// Makes exactly the workers in `wanted` active without end; the others become idle.
    pub fn activate(&mut self, wanted: &[usize]) {
        let mut next = vec![false; self.active.len()];
        for &worker in wanted {
            next[worker] = true;
        }
        for (worker, slot) in self.board.slots().iter().enumerate() {
            if next[worker] != self.active[worker] {
                slot.order(if next[worker] { ENDLESS } else { 0 });
            }
        }
        self.active = next;
    }

    /// Makes all workers idle and waits until they are.
    ///
    /// # Errors
    /// As [`Crew::wait`].
    pub fn rest(&mut self) -> Outcome {
        self.activate(&[]);
        let all: Vec<usize> = (0..self.active.len()).collect();
        self.wait(&all)
    }

    /// Waits until `workers` are idle.
    ///
    /// # Errors
    /// [`Failure::Measured`] where a worker died, [`Failure::Interrupted`] after a signal; then all workers
    /// have been told to stop.
    pub fn wait(&mut self, workers: &[usize]) -> Outcome {
        for &worker in workers {
            while !self.board.slots()[worker].wait_idle(LOOK) {
                if let Err(failure) = self.check().and_then(|()| interrupt::check()) {
                    self.board.slots().iter().for_each(|slot| slot.order(0));
                    return Err(failure);
                }
            }
        }
        Ok(())
    }

    /// Looks whether all worker processes live.
    ///
    /// # Errors
    /// [`Failure::Measured`] with the number of the worker and how it ended.
    pub fn check(&mut self) -> Outcome {
        let threads = self.threads.len();
        for (index, process) in self.processes.iter_mut().enumerate() {
            if let Ok(Some(status)) = process.try_wait() {
                return Err(Failure::Measured(format!("worker process {} ended: {status}", threads + index)));
            }
        }
        Ok(())
    }

    /// Makes each of `workers` look after each tick whether it is on its CPU; `None` ends that.
    pub fn watch(&self, worker: usize, cpu: Option<u32>) {
        self.board.slots()[worker].watch_cpu.store(cpu.unwrap_or(NOT_WATCHED), Relaxed);
    }
}

fn start_process(board: &Board, kind: Kind, slot: usize) -> std::io::Result<Child> {
    let memory = board.as_fd().try_clone_to_owned()?;
    // Our own program, even where its file was replaced since we started.
    let mut command = Command::new("/proc/self/exe");
    command.args(["worker", kind.name(), &slot.to_string()]).stdin(memory).stdout(Stdio::null());
    child::spawn(&mut command)
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.board.slots().iter().for_each(Slot::quit);
        for thread in self.threads.drain(..) {
            // A thread that panicked has said so on standard error.
            let _ = thread.join();
        }
        for process in &mut self.processes {
            // A worker quits within a tick, and an idle one at once: those that do not are in the way.
            let deadline = Instant::now() + LOOK * 20;
            while matches!(process.try_wait(), Ok(None)) && Instant::now() < deadline {
                std::thread::sleep(Duration::from_millis(1));
            }
            child::kill(process);
        }
    }
}
