//! `manycore qos show`.

use crate::{cli::QosShow, failure::Outcome, output};
use manycore_qos::{show::show, text};
use manycore_render::terminal::Terminal;

/// Prints what can be set, and the groups with their limits and readings.
///
/// # Errors
/// [`crate::failure::Failure::Missing`] if resctrl is not mounted, [`crate::failure::Failure::Input`] if there is no
/// such group.
pub fn run(args: &QosShow, terminal: Terminal) -> Outcome {
    let (state, tasks) = show(args.resctrl.resctrl.as_deref(), args.group.as_deref())?;
    output::result(args.format, terminal, &state, || text::state(&state, tasks.as_deref(), option_of_line))
}

/// Returns the option of `qos set` that writes a line of `schemata`.
fn option_of_line(line: &str) -> Option<&'static str> {
    Some(match line {
        "L2" | "L2PBM" => "--cache l2=",
        "L3" | "L3PBM" => "--cache l3=",
        "L2CODE" => "--cache l2code=",
        "L3CODE" => "--cache l3code=",
        "L2DATA" => "--cache l2data=",
        "L3DATA" => "--cache l3data=",
        "MB" | "MBMAX" => "--bandwidth",
        "MBMIN" => "--min-bandwidth",
        "MBHDL" => "--hardlimit",
        "MBPRI" => "--priority",
        _ => return None,
    })
}
