//! Moves the processes of a placed command into a control group while they run.

use crate::{
    GroupError, cpuset,
    journal::Journal,
    placement::{Enforcement, ResolvedPlacement},
};
use manycore_linux::{kernel, tasks};
use manycore_topology::CpuSet;
use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Lifetime after which a command is moved into a control group. A command that ends earlier is held by its
/// affinity alone, because entering a control group takes a grace period of the kernel.
const CGROUP_DELAY: Duration = Duration::from_millis(100);

/// Rounds of searching for children that were created while their parents entered a group.
const ENTER_ROUNDS: usize = 3;

/// The control group of a placed command, which it enters once it has run for [`CGROUP_DELAY`].
pub(super) struct CgroupEntry {
    state: State,
    began: Instant,
    journal: Arc<Journal>,
    cpus: CpuSet,
    nodes: CpuSet,
    has_entered: bool,
}

enum State {
    /// What holds the processes: affinities alone, with the reason, or a control group, with the processes
    /// in it.
    Settled(String),
    /// The command has not run long enough.
    Pending,
    /// The processes are entering. The thread returns a description of the result.
    Entering(JoinHandle<Result<String, String>>),
}

impl CgroupEntry {
    pub(super) fn new(placement: &ResolvedPlacement, journal: Arc<Journal>) -> Self {
        let nodes = placement.bound_nodes();
        let cpus = placement.workers.cpus();
        let state = match placement.enforcement {
            Enforcement::Affinity => State::Settled("affinities alone, as requested".to_owned()),
            Enforcement::Auto if cpus.is_none() && nodes.is_empty() => {
                State::Settled("nothing: all CPUs may be used".to_owned())
            }
            // A command starts with its memory policy; the memory of running processes can be bound in no other way.
            Enforcement::Auto if kernel::resets_affinities() && (nodes.is_empty() || !placement.running) => {
                State::Settled(format!("affinities alone: {}", GroupError::ResetsAffinities))
            }
            Enforcement::Auto => State::Pending,
        };
        let cpus = cpus.unwrap_or_else(|| placement.own_cpus.clone());
        Self { state, began: Instant::now(), journal, cpus, nodes, has_entered: false }
    }

    /// Returns whether the processes are to enter at some time.
    pub(super) fn is_pending(&self) -> bool {
        matches!(self.state, State::Pending)
    }

    /// Returns whether the command has run long enough to enter.
    pub(super) fn is_due(&self) -> bool {
        self.is_pending() && self.began.elapsed() >= CGROUP_DELAY
    }

    /// Returns whether the processes have entered or failed to, and [`finish`](Self::finish) is due.
    pub(super) fn is_complete(&self) -> bool {
        matches!(&self.state, State::Entering(thread) if thread.is_finished())
    }

    /// Begins to move `roots` and all their descendants into the group, in a thread.
    pub(super) fn start(&mut self, roots: &[u32]) {
        let (journal, roots) = (Arc::clone(&self.journal), roots.to_vec());
        let (cpus, nodes) = (self.cpus.clone(), self.nodes.clone());
        self.state = State::Entering(thread::spawn(move || enter(&journal, &roots, &cpus, &nodes)));
    }

    /// Whether processes have entered the group.
    pub(super) fn has_entered(&self) -> bool {
        self.has_entered
    }

    /// Waits until the processes have entered or failed to, if they are entering. Returns whether they were.
    pub(super) fn finish(&mut self) -> bool {
        if !matches!(self.state, State::Entering(_)) {
            return false;
        }
        let State::Entering(thread) = std::mem::replace(&mut self.state, State::Pending) else {
            return false;
        };
        let entered = thread.join().unwrap_or_else(|_| Err("it failed".to_owned()));
        self.has_entered = entered.is_ok();
        self.state = State::Settled(match entered {
            Ok(part) => format!("a cpuset{part}, and affinities"),
            Err(why) => format!("affinities alone: {why}"),
        });
        true
    }

    /// Returns what holds the processes on their CPUs.
    pub(super) fn held_by(&self) -> String {
        match &self.state {
            State::Settled(text) => text.clone(),
            State::Pending | State::Entering(_) => {
                "affinities alone: the command ended too soon for a cpuset".to_owned()
            }
        }
    }
}

/// Moves `roots` and all their descendants into a control group. Returns a note if only some of them could
/// enter.
fn enter(journal: &Journal, roots: &[u32], cpus: &CpuSet, nodes: &CpuSet) -> Result<String, String> {
    let first = *roots.first().ok_or("nothing runs")?;
    let group =
        cpuset::CpusetGroup::create(journal, first, cpus, nodes).map_err(|error| error.to_string())?;
    let (mut inside, mut outside) = (BTreeSet::new(), BTreeMap::new());
    for _ in 0..ENTER_ROUNDS {
        for pid in tasks::with_descendants(roots) {
            match group.move_process(journal, pid) {
                Ok(()) => drop(inside.insert(pid)),
                // A process that has ended needs no control group.
                Err(_) if !tasks::is_alive(pid) => {}
                Err(error) => drop(outside.insert(pid, error.to_string())),
            }
        }
    }
    outside.retain(|pid, _| !inside.contains(pid));
    match outside.first_key_value() {
        None => Ok(String::new()),
        Some((pid, why)) if inside.is_empty() => {
            let why = format!("process {pid} cannot enter a cpuset: {why}");
            group.remove_unused();
            Err(why)
        }
        Some(_) => Ok(format!(" for {} of {} processes", inside.len(), inside.len() + outside.len())),
    }
}
