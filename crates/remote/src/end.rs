//! Commands that run at the end of this process.

use manycore_linux::child::{self, StartPlacement};
use std::{
    ffi::OsStr,
    io,
    os::unix::process::CommandExt,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// How long a command may take.
const LIMIT: Duration = Duration::from_secs(10);

/// A shell that runs a command when its standard input is closed: when this is dropped, or this process is killed.
#[derive(Debug)]
pub(crate) struct EndCommand {
    shell: Child,
}

impl EndCommand {
    /// Starts the shell for a command of these words, and one more.
    pub(crate) fn start(words: &[&str], last: impl AsRef<OsStr>) -> io::Result<Self> {
        let mut shell = Command::new("sh");
        shell.args(["-c", "read -r _; exec \"$@\"", "sh"]).args(words).arg(last).process_group(0);
        shell.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self { shell: child::spawn_detached(&mut shell, &StartPlacement::default())? })
    }
}

impl Drop for EndCommand {
    fn drop(&mut self) {
        drop(self.shell.stdin.take());
        if !matches!(child::wait_until(&mut self.shell, Instant::now() + LIMIT), Ok(Some(_))) {
            child::kill(&mut self.shell);
        }
    }
}
