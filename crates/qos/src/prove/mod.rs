//! Measures whether limits are enforced: a memory load with a limit and without, in groups that are created for the
//! measurement and removed afterwards.

mod memory_load;

use crate::{
    created_groups,
    enforcement::{ENFORCEMENT_SCHEMA, EnforcementCheck, EnforcementReport, default_limit, domains_of_load},
    error::{Error, Result, join},
    limit_outcome::{LimitOutcome, limit_outcomes},
    open,
    request::{Bandwidth, LimitRequest},
    system,
    system::{begin_journal, undo_changes},
    translate::{SchemataWrite, translate},
    write::{WriteError, Writer},
};
use manycore_analysis::limits::{LimitCheck, LimitProof, WITH, WITHOUT};
use manycore_control::journal::Journal;
use manycore_experiment::{
    Record,
    engine::{Budget, ExperimentSpec},
    record::{Treatment, id},
    session::{Event, Listener, Session},
};
use manycore_linux::resctrl::{self, Files, domain_cpus::DomainCpus, state::QosState};
use manycore_topology::{CpuSet, Machine};
use memory_load::{LoadNode, MemoryLoad};
use std::{path::PathBuf, time::Duration};

/// What is checked.
#[derive(Clone, Debug)]
pub struct Options {
    /// The checks, in order.
    pub checks: Vec<LimitCheck>,
    /// The maximum of the bandwidth check; chosen if absent.
    pub bandwidth: Option<Bandwidth>,
    /// The minimum of the check of minimum bandwidth, in percent.
    pub min_bandwidth: u64,
    /// The priority of the priority check.
    pub priority: u64,
    /// Seconds per check.
    pub seconds: f64,
    /// NUMA node whose CPUs and memory are used; the first usable one if absent.
    pub node: Option<u32>,
    /// Differences within this share are equivalent.
    pub margin: f64,
    /// Seed of all random orders.
    pub seed: u64,
    /// The mount point of resctrl; found if absent.
    pub resctrl: Option<PathBuf>,
}

/// What all checks have in common.
pub struct Prover<'a> {
    options: &'a Options,
    machine: Machine,
    files: Files,
    state: QosState,
    domain_cpus: DomainCpus,
    node: LoadNode,
}

impl<'a> Prover<'a> {
    /// Opens resctrl and chooses the node on `machine`, which is this one.
    ///
    /// # Errors
    /// resctrl is not usable, or no node fits.
    pub fn new(options: &'a Options, machine: Machine) -> Result<Self> {
        let system = system()?;
        let files = open(&system, options.resctrl.as_deref())?;
        Ok(Self {
            options,
            state: files.state(&created_groups()),
            domain_cpus: resctrl::domain_cpus(&system),
            node: LoadNode::select(&machine, options.node)?,
            machine,
            files,
        })
    }

    /// Measures each check in groups of its own, which are removed before the next check. Returns the record of what
    /// was measured, and the results.
    pub fn run(&self, listener: &mut dyn Listener) -> (Record, Result<EnforcementReport>) {
        let Options { seed, margin, .. } = *self.options;
        let mut session = Session::begin("qos prove", self.machine.clone(), seed, margin, listener);
        let checks = self.run_checks(&mut session);
        let is_interrupted =
            matches!(checks, Err(Error::Experiment(manycore_experiment::Error::Interrupted)));
        let report = checks.map(|proofs| self.report(proofs));
        (session.end(is_interrupted), report)
    }

    fn report(&self, proofs: Vec<EnforcementCheck>) -> EnforcementReport {
        EnforcementReport {
            schema: ENFORCEMENT_SCHEMA.to_owned(),
            dialect: self.state.capabilities.dialect,
            node: self.node.id,
            cpus: self.node.cpus.clone(),
            proofs,
            capabilities: self.state.capabilities.clone(),
        }
    }

    fn run_checks(&self, session: &mut Session) -> Result<Vec<EnforcementCheck>> {
        let checks = &self.options.checks;
        let mut results = Vec::new();
        for (index, &check) in checks.iter().enumerate() {
            let left = self.options.seconds * (checks.len() - index) as f64;
            session.report(Event::Remaining(Duration::from_secs_f64(left)));
            results.push(self.run_check(check, left, session)?);
        }
        Ok(results)
    }

