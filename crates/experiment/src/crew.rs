//! Workers that stay alive while treatments are switched.

use crate::board::{Board, ENDLESS, NOT_WATCHED, Slot};
use crate::error::{Error, Result};
use crate::{interrupt, worker};
use manycore_linux::child;
use manycore_workload::{
    Kind,
    contention::{Member, Part, Shared},
};
use std::{
    os::fd::AsFd,
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::Ordering::{Acquire, Relaxed},
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

/// Interval at which the state of the workers is checked while waiting for them.
const LOOK: Duration = Duration::from_millis(100);

/// Longest time for the start of all workers.
const PATIENCE: Duration = Duration::from_secs(30);

/// Grace period for the workers to end; after it, worker processes are killed.
const LAST_TICK: Duration = Duration::from_secs(2);

/// Worker threads and processes, each with a slot in one worker control block.
pub struct Crew {
    board: Arc<Board>,
    hands: Vec<Hand>,
    active: Vec<bool>,
    /// The object that the workers share, besides the control block.
    object: Option<Arc<dyn Shared>>,
}

/// One worker.
enum Hand {
    /// `None` after the thread was joined.
    Thread(Option<JoinHandle<()>>),
    Process(Child),
}

impl Crew {
    /// Starts `threads` threads and `processes` processes with the load `kind`. All of them are idle.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where the machine cannot give so many.
    pub fn hire(kind: Kind, threads: usize, processes: usize) -> Result<Self> {
        let thread = |_| Member::Thread(Box::new(move || Part::Works(kind.load())));
        let process = |_| Member::Process { name: kind.name(), object: String::new() };
        Self::gather((0..threads).map(thread).chain((0..processes).map(process)).collect(), None)
    }

    /// Starts `members`. Those that work are idle. Their memory is freed when they end.
    ///
    /// # Errors
    /// As [`Crew::hire`].
    pub fn of(members: Vec<Member>) -> Result<Self> {
        Self::gather(members, None)
    }

    /// Starts the members of an object that they share. Those that work are idle.
    ///
    /// # Errors
    /// As [`Crew::hire`].
    pub fn sharing(object: Arc<dyn Shared>) -> Result<Self> {
        Self::gather(object.members(), Some(object))
    }

    fn gather(members: Vec<Member>, object: Option<Arc<dyn Shared>>) -> Result<Self> {
        let count = members.len();
        let cannot = |what: &str, error: std::io::Error| {
            let cure = match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
                Some(rustix::io::Errno::MFILE) => "ulimit -n",
                _ => "ulimit -u and the cgroup's pids.max",
            };
            Error::unavailable(format!("cannot start {what}: {error}; see {cure}"))
        };
        let board = Arc::new(Board::new(count).map_err(|error| cannot("workers", error))?);
        let mut crew =
            Self { board: Arc::clone(&board), hands: Vec::new(), active: vec![false; count], object };
        for (index, member) in members.into_iter().enumerate() {
            crew.hands.push(match member {
                Member::Thread(begin) => {
                    let board = Arc::clone(&board);
                    let thread = std::thread::Builder::new().name(format!("worker {index}"));
                    let work = move || worker::take_part(&board.slots()[index], begin());
                    Hand::Thread(Some(thread.spawn(work).map_err(|error| cannot("a worker thread", error))?))
                }
                Member::Process { name, object } => {
                    let started = start_process(&board, name, index, &object);
                    Hand::Process(started.map_err(|error| cannot("a worker process", error))?)
                }
            });
        }
        let deadline = Instant::now() + PATIENCE;
        for index in 0..count {
            while crew.board.slots()[index].wait_entered(LOOK).is_none() {
                crew.check().and_then(|()| interrupt::check())?;
                if Instant::now() > deadline {
                    return Err(Error::unavailable(format!(
                        "worker {index} has not started within {PATIENCE:?}"
                    )));
                }
            }
        }
        Ok(crew)
    }

    /// Returns the slots of the workers.
    pub fn slots(&self) -> &[Slot] {
        self.board.slots()
    }

    /// Makes exactly the workers in `wanted` active, without an end. The others become idle.
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
    pub fn rest(&mut self) -> Result {
        self.activate(&[]);
        let all: Vec<usize> = (0..self.active.len()).collect();
        self.wait(&all)
    }

    /// Waits until `workers` are idle.
    ///
    /// # Errors
    /// [`Error::Failed`] where a worker died, [`Error::Interrupted`] after a signal; then all workers
    /// have been told to stop.
    pub fn wait(&mut self, workers: &[usize]) -> Result {
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

    /// Checks that all workers are alive.
    ///
    /// # Errors
    /// [`Error::Failed`] with the number of the worker and how it ended.
    pub fn check(&mut self) -> Result {
        // A worker that was killed is reported before workers that failed because of it.
        let ended = |worker: usize, hand: &mut Hand| match hand {
            Hand::Thread(thread) => thread
                .as_ref()
                .is_some_and(JoinHandle::is_finished)
                .then(|| format!("worker thread {worker} ended")),
            Hand::Process(process) => {
                let status = process.try_wait().ok().flatten()?;
                Some(format!("worker process {worker} ended: {status}"))
            }
        };
        let error = |worker: usize| self.board.slots()[worker].error.load(Acquire);
        let mut gone: Vec<(i32, String)> = self
            .hands
            .iter_mut()
            .enumerate()
            .filter_map(|(worker, hand)| Some((error(worker), ended(worker, hand)?)))
            .collect();
        gone.sort_by_key(|&(error, _)| error != 0);
        match gone.into_iter().next() {
            None => Ok(()),
            Some((0, what)) => Err(Error::Failed(what)),
            Some((error, what)) => {
                let error = std::io::Error::from_raw_os_error(error);
                Err(Error::Failed(format!("{what}; the object it works on failed: {error}")))
            }
        }
    }

    /// Sets the parameter of the load of `worker`, and the CPU that the worker compares with its own after
    /// each tick. Both take effect with its next order. If a value changes, a worker that is active without
    /// an end becomes idle.
    pub fn set(&mut self, worker: usize, parameter: u64, watch: Option<u32>) {
        let slot = &self.board.slots()[worker];
        let watch = watch.unwrap_or(NOT_WATCHED);
        let changed = slot.parameter.swap(parameter, Relaxed) != parameter;
        if (slot.watch_cpu.swap(watch, Relaxed) != watch || changed) && self.active[worker] {
            slot.order(0);
            self.active[worker] = false;
        }
    }
}

fn start_process(board: &Board, name: &str, slot: usize, object: &str) -> std::io::Result<Child> {
    let memory = board.as_fd().try_clone_to_owned()?;
    // The running program, even if its file has been replaced since it was started.
    let mut command = Command::new("/proc/self/exe");
    command.args(["worker", name, &slot.to_string()]).stdin(memory).stdout(Stdio::null());
    if !object.is_empty() {
        command.arg(object);
    }
    child::spawn(&mut command)
}

impl Drop for Crew {
    fn drop(&mut self) {
        self.board.slots().iter().for_each(Slot::quit);
        // After this, no worker waits for another one.
        if let Some(object) = self.object.take() {
            object.close();
        }
        // A worker quits within a tick, an idle one at once. Processes that do not quit in time are killed.
        let deadline = Instant::now() + LAST_TICK;
        for hand in &mut self.hands {
            match hand {
                Hand::Thread(thread) => {
                    // A thread that panicked has printed a message on standard error.
                    let _ = thread.take().map(JoinHandle::join);
                }
                Hand::Process(process) => {
                    while matches!(process.try_wait(), Ok(None)) && Instant::now() < deadline {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    child::kill(process);
                }
            }
        }
    }
}
