//! Reads samples from `/proc`.

mod bandwidth;
mod block;
mod context;
mod counted;
mod groups;
mod guests;
mod interrupts;
mod names;
mod nodes;
mod process;
mod resources;
mod sum;
mod task_files;
mod temperatures;
mod thread;
mod waiting;

use crate::{
    parse,
    picture::Picture,
    resources::Wanted,
    sample::{ProcessSample, Sample},
};
use context::Context;
use counted::Counted;
use manycore_linux::{
    child, clock,
    counters::{KernelCounters, ticks_per_second},
    process_reader::ProcessList,
};
use manycore_topology::CpuSet;
use process::Process;
use resources::Resources;
use std::{
    collections::{BTreeMap, BTreeSet},
    fs, io,
    path::Path,
    sync::Arc,
    time::SystemTime,
};
use task_files::TaskFiles;
use waiting::{FullCpus, WaitingSearch};

/// What is read, and how often.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SamplerOptions {
    /// Whether `status` is read: voluntary and involuntary switches and allowed CPUs. It is the most expensive file of a
    /// thread.
    pub switches: bool,
    /// How many files of threads may stay open between samples. Other files are opened for each sample, which takes about three
    /// times as long; half of the files are kept for threads that have run lately.
    pub most_open: usize,
    /// The affinity of each thread is compared once in this many samples, and less often where there are more than some thousand
    /// threads; each eighth time it is read completely. 1 reads all of them completely each time.
    pub refresh: u32,
}

impl Default for SamplerOptions {
    /// Keeps open half of the files that this process may have open now. A caller raises that limit before
    /// ([`child::allow_many_files`]).
    fn default() -> Self {
        let most_open = (child::most_open_files() / 2).min(MOST_OPEN) as usize;
        Self { switches: true, most_open, refresh: 32 }
    }
}

/// More open files than this are of no use: threads that do not run need none.
const MOST_OPEN: u64 = 16_384;

/// Most different sets of allowed CPUs that are remembered.
const MOST_SETS: usize = 4096;

fn unix_ms() -> u64 {
    // A clock before 1970 is no time.
    SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_millis() as u64)
}

/// Takes samples of all processes below a root. See the [crate] for what is read when.
#[derive(Debug)]
pub struct Sampler {
    list: ProcessList,
    context: Context,
    kernel: KernelCounters,
    /// Whether ids in the tree are those of system calls of this process.
    is_live: bool,
    processes: BTreeMap<u32, Process>,
    pids: Vec<u32>,
    /// How many tasks the system had created before the processes were listed last; absent if they are to be listed.
    listed: Option<u64>,
    resources: Resources,
    full_cpus: FullCpus,
    search: WaitingSearch,
    counted: Counted,
}

impl Sampler {
    /// Prepares to read the processes of the `/proc` below `root`. In a `/proc` that is not that of this process's own
    /// namespace, and in a copy, all threads are read in each sample.
    ///
    /// # Errors
    /// There is no such directory.
    pub fn new(root: &Path, options: SamplerOptions) -> io::Result<Self> {
        let files = TaskFiles::open(root, options.most_open)?;
        let own = fs::read_link(root.join("proc/self")).ok();
        let is_own = own.is_some_and(|own| own == Path::new(&std::process::id().to_string()));
        let is_live = files.is_procfs && is_own;
        Ok(Self {
            list: ProcessList::open(root)?,
            is_live,
            context: Context {
                files,
                switches: options.switches,
                tick_ns: 1_000_000_000 / ticks_per_second(),
                page_kib: (rustix::param::page_size() >> 10) as u64,
                sets: BTreeSet::new(),
                online: CpuSet::new(),
                tids: Vec::new(),
                refresh: if is_live { options.refresh.max(1) } else { 1 },
                stretch: 1,
                turn: 0,
                can_keep_sums: is_live,
                at_ns: 0,
                elapsed_ns: 0,
            },
            kernel: KernelCounters::at(root),
            processes: BTreeMap::new(),
            pids: Vec::new(),
            listed: None,
            resources: Resources::new(root)?,
            full_cpus: FullCpus::default(),
            search: WaitingSearch::default(),
            counted: Counted::new(counted::EVENTS),
        })
    }

    /// Sets what samples have beside CPUs and tasks, from the next one on.
    pub fn want(&mut self, wanted: Wanted) {
        self.resources.want(wanted);
    }

    /// Reads a sample into `into`, whose memory is used again. Processes and threads that end meanwhile are left out.
    ///
    /// # Errors
    /// The list of processes cannot be read.
    pub fn sample(&mut self, into: &mut Sample) -> io::Result<()> {
        into.at_ns = clock::now_ns();
        into.unix_ms = unix_ms();
        self.read_system(into);
        if self.resources.wanted().frequency {
            self.read_frequencies(into);
        }
        self.context.begin(into.at_ns, self.processes.values().map(Process::len).sum());
        self.context.online = into.cpus.iter().map(|times| times.cpu).collect();
        self.read_list(into.system.created)?;
        if self.context.sets.len() > MOST_SETS {
            self.context.sets.clear();
        }
        let pids = std::mem::take(&mut self.pids);
        self.forget_ended(&pids);
        for &pid in &pids {
            self.read_process(pid);
        }
        self.pids = pids;
        let is_full = self.full_cpus.has_any(&into.cpus);
        self.find_waiting(into.system.runnable.filter(|_| is_full));
        self.write(into);
        self.resources.read(into);
        self.read_counters(into);
        self.resources.read_details(into);
        Ok(())
    }

