//! What variants do to instances with other features: bandwidth limits of `qos`, and plans of virtual machines of `vm`.

use crate::{
    failure::{Failure, Outcome},
    output::{self, note_event},
};
use manycore_control::cleanup::{Cleanup, Leftover, Program};
use manycore_density::instances::InstanceHook;
use manycore_experiment::interrupt;
use manycore_linux::targets::Target;
use manycore_placement::{Policy, PolicyKind, Reserve};
use manycore_qos::{
    request::{Bandwidth, LimitRequest},
    set::{self, AppliedLimits, LimitTarget},
};
use manycore_topology::{CpuId, CpuSet, Machine};
use manycore_vm::{
    domain::{GuestHardware, PlanRequest},
    planning::{self, PlanTarget},
};
use std::{
    error::Error,
    path::Path,
    sync::{Mutex, PoisonError},
};

/// The line of resctrl that limits memory bandwidth.
const BANDWIDTH: &str = "MB";

type HookError = Box<dyn Error + Send + Sync>;

/// The hook of one variant.
#[derive(Debug)]
pub(super) struct VariantHook {
    /// The machine for which virtual machines are planned; absent if they are not.
    machine: Option<Machine>,
    /// Memory bandwidth of all instances but the observed one.
    others: Option<OthersLimit>,
}

#[derive(Debug)]
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
            let (state, _) = manycore_qos::show::show(None, None)?;
            if state.capabilities.control(BANDWIDTH).is_none() {
                return Err(Failure::missing(
                    "--variant qos:others: resctrl has no control of memory bandwidth here",
                ));
            }
        }
        let hook = Self {
            machine: plans_domains.then(|| machine.clone()),
            others: others.map(|bandwidth| OthersLimit { bandwidth, applied: Mutex::new(None) }),
        };
        Ok((hook.machine.is_some() || hook.others.is_some()).then_some(hook))
    }
}

impl InstanceHook for VariantHook {
    fn domain_xml(&self, xml: String, cpus: Option<&CpuSet>, before: usize) -> Result<String, HookError> {
        let Some(machine) = &self.machine else { return Ok(xml) };
        let vcpus = xml.parse::<GuestHardware>()?.pins.len();
        let cpus = match cpus {
            Some(cpus) => next_of_list(&cpus.iter().collect::<Vec<_>>(), vcpus, before),
            None => close_cpus(machine, vcpus, before)?,
        };
        plan(&xml, machine, &cpus)
    }

    fn ready(&self, index: usize, processes: &[u32]) -> Result<(), HookError> {
        match &self.others {
            Some(others) if index > 0 => others.limit(processes),
            _ => Ok(()),
        }
    }
}

/// Plans a virtual machine on these CPUs, and returns its XML. Several of its virtual CPUs share one where there are fewer.
fn plan(xml: &str, machine: &Machine, cpus: &CpuSet) -> Result<String, HookError> {
    let target = PlanTarget { machine, root: Some(Path::new("/")), is_this_machine: true };
    let request = PlanRequest { overcommit: true, ..PlanRequest::new(format!("cpus={cpus}").parse()?) };
    Ok(planning::plan(xml, target, request)?.xml)
}

/// Returns the CPUs of a virtual machine, where as many others `before` it have got theirs: neighbours that share a last-level
/// cache where one has enough CPUs. When no virtual machine fits on CPUs of its own any more, the CPUs that are left come first,
/// and then all of them again.
fn close_cpus(machine: &Machine, vcpus: usize, before: usize) -> Result<CpuSet, HookError> {
    let close = Policy::new(PolicyKind::Close, false);
    let workers = close.capacity(machine, &Reserve::Nothing)?;
    let plan = close.plan(machine, workers, &Reserve::Nothing)?;
    let all: Vec<CpuId> = plan.workers.iter().filter_map(|worker| worker.cpus.first()).collect();
    let wide = plan.widened(machine, vcpus);
    if let Some(worker) = wide.workers.get(before) {
        return Ok(worker.cpus.clone());
    }
    let own = wide.cpus();
    let left = all.iter().copied().filter(|cpu| !own.contains(*cpu));
    let order: Vec<CpuId> = left.chain(wide.workers.iter().flat_map(|worker| worker.cpus.iter())).collect();
    Ok(next_of_list(&order, vcpus, before - wide.workers.len()))
}

/// Returns the next CPUs of a list, in the same way.
fn next_of_list(list: &[CpuId], vcpus: usize, before: usize) -> CpuSet {
    let begin = before * vcpus % list.len().max(1);
    list.iter().cycle().skip(begin).take(vcpus.min(list.len())).copied().collect()
}

