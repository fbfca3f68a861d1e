//! `manycore irq`: shows and sets the CPUs that handle the interrupts of devices.

use crate::{
    cli::{Format, Irq, IrqPlace, IrqShow, IrqSubcommand},
    failure::Outcome,
    output,
};
use manycore_irq::{place, show, text};

/// Shows or places interrupts.
pub fn run(args: &Irq) -> Outcome {
    match &args.subcommand {
        IrqSubcommand::Show(args) => show(args),
        IrqSubcommand::Place(args) => place(args),
    }
}

fn show(args: &IrqShow) -> Outcome {
    let options = show::Options {
        root: args.root.clone(),
        device: args.device.clone(),
        architecture: args.all,
        time: args.budget,
    };
    let (interrupts, machine) = show::show(&options)?;
    match args.format {
        Format::Text => output::print(&text::interrupts(&interrupts, &machine, args.device.as_deref())),
        Format::Json => output::print(&output::json(&interrupts)?),
    }
}

fn place(args: &IrqPlace) -> Outcome {
    let cpus = || args.cpus.clone().unwrap_or_default();
    let target = match &args.place {
        Some(policy) => place::Target::Policy(policy.clone()),
        None if args.one_each => place::Target::OneEach(cpus()),
        None => place::Target::Cpus(cpus()),
    };
    let moves = place::place(&args.device, &target, &format!("irq place --device {}", args.device))?;
    match args.format {
        Format::Text => output::print(&text::moves(&moves))?,
        Format::Json => output::print(&output::json(&moves)?)?,
    }
    let refused = moves.moves.iter().filter(|one| one.refused.is_some()).count();
    if refused > 0 {
        output::note(&format!("{refused} of {} interrupts could not be moved.", moves.moves.len()));
    }
    if let Some(warning) = place::irqbalance_warning(&moves) {
        output::note(&warning);
    }
    Ok(())
}