    /// Reads details of processes now, and puts them into a picture in place of those that it has. Memory by node is read of
    /// processes for whose resident memory in KiB `has_memory` is true. Those that have ended since have no details.
    pub fn add_details(&self, picture: &mut Picture, pids: &[u32], has_memory: impl Fn(u64) -> bool) {
        let resident = |pid: u32| {
            let first = picture.tasks.partition_point(|task| task.id.pid < pid);
            picture.tasks.get(first).filter(|task| task.id.pid == pid).map(|task| task.resident_kib)
        };
        let with_memory = |&pid: &u32| resident(pid).is_some_and(&has_memory);
        let memory_of: Vec<u32> = pids.iter().copied().filter(with_memory).collect();
        for (pid, details) in self.resources.details(pids, &memory_of) {
            match picture.details.binary_search_by_key(&pid, |(pid, _)| *pid) {
                Ok(at) => picture.details[at].1 = details,
                Err(at) => picture.details.insert(at, (pid, details)),
            }
        }
    }

    fn read_system(&mut self, into: &mut Sample) {
        into.cpus.clear();
        into.system = self
            .context
            .files
            .system("stat")
            .map_or_else(Default::default, |text| parse::system(text, &mut into.cpus));
        if let Some(text) = self.context.files.system("meminfo") {
            (into.system.memory_kib, into.system.available_kib) = parse::memory(text);
        }
    }

    fn read_counters(&mut self, into: &mut Sample) {
        if self.is_live && self.resources.wanted().counters {
            self.counted.read(into.at_ns, &into.tasks, &mut into.counted);
        } else {
            self.counted.close();
            into.counted = None;
        }
    }

    fn read_frequencies(&mut self, into: &mut Sample) {
        for times in &mut into.cpus {
            times.khz = self.kernel.frequency_khz(&[times.cpu]);
        }
        self.resources.read_temperatures(into);
    }

    /// Reads the states of some threads if more tasks are runnable than are known. `runnable` is absent if none can have waited
    /// since the last sample.
    fn find_waiting(&mut self, runnable: Option<u64>) {
        let known = |processes: &BTreeMap<u32, Process>| processes.values().map(Process::runnable).sum();
        let before: usize = known(&self.processes);
        let Some(part) = self.search.part(runnable.filter(|_| self.is_live), before) else { return };
        for (&pid, process) in &mut self.processes {
            process.read_states(pid, &mut self.context, part);
        }
        if known(&self.processes) > before {
            self.search.found();
        }
    }

    /// Lists the processes, unless no task was created since they were: the kernel visits all threads of the system for a list.
    /// With `hidepid`, others can become visible all the same, which is seen a little later.
    fn read_list(&mut self, created: Option<u64>) -> io::Result<()> {
        let is_due = self.context.turn.is_multiple_of(self.context.refresh);
        if created.is_some() && self.listed == created && !is_due {
            return Ok(());
        }
        self.listed = created;
        self.pids.clear();
        self.list.rewind()?;
        while let Some(count) = self.list.next_piece()? {
            self.pids.extend((0..count).map(|at| self.list.get(at)));
        }
        self.pids.sort_unstable();
        self.pids.dedup();
        Ok(())
    }

    fn forget_ended(&mut self, pids: &[u32]) {
        let context = &mut self.context;
        self.processes.retain(|pid, process| {
            let exists = pids.binary_search(pid).is_ok();
            if !exists {
                process.close(context);
            }
            exists
        });
    }

    fn read_process(&mut self, pid: u32) {
        let process = self.processes.entry(pid).or_default();
        let may_prove = self.context.refresh > 1 && process.is_mostly_quiet();
        if may_prove {
            process.choose_sum(pid, &mut self.context);
        }
        // The proof reads the clock.
        if !may_prove || !process.is_active() {
            let clock_ns = if self.is_live { clock::process_cpu_ns(pid) } else { None };
            let is_same = clock_ns.is_some() && process.settled_ns == clock_ns && process.runnable() == 0;
            (process.cpu_ns, process.settled_ns) = (clock_ns, clock_ns);
            if is_same {
                return process.read_due(pid, &mut self.context);
            }
        }
        if !process.read(pid, &mut self.context, may_prove) {
            process.close(&mut self.context);
            self.processes.remove(&pid);
            self.listed = None;
        }
    }

    fn write(&self, into: &mut Sample) {
        into.tasks.clear();
        into.processes.clear();
        for (&pid, process) in &self.processes {
            into.processes.push(ProcessSample {
                pid,
                start: process.first(pid).map_or(0, |first| first.id.start),
                cpu_ns: process.cpu_ns,
                threads: process.len() as u32,
            });
            process.samples().for_each(|block| into.tasks.push(Arc::clone(block)));
        }
    }
}

#[cfg(test)]
mod tests;
