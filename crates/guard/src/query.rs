//! Queries to a running guard: a socket to which a client sends a process id, and from which it gets what
//! would happen to the process.

use crate::decision::event_line::ProcessOutlook;
use crate::error::{Error, Result};
use manycore_control::journal;
use manycore_linux::wake_channel::{Sender, WakeUp, channel};
use rustix::{
    event::{PollFd, PollFlags, poll},
    net::sockopt::socket_peercred,
    process::geteuid,
};
use std::{
    collections::VecDeque,
    fs::{self, Permissions},
    io::{self, BufRead, BufReader, ErrorKind, Read, Write},
    os::unix::{
        fs::PermissionsExt,
        net::{UnixListener, UnixStream},
    },
    path::{Path, PathBuf},
    sync::mpsc::Receiver,
    thread,
    time::Duration,
};

/// Longest wait for an answer.
const TIMEOUT: Duration = Duration::from_secs(5);

/// Longest query in bytes.
const MAX_QUERY_BYTES: usize = 64;

/// Number of queries that may wait for an answer, for each class of users.
const QUEUE: usize = 8;

/// Number of clients that have not sent a query yet.
const MAX_CLIENTS: usize = 16;

/// Pause after an error of `accept(2)`.
const PAUSE: Duration = Duration::from_millis(100);

/// Longest time for writing an answer.
const WRITE_TIMEOUT: Duration = Duration::from_millis(200);

/// Longest answer that is read, in bytes.
const MAX_ANSWER_BYTES: u64 = 1 << 20;

/// Returns the socket of the running guard, or of a dry run.
fn path(folder: &Path, is_dry: bool) -> PathBuf {
    folder.join(if is_dry { "guard-dry-run.sock" } else { "guard.sock" })
}

/// A query with the connection to its client.
pub struct Query {
    /// The process.
    pub pid: u32,
    stream: UnixStream,
}

impl Query {
    /// Sends the answer.
    pub fn answer(mut self, answers: &[ProcessOutlook]) {
        if let Ok(text) = serde_json::to_string(answers) {
            let _ = writeln!(self.stream, "{text}");
        }
    }
}

/// The socket. It is removed on drop.
pub struct QuerySocket {
    path: PathBuf,
    /// Queries of root and the guard's own user, and queries of others.
    queries: [Receiver<Query>; 2],
}

impl QuerySocket {
    /// Opens the socket. Each query wakes the thread that takes it.
    ///
    /// # Errors
    /// [`Error::AlreadyRunning`]; [`Error::System`] if the socket cannot be created.
    pub fn open(is_dry: bool, wake_up: &WakeUp) -> Result<Self> {
        let folder = journal::folder();
        let path = path(&folder, is_dry);
        let failed = |error: io::Error| Error::system(format!("cannot listen on {}", path.display()))(error);
        if UnixStream::connect(&path).is_ok() {
            return Err(Error::AlreadyRunning(path));
        }
        journal::make_folder(&folder).map_err(failed)?;
        if folder == Path::new(journal::ROOTS_FOLDER) {
            // An older version created it for root only. The journals in it can be read only by root anyway.
            fs::set_permissions(&folder, Permissions::from_mode(0o711)).map_err(failed)?;
        }
        // It was left by a guard that was killed.
        let _ = fs::remove_file(&path);
        let listener = UnixListener::bind(&path).map_err(failed)?;
        // Any user may send queries: the answer contains what `ps` shows of all processes.
        fs::set_permissions(&path, Permissions::from_mode(0o666)).map_err(failed)?;
        listener.set_nonblocking(true).map_err(failed)?;
        let (first, of_ours) = channel(QUEUE, wake_up);
        let (then, of_others) = channel(QUEUE, wake_up);
        let listen = move || listen(&listener, &[first, then]);
        thread::Builder::new().name("queries".to_owned()).spawn(listen).map_err(failed)?;
        Ok(Self { path, queries: [of_ours, of_others] })
    }

    /// Returns the next query, if there is one. Queries of other users come last, however many there are.
    pub fn next(&self) -> Option<Query> {
        self.queries.iter().find_map(|queries| queries.try_recv().ok())
    }
}

impl Drop for QuerySocket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}

/// A client that has not sent its query yet, with the bytes read so far.
struct Client {
    stream: UnixStream,
    line: Vec<u8>,
}

