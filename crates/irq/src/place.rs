//! Moves the interrupts of a device. Each change is recorded in a journal before it is made.

use crate::{
    device::{counts, of_device},
    error::{Error, Result},
    report::{InterruptMove, InterruptMoves, MOVES_SCHEMA},
};
use manycore_control::journal::{self, Change, Journal};
use manycore_linux::{
    interrupts::{
        Interrupt,
        affinity::{self, Affinity, AffinityError},
    },
    tasks,
};
use manycore_placement::{Policy, Reserve};
use manycore_topology::{CpuSet, Machine, SysTree};
use std::path::Path;

/// Root of the kernel's files: only interrupts of this machine can be moved.
const ROOT: &str = "/";

/// The requested CPUs for the interrupts of a device.
#[derive(Clone, Debug)]
pub enum Target {
    /// Those of a placement with one worker per interrupt.
    Policy(Policy),
    /// All of these CPUs, for each interrupt.
    Cpus(CpuSet),
    /// One of these CPUs for each interrupt, in turn.
    OneEach(CpuSet),
}

/// Moves the interrupts of `device`, and returns the CPUs in force. The journal names the `request`.
///
/// # Errors
/// There is no such device or CPU, or no interrupt could be moved.
pub fn place(device: &str, target: &Target, request: &str) -> Result<InterruptMoves> {
    let tree = SysTree::open(Path::new(ROOT))?;
    let machine = manycore_topology::read(&tree)?;
    let interrupts = interrupts_of(&tree, &machine, device)?;
    let requested = requested(target, &machine, interrupts.len())?;
    let mut interrupt_mover = InterruptMover { request, journal: None };
    let moves: Result<Vec<InterruptMove>> = interrupts
        .iter()
        .zip(requested)
        .map(|(interrupt, cpus)| interrupt_mover.move_to(&tree, interrupt, cpus))
        .collect();
    let moves = moves?;
    let none_moved = moves.iter().all(|one| one.refused.is_some());
    let moves = InterruptMoves {
        schema: MOVES_SCHEMA.to_owned(),
        device: device.to_owned(),
        moves,
        journal: interrupt_mover.journal.as_ref().map(Journal::id),
    };
    if none_moved {
        if let Some(journal) = interrupt_mover.journal {
            journal.discard();
        }
        return Err(Error::NotMoved(moves));
    }
    Ok(moves)
}

/// Returns the number and the CPUs of each interrupt of `device` that can be moved. Changes nothing.
///
/// # Errors
/// There is no such device or CPU, or none of its interrupts can be moved.
pub fn planned(device: &str, target: &Target) -> Result<Vec<(u32, CpuSet)>> {
    let tree = SysTree::open(Path::new(ROOT))?;
    let machine = manycore_topology::read(&tree)?;
    let mut interrupts = interrupts_of(&tree, &machine, device)?;
    let count = interrupts.len();
    interrupts.retain(|interrupt| !interrupt.unmovable);
    if interrupts.is_empty() {
        return Err(Error::NoneMovable { device: device.to_owned(), count });
    }
    let cpus = requested(target, &machine, interrupts.len())?;
    Ok(interrupts.iter().map(|interrupt| interrupt.irq).zip(cpus).collect())
}

fn interrupts_of(tree: &SysTree, machine: &Machine, device: &str) -> Result<Vec<Interrupt>> {
    let all = affinity::read(tree, machine, &counts(tree)?)?;
    of_device(all, machine, device)
}

/// Returns the requested CPUs for each of `count` interrupts.
fn requested(target: &Target, machine: &Machine, count: usize) -> Result<Vec<CpuSet>> {
    let (cpus, one_each) = match target {
        Target::Policy(policy) => {
            let plan = policy.plan(machine, count, &Reserve::Nothing)?;
            return Ok(plan.workers.into_iter().map(|worker| worker.cpus).collect());
        }
        Target::Cpus(cpus) => (cpus, false),
        Target::OneEach(cpus) => (cpus, true),
    };
    let absent = cpus.difference(&machine.online);
    if cpus.is_empty() || !absent.is_empty() {
        return Err(Error::Cpus { requested: cpus.clone(), absent, online: machine.online.clone() });
    }
    let lists = if one_each { cpus.iter().map(CpuSet::single).collect() } else { vec![cpus.clone()] };
    Ok(distribute(&lists, count))
}

