//! Tests of `manycore guard` where other users try to influence it: by names, files, queries and output.

use crate::common::memory_group::Group;
use std::{
    fs,
    io::{BufRead, BufReader, Read},
    os::unix::{
        fs::{PermissionsExt, symlink},
        net::UnixStream,
        process::CommandExt,
    },
    path::{Path, PathBuf},
    process::{Child, Command, Output, Stdio},
    sync::mpsc::{Receiver, channel},
    thread,
    time::{Duration, Instant},
};

/// A user without privileges.
const UNPRIVILEGED_USER: u32 = 65_534;

/// Maximum wait for any condition here.
const MAX_WAIT: Duration = Duration::from_mins(1);

/// A running guard, with a directory of its own that any user can pass through.
struct Guard {
    child: Child,
    state: tempfile::TempDir,
    lines: Receiver<String>,
}

impl Guard {
    fn start(args: &[&str]) -> Self {
        let state = tempfile::tempdir().unwrap();
        fs::set_permissions(state.path(), fs::Permissions::from_mode(0o711)).unwrap();
        let mut command = Command::new(env!("CARGO_BIN_EXE_manycore"));
        command.arg("guard").args(args).env("MANYCORE_STATE", state.path());
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (sender, lines) = channel();
        for stream in [
            Box::new(child.stdout.take().unwrap()) as Box<dyn Read + Send>,
            Box::new(child.stderr.take().unwrap()),
        ] {
            let sender = sender.clone();
            thread::spawn(move || {
                BufReader::new(stream).lines().map_while(Result::ok).for_each(|line| {
                    eprintln!("guard: {line}");
                    let _ = sender.send(line);
                });
            });
        }
        let guard = Self { child, state, lines };
        guard.wait("manycore guard ");
        guard
    }

    /// Returns the next line that contains these words.
    fn wait(&self, words: &str) -> String {
        let end = Instant::now() + MAX_WAIT;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let line = self.lines.recv_timeout(left).unwrap_or_else(|_| panic!("no line with {words:?}"));
            if line.contains(words) {
                return line;
            }
        }
    }

    fn hang_up(&self) {
        let status = Command::new("kill").args(["-HUP", &self.child.id().to_string()]).status();
        assert!(status.unwrap().success());
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A program that ends with the test.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn is_root() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED: only root can start programs of another user");
    }
    is_root
}

/// Runs `manycore`, as another user if one is given.
fn manycore(args: &[&str], state: &Path, user: Option<u32>) -> Output {
    let mut command = Command::new("timeout");
    command.arg("60").arg(env!("CARGO_BIN_EXE_manycore")).args(args).env("MANYCORE_STATE", state);
    if let Some(user) = user {
        command.uid(user).gid(user);
    }
    command.output().unwrap()
}

fn rules(folder: &tempfile::TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("rules.toml");
    fs::write(&path, text).unwrap();
    path
}

#[test]
fn chosen_name_protects_no_process() {
    if !is_root() {
        return;
    }
    if Command::new("python3").arg("--version").output().is_err() {
        eprintln!("SKIPPED: python3 is not installed");
        return;
    }
    let Some(group) = Group::new("immune", 200) else { return };
    let guard = Guard::start(&["--cgroup", &group.path]);
    // Any user can do this: take the name of a protected program.
    let grow = "import os, time\nopen('/proc/self/comm', 'w').write('sshd')\nos.setgid(65534)\nos.setuid(65534)\n\
                x = []\nwhile True:\n x.append(bytearray(1 << 20))\n time.sleep(0.02)";
    let eater = Running(group.start(Path::new("python3"), &["-c", grow]));
    let line = guard.wait("SIG");
    assert!(line.contains(&format!("sshd (pid {}", eater.0.id())), "{line}");
}

