//! One run of manycore on one host.

use super::Work;
use manycore_experiment::interrupt;
use manycore_linux::job::{self, Job};
use manycore_remote::{BatchJobs, Error, RemoteConnection, last_line, write_input};
use std::{
    fs::File,
    io::{self, PipeWriter, Read},
    slice,
    sync::atomic::{AtomicBool, Ordering::Relaxed},
    time::{Duration, Instant},
};

const SCRIPT: &str = include_str!("visit.sh");
/// The line before what manycore sends. Files of the shell may print something, which comes before it. The line behind what it
/// sends has the exit code as well.
const MARK: &str = "manycore-fleet: output";
/// Exit codes of the script for what goes wrong before manycore runs.
const BEFORE: [i32; 2] = [121, 122];
/// Why a run is lost whose job ended.
const TAKEN: &str = "Slurm took the node away: it failed, the job was cancelled, or its time was over";
/// Why a run is lost whose output has no end.
const CUT: &str = "its output was cut off: the host or the connection failed";
/// How often is checked whether a run is to end.
const LOOK: Duration = Duration::from_millis(200);
/// How long a run may take to end and clean up after its input was closed.
const FAREWELL: Duration = Duration::from_secs(15);
/// Bytes of the program that are sent at once.
const CHUNK: usize = 64 << 10;

/// What a run sent back.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reply {
    /// The record, or what manycore printed on standard output.
    pub output: Vec<u8>,
    /// The exit code of manycore.
    pub code: i32,
    /// The last line that it printed on standard error, at most 300 characters.
    pub last_line: String,
    /// How long the run took, in seconds.
    pub seconds: f64,
}

/// Why a run sent nothing back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Failure {
    /// It was interrupted here.
    Interrupted,
    /// The host or the connection failed: another attempt may succeed.
    Lost(String),
    /// The host cannot be reached.
    Unreachable(String),
    /// It took longer than it may.
    TooLong,
    /// It failed there.
    Failed(String),
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        let why = error.to_string();
        match error {
            Error::Lost { .. } => Self::Lost(why),
            Error::Unreachable { why, .. } => Self::Unreachable(why),
            Error::TooLate { .. } => Self::Unreachable(why),
            Error::MissingProgram { .. } | Error::MissingThere { .. } | Error::System { .. } => {
                Self::Failed(why)
            }
        }
    }
}

/// Runs manycore on a host: `copied` is the path of the program there; without it, the program is sent. `is_lost` becomes true
/// when the host has failed, which a connection need not notice.
pub(super) fn visit(
    connection: &RemoteConnection,
    work: &Work,
    copied: Option<&str>,
    is_lost: &AtomicBool,
) -> Result<Reply, Failure> {
    let began = Instant::now();
    let mut program = match copied {
        Some(_) => None,
        None => Some(File::open(&work.program).map_err(|error| unreadable(work, &error))?),
    };
    let size = program.as_ref().map(|file| file.metadata().map(|about| about.len())).transpose();
    let size = size.map_err(|error| unreadable(work, &error))?.unwrap_or(0).to_string();
    let sends = if work.sends_record { "record" } else { "output" };
    let script = ["sh", "-c", SCRIPT, "manycore-fleet", &size, copied.unwrap_or("-"), sends, MARK];
    let own = script.map(str::to_owned);
    let words: Vec<String> = own.into_iter().chain(work.arguments.iter().cloned()).collect();
    let (mut job, mut input) = connection.start(0, &words)?;
    if let Some(file) = &mut program {
        let end = began + work.limit;
        send(file, &mut input, || interrupt::requested() || is_lost.load(Relaxed) || Instant::now() >= end);
    }
    let ended = wait(&mut job, input, began + work.limit, is_lost);
    let reply = read(connection, &job, began);
    match ended {
        // A run that ends by itself at that moment has succeeded.
        Err(failure)
            if reply.as_ref().map_or(true, |reply| reply.code != 0) || failure == Failure::Interrupted =>
        {
            Err(failure)
        }
        _ => reply,
    }
}

/// Copies the program to the node of a job, and runs it there.
pub(super) fn visit_in_job(
    jobs: &BatchJobs,
    work: &Work,
    number: u64,
    node: &str,
    is_lost: &AtomicBool,
) -> Result<Reply, Failure> {
    let directory = jobs.make_directory(number, node)?;
    let there = format!("{directory}/manycore");
    jobs.copy(number, node, &work.program, &there)?;
    let reply = visit(&jobs.connect(number, node), work, Some(&there), is_lost);
    let has_failed = match &reply {
        Ok(reply) => reply.output.is_empty() || reply.code != 0,
        Err(failure) => matches!(failure, Failure::Failed(_)),
    };
    if !has_failed {
        return reply;
    }
    // Slurm ends a run with its job, and the program may be removed by then. Of a node that has just failed Slurm may still say
    // that the job runs there.
    match jobs.holds(number, node, &directory) {
        Ok(true) => reply,
        Ok(false) => Err(Failure::Lost(TAKEN.to_owned())),
        Err(error) => match error.into() {
            Failure::Lost(why) | Failure::Unreachable(why) => Err(Failure::Lost(why)),
            _ => reply,
        },
    }
}

