//! One who removes what the kernel would keep after us, should we be killed.

use crate::error::{Error, Result};
use std::{
    io::{Read, stdin},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

/// The name by which the process is told what it is.
pub const NAME: &str = "guard";

/// A process that waits for our end, however it comes, and then removes objects of the kernel.
pub struct Guard(Child);

impl Guard {
    /// A guard over objects as [`manycore_workload::contention::remove`] takes them; none for none.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where no process can be started.
    pub fn over(objects: &[String]) -> Result<Option<Self>> {
        if objects.is_empty() {
            return Ok(None);
        }
        // In a group of its own, so that no signal of a terminal ends it with us.
        let child = Command::new("/proc/self/exe")
            .args(["worker", NAME, "0", &objects.join(",")])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn();
        child.map(|child| Some(Self(child))).map_err(|error| {
            Error::unavailable(format!("cannot start a process that cleans up after us: {error}"))
        })
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        let _ = self.0.wait();
    }
}

/// What that process does.
pub fn stand(objects: &str) {
    // The kernel closes the other end when its last holder is gone.
    let _ = stdin().read_to_end(&mut Vec::new());
    for object in objects.split(',') {
        // It is there only where its maker could not remove it; ids are not given again soon.
        let _ = manycore_workload::contention::remove(object);
    }
}
