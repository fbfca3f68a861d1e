//! Where a command runs, and what keeps its tasks there.

use crate::failure::{Failure, Outcome};
use manycore_host::{
    affinity,
    child::Start,
    memory_policy::MemoryPolicy,
    tasks::{self, Births},
};
use manycore_model::{
    CpuSet, Machine,
    placement::{Memory, Plan, Policy, PolicyKind, Reserve},
};
use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

/// Looks after something new has appeared, and at the start.
const SOON: Duration = Duration::from_millis(1);

/// Longest time without a look while threads are seated as they appear.
const SEATING: Duration = Duration::from_millis(16);

/// Time between looks at affinities that nobody but the command itself changes.
const WATCHING: Duration = Duration::from_millis(128);

/// CPUs for each worker, and where memory comes from.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// CPUs of each worker; none: wherever this process may run.
    pub workers: Vec<CpuSet>,
    /// Where memory comes from.
    pub memory: MemoryPolicy,
}

impl Place {
    /// All on `cpus`.
    pub fn on(cpus: CpuSet) -> Self {
        Self { workers: vec![cpus], memory: MemoryPolicy::Default }
    }

    /// CPUs of all workers together; absent where they may run anywhere.
    pub fn cpus(&self) -> Option<CpuSet> {
        (!self.workers.is_empty()).then(|| self.workers.iter().flat_map(CpuSet::iter).collect())
    }

    /// The place of one copy of a command out of several: that of the worker of its number.
    pub fn of_copy(&self, copy: usize) -> Self {
        let own = self.workers.get(copy % self.workers.len().max(1)).cloned();
        Self { workers: own.into_iter().collect(), memory: self.memory.clone() }
    }

    /// How a command starts here.
    pub fn start(&self) -> Start {
        Start { cpus: self.cpus(), memory: self.memory.clone() }
    }
}

/// The place that `policy` gives `workers`.
///
/// # Errors
/// [`Failure::Input`] where it cannot be met here.
pub fn placed(
    machine: &Machine,
    policy: Option<&Policy>,
    memory: &Memory,
    workers: usize,
) -> Outcome<(Place, Plan)> {
    let free = Policy { kind: PolicyKind::Free, nosmt: false };
    let policy = policy.unwrap_or(&free);
    let plan = policy.plan(machine, workers, &Reserve::Nothing).map_err(Failure::input)?;
    let memory = memory_policy(machine, memory, &plan)?;
    // Where every worker may use all CPUs, the command runs where it would anyway.
    let everywhere = |cpus: &CpuSet| *cpus == machine.allowed.cpus;
    let workers = if *policy == free || plan.workers.iter().all(|worker| everywhere(&worker.cpus)) {
        Vec::new()
    } else {
        plan.workers.iter().map(|worker| worker.cpus.clone()).collect()
    };
    Ok((Place { workers, memory }, plan))
}

fn memory_policy(machine: &Machine, memory: &Memory, plan: &Plan) -> Outcome<MemoryPolicy> {
    let nodes = memory.nodes(plan);
    let unknown = nodes.iter().find(|node| !machine.nodes.iter().any(|known| known.id == **node));
    if let Some(node) = unknown {
        return Err(Failure::input(format!("there is no NUMA node {node} on this machine")));
    }
    Ok(match memory {
        Memory::Default => MemoryPolicy::Default,
        Memory::Local => MemoryPolicy::Local,
        Memory::Interleave(_) => MemoryPolicy::Interleave(nodes),
        Memory::Bind(_) => MemoryPolicy::Bind(nodes),
    })
}

/// Seats the threads of a tree of processes on the workers' CPUs as they appear, and sees where one of them
/// changes its own affinity.
///
/// Affinity is inherited, so nothing leaves the place as a whole between two looks.
pub struct Keeper {
    /// Places of the workers; one means that the tasks have it all in common.
    seats: Vec<CpuSet>,
    /// Whether each seat is that of a whole copy, which starts there with all its tasks.
    copies: bool,
    /// The union of the seats, or what this process may use.
    whole: CpuSet,
    /// Seat of each task.
    seated: BTreeMap<u32, usize>,
    births: Births,
    pause: Duration,
    watched: Instant,
    own: BTreeMap<String, CpuSet>,
}

impl Keeper {
    /// For a command that starts in `place`, from a process that may use `inherited`.
    pub fn new(place: &Place, inherited: &CpuSet) -> Self {
        let whole = place.cpus().unwrap_or_else(|| inherited.clone());
        let seats = if place.workers.is_empty() { vec![whole.clone()] } else { place.workers.clone() };
        Self {
            seats,
            copies: false,
            whole,
            seated: BTreeMap::new(),
            births: Births::default(),
            pause: SOON,
            watched: Instant::now(),
            own: BTreeMap::new(),
        }
    }

