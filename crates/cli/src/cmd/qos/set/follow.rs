//! Moving what enters a control group from elsewhere: the kernel lets only children inherit.

use super::{apply::Job, failure};
use crate::{failure::Outcome, output, signals::Signals};
use manycore_linux::targets::Members;
use std::time::Duration;

/// How often it is looked; nobody tells who enters a control group.
const PERIOD: Duration = Duration::from_millis(200);

/// Looks after the group until a signal comes or the target is gone.
///
/// # Errors
/// The kernel refuses a task that has not ended.
pub(super) fn follow(job: &Job, members: &Members, signals: &Signals) -> Outcome {
    output::note(&format!(
        "manycore: the group {} is looked after until Ctrl-C or the end of its target",
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

/// A control group may be empty for a while; a process that has ended does not come back.
fn is_there(members: &Members) -> bool {
    match members {
        Members::Folder(folder) => folder.is_dir(),
        Members::Trees(_) => !members.tasks().is_empty(),
    }
}