#[test]
fn any_user_can_query_the_guard_of_root() {
    if !is_root() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let path = rules(&folder, "[protect]\nnames = [{ name = \"sleep\", user = 65534 }]\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let guard = Guard::start(&["--dry-run", "--rules", path.to_str().unwrap()]);
    let of = |words: &[&str]| {
        let mut command = Command::new(words[0]);
        Running(command.args(&words[1..]).uid(UNPRIVILEGED_USER).gid(UNPRIVILEGED_USER).spawn().unwrap())
    };
    // With hidepid, a user sees only processes of its own.
    let (spared, other) = (of(&["sleep", "600"]), of(&["tail", "-f", "/dev/null"]));
    let why = |pid: u32| {
        let output =
            manycore(&["guard", "why", &pid.to_string()], guard.state.path(), Some(UNPRIVILEGED_USER));
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    };
    let text = why(spared.0.id());
    assert!(text.contains("never ended: protect.names \"sleep (user 65534)\" protects it"), "{text}");
    let text = why(other.0.id());
    assert!(!text.contains("never ended"), "{text}");
    // Clients that send nothing do not block others.
    let socket = guard.state.path().join("guard-dry-run.sock");
    let silent: Vec<UnixStream> = (0..100).map(|_| UnixStream::connect(&socket).unwrap()).collect();
    // Within the time limit of the client.
    why(other.0.id());
    drop(silent);
}

#[test]
fn unreachable_guard_is_an_error() {
    if !is_root() {
        return;
    }
    let state = tempfile::tempdir().unwrap();
    fs::set_permissions(state.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let mut sleeper = Command::new("sleep");
    let sleeper = sleeper.arg("600").uid(UNPRIVILEGED_USER).gid(UNPRIVILEGED_USER).spawn().unwrap();
    let pid = sleeper.id().to_string();
    let _running = Running(sleeper);
    let output = manycore(&["guard", "why", &pid], state.path(), Some(UNPRIVILEGED_USER));
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(3), "{said}");
    assert!(said.contains("cannot query the guard at") && said.contains("try as root"), "{said}");
    assert!(output.stdout.is_empty());
}

#[test]
fn event_file_must_be_a_regular_file_of_this_user() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name);
    fs::write(at("target"), "kept").unwrap();
    symlink(at("target"), at("link")).unwrap();
    assert!(Command::new("mkfifo").arg(at("fifo")).status().unwrap().success());
    for name in ["link", "fifo"] {
        let path = at(name);
        let args = ["guard", "--dry-run", "--events", path.to_str().unwrap()];
        let output = manycore(&args, folder.path(), None);
        let said = String::from_utf8(output.stderr).unwrap();
        assert_eq!(output.status.code(), Some(3), "{name}: {said}");
        assert!(said.contains("a regular file of this user is expected"), "{said}");
    }
    assert_eq!(fs::read_to_string(at("target")).unwrap(), "kept");
}

#[test]
fn events_go_to_a_new_file_after_logrotate() {
    let folder = tempfile::tempdir().unwrap();
    let (events, old) = (folder.path().join("events.jsonl"), folder.path().join("events.jsonl.1"));
    let guard = Guard::start(&["--dry-run", "--events", events.to_str().unwrap()]);
    fs::rename(&events, &old).unwrap();
    let before = fs::read_to_string(&old).unwrap();
    guard.hang_up();
    let end = Instant::now() + MAX_WAIT;
    while !fs::read_to_string(&events).unwrap_or_default().contains("the new rules now apply") {
        assert!(Instant::now() < end, "nothing is written into the new file");
        thread::yield_now();
    }
    assert_eq!(fs::read_to_string(&old).unwrap(), before, "the old file is left unchanged");
}

#[test]
fn rules_that_others_can_write_are_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = rules(&folder, "[machine]\n");
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let path = path.to_str().unwrap();
    let output = manycore(&["guard", "--dry-run", "--rules", path], folder.path(), None);
    let said = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{said}");
    assert!(said.contains("rules.toml: others can write it"), "{said}");
    // They can still be checked.
    let output = manycore(&["guard", "check", path], folder.path(), None);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.contains("note: the guard will refuse this file"), "{text}");
}

#[test]
fn reload_refuses_rules_that_others_can_write() {
    let folder = tempfile::tempdir().unwrap();
    let path = rules(&folder, "[machine]\n");
    let guard = Guard::start(&["--dry-run", "--rules", path.to_str().unwrap()]);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    guard.hang_up();
    let line = guard.wait("the old rules still apply");
    assert!(line.contains("others can write it"), "{line}");
}

#[test]
fn process_name_cannot_control_the_terminal() {
    let folder = tempfile::tempdir().unwrap();
    let script = "command -v sleep";
    let sleep = Command::new("sh").args(["-c", script]).output().unwrap().stdout;
    // Escape, right-to-left override, zero-width space.
    let nasty = folder.path().join("a\u{1b}\u{202e}\u{200b}z");
    symlink(String::from_utf8(sleep).unwrap().trim(), &nasty).unwrap();
    let child = Running(Command::new(&nasty).arg("600").spawn().unwrap());
    let pid = child.0.id().to_string();
    let output = manycore(&["guard", "why", &pid], folder.path(), None);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains(&format!("a\u{fffd}\u{fffd}\u{fffd}z (pid {pid})")), "{text:?}");
    let output = manycore(&["guard", "why", &pid, "--format", "json"], folder.path(), None);
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(text.contains("a\\u001b\\u202e\\u200bz"), "{text:?}");
}

#[test]
fn the_unit_is_hardened() {
    let unit = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../contrib/manycore-guard.service");
    let args = ["security", "--offline=true", "--no-pager", "--threshold=40"];
    let Ok(output) = Command::new("systemd-analyze").args(args).arg(&unit).output() else {
        eprintln!("SKIPPED: systemd-analyze is not installed");
        return;
    };
    let text = String::from_utf8_lossy(&output.stdout);
    if !text.contains("Overall exposure level") {
        eprintln!(
            "SKIPPED: this systemd-analyze cannot read files: {}",
            String::from_utf8_lossy(&output.stderr)
        );
        return;
    }
    assert!(output.status.success(), "{text}");
}