    /// For copies that start each on the seat of its number.
    pub fn of_copies(place: &Place, inherited: &CpuSet) -> Self {
        Self { copies: true, ..Self::new(place, inherited) }
    }

    /// Tasks that changed their own affinity: name, and the CPUs that they chose last.
    pub fn own_affinities(&self) -> &BTreeMap<String, CpuSet> {
        &self.own
    }

    /// Whether each task gets a seat of its own.
    fn seating(&self) -> bool {
        !self.copies && self.seats.iter().any(|seat| *seat != self.whole)
    }

    /// Looks at the trees below `roots`; returns how long nobody need look again.
    pub fn look(&mut self, roots: &[u32]) -> Duration {
        let longest = if self.seating() { SEATING } else { WATCHING };
        if self.births.any() {
            let appeared = self.seat_all(roots);
            self.pause = if appeared { SOON } else { (self.pause * 2).min(longest) };
        } else {
            self.pause = (self.pause * 2).min(longest);
        }
        if self.watched.elapsed() >= WATCHING {
            self.watch();
        }
        self.pause
    }

    /// Sees whether a process that has just ended had changed its affinity.
    pub fn farewell(&mut self, pid: u32) {
        self.compare(pid);
    }

    /// Moves all tasks of the trees below `roots` to another place.
    pub fn move_to(&mut self, place: &Place, inherited: &CpuSet, roots: &[u32]) {
        let own = std::mem::take(&mut self.own);
        *self = Self { own, ..Self::new(place, inherited) };
        for tid in tids(roots) {
            self.take_seat(tid);
        }
        self.births.any();
    }

    fn seat_all(&mut self, roots: &[u32]) -> bool {
        let living = tids(roots);
        self.seated.retain(|tid, _| living.contains(tid));
        let new: Vec<u32> = living.into_iter().filter(|tid| !self.seated.contains_key(tid)).collect();
        let heirlooms = self.heirlooms();
        for &tid in &new {
            let Ok(cpus) = affinity::of(tid) else { continue };
            if !heirlooms.contains(&cpus) {
                self.note(tid, cpus);
                self.seated.insert(tid, usize::MAX);
            } else if self.copies {
                let seat = self.seats.iter().position(|seat| *seat == cpus);
                self.seated.insert(tid, seat.unwrap_or(usize::MAX));
            } else {
                self.take_seat(tid);
            }
        }
        !new.is_empty()
    }

    /// Places that a new task can have without having chosen one: where the command started, and the seats of
    /// tasks that can have made it. While nobody sits on a seat, whoever is there went there.
    fn heirlooms(&self) -> Vec<CpuSet> {
        if self.copies {
            return self.seats.clone();
        }
        let taken: BTreeSet<usize> = self.seated.values().copied().collect();
        let taken = taken.into_iter().filter_map(|seat| self.seats.get(seat).cloned());
        taken.chain([self.whole.clone()]).collect()
    }

    /// Gives a task the seat with the fewest others.
    fn take_seat(&mut self, tid: u32) {
        let mut taken = vec![0_usize; self.seats.len()];
        for &seat in self.seated.values() {
            // Those that chose for themselves sit on none.
            if let Some(count) = taken.get_mut(seat) {
                *count += 1;
            }
        }
        let seat = (0..taken.len()).min_by_key(|&seat| taken[seat]).unwrap_or(0);
        // A task that ends meanwhile needs none.
        if affinity::of(tid).is_ok_and(|cpus| cpus == self.seats[seat])
            || affinity::restrict(tid, &self.seats[seat]).is_ok()
        {
            self.seated.insert(tid, seat);
        }
    }

    fn watch(&mut self) {
        self.watched = Instant::now();
        let tids: Vec<u32> = self.seated.keys().copied().collect();
        for tid in tids {
            self.compare(tid);
        }
    }

    fn compare(&mut self, tid: u32) {
        let seat = self.seated.get(&tid).copied();
        let Ok(cpus) = affinity::of(tid) else { return };
        let expected = match seat {
            Some(seat) => self.seats.get(seat) == Some(&cpus),
            None => self.heirlooms().contains(&cpus),
        };
        if !expected {
            self.note(tid, cpus);
        }
    }

    fn note(&mut self, tid: u32, cpus: CpuSet) {
        self.own.insert(tasks::name(tid).unwrap_or_else(|| "a task".to_owned()), cpus);
    }
}

fn tids(roots: &[u32]) -> BTreeSet<u32> {
    tasks::tree(roots).into_iter().flat_map(tasks::threads).collect()
}
