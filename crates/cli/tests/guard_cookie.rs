//! An Erlang node is queried with the privileges of its user: nothing that its process names can misuse those
//! of root.

use manycore_testkit::alone;
use rustix::process::geteuid;
use std::{
    fs,
    io::{BufRead, BufReader, ErrorKind},
    net::TcpListener,
    os::unix::{
        fs::{PermissionsExt, chown, symlink},
        process::CommandExt,
    },
    path::Path,
    process::{Child, Command, Stdio},
};
use tempfile::TempDir;

/// User id of the processes that are queried.
const USER: u32 = 65534;

fn is_root() -> bool {
    let is_root = geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED: only root can start a process of another user");
    }
    is_root
}

/// Creates a home directory of [`USER`].
fn home() -> TempDir {
    let home = tempfile::tempdir().unwrap();
    fs::set_permissions(home.path(), fs::Permissions::from_mode(0o755)).unwrap();
    chown(home.path(), Some(USER), Some(USER)).unwrap();
    home
}

/// A process of [`USER`] that was started with the command line of a node.
struct FakeNode(Child);

impl FakeNode {
    fn start(home: &Path, words: &[&str]) -> Self {
        let mut command = Command::new("sh");
        command.args(["-c", "echo ready; read end", "beam.smp"]).args(words);
        command.env_clear().env("HOME", home).env("PATH", "/usr/bin:/bin").uid(USER).gid(USER);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(child)
    }

    /// Returns what `guard why --beam` prints for it, with 2 GiB of address space and within a minute.
    fn why(&self) -> (Option<i32>, String) {
        why(self.0.id())
    }
}

impl Drop for FakeNode {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn why(pid: u32) -> (Option<i32>, String) {
    let state = tempfile::tempdir().unwrap();
    let script = format!(
        "ulimit -v 2097152; exec timeout -k 5 60 {} guard why {pid} --beam",
        env!("CARGO_BIN_EXE_manycore")
    );
    let out = Command::new("sh").args(["-c", &script]).env("MANYCORE_STATE", state.path()).output().unwrap();
    let said = format!("{}{}", String::from_utf8_lossy(&out.stdout), String::from_utf8_lossy(&out.stderr));
    (out.status.code(), said)
}

#[test]
fn a_cookie_that_is_a_link_to_dev_zero_is_not_read() {
    if !is_root() {
        return;
    }
    let home = home();
    symlink("/dev/zero", home.path().join(".erlang.cookie")).unwrap();
    let (code, said) = FakeNode::start(home.path(), &["-sname", "x"]).why();
    assert!(code == Some(2) && said.contains("it is a link, expected a regular file"), "{code:?}: {said}");
}

#[test]
fn a_file_of_root_is_not_read_as_a_cookie() {
    if !is_root() {
        return;
    }
    let (home, other) = (home(), tempfile::tempdir().unwrap());
    let cookie = home.path().join(".erlang.cookie");
    fs::write(&cookie, "SECRET").unwrap();
    let (code, said) = FakeNode::start(home.path(), &["-sname", "x"]).why();
    assert!(
        code == Some(2) && said.contains("belongs to user 0") && !said.contains("SECRET"),
        "{code:?}: {said}"
    );
    fs::set_permissions(&cookie, fs::Permissions::from_mode(0o400)).unwrap();
    let (code, said) = FakeNode::start(home.path(), &["-sname", "x"]).why();
    assert!(code == Some(2) && said.contains("denied"), "{code:?}: {said}");
    // A directory on the path may be a link. The user's own permissions limit what it can reach.
    fs::write(other.path().join(".erlang.cookie"), "SECRET").unwrap();
    fs::set_permissions(other.path(), fs::Permissions::from_mode(0o700)).unwrap();
    let link = home.path().join("link");
    symlink(other.path(), &link).unwrap();
    let (code, said) = FakeNode::start(&link, &["-sname", "x"]).why();
    assert!(code == Some(2) && said.contains("denied") && !said.contains("SECRET"), "{code:?}: {said}");
}

#[test]
fn the_host_in_a_name_leads_to_no_other_epmd() {
    if !is_root() {
        return;
    }
    // The epmd of the other test would listen on all addresses.
    let _alone = alone("epmd").unwrap();
    let epmd = match TcpListener::bind("127.0.0.77:4369") {
        Ok(epmd) => epmd,
        Err(error) => return eprintln!("SKIPPED: no epmd of our own can listen on 127.0.0.77: {error}"),
    };
    epmd.set_nonblocking(true).unwrap();
    let claimant = FakeNode::start(home().path(), &["-name", "x@127.0.0.77", "-setcookie", "ABC"]);
    let (code, said) = claimant.why();
    assert!(code == Some(2) && said.contains("epmd on this machine"), "{code:?}: {said}");
    assert_eq!(epmd.accept().unwrap_err().kind(), ErrorKind::WouldBlock, "epmd has received a connection");
}

#[test]
fn a_node_of_another_user_is_queried_as_that_user() {
    if !is_root() {
        return;
    }
    if ["erl", "erl_call"].iter().any(|name| Command::new(name).arg("-version").output().is_err()) {
        return eprintln!("SKIPPED: erl and erl_call are not installed (erlang-base)");
    }
    let _alone = alone("epmd").unwrap();
    let home = home();
    let cookie = home.path().join(".erlang.cookie");
    fs::write(&cookie, "ABCDEF").unwrap();
    fs::set_permissions(&cookie, fs::Permissions::from_mode(0o400)).unwrap();
    chown(&cookie, Some(USER), Some(USER)).unwrap();
    let name = format!("mc{}", std::process::id());
    let mut erl = Command::new("erl");
    erl.args(["-noshell", "-name", &format!("{name}@127.0.0.1"), "-eval"]);
    erl.arg("register(heavy, spawn(fun() -> X = lists:seq(1, 1000000), receive _ -> X end end)), io:format(\"ready~n\"), io:get_line(\"\"), halt().");
    let path = std::env::var_os("PATH").unwrap();
    erl.env_clear().env("HOME", home.path()).env("PATH", path).current_dir("/").uid(USER).gid(USER);
    let mut erl = erl.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(erl.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    let (code, said) = why(erl.id());
    let own = FakeNode::start(home.path(), &["-sname", &name]).why();
    let _ = erl.kill();
    erl.wait().unwrap();
    assert_eq!(line, "ready\n");
    assert!(code == Some(0) && said.contains(" (heavy): "), "{code:?}: {said}");
    // Its epmd names the port, but another process listens there.
    assert!(own.1.contains("does not listen"), "{own:?}");
}
