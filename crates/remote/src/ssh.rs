//! Master processes of OpenSSH, over whose connections commands run.

use crate::{Error, RemoteHost, Result, end::EndCommand, quote::login_line, run};
use manycore_linux::{
    child::StartPlacement,
    job::{self, Job},
};
use std::{
    cell::RefCell,
    env,
    path::{Path, PathBuf},
    process::Command,
    slice,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Sessions over one connection. Servers allow 10 unless `MaxSessions` says otherwise.
const SESSIONS: usize = 8;
/// How long a handshake may take.
const HANDSHAKE: Duration = Duration::from_secs(30);
/// How often the socket of a master is looked for during the handshake.
const LOOK: Duration = Duration::from_millis(10);
/// Longest path of a directory with sockets. That of a socket has at most 108 bytes, with what ssh adds for a while.
const LONGEST: usize = 60;
/// Options of all calls. They precede those of the user's configuration.
const OPTIONS: [&str; 11] = [
    "-T",
    "-x",
    "-a",
    "-oBatchMode=yes",
    "-oConnectTimeout=10",
    "-oServerAliveInterval=5",
    "-oServerAliveCountMax=3",
    "-oClearAllForwardings=yes",
    "-oPermitLocalCommand=no",
    "-oRemoteCommand=none",
    "-oControlPersist=no",
];

/// The masters of one host, in the order in which they were needed.
#[derive(Debug)]
pub(crate) struct SshMasters {
    /// The words of a call before the destination, without those of the socket.
    ssh: Vec<String>,
    destination: String,
    // Masters end before their sockets are removed.
    masters: RefCell<Vec<Job>>,
    folder: SocketFolder,
}

impl SshMasters {
    pub(crate) fn open(host: &RemoteHost, destination: &str, ssh: &[String]) -> Result<Self> {
        let ssh = ssh.iter().cloned().chain(OPTIONS.map(str::to_owned)).collect();
        let folder = SocketFolder::new()?;
        let masters = Self { ssh, destination: destination.to_owned(), masters: RefCell::default(), folder };
        masters.start(host)?;
        Ok(masters)
    }

    /// Whether a connection has ended. Also reads what the masters have printed: they would wait for that otherwise.
    pub(crate) fn is_lost(&self) -> bool {
        let mut masters = self.masters.borrow_mut();
        let waited = job::wait(&mut masters, Duration::ZERO, &mut |_| {});
        waited.is_err() || masters.iter().any(|master| master.ended().is_some())
    }

    /// Returns the words of a call that runs a command.
    pub(crate) fn words(&self, host: &RemoteHost, session: usize, words: &[String]) -> Result<Vec<String>> {
        // A call over a connection that has ended says so.
        let _ = self.is_lost();
        let master = session / SESSIONS;
        while self.masters.borrow().len() <= master {
            self.start(host)?;
        }
        let line = login_line(words);
        let socket = self.folder.socket(master);
        Ok(self.call(&["-oControlMaster=no", "-S", &socket], &[&line]))
    }

    fn call(&self, options: &[&str], line: &[&str]) -> Vec<String> {
        let own = [options, &["--", &self.destination], line].concat();
        self.ssh.iter().cloned().chain(own.into_iter().map(str::to_owned)).collect()
    }

    /// Starts the next master, and waits until it is connected.
    fn start(&self, host: &RemoteHost) -> Result {
        let socket = self.folder.socket(self.masters.borrow().len());
        let words = self.call(&["-M", "-N", "-S", &socket], &[]);
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        let master = Job::start(&mut command, &StartPlacement::default(), false);
        let mut master = master.map_err(|source| run::of_start(words[0].clone(), host, source))?;
        let began = Instant::now();
        // The master listens when it is authenticated.
        while !Path::new(&socket).exists() {
            job::wait(slice::from_mut(&mut master), LOOK, &mut |_| {})
                .map_err(|source| Error::System { what: "cannot wait for ssh", source })?;
            if master.ended().is_some() {
                let last = run::last_line(&master);
                let why = of_host_key(&master.stderr_tail(), host).unwrap_or(last);
                return Err(Error::Unreachable { host: host.clone(), why });
            }
            if began.elapsed() > HANDSHAKE {
                return Err(Error::TooLate { host: host.clone(), seconds: HANDSHAKE.as_secs() });
            }
        }
        self.masters.borrow_mut().push(master);
        Ok(())
    }
}

/// A private directory, which is removed even if this process is killed.
#[derive(Debug)]
struct SocketFolder {
    _remover: EndCommand,
    folder: TempDir,
}

impl SocketFolder {
    fn new() -> Result<Self> {
        let failed =
            |source| Error::System { what: "cannot create a directory for the sockets of ssh", source };
        let folder = tempfile::Builder::new().prefix("manycore-ssh-").tempdir_in(parent()).map_err(failed)?;
        let remover = EndCommand::start(&["rm", "-rf", "--"], folder.path()).map_err(failed)?;
        Ok(Self { _remover: remover, folder })
    }

    fn socket(&self, index: usize) -> String {
        self.folder.path().join(index.to_string()).display().to_string()
    }
}

/// Returns the directory for temporary files, or `/tmp` where a socket in it would have too long a name, or one that ssh
/// reads in another way.
fn parent() -> PathBuf {
    let is_plain = |path: &Path| {
        path.to_str().is_some_and(|path| {
            path.len() <= LONGEST
                && path.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"/._-".contains(&byte))
        })
    };
    Some(env::temp_dir()).filter(|path| path.is_absolute() && is_plain(path)).unwrap_or_else(|| "/tmp".into())
}

/// Returns what to do if ssh refused the key of a host.
fn of_host_key(said: &str, host: &RemoteHost) -> Option<String> {
    if said.contains("HOST IDENTIFICATION HAS CHANGED") {
        // Debian's ssh prints the whole command.
        let command = said.lines().map(str::trim).find(|line| line.starts_with("ssh-keygen "));
        let command = command.unwrap_or("ssh-keygen -R HOST");
        return Some(format!(
            "its host key has changed: if that is right, remove the old one with: {command}"
        ));
    }
    let is_unknown = said.contains("Host key verification failed");
    is_unknown.then(|| format!("its host key is not known here: 'ssh {host}' asks whether to add it"))
}
