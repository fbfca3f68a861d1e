//! `manycore vm top`.

use super::list::keyed;
use crate::{
    cli::{Format, VmOrder, VmTop},
    failure::{Failure, Outcome},
    live::{History, Rounds, Screen},
    output,
};
use manycore_linux::{
    clock::utc,
    resctrl::{self, Files, Sampler, domain_cpus},
    tasks,
    vms::{Domains, Wanted, host},
};
use manycore_linux::{
    resctrl::{
        domain_cpus::DomainCpus,
        watch::{self, MonitorReadings},
    },
    vms::{
        bandwidth,
        usage::{Moment, Reading, Usage},
    },
};
use manycore_topology::SysTree;
use manycore_vm::top_text;
use std::{
    cmp::Ordering,
    collections::{BTreeMap, BTreeSet},
};

/// Number of readings after which the tasks of all groups are read again if domains or groups have changed.
/// The kernel walks all tasks of the machine for each group.
const AFTER_CHANGE: u64 = 10;
/// The same if nothing has changed: tasks may have moved between groups.
const IN_ANY_CASE: u64 = 60;

/// Prints what domains use, once per interval.
///
/// # Errors
/// [`Failure::Input`] if the root directory does not exist; [`Failure::Missing`] if the directory given with
/// `--resctrl` is not a resctrl.
pub fn run(args: &VmTop) -> Outcome {
    let tree = SysTree::open(&args.root).map_err(Failure::input)?;
    let files = files(&tree, args)?;
    let mut traffic = files.as_ref().map(|files| Traffic::new(files, &tree));
    let mut history = History::open(args.history.as_deref())?;
    let mut rounds = Rounds::new(args.interval, args.count)?;
    let mut domains = Domains::new(&tree, Wanted { vcpus: args.vcpus, nodes: args.numa });
    let mut screen = if args.format == Format::Text { Screen::of_terminal() } else { None };
    let mut before = (host(&tree), keyed(domains.look()));
    while rounds.wait()? {
        let now = (host(&tree), keyed(domains.look()));
        let mut moment = Moment::between(utc(), Some(&before.0), &before.1, (&now.0, &now.1));
        if let Some(traffic) = &mut traffic {
            traffic.add(&mut moment, &now.1);
        }
        sort(&mut moment.domains, args.sort);
        history.keep(&moment, args.format)?;
        match (&mut screen, args.format) {
            (_, Format::Json) => {}
            (Some(screen), _) => screen.show(&top_text::table(&moment))?,
            (None, _) => output::print(&format!("{}\n", top_text::table(&moment)))?,
        }
        before = now;
    }
    Ok(())
}

/// Opens the mounted resctrl. Its absence is an error only if the user named a mount point.
fn files(tree: &SysTree, args: &VmTop) -> Outcome<Option<Files>> {
    match resctrl::find(tree, args.resctrl.as_deref()) {
        Ok(mount) => Files::open(tree, &mount).map(Some).map_err(Failure::missing),
        Err(missing) if args.resctrl.is_some() => Err(Failure::missing(missing)),
        Err(_) => Ok(None),
    }
}

/// Memory traffic of the resctrl groups of domains.
struct Traffic<'a> {
    files: &'a Files,
    sampler: Sampler<'a>,
    domain_cpus: DomainCpus,
    before: MonitorReadings,
    /// Groups that hold only this domain, by process id.
    own: BTreeMap<u32, Vec<String>>,
    /// Groups and processes from which `own` was computed; `seen_at` is the number of that reading.
    seen: (Vec<String>, Vec<u32>),
    seen_at: u64,
    looks: u64,
}

impl<'a> Traffic<'a> {
    fn new(files: &'a Files, tree: &SysTree) -> Self {
        let mut sampler = Sampler::new(files);
        let before = sampler.sample(|_| true);
        Self {
            files,
            sampler,
            domain_cpus: domain_cpus(tree),
            before,
            own: BTreeMap::new(),
            seen: Default::default(),
            seen_at: 0,
            looks: 0,
        }
    }

    fn add(&mut self, moment: &mut Moment, readings: &BTreeMap<u32, Reading>) {
        let now = self.sampler.sample(|_| true);
        let groups = watch::UsageSnapshot::between(String::new(), &self.before, &now, |_| true);
        let seen = (now.keys().cloned().collect(), readings.keys().copied().collect());
        let age = self.looks - self.seen_at;
        if self.looks == 0 || age >= IN_ANY_CASE || (age >= AFTER_CHANGE && seen != self.seen) {
            self.find(readings);
            (self.seen, self.seen_at) = (seen, self.looks);
        }
        for usage in &mut moment.domains {
            let own = self.own.get(&usage.identity.pid).map(Vec::as_slice).unwrap_or_default();
            bandwidth::add(usage, own, &groups, &self.domain_cpus);
        }
        bandwidth::add_all(&mut moment.host, &groups, &self.domain_cpus);
        self.before = now;
        self.looks += 1;
    }

    fn find(&mut self, readings: &BTreeMap<u32, Reading>) {
        let tasks_of = |name: String| {
            let tasks: BTreeSet<u32> = self.files.tasks(&name).into_iter().collect();
            (name, tasks)
        };
        let groups: BTreeMap<String, BTreeSet<u32>> = self.files.names().into_iter().map(tasks_of).collect();
        let own = |reading: &Reading| {
            let threads = tasks::threads(reading.identity.pid).into_iter().collect();
            bandwidth::groups(&reading.identity, &threads, &groups)
        };
        self.own = readings.iter().map(|(pid, reading)| (*pid, own(reading))).collect();
    }
}

/// Sorts by figure in descending order. Unknown figures come last; ties are sorted by name.
fn sort(domains: &mut [Usage], order: VmOrder) {
    let figure = |usage: &Usage| match order {
        VmOrder::Cpu => usage.cpu_percent,
        VmOrder::Guest => usage.guest_percent,
        VmOrder::Sys => usage.system_percent,
        VmOrder::Wait => usage.delay_percent,
        VmOrder::Switch => usage.switches_per_second,
        VmOrder::Memory => Some(usage.resident as f64),
        VmOrder::Bandwidth => usage.bandwidth,
        VmOrder::Name => None,
        VmOrder::Pid => Some(-f64::from(usage.identity.pid)),
    };
    let key = |usage: &Usage| figure(usage).unwrap_or(f64::NEG_INFINITY);
    let by_name = |a: &Usage, b: &Usage| -> Ordering { a.identity.name.cmp(&b.identity.name) };
    domains.sort_by(|a, b| key(b).total_cmp(&key(a)).then_with(|| by_name(a, b)));
}
