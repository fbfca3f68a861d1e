//! A cleanup process that removes System V objects which the kernel would keep after our end.

use crate::error::{Error, Result};
use std::{
    io::{Read, stdin},
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
};

/// The load name with which a worker process is started as a cleanup process.
pub const NAME: &str = "guard";

/// A process that waits for our end, even by SIGKILL, and then removes objects of the kernel.
pub struct Guard(Child);

impl Guard {
    /// Starts a cleanup process for `objects`, in the notation of [`manycore_workload::contention::remove`].
    /// Returns `None` if there are none.
    ///
    /// # Errors
    /// [`Error::Unavailable`] where no process can be started.
    pub fn over(objects: &[String]) -> Result<Option<Self>> {
        if objects.is_empty() {
            return Ok(None);
        }
        // In a process group of its own, so that signals of the terminal do not end it together with us.
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

/// The body of the cleanup process.
pub fn stand(objects: &str) {
    // The kernel closes the other end of the pipe when its last holder has ended.
    let _ = stdin().read_to_end(&mut Vec::new());
    for object in objects.split(',') {
        // The object still exists only if its creator could not remove it. The kernel does not reuse its id
        // soon.
        let _ = manycore_workload::contention::remove(object);
    }
}