fn unreadable(work: &Work, error: &io::Error) -> Failure {
    Failure::Failed(format!("{}: {error}", work.program.display()))
}

/// Sends the program, until `stops` is true. A host that does not take it says why on its standard error, or reads nothing.
fn send(file: &mut File, input: &mut PipeWriter, stops: impl Fn() -> bool) {
    let mut chunk = vec![0; CHUNK];
    while let Ok(count @ 1..) = file.read(&mut chunk) {
        if !write_input(input, &chunk[..count], &stops) {
            return;
        }
    }
}

/// Waits until the run has ended, or ends it: by closing its input, and the process here if that has no effect.
fn wait(job: &mut Job, input: PipeWriter, end: Instant, is_lost: &AtomicBool) -> Result<(), Failure> {
    let failure = loop {
        if has_ended(job)? {
            return Ok(());
        }
        if interrupt::requested() {
            break Failure::Interrupted;
        }
        if is_lost.load(Relaxed) {
            break Failure::Lost(TAKEN.to_owned());
        }
        if Instant::now() >= end {
            break Failure::TooLong;
        }
    };
    drop(input);
    let end = Instant::now() + FAREWELL;
    while !has_ended(job)? && Instant::now() < end {}
    Err(failure)
}

fn has_ended(job: &mut Job) -> Result<bool, Failure> {
    job::wait(slice::from_mut(job), LOOK, &mut |_| {})
        .map_err(|error| Failure::Failed(format!("cannot wait for a command: {error}")))
}

fn read(connection: &RemoteConnection, job: &Job, began: Instant) -> Result<Reply, Failure> {
    if let Some(error) = connection.failure(job, "sh") {
        return Err(error.into());
    }
    let code = job.ended().and_then(|usage| usage.status.code());
    let code = code.ok_or_else(|| Failure::Lost("the run has not ended".to_owned()))?;
    if BEFORE.contains(&code) {
        return Err(Failure::Failed(last_line(job)));
    }
    if job.output_truncated() {
        return Err(Failure::Failed(format!("it printed more than {} MiB", job::MAX_OUTPUT >> 20)));
    }
    let seconds = began.elapsed().as_secs_f64();
    let (output, code) = match after_mark(job.output()).map_err(Failure::Failed)? {
        None => (Vec::new(), code),
        // srun can exit with 0 although the node or the job has ended, with what came until then.
        Some(sent) => match complete(sent) {
            Some((output, code)) => (output.to_vec(), code),
            None if code == 0 => return Err(Failure::Lost(CUT.to_owned())),
            None => (sent.to_vec(), code),
        },
    };
    Ok(Reply { output, code, last_line: last_line(job), seconds })
}

/// Returns what was sent before the line with the mark and the exit code, and the code; `None` if that line has not arrived.
fn complete(sent: &[u8]) -> Option<(&[u8], i32)> {
    let lines = sent.strip_suffix(b"\n")?;
    let last = lines.iter().rposition(|byte| *byte == b'\n')?;
    let code = str::from_utf8(&lines[last + 1..]).ok()?.strip_prefix(MARK)?.strip_prefix(' ')?;
    Some((&lines[..last], code.parse().ok()?))
}

