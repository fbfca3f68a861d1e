//! `manycore qos show`.

use crate::{
    cli::{Format, QosShow},
    failure::Outcome,
    output,
};
use manycore_qos::{show::show, text};

/// Prints what can be set, and the groups with their limits and readings.
///
/// # Errors
/// [`crate::failure::Failure::Missing`] if resctrl is not mounted, [`crate::failure::Failure::Input`] if there is no
/// such group.
pub fn run(args: &QosShow) -> Outcome {
    let (state, tasks) = show(args.resctrl.resctrl.as_deref(), args.group.as_deref())?;
    match args.format {
        Format::Text => output::print(&text::state(&state, tasks.as_deref())),
        Format::Json => output::print(&output::json(&state)?),
    }
}
