//! `manycore irq`: shows and sets the CPUs that handle the interrupts of devices.

use crate::{
    cli::{Irq, IrqPlace, IrqShow, IrqSubcommand},
    failure::Outcome,
    output,
};
use manycore_irq::{place, show, text};
use manycore_render::terminal::Terminal;

/// Shows or places interrupts.
pub fn run(args: &Irq, terminal: Terminal) -> Outcome {
    match &args.subcommand {
        IrqSubcommand::Show(args) => show(args, terminal),
        IrqSubcommand::Place(args) => place(args, terminal),
    }
}

fn show(args: &IrqShow, terminal: Terminal) -> Outcome {
    let options = show::Options {
        root: args.root.clone(),
        device: args.device.clone(),
        architecture: args.all,
        time: args.budget,
    };
    let (interrupts, machine) = show::show(&options)?;
    output::result(args.format, terminal, &interrupts, || {
        text::interrupts(&interrupts, &machine, args.device.as_deref())
    })
}

fn place(args: &IrqPlace, terminal: Terminal) -> Outcome {
    let cpus = || args.cpus.clone().unwrap_or_default();
    let target = match &args.place {
        Some(policy) => place::Target::Policy(policy.clone()),
        None if args.one_each => place::Target::OneEach(cpus()),
        None => place::Target::Cpus(cpus()),
    };
    let moves = place::place(&args.device, &target, &format!("irq place --device {}", args.device))?;
    output::result(args.format, terminal, &moves, || text::moves(&moves))?;
    let refused = moves.moves.iter().filter(|one| one.refused.is_some()).count();
    if refused > 0 {
        output::note(&format!("{refused} of {} interrupts could not be moved.", moves.moves.len()));
    }
    let irqs = moves.moves.iter().filter(|one| one.refused.is_none()).map(|one| one.irq);
    if let Some(warning) = place::irqbalance_warning(irqs) {
        output::note(&warning);
    }
    Ok(())
}
