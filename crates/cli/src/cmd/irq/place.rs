//! `manycore irq place`.

use super::{counts, of_device};
use crate::{
    cli::{Format, IrqPlace},
    failure::{Failure, Outcome},
    output,
};
use manycore_control::journal::{self, Change, Journal};
use manycore_irq::text;
use manycore_linux::interrupts::{Interrupt, MOVES_SCHEMA, Move, Moves, deal};
use manycore_linux::{
    interrupts::affinity::{self, Affinity, Refusal},
    tasks,
};
use manycore_placement::Reserve;
use manycore_topology::SysTree;
use manycore_topology::{CpuSet, Machine};
use std::{collections::BTreeSet, path::Path};

/// Root of the kernel's files: only interrupts of this machine can be moved.
const ROOT: &str = "/";

/// Binds the interrupts of a device and prints the CPUs in force. Each change is recorded in a journal before
/// it is made.
///
/// # Errors
/// [`Failure::Input`] if there is no such device or CPU, [`Failure::Missing`] if no interrupt could be moved.
pub fn run(args: &IrqPlace) -> Outcome {
    let tree = SysTree::open(Path::new(ROOT)).map_err(Failure::input)?;
    let machine = manycore_topology::read(&tree).map_err(Failure::input)?;
    let all = affinity::read(&tree, &machine, &counts(&tree)?).map_err(Failure::input)?;
    let interrupts = of_device(all, &machine, &args.device)?;
    let asked = asked(args, &machine, interrupts.len())?;
    let mut placer = Placer { device: &args.device, journal: None };
    let moves: Outcome<Vec<Move>> =
        interrupts.iter().zip(asked).map(|(interrupt, cpus)| placer.place(&tree, interrupt, cpus)).collect();
    let moves = moves?;
    let none_moved = moves.iter().all(|one| one.refused.is_some());
    let moves = Moves {
        schema: MOVES_SCHEMA.to_owned(),
        device: args.device.clone(),
        moves,
        journal: placer.journal.as_ref().map(Journal::id),
    };
    if none_moved {
        if let Some(journal) = placer.journal {
            journal.discard();
        }
        return Err(not_moved(&moves));
    }
    tell(args.format, &moves)
}

/// Returns the requested CPUs for each of `count` interrupts.
fn asked(args: &IrqPlace, machine: &Machine, count: usize) -> Outcome<Vec<CpuSet>> {
    if let Some(policy) = &args.place {
        let plan = policy.plan(machine, count, &Reserve::Nothing).map_err(Failure::input)?;
        return Ok(plan.workers.into_iter().map(|worker| worker.cpus).collect());
    }
    let cpus = args.cpus.clone().unwrap_or_default();
    let absent = cpus.difference(&machine.online);
    if cpus.is_empty() || !absent.is_empty() {
        let which = if cpus.is_empty() {
            "an empty list".to_owned()
        } else {
            format!("{} not online", absent.brief())
        };
        return Err(Failure::input(format!("--cpus {cpus}: {which}; online are {}", machine.online.brief())));
    }
    let lists = if args.spread { cpus.iter().map(CpuSet::single).collect() } else { vec![cpus] };
    Ok(deal(&lists, count))
}

/// Moves interrupts. The journal is created with the first change, so a run that changes nothing leaves none.
struct Placer<'a> {
    device: &'a str,
    journal: Option<Journal>,
}

impl Placer<'_> {
    /// Moves one interrupt and reads back its CPUs.
    fn place(&mut self, tree: &SysTree, interrupt: &Interrupt, asked: CpuSet) -> Outcome<Move> {
        let refused = self.write(interrupt, &asked)?.err().map(|refusal| refusal.to_string());
        let now = affinity::setting(tree, interrupt.irq).map_err(Failure::missing)?;
        Ok(Move {
            irq: interrupt.irq,
            name: interrupt.name.clone(),
            asked,
            before: interrupt.allowed.clone(),
            allowed: now.allowed,
            handled_on: now.handled_on,
            refused,
        })
    }

    fn write(&mut self, interrupt: &Interrupt, cpus: &CpuSet) -> Outcome<Result<(), Refusal>> {
        if interrupt.fixed {
            return Ok(Err(Refusal::Fixed));
        }
        let mut affinity = match Affinity::open(Path::new(ROOT), interrupt.irq) {
            Ok(affinity) => affinity,
            Err(refusal) => return Ok(Err(refusal)),
        };
        if affinity.old().parse().as_ref() == Ok(cpus) {
            return Ok(Ok(()));
        }
        self.note(&Change::Setting {
            path: affinity.path().to_owned(),
            old: affinity.old().to_owned(),
            new: cpus.to_string(),
        })?;
        Ok(affinity.write(cpus))
    }

    /// Records a change in the journal. Without a journal nothing is changed.
    fn note(&mut self, change: &Change) -> Outcome {
        let folder = journal::folder();
        let cannot = |error: std::io::Error| {
            Failure::missing(format!(
                "cannot write a journal in {}: {error}; no interrupt was moved (set {} to use another directory)",
                folder.display(),
                journal::FOLDER_VARIABLE
            ))
        };
        let journal = match self.journal.take() {
            Some(journal) => journal,
            None => {
                let what = format!("irq place --device {}", self.device);
                Journal::begin(&folder, "irq", &what, true).map_err(cannot)?
            }
        };
        self.journal.insert(journal).record(change).map_err(cannot)
    }
}

fn not_moved(moves: &Moves) -> Failure {
    let reasons: BTreeSet<&str> = moves.moves.iter().filter_map(|one| one.refused.as_deref()).collect();
    let reasons: Vec<&str> = reasons.into_iter().collect();
    Failure::missing(format!(
        "no interrupt of {} ({} in all) was moved: {}",
        moves.device,
        moves.moves.len(),
        reasons.join("; ")
    ))
}

fn tell(format: Format, moves: &Moves) -> Outcome {
    match format {
        Format::Text => output::print(&text::moves(moves))?,
        Format::Json => output::print(&output::json(moves)?)?,
    }
    let refused = moves.moves.iter().filter(|one| one.refused.is_some()).count();
    if refused > 0 {
        output::note(&format!("{refused} of {} interrupts could not be moved.", moves.moves.len()));
    }
    if let Some(warning) = balancer(&moves.moves) {
        output::note(&warning);
    }
    Ok(())
}

/// Returns a warning if irqbalance runs, which moves interrupts by itself every ten seconds.
fn balancer(moves: &[Move]) -> Option<String> {
    tasks::all().into_iter().find(|&pid| tasks::name(pid).as_deref() == Some("irqbalance"))?;
    let ours = moves.iter().filter(|one| one.refused.is_none());
    let options: Vec<String> = ours.map(|one| format!("--banirq={}", one.irq)).collect();
    Some(format!(
        "irqbalance is running and will move these interrupts again: start it with {}, or stop it (systemctl stop \
         irqbalance); with IRQBALANCE_BANNED_CPUS it leaves these CPUs free of other interrupts.",
        options.join(" ")
    ))
}