/// Distributes `lists` of CPUs over `count` interrupts in turn.
fn distribute(lists: &[CpuSet], count: usize) -> Vec<CpuSet> {
    lists.iter().cycle().take(count).cloned().collect()
}

/// Moves interrupts. The journal is created with the first change, so a run that changes nothing leaves none.
struct InterruptMover<'a> {
    request: &'a str,
    journal: Option<Journal>,
}

impl InterruptMover<'_> {
    /// Moves one interrupt and reads back its CPUs.
    fn move_to(&mut self, tree: &SysTree, interrupt: &Interrupt, requested: CpuSet) -> Result<InterruptMove> {
        let refused = self.write(interrupt, &requested)?.err().map(|error| error.to_string());
        let now = affinity::read_affinity(tree, interrupt.irq)?;
        Ok(InterruptMove {
            irq: interrupt.irq,
            name: interrupt.name.clone(),
            requested,
            before: interrupt.allowed.clone(),
            allowed: now.allowed,
            handled_on: now.handled_on,
            refused,
        })
    }

    /// Writes the CPUs of one interrupt. The inner result is the kernel's refusal, which is not an error of the whole.
    fn write(&mut self, interrupt: &Interrupt, cpus: &CpuSet) -> Result<Result<(), AffinityError>> {
        if interrupt.unmovable {
            return Ok(Err(AffinityError::Managed));
        }
        let mut affinity = match Affinity::open(Path::new(ROOT), interrupt.irq) {
            Ok(affinity) => affinity,
            Err(error) => return Ok(Err(error)),
        };
        if affinity.old().parse().as_ref() == Ok(cpus) {
            return Ok(Ok(()));
        }
        self.record(&Change::Setting {
            path: affinity.path().to_owned(),
            old: affinity.old().to_owned(),
            new: cpus.to_string(),
        })?;
        Ok(affinity.write(cpus))
    }

    /// Records a change in the journal. Without a journal nothing is changed.
    fn record(&mut self, change: &Change) -> Result {
        let folder = journal::folder();
        let cannot = |error| Error::Journal { folder: folder.display().to_string(), error };
        let journal = match self.journal.take() {
            Some(journal) => journal,
            None => Journal::begin(&folder, "irq", self.request, true).map_err(cannot)?,
        };
        self.journal.insert(journal).record(change).map_err(cannot)
    }
}

/// Returns a warning for interrupts that are moved if irqbalance runs, which moves interrupts by itself every ten seconds.
pub fn irqbalance_warning(irqs: impl Iterator<Item = u32>) -> Option<String> {
    tasks::all().into_iter().find(|&pid| tasks::name(pid).as_deref() == Some("irqbalance"))?;
    let options: Vec<String> = irqs.map(|irq| format!("--banirq={irq}")).collect();
    Some(format!(
        "irqbalance is running and will move these interrupts again: start it with {}, or stop it (systemctl stop \
         irqbalance); with IRQBALANCE_BANNED_CPUS it leaves these CPUs free of other interrupts.",
        options.join(" ")
    ))
}

#[cfg(test)]
mod tests {
    use super::distribute;

    #[test]
    fn lists_are_distributed_in_turn() {
        let lists = ["0", "4-5"].map(|list| list.parse().unwrap());
        let distributed: Vec<String> = distribute(&lists, 3).iter().map(ToString::to_string).collect();
        assert_eq!(distributed, ["0", "4-5", "0"]);
        assert!(distribute(&[], 3).is_empty());
    }
}
