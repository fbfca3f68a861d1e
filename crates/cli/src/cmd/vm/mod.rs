//! `manycore vm`: virtual machines of libvirt.

mod check;
mod list;
mod plan;
mod remedy;
mod top;

use crate::{
    cli::{Vm, VmVerb},
    failure::Outcome,
};

/// Lists, watches, plans or checks virtual machines.
pub fn run(args: &Vm) -> Outcome {
    match &args.verb {
        VmVerb::List(args) => list::run(args),
        VmVerb::Top(args) => top::run(args),
        VmVerb::Plan(args) => plan::run(args),
        VmVerb::Check(args) => check::run(args),
    }
}
