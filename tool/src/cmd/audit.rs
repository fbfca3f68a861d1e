//! `manycore audit`: what is wrong with how everything on this machine is pinned.

use crate::{
    cli::{Audit as Args, Format},
    failure::{Failure, Outcome},
    output,
    report::audit_text,
};
use manycore_host::{
    Tree, interrupts,
    processes::{self, Scope},
};
use manycore_model::audit::{self, AUDIT_SCHEMA, Audit, Facts, LookedAt, NotSeen};
use std::{
    path::Path,
    thread,
    time::{Duration, Instant},
};

/// Looks, prints, and ends with code 1 where something was found.
///
/// # Errors
/// [`Failure::Check`] where something was found, [`Failure::Input`] where there is no such process or the machine
/// cannot be read.
pub fn run(args: &Args) -> Outcome {
    let tree = Tree::open(Path::new("/")).map_err(Failure::input)?;
    let scope = Scope { only: args.pid, without: Some(std::process::id()) };
    let audit = look(&tree, scope, args.interval)?;
    match args.format {
        Format::Text => output::print(&audit_text::render(&audit))?,
        Format::Json => {
            let json = serde_json::to_string_pretty(&audit).map_err(Failure::missing)?;
            output::print(&format!("{json}\n"))?;
        }
    }
    match audit.findings.len() {
        0 => Ok(()),
        1 => Err(Failure::Check("1 finding".to_owned())),
        several => Err(Failure::Check(format!("{several} findings"))),
    }
}

/// Looks at a tree twice, an interval apart, and judges what it saw.
///
/// # Errors
/// As [`run`], but for [`Failure::Check`].
pub fn look(tree: &Tree, scope: Scope, interval: Duration) -> Outcome<Audit> {
    let machine = manycore_host::read(tree).map_err(Failure::input)?;
    let Some(survey) = processes::survey(tree, &machine, scope) else {
        let pid = scope.only.unwrap_or_default();
        return Err(Failure::input(format!(
            "there is no process {pid}: --pid takes the id of a living process, as 'ps -e' shows it"
        )));
    };
    let (threads, unseen) = (survey.threads(), survey.unseen);
    let mut processes = survey.processes;
    let began = Instant::now();
    let before = (interrupts::counts(tree), processes::times(tree, &machine.online, &processes));
    thread::sleep(interval.saturating_sub(began.elapsed()));
    let seconds = began.elapsed().as_secs_f64();
    let after = (interrupts::counts(tree), processes::times(tree, &machine.online, &processes));
    processes::settle(&mut processes, &before.1, &after.1, seconds);
    let looked_at = LookedAt { processes: processes.len(), threads, seconds };
    let facts = Facts {
        online: machine.online,
        isolated: machine.isolated,
        nodes: machine.nodes,
        processes,
        interrupts: interrupts::rates(&before.0, &after.0, seconds),
    };
    let unseen = unseen.into_iter().map(|(what, count)| NotSeen { what, count }).collect();
    Ok(Audit { schema: AUDIT_SCHEMA.to_owned(), findings: audit::find(&facts), looked_at, unseen })
}