    /// Measures one check. `left` is the time in seconds until all checks are done.
    fn run_check(&self, check: LimitCheck, left: f64, session: &mut Session) -> Result<EnforcementCheck> {
        if check.has_competitors() && self.node.cpus.len() < 2 {
            let why =
                format!("this check needs a second CPU for competing processes, and {} has one", self.node);
            return Ok(EnforcementCheck::not_measurable(check, why));
        }
        let limit = self.options.bandwidth.or_else(|| default_limit(&self.state.capabilities));
        // Where a rate has to be measured first, a request without a limit shows whether the control exists.
        if let Err(why) = self.translate(check, limit.unwrap_or(Bandwidth::Percent(100))) {
            return Ok(EnforcementCheck::not_measurable(check, why));
        }
        session.report(Event::Section(&format!("with {} and without", check.name())));
        let journal = begin_journal(&format!("qos prove {}", check.name()), false)?;
        let result = self.measure(check, limit, &journal, session, left);
        let undone = undo_changes(journal, &mut |event: Event| session.report(event));
        let result = result?;
        undone.map(|()| result)
    }

    /// Returns the lines to write, or the reasons why the limits cannot be set.
    fn translate(&self, check: LimitCheck, bandwidth: Bandwidth) -> Result<Vec<SchemataWrite>, String> {
        let (capabilities, node) = (&self.state.capabilities, &self.node);
        let cpus: CpuSet = node.cpus.iter().copied().collect();
        let on = domains_of_load(capabilities, &self.domain_cpus, node.id, &cpus);
        let mut request = LimitRequest { on, ..LimitRequest::default() };
        match check {
            LimitCheck::Bandwidth => request.bandwidth = Some(bandwidth),
            LimitCheck::Minimum => request.min_bandwidth = Some(self.options.min_bandwidth),
            LimitCheck::Priority => request.priority = Some(self.options.priority),
        }
        translate(&request, capabilities, &self.domain_cpus, &[])
            .map_err(|errors| join(errors.iter().map(ToString::to_string)))
    }

    fn measure(
        &self,
        check: LimitCheck,
        limit: Option<Bandwidth>,
        journal: &Journal,
        session: &mut Session,
        left: f64,
    ) -> Result<EnforcementCheck> {
        let names = [WITH, WITHOUT].map(|which| format!("manycore-{}-{which}", journal.id()));
        let tasks = names.clone().map(|name| self.files.root().join(name).join("tasks"));
        let mut load = MemoryLoad::start(&self.node, &self.machine, check, tasks)?;
        let limit = match limit {
            None if check == LimitCheck::Bandwidth => {
                let tenth = load.rate_without()? / 10.0 / 1e6;
                Bandwidth::Megabytes(tenth.ceil().max(1.0) as u64)
            }
            limit => limit.unwrap_or(Bandwidth::Percent(100)),
        };
        let writes = match self.translate(check, limit) {
            Ok(writes) => writes,
            Err(why) => return Ok(EnforcementCheck::not_measurable(check, why)),
        };
        let limits = self.create_groups(journal, &names, &writes, &load)?;
        let seconds = self.options.seconds;
        let remaining = |share: f64| Duration::from_secs_f64((left - seconds * share).max(0.0));
        let (experiment, ending) =
            session.run(spec(check, &load, seconds), &mut load, &mut |_| false, &|at| remaining(at.share));
        let measured = match experiment {
            Some(experiment) => LimitProof::from_experiment(check, experiment),
            None => LimitProof::not_measured(check, "no sample was taken".to_owned()),
        };
        session.report_measured();
        ending?;
        Ok(EnforcementCheck { measured, limits })
    }

    /// Creates the groups `names`, the first with the limits and the second without, and moves the measured processes into
    /// each of them, so that both moves are in the journal. From now on the load moves them.
    fn create_groups(
        &self,
        journal: &Journal,
        names: &[String; 2],
        writes: &[SchemataWrite],
        load: &MemoryLoad,
    ) -> Result<Vec<LimitOutcome>, WriteError> {
        let resctrl = Writer::new(self.files.root(), journal);
        for name in names {
            resctrl.create_group(name)?;
        }
        let before = self.files.schemata(&names[0]);
        for write in writes {
            resctrl.write_limit(&names[0], write, None)?;
        }
        let after = self.files.schemata(&names[0]);
        let groups = self.files.group_of_tasks();
        for name in names {
            for tid in load.measured_ids() {
                resctrl.move_task(name, tid, groups.get(&tid).map_or("", String::as_str))?;
            }
        }
        let outcomes = |write| limit_outcomes(write, Some(&before), Some(&after), &self.state.capabilities);
        Ok(writes.iter().flat_map(outcomes).collect())
    }
}

fn spec(check: LimitCheck, load: &MemoryLoad, seconds: f64) -> ExperimentSpec {
    let treatment = |name: &&str| Treatment {
        name: (*name).to_owned(),
        workers: load.measured_workers(),
        ..Treatment::default()
    };
    ExperimentSpec {
        treatments: check.treatments().iter().map(treatment).collect(),
        budget: Budget::seconds(seconds),
        ..ExperimentSpec::new(format!("{}{}", id::QOS, check.name()), load.method(), "bytes")
    }
}
