//! Questions to a guard that runs: a socket on which somebody names a process and gets what would happen to it.

use crate::failure::{Failure, Outcome};
use manycore_host::journal;
use manycore_model::guard::line::Why;
use std::{
    fs,
    io::{self, BufRead, BufReader, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::PathBuf,
    sync::mpsc::{Receiver, SyncSender, sync_channel},
    thread,
    time::Duration,
};

/// Longest wait for an answer.
const PATIENCE: Duration = Duration::from_secs(5);

/// The socket of the guard that runs, or of one that only says what it would do.
fn path(is_dry: bool) -> PathBuf {
    journal::folder().join(if is_dry { "guard-dry-run.sock" } else { "guard.sock" })
}

/// A question with the way back.
pub struct Question {
    /// The process.
    pub pid: u32,
    stream: UnixStream,
}

impl Question {
    /// Answers it.
    pub fn answer(mut self, answers: &[Why]) {
        if let Ok(text) = serde_json::to_string(answers) {
            let _ = writeln!(self.stream, "{text}");
        }
    }
}

/// The socket; it is removed at the end.
pub struct Desk {
    path: PathBuf,
    questions: Receiver<Question>,
}

impl Desk {
    /// Opens the socket.
    ///
    /// # Errors
    /// [`Failure::Missing`] where another guard runs, or the socket cannot be made.
    pub fn open(is_dry: bool) -> Outcome<Self> {
        let path = path(is_dry);
        let failed =
            |error: io::Error| Failure::missing(format!("cannot listen on {}: {error}", path.display()));
        if UnixStream::connect(&path).is_ok() {
            return Err(Failure::missing(format!(
                "a guard runs already (it answers on {}): end it first, or set {} for another one",
                path.display(),
                journal::FOLDER_VARIABLE
            )));
        }
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(failed)?;
        }
        // Of a guard that was killed.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(failed)?;
        let (sender, questions) = sync_channel(8);
        let listen = move || listener.incoming().flatten().for_each(|stream| read(stream, &sender));
        thread::Builder::new().name("questions".to_owned()).spawn(listen).map_err(failed)?;
        Ok(Self { path, questions })
    }

    /// The next question, if there is one.
    pub fn next(&self) -> Option<Question> {
        self.questions.try_recv().ok()
    }
}

impl Drop for Desk {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

fn read(stream: UnixStream, to: &SyncSender<Question>) {
    let _ = stream.set_read_timeout(Some(Duration::from_millis(100)));
    let _ = stream.set_write_timeout(Some(Duration::from_secs(1)));
    let mut line = String::new();
    if BufReader::new((&stream).take(64)).read_line(&mut line).is_ok()
        && let Some(pid) = line.trim().strip_prefix("why ").and_then(|pid| pid.parse().ok())
    {
        let _ = to.try_send(Question { pid, stream });
    }
}

/// Asks the guard that runs; `None` where none does.
///
/// # Errors
/// [`Failure::Missing`] where it does not answer.
pub fn ask(pid: u32) -> Outcome<Option<Vec<Why>>> {
    let Some(mut stream) = [false, true].iter().find_map(|is_dry| UnixStream::connect(path(*is_dry)).ok())
    else {
        return Ok(None);
    };
    let mut asked = || -> io::Result<Vec<Why>> {
        stream.set_read_timeout(Some(PATIENCE))?;
        writeln!(stream, "why {pid}")?;
        let mut line = String::new();
        BufReader::new(&stream).read_line(&mut line)?;
        serde_json::from_str(&line).map_err(io::Error::other)
    };
    let folder = journal::folder();
    asked().map(Some).map_err(|error| {
        Failure::missing(format!("the guard in {} does not answer: {error}", folder.display()))
    })
}
