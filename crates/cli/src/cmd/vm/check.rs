//! `manycore vm check`: compares a running domain, or the guest this program runs in, with its plan.

use crate::{
    cli::{Format, VmCheck as Args},
    failure::{Failure, Outcome},
    load, output, source,
};
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
pub fn run(args: &Args) -> Outcome {
    let plan = args.plan.as_deref().map(load::guest).transpose()?;
    let machine = source::machine(&args.source)?;
    let Some(domain) = &args.domain else {
        return print(args, &check_guest(plan.as_ref(), &machine));
    };
    let options = CheckOptions { domain, plan, connect: args.connect.as_deref() };
    let DomainCheck { report, unreadable_memory } = check_domain(options, &machine).map_err(advise)?;
    print(args, &report)?;
    match unreadable_memory {
        Some(pid) => Err(Failure::Missing(format!(
            "the memory of domain '{domain}' (pid {pid}) cannot be read: try again as root"
        ))),
        None => Ok(()),
    }
}

fn print(args: &Args, report: &CheckReport) -> Outcome {
    output::print(&match args.format {
        Format::Text => text::check(report),
        Format::Json => output::json(report)?,
    })?;
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
