//! `manycore vm check`: compares a running domain, or the guest this program runs in, with its plan.

use crate::{
    cli::VmCheck as Args,
    failure::{Failure, Outcome},
    load, output, source,
};
use manycore_render::terminal::Terminal;
use manycore_vm::{
    Error,
    checking::{CheckOptions, DomainCheck, check_domain},
    domain::check::{CheckReport, check_guest},
    error::VirshError,
    text,
};

/// Prints the planned and the found values of each property.
///
/// # Errors
/// [`Failure::Check`] if something differs from the plan; [`Failure::Input`] if there is no such domain or it
/// does not run; [`Failure::Missing`] if libvirt cannot be reached or the process cannot be read.
pub fn run(args: &Args, terminal: Terminal) -> Outcome {
    let plan = args.plan.as_deref().map(load::guest).transpose()?;
    let machine = source::machine(&args.source)?;
    let Some(domain) = &args.domain else {
        return print(args, terminal, &check_guest(plan.as_ref(), &machine));
    };
    let options = CheckOptions { domain, plan, connect: args.connect.as_deref() };
    let DomainCheck { report, unreadable_memory } = check_domain(options, &machine).map_err(advise)?;
    print(args, terminal, &report)?;
    match unreadable_memory {
        Some(pid) => Err(Failure::Missing(format!(
            "the memory of domain '{domain}' (pid {pid}) cannot be read: try again as root"
        ))),
        None => Ok(()),
    }
}

fn print(args: &Args, terminal: Terminal, report: &CheckReport) -> Outcome {
    output::result(args.format, terminal, report, || text::check(report))?;
    let (planned, matching) = report.planned_and_matching();
    match planned - matching {
        0 => Ok(()),
        wrong => {
            Err(Failure::Check(format!("{}: {wrong} of {planned} differ from the plan", report.subject)))
        }
    }
}

/// Adds the option that makes the check possible without libvirt.
fn advise(error: Error) -> Failure {
    match error {
        Error::Virsh(VirshError::NotInstalled(_) | VirshError::Timeout(_)) => {
            Failure::missing(format!("{error}, or give the XML or plan of the domain with --plan"))
        }
        error => error.into(),
    }
}
