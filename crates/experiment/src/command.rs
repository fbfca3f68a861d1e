//! Runs programs to their end and captures their output.

use crate::{
    error::{Error, Result},
    interrupt,
};
use manycore_linux::child;
use std::{
    io::Read,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

/// Maximum pause between two checks of whether the program has ended. The first pauses are shorter.
const POLL_INTERVAL: Duration = Duration::from_millis(20);

/// The output and the wall time of a program.
#[derive(Clone, Debug)]
pub struct CommandOutput {
    /// Everything that it wrote to standard output.
    pub stdout: String,
    /// Everything that it wrote to standard error.
    pub stderr: String,
    /// Wall time from start to end.
    pub wall: Duration,
}

/// Runs `command` to its end and captures its output.
///
/// # Errors
/// [`Error::Unavailable`] if it cannot be started. [`Error::Failed`] with the last line of its standard error if
/// it fails. [`Error::Interrupted`] after a signal; the program is then killed with all its children.
pub fn run(command: &mut Command) -> Result<CommandOutput> {
    let name = command.get_program().to_string_lossy().into_owned();
    let began = Instant::now();
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child =
        child::spawn(command).map_err(|error| Error::unavailable(format!("cannot start {name}: {error}")))?;
    let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
    let stdout = std::thread::spawn(move || read(stdout));
    let stderr = std::thread::spawn(move || read(stderr));
    let status = wait(&mut child)?;
    let wall = began.elapsed();
    let stdout = stdout.join().unwrap_or_default();
    let stderr = stderr.join().unwrap_or_default();
    if status.success() {
        return Ok(CommandOutput { stdout, stderr, wall });
    }
    let last = stderr.lines().rfind(|line| !line.trim().is_empty()).unwrap_or("no message on standard error");
    Err(Error::Failed(format!("{name} failed ({status}): {last}")))
}

fn wait(child: &mut Child) -> Result<std::process::ExitStatus> {
    let mut pause = Duration::from_micros(200);
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return Ok(status),
            Ok(None) => {}
            Err(error) => return Err(Error::unavailable(format!("cannot wait for a program: {error}"))),
        }
        if let Err(failure) = interrupt::check() {
            child::kill(child);
            return Err(failure);
        }
        std::thread::sleep(pause);
        pause = (pause * 2).min(POLL_INTERVAL);
    }
}

fn read(pipe: Option<impl Read>) -> String {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        let _ = pipe.read_to_end(&mut bytes);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn output_is_kept_and_failures_carry_the_last_line() {
        assert_eq!(run(Command::new("echo").arg("hello")).unwrap().stdout, "hello\n");
        let failed = run(Command::new("sh").args(["-c", "echo first >&2; echo boom >&2; exit 3"]));
        let Err(Error::Failed(message)) = failed else { panic!("it did not fail") };
        assert_eq!(message, "sh failed (exit status: 3): boom");
        assert!(matches!(run(&mut Command::new("/nonexistent/program")), Err(Error::Unavailable(_))));
    }
}
