//! A server of ssh on a port of this machine, with keys of its own, for tests. The files of the user are not read.

use crate::FreePort;
use manycore_linux::child;
use std::{
    fs, io,
    net::TcpStream,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// Where `sshd` is; it needs an absolute path.
const SERVERS: [&str; 2] = ["/usr/sbin/sshd", "/usr/bin/sshd"];
/// The directory that a server of root needs.
const EMPTY: &str = "/run/sshd";
/// How long the server may take to start.
const START: Duration = Duration::from_mins(1);

/// A server; stopped when the value is dropped.
#[derive(Debug)]
pub struct SshServer {
    server: Child,
    port: FreePort,
    folder: TempDir,
}

impl SshServer {
    /// The name of the server as a host.
    pub const HOST: &str = "load-host";

    /// Starts a server that takes a key of the test. `None` if `sshd`, `ssh` or `ssh-keygen` is missing, and prints that.
    ///
    /// # Errors
    /// It does not start: with the last lines of its log.
    pub fn start() -> io::Result<Option<Self>> {
        let Some(program) = SERVERS.into_iter().find(|path| Path::new(path).exists()) else {
            println!("SKIPPED: sshd is not installed");
            return Ok(None);
        };
        let folder = tempfile::tempdir()?;
        for name in ["host", "user", "stranger"] {
            let mut keygen = Command::new("ssh-keygen");
            keygen.args(["-q", "-t", "ed25519", "-N", "", "-f"]).arg(folder.path().join(name));
            match keygen.status() {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    println!("SKIPPED: ssh-keygen is not installed");
                    return Ok(None);
                }
                status => status?,
            };
        }
        let free = FreePort::find()?;
        let port = free.number();
        let at = folder.path().display();
        fs::copy(folder.path().join("user.pub"), folder.path().join("authorized"))?;
        let key = fs::read_to_string(folder.path().join("host.pub"))?;
        fs::write(folder.path().join("known"), format!("[127.0.0.1]:{port} {key}"))?;
        let lines = format!(
            "Port {port}\nListenAddress 127.0.0.1\nHostKey {at}/host\nAuthorizedKeysFile {at}/authorized\n\
             PidFile none\nUsePAM no\nStrictModes no\nPasswordAuthentication no\n\
             KbdInteractiveAuthentication no\n"
        );
        fs::write(folder.path().join("sshd_config"), lines)?;
        if !Path::new(EMPTY).exists() {
            // Only root can, and needs it.
            let _created = fs::create_dir(EMPTY);
        }
        let mut command = Command::new(program);
        command.args(["-D", "-f"]).arg(folder.path().join("sshd_config"));
        command.arg("-E").arg(folder.path().join("log"));
        let server = child::spawn(command.stdin(Stdio::null()))?;
        let server = Self { server, port: free, folder };
        server.wait()?;
        Ok(Some(server))
    }

    fn wait(&self) -> io::Result<()> {
        let end = Instant::now() + START;
        while TcpStream::connect(self.port.address()).is_err() {
            if Instant::now() > end {
                let log = fs::read_to_string(self.folder.path().join("log"))?;
                return Err(io::Error::other(format!("sshd does not start: {log}")));
            }
            thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Returns the words of an `ssh` that reaches the server as [`Self::HOST`].
    ///
    /// # Errors
    /// Its configuration cannot be written.
    pub fn ssh(&self) -> io::Result<Vec<String>> {
        self.ssh_with("config", "")
    }

    /// Does the same with lines of configuration that have precedence, in a file of this name.
    ///
    /// # Errors
    /// As [`Self::ssh`].
    pub fn ssh_with(&self, name: &str, lines: &str) -> io::Result<Vec<String>> {
        let (at, port, host) = (self.folder.path().display(), self.port(), Self::HOST);
        let own = format!(
            "Host {host}\n{lines}\nHostName 127.0.0.1\nPort {port}\nIdentityFile {at}/user\nIdentitiesOnly yes\n\
             UserKnownHostsFile {at}/known\nGlobalKnownHostsFile /dev/null\n"
        );
        let path = self.path(name);
        fs::write(&path, own)?;
        // These precede the limits of the program, which a busy machine exceeds.
        let patient = ["-oConnectTimeout=60", "-oServerAliveInterval=60"];
        let words = ["ssh", "-F", &path.display().to_string()].map(str::to_owned);
        Ok(words.into_iter().chain(patient.map(str::to_owned)).collect())
    }

    /// Returns the path of a file in its directory: `stranger` is a key that it does not take.
    pub fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Returns the port on which it listens at 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port.number()
    }
}

impl Drop for SshServer {
    fn drop(&mut self) {
        child::kill(&mut self.server);
    }
}
