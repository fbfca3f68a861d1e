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
use manycore_render::terminal::Terminal;

/// Lists, watches, plans or checks virtual machines.
pub fn run(args: &Vm, terminal: Terminal) -> Outcome {
    match &args.subcommand {
        VmSubcommand::List(args) => list::run(args, terminal),
        VmSubcommand::Top(args) => top::run(args, terminal),
        VmSubcommand::Plan(args) => plan::run(args),
        VmSubcommand::Check(args) => check::run(args, terminal),
    }
}