/// Accepts queries. Clients that send nothing may wait, but beyond [`MAX_CLIENTS`] the oldest is
/// disconnected.
fn listen(listener: &UnixListener, to: &[Sender<Query>; 2]) {
    let mut clients: VecDeque<Client> = VecDeque::new();
    loop {
        let mut waits = vec![PollFd::new(listener, PollFlags::IN)];
        waits.extend(clients.iter().map(|client| PollFd::new(&client.stream, PollFlags::IN)));
        // The thread runs until the process exits.
        let _ = poll(&mut waits, None);
        drop(waits);
        match listener.accept() {
            Ok((stream, _)) if stream.set_nonblocking(true).is_ok() => {
                clients.push_back(Client { stream, line: Vec::new() });
            }
            Err(error) if error.kind() != ErrorKind::WouldBlock => thread::sleep(PAUSE),
            _ => {}
        }
        clients = clients.into_iter().filter_map(|client| read_query(client, to)).collect();
        if clients.len() > MAX_CLIENTS {
            clients.pop_front();
        }
    }
}

/// Reads from a client. Returns the client if its query is incomplete.
fn read_query(mut client: Client, to: &[Sender<Query>; 2]) -> Option<Client> {
    let mut buffer = [0; MAX_QUERY_BYTES];
    match (&client.stream).read(&mut buffer) {
        Err(error) if error.kind() == ErrorKind::WouldBlock => return Some(client),
        Ok(length) if length > 0 => client.line.extend_from_slice(&buffer[..length]),
        _ => return None,
    }
    if !client.line.ends_with(b"\n") {
        return (client.line.len() < MAX_QUERY_BYTES).then_some(client);
    }
    let Client { stream, line } = client;
    let line = String::from_utf8(line).ok()?;
    let pid = line.trim().strip_prefix("why ")?.parse().ok()?;
    let user = socket_peercred(&stream).ok()?.uid;
    let is_ours = user.is_root() || user == geteuid();
    stream.set_nonblocking(false).and_then(|()| stream.set_write_timeout(Some(WRITE_TIMEOUT))).ok()?;
    to[usize::from(!is_ours)].try_send(Query { pid, stream });
    None
}

/// Queries the running guard, root's before one of our own user. `None` if no guard runs. Returns the answers,
/// and whether the guard is a dry run.
///
/// # Errors
/// [`Error::Unanswered`] if a guard does not answer or cannot be queried.
pub fn query(pid: u32) -> Result<Option<(Vec<ProcessOutlook>, bool)>> {
    let own = journal::folder();
    let is_elsewhere = std::env::var_os(journal::FOLDER_VARIABLE).is_some_and(|folder| !folder.is_empty());
    let roots = PathBuf::from(journal::ROOTS_FOLDER);
    let mut folders = if is_elsewhere { Vec::new() } else { vec![roots] };
    folders.retain(|folder| *folder != own);
    folders.push(own);
    for is_dry in [false, true] {
        for folder in &folders {
            if let Some(answers) = query_at(&path(folder, is_dry), pid)? {
                return Ok(Some((answers, is_dry)));
            }
        }
    }
    Ok(None)
}

fn query_at(path: &Path, pid: u32) -> Result<Option<Vec<ProcessOutlook>>> {
    let place = path.display();
    let stream = match UnixStream::connect(path) {
        Ok(stream) => stream,
        // The answer of this guard is unknown then. An assessment by other rules would be no substitute.
        Err(error) if error.kind() == ErrorKind::PermissionDenied => {
            return Err(Error::Unanswered(format!(
                "cannot query the guard at {place}, if one runs there: {error}; try as root"
            )));
        }
        Err(_) => return Ok(None),
    };
    let ask = || -> io::Result<Vec<ProcessOutlook>> {
        let peer = socket_peercred(&stream)?.uid;
        if !peer.is_root() && peer != geteuid() {
            return Err(io::Error::other(format!("the listening process belongs to user {}", peer.as_raw())));
        }
        stream.set_read_timeout(Some(TIMEOUT))?;
        (&stream).write_all(format!("why {pid}\n").as_bytes())?;
        let mut line = String::new();
        BufReader::new((&stream).take(MAX_ANSWER_BYTES)).read_line(&mut line)?;
        serde_json::from_str(&line).map_err(io::Error::other)
    };
    ask()
        .map(Some)
        .map_err(|error| Error::Unanswered(format!("the guard at {place} does not answer: {error}")))
}