/// Returns what follows the mark; `None` where a run ended before it began to send.
fn after_mark(output: &[u8]) -> Result<Option<&[u8]>, String> {
    let mark = format!("\n{MARK}\n");
    let begin = output.windows(mark.len()).position(|part| part == mark.as_bytes());
    match begin {
        Some(at) => Ok(Some(&output[at + mark.len()..])),
        None if output.trim_ascii().is_empty() => Ok(None),
        None => {
            let text = String::from_utf8_lossy(output.trim_ascii()).into_owned();
            let first: String = text.lines().next().unwrap_or_default().chars().take(200).collect();
            Err(format!("another program than manycore ran there; it printed: {first}"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;

    #[test]
    fn a_host_that_reads_nothing_does_not_hold_up_the_run() {
        let program = tempfile::NamedTempFile::new().unwrap();
        program.as_file().set_len(1 << 20).unwrap();
        let looks = Cell::new(0);
        let (reader, mut writer) = io::pipe().unwrap();
        send(&mut program.reopen().unwrap(), &mut writer, || {
            looks.set(looks.get() + 1);
            looks.get() > 5
        });
        assert_eq!(looks.get(), 6);
        drop((writer, reader));
    }

    #[test]
    fn what_is_printed_before_the_mark_is_left_out() {
        let after = |text: &'static str| {
            after_mark(text.as_bytes()).map(|rest| rest.map(|rest| str::from_utf8(rest).unwrap()))
        };
        assert_eq!(after("MOTD: welcome\n\nmanycore-fleet: output\n{}\n"), Ok(Some("{}\n")));
        assert_eq!(after("no line end\nmanycore-fleet: output\n"), Ok(Some("")));
        // What manycore prints may contain it.
        assert_eq!(
            after("\nmanycore-fleet: output\na\nmanycore-fleet: output\n"),
            Ok(Some("a\nmanycore-fleet: output\n"))
        );
        assert_eq!(after("\n"), Ok(None));
        let restricted = after("\nThis account is restricted.\nBye\n").unwrap_err();
        assert_eq!(
            restricted,
            "another program than manycore ran there; it printed: This account is restricted."
        );
    }

    /// Regression: srun exited with 0 when a node failed, and half of a record was said to be of another version.
    #[test]
    fn output_without_its_end_was_cut_off() {
        let of = |sent: &'static str| complete(sent.as_bytes());
        assert_eq!(of("{}\n\nmanycore-fleet: output 0\n"), Some((&b"{}\n"[..], 0)));
        assert_eq!(of("no line end\nmanycore-fleet: output 143\n"), Some((&b"no line end"[..], 143)));
        assert_eq!(of("\nmanycore-fleet: output 1\n"), Some((&b""[..], 1)));
        for cut in ["", "{\"a\": ", "{}\n\nmanycore-fleet: output 14", "{}\n\nmanycore-fleet: output\n"] {
            assert_eq!(of(cut), None, "{cut}");
        }
    }

    #[test]
    fn the_script_sends_the_exit_code_behind_all_output() {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        let text = "#!/bin/sh\n[ \"$1\" = --version ] && exit\nprintf abc\nexit 7\n";
        std::fs::write(&program, text).unwrap();
        let words = ["-c", SCRIPT, "manycore-fleet", &text.len().to_string(), "-", "output", MARK];
        let mut sh = std::process::Command::new("sh");
        // It stays open: its end would end the run.
        let (reader, mut writer) = io::pipe().unwrap();
        io::copy(&mut File::open(&program).unwrap(), &mut writer).unwrap();
        let run = sh.args(words).env("TMPDIR", folder.path()).stdin(reader).output().unwrap();
        let sent = after_mark(&run.stdout).unwrap().unwrap();
        assert_eq!((run.status.code(), complete(sent)), (Some(7), Some((&b"abc"[..], 7))));
        drop(writer);
    }

    /// Regression: the signal that ends a run came before the shell that starts the run had reset its traps, and was lost.
    #[test]
    fn a_run_whose_connection_is_lost_as_it_begins_is_ended() {
        const LONG: &str = "#!/bin/sh\n[ \"$1\" = --version ] || exec sleep 600\n";
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("program");
        std::fs::write(&program, LONG).unwrap();
        let start = || {
            let words = ["-c", SCRIPT, "manycore-fleet", &LONG.len().to_string(), "-", "output", MARK];
            let mut sh = std::process::Command::new("sh");
            sh.args(words).env("TMPDIR", folder.path()).stdin(File::open(&program).unwrap());
            sh.stdout(std::process::Stdio::null()).spawn().unwrap()
        };
        // So many at once that a shell waits for a CPU after it was forked.
        let ended: Vec<_> = (0..100).map(|_| start()).collect();
        for mut run in ended {
            assert_eq!(run.wait().unwrap().code(), Some(143));
        }
        assert_eq!(folder.path().read_dir().unwrap().count(), 1, "directories are left");
    }

    #[test]
    fn all_of_a_program_is_sent() {
        let program = tempfile::NamedTempFile::new().unwrap();
        let bytes: Vec<u8> = (0..1_000_003_u32).map(|byte| byte as u8).collect();
        std::fs::write(program.path(), &bytes).unwrap();
        let (mut reader, mut writer) = io::pipe().unwrap();
        let received = std::thread::spawn(move || {
            let mut received = Vec::new();
            reader.read_to_end(&mut received).map(|_| received)
        });
        send(&mut program.reopen().unwrap(), &mut writer, || false);
        drop(writer);
        assert!(received.join().unwrap().unwrap() == bytes);
    }
}
