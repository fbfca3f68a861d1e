//! Moves tasks that enter a control group from elsewhere. The kernel only lets child processes inherit a
//! resctrl group.

use super::{apply::Job, failure};
use crate::{failure::Outcome, output, signals::Signals};
use manycore_linux::targets::Members;
use std::time::Duration;

/// Polling interval. The kernel does not report which tasks enter a control group.
const PERIOD: Duration = Duration::from_millis(200);

/// Keeps all tasks of the target in the group until a signal arrives or the target ends.
///
/// # Errors
/// The kernel refused to move a task that still runs.
pub(super) fn follow(job: &Job, members: &Members, signals: &Signals) -> Outcome {
    output::note(&format!(
        "manycore: new tasks of the target are moved into the group {} until Ctrl-C or the end of the target",
        job.name
    ));
    while is_there(members) {
        job.gather(members).map_err(|refused| failure(&refused))?;
        signals.wait(PERIOD)?;
        if !signals.take().is_empty() {
            break;
        }
    }
    Ok(())
}

/// Whether the target still exists. A control group may be empty for a while; a process that has ended does
/// not return.
fn is_there(members: &Members) -> bool {
    match members {
        Members::Folder(folder) => folder.is_dir(),
        Members::Trees(_) => !members.tasks().is_empty(),
    }
}
