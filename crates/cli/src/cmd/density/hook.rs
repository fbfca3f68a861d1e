//! What variants do to instances with other features: bandwidth limits of `qos`, and plans of virtual machines of `vm`.

use crate::{failure::Outcome, output};
use manycore_control::cleanup::{Cleanup, Leftover, Program};
use manycore_density::instances::InstanceHook;
use manycore_experiment::{interrupt, session::Event};
use manycore_linux::targets::Target;
use manycore_placement::{Policy, PolicyKind};
use manycore_qos::{
    request::{Bandwidth, LimitRequest},
    set::{self, AppliedLimits, LimitTarget},
};
use manycore_topology::{CpuSet, Machine};
use manycore_vm::{
    domain::PlanRequest,
    planning::{self, PlanTarget},
};
use std::{
    error::Error,
    fmt,
    path::Path,
    sync::{Mutex, PoisonError},
};

type HookError = Box<dyn Error + Send + Sync>;

/// The hook of one variant.
pub(super) struct VariantHook {
    /// The machine for which virtual machines are planned; absent if they are not.
    machine: Option<Machine>,
    /// Memory bandwidth of all instances but the observed one.
    others: Option<OthersLimit>,
}

struct OthersLimit {
    bandwidth: Bandwidth,
    /// In force from the second instance on. Undone by its cleanup process if this program is killed.
    applied: Mutex<Option<(AppliedLimits, Cleanup)>>,
}

impl VariantHook {
    /// Returns the hook of a variant that needs one.
    ///
    /// # Errors
    /// This machine has no control of memory bandwidth that can be used.
    pub(super) fn new(
        machine: &Machine,
        plans_domains: bool,
        others: Option<Bandwidth>,
    ) -> Outcome<Option<Self>> {
        if others.is_some() {
            manycore_qos::show::show(None, None)?;
        }
        let hook = Self {
            machine: plans_domains.then(|| machine.clone()),
            others: others.map(|bandwidth| OthersLimit { bandwidth, applied: Mutex::new(None) }),
        };
        Ok((hook.machine.is_some() || hook.others.is_some()).then_some(hook))
    }
}

impl InstanceHook for VariantHook {
    fn domain_xml(&self, xml: String, cpus: Option<&CpuSet>) -> Result<String, HookError> {
        let Some(machine) = &self.machine else { return Ok(xml) };
        let policy = match cpus {
            Some(cpus) => format!("cpus={cpus}").parse()?,
            None => Policy::new(PolicyKind::Close, false),
        };
        let target = PlanTarget { machine, root: Some(Path::new("/")), is_this_machine: true };
        // Several virtual machines share CPUs where there are fewer places than instances.
        let request = PlanRequest { overcommit: true, ..PlanRequest::new(policy) };
        Ok(planning::plan(&xml, target, request)?.xml)
    }

    fn ready(&self, index: usize, processes: &[u32]) -> Result<(), HookError> {
        match &self.others {
            Some(others) if index > 0 => others.limit(processes),
            _ => Ok(()),
        }
    }
}

impl OthersLimit {
    fn limit(&self, processes: &[u32]) -> Result<(), HookError> {
        let mut applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((applied, _)) = &*applied {
            return Ok(applied.limit_also(processes)?);
        }
        let options = set::Options {
            target: LimitTarget::Tasks(Target::Pids(processes.to_vec())),
            description: "other instances of density".to_owned(),
            limits: LimitRequest { bandwidth: Some(self.bandwidth), ..LimitRequest::default() },
            name: None,
            // They are undone when this program ends.
            follow: true,
            mount: false,
            resctrl: None,
        };
        let mut cleanup = Cleanup::start(&Program::own())?;
        let limits = set::plan(&options, &mut note)?.apply(&interrupt::requested, &mut note)?;
        if let Some(journal) = &limits.changes.journal {
            cleanup.add(Leftover::Journal(journal.into()))?;
        }
        if limits.changes.ignored().next().is_some() {
            return Err("the kernel silently ignored the limit of memory bandwidth".into());
        }
        *applied = Some((limits, cleanup));
        Ok(())
    }
}

fn note(event: Event) {
    if let Event::Note(text) = event {
        output::note(&format!("manycore: {text}"));
    }
}

impl Drop for OthersLimit {
    fn drop(&mut self) {
        let applied = self.applied.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some((limits, _cleanup)) = applied.take() {
            // What is left is undone with the journal.
            let _ = limits.undo(&mut note);
        }
    }
}

impl fmt::Debug for VariantHook {
    fn fmt(&self, out: &mut fmt::Formatter) -> fmt::Result {
        let bandwidth = self.others.as_ref().map(|others| others.bandwidth);
        out.debug_struct("VariantHook")
            .field("plans_domains", &self.machine.is_some())
            .field("others", &bandwidth)
            .finish()
    }
}
