//! Commands over a real server of ssh.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test may stop anywhere")]

use manycore_linux::{
    job::{self, Job},
    tasks,
};
use manycore_remote::{Error, RemoteConnection, RemoteHost, supervised};
use manycore_testkit::ssh_server::SshServer;
use std::{
    env, fs,
    io::{BufRead, BufReader, PipeWriter},
    process::{Command, Stdio},
    thread,
    time::{Duration, Instant},
};

const LIMIT: Duration = Duration::from_mins(1);
/// The words of `ssh` for the program that is killed.
const SSH: &str = "MANYCORE_REMOTE_TEST_SSH";
/// The time for which its command sleeps.
const SECONDS: &str = "MANYCORE_REMOTE_TEST_SECONDS";

/// A word that shells change unless it is protected.
const HOSTILE: &str = "'; echo \"$HOME\" `id` \\ * !! ! %\n-x";

fn host() -> RemoteHost {
    SshServer::HOST.parse().unwrap()
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|&word| word.to_owned()).collect()
}

/// Returns a long time that only this run of the tests sleeps for.
fn seconds(test: u32) -> String {
    format!("{}.{}", 60_000 + test, std::process::id())
}

fn until(what: &str, condition: impl Fn() -> bool) {
    let end = Instant::now() + LIMIT;
    while !condition() {
        assert!(Instant::now() < end, "{what}");
        thread::sleep(Duration::from_millis(2));
    }
}

/// Returns the processes with a word in their command line.
fn with(word: &str) -> Vec<u32> {
    let has = |pid: &u32| {
        let line = fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).split('\0').any(|one| one == word)
    };
    tasks::all().into_iter().filter(has).collect()
}

/// Waits until commands run: each with its child and the shell that waits for the end of its input. A process that is about to
/// execute another program has no command line for a moment.
fn until_run(commands: usize, seconds: &str) {
    until("a command does not run", || with(seconds).len() == 3 * commands);
}

/// Starts a supervised command that prints a line, and returns it after the line.
fn start(connection: &RemoteConnection, session: usize, seconds: &str) -> (Job, PipeWriter) {
    let script = "sleep \"$1\" & echo started; wait";
    let command = supervised(&words(&["sh", "-c", script, "sh", seconds]));
    let (job, input) = connection.start(session, &command).unwrap();
    let mut jobs = [job];
    while jobs[0].output() != b"started\n" {
        assert!(!job::wait(&mut jobs, LIMIT, &mut |_| {}).unwrap(), "{}", jobs[0].stderr_tail());
    }
    let [job] = jobs;
    (job, input)
}

#[test]
fn commands_are_the_words_that_were_given() {
    let Some(server) = SshServer::start().unwrap() else { return };
    let connection = RemoteConnection::open(&host(), &server.ssh().unwrap()).unwrap();
    let output = connection.output(&words(&["printf", "%s|", "a b", HOSTILE, ""]), LIMIT).unwrap();
    assert_eq!(output.stdout, format!("a b|{HOSTILE}||"));
    let failed = connection.output(&words(&["sh", "-c", "echo why >&2; exit 3"]), LIMIT).unwrap();
    assert_eq!((failed.succeeded, failed.last_line.as_str()), (false, "why"));
    // ssh itself exits with 255 then, as if the connection had ended.
    let killed = connection.output(&words(&["sh", "-c", "kill -KILL $$"]), LIMIT).unwrap();
    assert!(!killed.succeeded, "{killed:?}");
    let missing = connection.output(&words(&["no-such-program", "x"]), LIMIT).unwrap_err();
    assert!(
        matches!(&missing, Error::MissingThere { program, .. } if program == "no-such-program"),
        "{missing}"
    );
    let late = connection.output(&words(&["sleep", &seconds(0)]), Duration::from_millis(300)).unwrap_err();
    assert!(matches!(late, Error::TooLate { .. }), "{late}");
    until("a late command is left", || with(&seconds(0)).is_empty());
}

