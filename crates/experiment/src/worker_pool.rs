//! Workers that stay alive while treatments are switched.

use crate::{
    control_block::{ENDLESS, NO_EXPECTED_CPU, WorkerControlBlock, WorkerSlot},
    error::{Error, Result},
    interrupt, worker,
};
use manycore_linux::child;
use manycore_workload::{
    LoadKind,
    contention::{Member, Role, SharedObject},
};
use std::{
    fmt,
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
const POLL_INTERVAL: Duration = Duration::from_millis(100);

/// Maximum time for the start of all workers.
const START_TIMEOUT: Duration = Duration::from_secs(30);

/// Grace period for the workers to end; after it, worker processes are killed.
const STOP_TIMEOUT: Duration = Duration::from_secs(2);

/// Worker threads and processes, each with a slot in one worker control block.
///
/// A worker process is the running program, started with the arguments that [`crate::worker`] describes.
pub struct WorkerPool {
    block: Arc<WorkerControlBlock>,
    handles: Vec<WorkerHandle>,
    active: Vec<bool>,
    /// The object that the workers share, besides the control block.
    object: Option<Arc<dyn SharedObject>>,
}

/// One worker.
enum WorkerHandle {
    /// `None` after the thread was joined.
    Thread(Option<JoinHandle<()>>),
    Process(Child),
}

impl WorkerPool {
    /// Starts `threads` threads and `processes` processes with the load `kind`. All of them are idle.
    ///
    /// # Errors
    /// [`Error::Unavailable`] if the machine cannot start so many.
    pub fn start(kind: LoadKind, threads: usize, processes: usize) -> Result<Self> {
        let thread = |_| Member::Thread(Box::new(move || Role::Worker(kind.load())));
        let process = |_| Member::Process { name: kind.name(), object: String::new() };
        Self::start_members((0..threads).map(thread).chain((0..processes).map(process)).collect(), None)
    }

    /// Starts `members`. Those that work are idle. Their memory is freed when they end.
    ///
    /// # Errors
    /// As [`WorkerPool::start`].
    pub fn from_members(members: Vec<Member>) -> Result<Self> {
        Self::start_members(members, None)
    }

    /// Starts the members of an object that they share. Those that work are idle.
    ///
    /// # Errors
    /// As [`WorkerPool::start`].
    pub fn with_shared_object(object: Arc<dyn SharedObject>) -> Result<Self> {
        Self::start_members(object.members(), Some(object))
    }

    fn start_members(members: Vec<Member>, object: Option<Arc<dyn SharedObject>>) -> Result<Self> {
        let count = members.len();
        let cannot = |what: &str, error: std::io::Error| {
            let hint = match error.raw_os_error().map(rustix::io::Errno::from_raw_os_error) {
                Some(rustix::io::Errno::MFILE) => "ulimit -n",
                _ => "ulimit -u and the cgroup's pids.max",
            };
            Error::unavailable(format!("cannot start {what}: {error}; see {hint}"))
        };
        let block = Arc::new(WorkerControlBlock::new(count).map_err(|error| cannot("workers", error))?);
        let mut pool =
            Self { block: Arc::clone(&block), handles: Vec::new(), active: vec![false; count], object };
        for (index, member) in members.into_iter().enumerate() {
            pool.handles.push(match member {
                Member::Thread(begin) => {
                    let block = Arc::clone(&block);
                    let thread = std::thread::Builder::new().name(format!("worker {index}"));
                    let work = move || worker::run_role(&block.slots()[index], begin());
                    WorkerHandle::Thread(Some(
                        thread.spawn(work).map_err(|error| cannot("a worker thread", error))?,
                    ))
                }
                Member::Process { name, object } => {
                    let started = start_process(&block, name, index, &object);
                    WorkerHandle::Process(started.map_err(|error| cannot("a worker process", error))?)
                }
            });
        }
        let deadline = Instant::now() + START_TIMEOUT;
        for index in 0..count {
            while pool.block.slots()[index].wait_started(POLL_INTERVAL).is_none() {
                pool.check_alive().and_then(|()| interrupt::check())?;
                if Instant::now() > deadline {
                    return Err(Error::unavailable(format!(
                        "worker {index} has not started within {START_TIMEOUT:?}"
                    )));
                }
            }
        }
        Ok(pool)
    }

    /// Returns the slots of the workers.
    pub(crate) fn slots(&self) -> &[WorkerSlot] {
        self.block.slots()
    }

    /// Makes exactly the workers in `wanted` active, without an end. The others become idle.
    pub(crate) fn activate(&mut self, wanted: &[usize]) {
        let mut next = vec![false; self.active.len()];
        for &worker in wanted {
            next[worker] = true;
        }
        for (worker, slot) in self.block.slots().iter().enumerate() {
            if next[worker] != self.active[worker] {
                slot.order(if next[worker] { ENDLESS } else { 0 });
            }
        }
        self.active = next;
    }

    /// Makes all workers idle and waits until they are.
    ///
    /// # Errors
    /// As [`WorkerPool::wait`].
    pub(crate) fn stop_all(&mut self) -> Result {
        self.activate(&[]);
        let all: Vec<usize> = (0..self.active.len()).collect();
        self.wait(&all)
    }

    /// Waits until `workers` are idle.
    ///
    /// # Errors
    /// [`Error::Failed`] if a worker ended, [`Error::Interrupted`] after a signal; in both cases all workers
    /// have been ordered to stop.
    pub(crate) fn wait(&mut self, workers: &[usize]) -> Result {
        for &worker in workers {
            while !self.block.slots()[worker].wait_idle(POLL_INTERVAL) {
                if let Err(failure) = self.check_alive().and_then(|()| interrupt::check()) {
                    self.block.slots().iter().for_each(|slot| slot.order(0));
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
    pub(crate) fn check_alive(&mut self) -> Result {
        // A worker that was killed is reported before workers that failed because of it.
        let ended = |worker: usize, handle: &mut WorkerHandle| match handle {
            WorkerHandle::Thread(thread) => thread
                .as_ref()
                .is_some_and(JoinHandle::is_finished)
                .then(|| format!("worker thread {worker} ended")),
            WorkerHandle::Process(process) => {
                let status = process.try_wait().ok().flatten()?;
                Some(format!("worker process {worker} ended: {status}"))
            }
        };
        let error = |worker: usize| self.block.slots()[worker].error.load(Acquire);
        let mut gone: Vec<(i32, String)> = self
            .handles
            .iter_mut()
            .enumerate()
            .filter_map(|(worker, handle)| Some((error(worker), ended(worker, handle)?)))
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
    pub(crate) fn configure(&mut self, worker: usize, parameter: u64, expected_cpu: Option<u32>) {
        let slot = &self.block.slots()[worker];
        let expected_cpu = expected_cpu.unwrap_or(NO_EXPECTED_CPU);
        let changed = slot.parameter.swap(parameter, Relaxed) != parameter;
        if (slot.expected_cpu.swap(expected_cpu, Relaxed) != expected_cpu || changed) && self.active[worker] {
            slot.order(0);
            self.active[worker] = false;
        }
    }
}

fn start_process(
    block: &WorkerControlBlock,
    name: &str,
    slot: usize,
    object: &str,
) -> std::io::Result<Child> {
    let memory = block.as_fd().try_clone_to_owned()?;
    // The running program, even if its file has been replaced since it was started.
    let mut command = Command::new("/proc/self/exe");
    command.args(["worker", name, &slot.to_string()]).stdin(memory).stdout(Stdio::null());
    if !object.is_empty() {
        command.arg(object);
    }
    child::spawn(&mut command)
}

impl fmt::Debug for WorkerPool {
    fn fmt(&self, formatter: &mut fmt::Formatter) -> fmt::Result {
        formatter.debug_struct("WorkerPool").field("active", &self.active).finish_non_exhaustive()
    }
}

impl Drop for WorkerPool {
    fn drop(&mut self) {
        self.block.slots().iter().for_each(WorkerSlot::quit);
        // After this, no worker waits for another one.
        if let Some(object) = self.object.take() {
            object.close();
        }
        // A worker quits within a tick, an idle one at once. Processes that do not quit in time are killed.
        let deadline = Instant::now() + STOP_TIMEOUT;
        for handle in &mut self.handles {
            match handle {
                WorkerHandle::Thread(thread) => {
                    // A thread that panicked has printed a message on standard error.
                    let _ = thread.take().map(JoinHandle::join);
                }
                WorkerHandle::Process(process) => {
                    while matches!(process.try_wait(), Ok(None)) && Instant::now() < deadline {
                        std::thread::sleep(Duration::from_millis(1));
                    }
                    child::kill(process);
                }
            }
        }
    }
}