impl OthersLimit {
    fn limit(&self, processes: &[u32]) -> Result<(), HookError> {
        let Some(&first) = processes.first() else {
            return Err("its processes are unknown, so that their memory bandwidth cannot be limited".into());
        };
        let mut applied = self.applied.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((applied, _)) = &*applied {
            return Ok(applied.limit_also(processes)?);
        }
        let options = set::Options {
            // Others may end meanwhile.
            target: LimitTarget::Tasks(Target::Pids(vec![first])),
            description: "other instances of density".to_owned(),
            limits: LimitRequest { bandwidth: Some(self.bandwidth), ..LimitRequest::default() },
            name: None,
            // They are undone when this program ends.
            follow: true,
            mount: false,
            resctrl: None,
        };
        let mut cleanup = Cleanup::start(&Program::own())?;
        let limits = set::plan(&options, &mut note_event)?.apply(&interrupt::requested, &mut note_event)?;
        let announced = match &limits.changes.journal {
            Some(journal) => cleanup.add(Leftover::Journal(journal.into())).map_err(HookError::from),
            None => Ok(()),
        };
        let is_ignored = limits.changes.ignored().next().is_some();
        let checked = announced.and_then(|()| {
            if is_ignored {
                return Err("the kernel silently ignored the limit of memory bandwidth".into());
            }
            Ok(limits.limit_also(processes)?)
        });
        match checked {
            Ok(()) => *applied = Some((limits, cleanup)),
            Err(error) => return limits.undo(&mut note_event).map_err(Into::into).and(Err(error)),
        }
        Ok(())
    }
}

impl Drop for OthersLimit {
    fn drop(&mut self) {
        let applied = self.applied.get_mut().unwrap_or_else(PoisonError::into_inner);
        if let Some((limits, _cleanup)) = applied.take()
            && let Err(error) = limits.undo(&mut note_event)
        {
            output::note(&format!("manycore: {error}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_testkit::SyntheticMachine;
    use manycore_topology::{SysTree, read, synthetic::MachineSpec};

    #[test]
    fn virtual_machines_take_the_cpus_of_a_place_in_turn() {
        let next = |list: &[CpuId], vcpus, before| next_of_list(list, vcpus, before).to_string();
        assert_eq!(next(&[0, 2, 4, 6], 2, 0), "0,2");
        assert_eq!(next(&[0, 2, 4, 6], 2, 1), "4,6");
        assert_eq!(next(&[0, 2, 4, 6], 2, 2), "0,2");
        assert_eq!(next(&[0, 2, 4], 2, 1), "0,4");
        assert_eq!(next(&[5], 4, 7), "5");
    }

    /// Regression test: the third of six virtual CPUs on eight of each cache had CPUs of two caches.
    #[test]
    fn virtual_machines_do_not_cross_caches() {
        let spec = MachineSpec { packages: 2, cores: 8, threads: 1, ..MachineSpec::default() };
        let machine = read(&SysTree::from_capture(spec.capture())).unwrap();
        let own = |vcpus, before| close_cpus(&machine, vcpus, before).unwrap().to_string();
        // The third has the CPUs that are left, and shares others.
        assert_eq!([0, 1, 2, 3].map(|before| own(6, before)), ["0-5", "8-13", "0-1,6-7,14-15", "2-5,8-9"]);
        assert_eq!([0, 1, 2, 3].map(|before| own(4, before)), ["0-3", "4-7", "8-11", "12-15"]);
        assert_eq!([0, 1].map(|before| own(12, before)), ["0-11", "0-7,12-15"]);
        assert_eq!(own(99, 3), "0-15");
    }

    #[test]
    fn a_planned_virtual_machine_is_pinned_to_cpus_of_its_own() {
        let machine = SyntheticMachine::guest().record().machine;
        let hook = VariantHook::new(&machine, true, None).unwrap().unwrap();
        let xml = "<domain type='kvm'><name>a</name><memory unit='MiB'>64</memory><vcpu>1</vcpu>\
            <os><type arch='x86_64' machine='q35'>hvm</type></os></domain>";
        let pin = |before| {
            let planned = hook.domain_xml(xml.to_owned(), None, before).unwrap();
            let pin = planned.lines().find(|line| line.contains("<vcpupin ")).unwrap().trim().to_owned();
            assert!(planned.contains("<name>a</name>"));
            pin
        };
        assert_ne!(pin(0), pin(1));
        assert_eq!(pin(0), pin(machine.usable().len()));
    }
}
