//! `manycore qos show`.

use super::{files, ours, system};
use crate::{
    cli::{Format, QosShow},
    failure::{Failure, Outcome},
    output,
};
use manycore_linux::resctrl::state::Group;
use manycore_qos::text;
use manycore_text::names;

/// Prints what can be set, and the groups with their limits and readings.
///
/// # Errors
/// [`Failure::Missing`] if resctrl is not mounted, [`Failure::Input`] if there is no such group.
pub fn run(args: &QosShow) -> Outcome {
    let files = files(&system()?, &args.resctrl)?;
    let mut state = files.state(&ours());
    let mut tasks = None;
    if let Some(name) = &args.group {
        let Some(group) = state.group(name).cloned() else {
            let there = names::instead(state.groups.iter().map(Group::title), name);
            return Err(Failure::input(format!("there is no group {name:?}; {there}")));
        };
        tasks = Some(files.tasks(&group.name));
        state.groups = vec![group];
    }
    match args.format {
        Format::Text => output::print(&text::state(&state, tasks.as_deref())),
        Format::Json => output::print(&output::json(&state)?),
    }
}