/// Regression: a user whose login shell is csh could not run scripts, which have several lines.
#[test]
fn csh_as_the_login_shell_runs_the_same_commands() {
    let Some(csh) = ["/usr/bin/tcsh", "/bin/tcsh"].into_iter().find(|path| fs::exists(path).unwrap()) else {
        println!("SKIPPED: tcsh is not installed");
        return;
    };
    let Some(server) = SshServer::start().unwrap() else { return };
    // The server passes the line to this shell, as it does to the one that the user has in /etc/passwd.
    let key = fs::read_to_string(server.path("user.pub")).unwrap();
    let through = format!(r#"command="exec {csh} -f -c \"$SSH_ORIGINAL_COMMAND\"" {key}"#);
    fs::write(server.path("authorized"), through).unwrap();
    let connection = RemoteConnection::open(&host(), &server.ssh().unwrap()).unwrap();
    let script = "echo begins\nprintf '%s|' \"$@\"";
    let output = connection.output(&words(&["sh", "-c", script, "sh", "a b", HOSTILE, ""]), LIMIT).unwrap();
    assert_eq!(output.stdout, format!("begins\na b|{HOSTILE}||"), "{output:?}");
    let failed = connection.output(&words(&["sh", "-c", "echo why >&2; exit 3"]), LIMIT).unwrap();
    assert_eq!((failed.succeeded, failed.last_line.as_str()), (false, "why"));
}

/// A server takes 10 sessions over one connection.
#[test]
fn many_commands_run_at_once_and_end_with_their_input() {
    let Some(server) = SshServer::start().unwrap() else { return };
    let connection = RemoteConnection::open(&host(), &server.ssh().unwrap()).unwrap();
    let seconds = &seconds(1);
    let running = (0..20).map(|session| start(&connection, session, seconds));
    let (mut jobs, inputs): (Vec<_>, Vec<_>) = running.unzip();
    until_run(20, seconds);
    drop(inputs);
    while !job::wait(&mut jobs, LIMIT, &mut |_| {}).unwrap() {}
    until("commands are left", || with(seconds).is_empty());
}

#[test]
fn the_last_line_of_ssh_says_why_a_host_cannot_be_reached() {
    let Some(server) = SshServer::start().unwrap() else { return };
    let said = |ssh: &[String]| match RemoteConnection::open(&host(), ssh).unwrap_err() {
        Error::Unreachable { why, .. } => why,
        error => panic!("{error}"),
    };
    let stranger = format!("IdentityFile {}", server.path("stranger").display());
    let only = format!("{stranger}\nCertificateFile none");
    let refused = server.ssh_with("refused", &only).unwrap();
    fs::remove_file(server.path("user")).unwrap();
    assert!(said(&refused).contains("Permission denied (publickey)"), "{}", said(&refused));
    let key = fs::read_to_string(server.path("stranger.pub")).unwrap();
    fs::write(server.path("changed"), format!("[127.0.0.1]:{} {key}", server.port())).unwrap();
    let known = format!("UserKnownHostsFile {}", server.path("changed").display());
    let changed = said(&server.ssh_with("other-key", &known).unwrap());
    assert!(changed.starts_with("its host key has changed"), "{changed}");
    let unknown = said(&server.ssh_with("unknown-key", "UserKnownHostsFile /dev/null").unwrap());
    assert!(unknown.starts_with("its host key is not known here: 'ssh load-host'"), "{unknown}");
    let ssh = server.ssh_with("closed", "Port 1").unwrap();
    assert!(said(&ssh).contains("Connection refused"), "{}", said(&ssh));
    let missing = RemoteConnection::open(&host(), &words(&["no-such-ssh"])).unwrap_err();
    assert_eq!(missing.to_string(), "no-such-ssh is not installed here, and is needed to reach load-host");
}

/// Not a test: a program with a connection and a command, which is killed.
#[test]
#[ignore = "another test starts it"]
fn a_program_with_a_command() {
    let Ok(ssh) = env::var(SSH) else { return };
    let ssh: Vec<String> = ssh.split(' ').map(str::to_owned).collect();
    let connection = RemoteConnection::open(&host(), &ssh).unwrap();
    let (job, _input) = start(&connection, 0, &env::var(SECONDS).unwrap());
    let mut jobs = [job];
    println!("@ ready");
    while !job::wait(&mut jobs, LIMIT, &mut |_| {}).unwrap() {}
}

/// Neither a command there nor a process or a file here is left.
#[test]
fn nothing_is_left_after_sigkill() {
    let Some(server) = SshServer::start().unwrap() else { return };
    let folder = tempfile::tempdir().unwrap();
    let mut program = Command::new(env::current_exe().unwrap());
    program.args(["--ignored", "--exact", "a_program_with_a_command", "--nocapture"]);
    let seconds = &seconds(2);
    program.env(SECONDS, seconds).env(SSH, server.ssh().unwrap().join(" ")).env("TMPDIR", folder.path());
    let mut program = program.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(program.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().ends_with("@ ready")));
    until_run(1, seconds);
    let files = || fs::read_dir(folder.path()).unwrap().count();
    assert_eq!(files(), 1, "the sockets are in a directory for temporary files");
    program.kill().unwrap();
    program.wait().unwrap();
    until("a command is left there", || with(seconds).is_empty());
    until("a directory is left here", || files() == 0);
    let config = server.path("config").display().to_string();
    until("a process of ssh is left here", || with(&config).is_empty());
}
