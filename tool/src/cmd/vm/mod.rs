//! `manycore vm`: virtual machines of libvirt.

mod check;
mod plan;

use crate::{
    cli::{Vm, VmVerb},
    failure::Outcome,
};

/// Plans or checks a virtual machine.
pub fn run(args: &Vm) -> Outcome {
    match &args.verb {
        VmVerb::Plan(args) => plan::run(args),
        VmVerb::Check(args) => check::run(args),
    }
}
