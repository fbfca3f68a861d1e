//! `manycore vm`: virtual machines of libvirt.

mod check;
mod list;
mod plan;
mod remedy;
mod top;

use crate::{
    cli::{Vm, VmSubcommand},
    failure::Outcome,
};

/// Lists, watches, plans or checks virtual machines.
pub fn run(args: &Vm) -> Outcome {
    match &args.subcommand {
        VmSubcommand::List(args) => list::run(args),
        VmSubcommand::Top(args) => top::run(args),
        VmSubcommand::Plan(args) => plan::run(args),
        VmSubcommand::Check(args) => check::run(args),
    }
}
