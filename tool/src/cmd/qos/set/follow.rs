//! Moving what enters a control group from elsewhere: the kernel lets only children inherit.

use super::{apply::Job, failure};
use crate::{
    failure::{Failure, Outcome},
    output,
    signals::Signals,
};
use manycore_host::targets::Members;
use rustix::{
    event::{PollFd, PollFlags, Timespec, poll},
    io::Errno,
};

/// How often it is looked; nobody tells who enters a control group.
const PERIOD: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };

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
        let mut bell = [PollFd::from_borrowed_fd(signals.descriptor(), PollFlags::IN)];
        match poll(&mut bell, Some(&PERIOD)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(Failure::missing(format!("cannot wait: {error}"))),
        }
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
