//! The running system: takes samples, and makes pictures of them.

use super::{checks::Checks, outputs::Outputs, shown::Shown, work::Work};
use crate::{
    cli::Top,
    failure::{Failure, Outcome},
};
use manycore_control::journal;
use manycore_linux::users::Users;
use manycore_top::{
    History, HistoryLimits, LARGE_PROCESS_KIB, MemoryTour, Picture, PlanReader, Sample, Sampler,
    SamplerOptions, TaskUse, Wanted,
    bpf::Counters,
    findings::{Finding, Watch},
    view::RecorderState,
};
use manycore_topology::{CpuSet, Machine, SysTree, read};
use std::{ops::Range, path::Path, time::Duration};

/// Findings are shown after this time; in single intervals at once.
const LEAST: Duration = Duration::from_secs(3);
/// Shortest interval with findings in seconds: half of the shortest one that can be asked for.
const SHORTEST: f64 = 0.05;

/// The running system, and the last minutes of it.
pub(super) struct Live {
    machine: Machine,
    /// The online CPUs for which the machine was read last.
    read_for: CpuSet,
    least: Duration,
    sampler: Sampler,
    counters: Option<Counters>,
    samples: [Sample; 2],
    /// The last minutes; absent if no steps back are possible.
    history: Option<History>,
    tour: MemoryTour,
    plans: PlanReader,
    users: Users,
    /// Whether findings need the interrupts of the next sample.
    has_many_interrupts: bool,
    watch: Watch,
    /// Absent if findings are not wanted.
    checks: Option<Checks>,
    work: Work,
    outputs: Outputs,
}

impl Live {
    /// Takes the first sample. With `has_findings`, each picture has findings that are looked for beside the samples.
    ///
    /// # Errors
    /// The processes cannot be read; programs in the kernel cannot be used; an output cannot be opened.
    pub fn begin(args: &Top, wanted: Wanted, has_findings: bool, work: Work) -> Outcome<Self> {
        let machine = machine()?;
        let least = if args.once { Duration::ZERO } else { LEAST };
        // A check takes as much CPU time as some samples, and the first picture comes first.
        let start = || Checks::start(&machine, least);
        let checks = (has_findings || args.serve.serve.is_some()).then(start).transpose();
        let mut live = Self {
            sampler: Sampler::new(Path::new("/"), SamplerOptions::default()).map_err(Failure::missing)?,
            counters: args.bpf.then(|| Counters::attach(&machine)).transpose().map_err(Failure::missing)?,
            samples: Default::default(),
            history: None,
            tour: MemoryTour::new(&machine),
            plans: PlanReader::new(journal::folder()),
            users: Users::default(),
            has_many_interrupts: false,
            watch: Watch::new(&machine, least),
            checks: checks.map_err(Failure::missing)?,
            read_for: machine.online.clone(),
            least,
            outputs: Outputs::open(args, &machine)?,
            machine,
            work,
        };
        live.sample(wanted)?;
        live.outputs.begin(&mut live.samples[1]);
        Ok(live)
    }

    /// Keeps the last minutes from now on.
    pub fn keep_history(&mut self) {
        self.history.insert(History::new(HistoryLimits::default())).push(&self.samples[1]);
    }

    pub fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Returns whether the recording has failed, and nothing is served or run.
    pub fn has_no_output(&self) -> bool {
        self.outputs.have_failed() && !self.work.has_command()
    }

    /// Returns whether the samples are recorded.
    pub fn recorder(&self) -> RecorderState {
        self.outputs.recorder()
    }

    /// Returns why the recording has failed, once.
    pub fn take_warning(&mut self) -> Option<String> {
        self.outputs.take_warning()
    }

    /// What is watched.
    pub fn work(&mut self) -> &mut Work {
        &mut self.work
    }

    /// Returns the means since boot.
    pub fn since_boot(&mut self) -> Option<Picture> {
        let mut picture = Picture::since_boot(&self.machine, &self.samples[1])?;
        picture.users = self.users.names();
        let tasks = self.work.tasks();
        self.work.keep_only(&mut picture, &tasks);
        Some(picture)
    }

    /// Takes a sample. Returns what happened since the previous one, in the memory of `spare`; `None` if no time has passed.
    ///
    /// # Errors
    /// The processes cannot be read, or an output cannot be written.
    pub fn next(&mut self, wanted: Wanted, spare: Vec<TaskUse>) -> Outcome<Option<Shown>> {
        self.samples.swap(0, 1);
        // Before the sample: a thread that is placed later was elsewhere with good reason.
        self.plans.plans();
        self.sample(wanted)?;
        if let Some(history) = &mut self.history {
            history.push(&self.samples[1]);
        }
        let Some(mut picture) = Picture::reusing(spare, &self.machine, &self.samples[0], &self.samples[1])
        else {
            return Ok(None);
        };
        self.plans.plans().mark(&mut picture);
        picture.users = self.users.names();
        self.has_many_interrupts = picture.has_many_interrupts();
        self.tour.follow(&mut picture);
        let findings = self.findings(&picture);
        let tasks = self.work.tasks();
        self.outputs.put(&picture, &mut self.samples[1], &tasks, &findings);
        self.work.keep_only(&mut picture, &tasks);
        let number = self.numbers().end.saturating_sub(1);
        Ok(Some(Shown { machine: self.other_machine(&picture), number, picture, findings }))
    }

    /// Adds details of processes that are shown to a picture: their memory by node and the pressure of their control groups
    /// now. Memory of processes above 16 GiB is read only if they are named, as the kernel visits each page table.
    pub fn add_details(&mut self, picture: &mut Picture, pids: &[u32]) {
        let is_named = self.work.is_limited();
        self.sampler.add_details(picture, pids, |resident_kib| is_named || resident_kib <= LARGE_PROCESS_KIB);
    }

    /// Returns the findings of now, the worst kinds first. An interval that the end of a command made short has none: the
    /// kernel adds a wait when it ends, which may be more than the interval.
    fn findings(&mut self, picture: &Picture) -> Vec<Finding> {
        if picture.seconds < SHORTEST {
            return Vec::new();
        }
        let mut findings = self.watch.update(picture);
        if let Some(checks) = &self.checks {
            if self.least.is_zero() {
                checks.wait();
            }
            findings.extend(checks.latest(picture));
            findings.sort_by_key(|finding| finding.kind);
        }
        findings
    }

    fn sample(&mut self, wanted: Wanted) -> Outcome {
        let also = Wanted {
            interrupts: self.has_many_interrupts,
            memory_of: self.tour.next().into_iter().collect(),
            ..Wanted::default()
        };
        self.sampler.want(wanted.and(&also).and(&self.outputs.wanted()));
        self.sampler.sample(&mut self.samples[1]).map_err(Failure::missing)?;
        match &mut self.counters {
            Some(counters) => counters.read(&mut self.samples[1]).map_err(Failure::missing),
            None => Ok(()),
        }
    }

    /// Reads the machine again if other CPUs are online.
    fn other_machine(&mut self, picture: &Picture) -> Option<Box<Machine>> {
        let online: CpuSet = picture.cpus.iter().map(|one| one.cpu).collect();
        // Once for each change: in a container, the kernel's files may differ for good.
        if online == self.read_for {
            return None;
        }
        self.read_for = online;
        self.machine = machine().ok()?;
        self.watch = Watch::new(&self.machine, self.least);
        self.tour = MemoryTour::new(&self.machine);
        if let Some(counters) = &mut self.counters {
            // Programs that cannot be replaced count by the units that there were.
            let _ = counters.begin_again(&self.machine, &mut self.samples[1]);
        }
        Some(Box::new(self.machine.clone()))
    }

    /// Returns the numbers of the pictures that are kept.
    pub fn numbers(&self) -> Range<usize> {
        let numbers = self.history.as_ref().map_or(0..0, History::numbers);
        // The first sample has no picture.
        (numbers.start + 1).min(numbers.end)..numbers.end
    }

    /// Returns a picture that is kept.
    pub fn at(&mut self, number: usize) -> Option<Shown> {
        let history = self.history.as_mut()?;
        // Few samples have the memory by node of a process, and the present tour knows that of now.
        let mut tour = MemoryTour::of_moment(&self.machine, history, number);
        let before = history.at(number.checked_sub(1)?)?.clone();
        let mut picture = Picture::new(&self.machine, &before, history.at(number)?)?;
        tour.remember(&mut picture);
        picture.users = self.users.names();
        // What had held for how long at that time is not kept.
        let findings = Watch::new(&self.machine, Duration::ZERO).update(&picture);
        self.work.keep_seen(&mut picture);
        Some(Shown { number, picture, findings, machine: None })
    }

    /// Ends the outputs and the command, and returns its status as that of this program.
    pub fn end(self, reported: Outcome) -> Outcome {
        let finished = self.outputs.finish();
        self.work.end(reported.and(finished))
    }
}

fn machine() -> Outcome<Machine> {
    SysTree::open(Path::new("/")).and_then(|tree| read(&tree)).map_err(Failure::missing)
}
