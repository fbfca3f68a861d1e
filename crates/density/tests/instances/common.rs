//! Services of the tests, and what is looked at.

use manycore_control::cleanup::Program;
use manycore_density::{
    instances::{Safeguard, ServiceSpec},
    template::CommandTemplate,
};
use manycore_testkit::FreePort;
use std::{
    fs,
    path::Path,
    sync::{Mutex, MutexGuard, PoisonError},
    thread,
    time::{Duration, Instant},
};

pub const SERVER: [&str; 6] = ["python3", "-m", "http.server", "--bind", "{address}", "{port}"];

/// A server that starts a process which leaves its process group, its session and its parent.
pub const DAEMON: [&str; 3] = [
    "sh",
    "-c",
    "(setsid sleep 1000 >/dev/null 2>&1 &); exec python3 -m http.server --bind {address} {port}",
];

pub fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

pub fn helper(command: &[&str]) -> CommandTemplate {
    CommandTemplate::helper(words(command)).unwrap()
}

/// A service of the command of these words, on ports that are free and that no other test uses.
pub fn service(command: &[&str], count: u16) -> ServiceSpec {
    let command = CommandTemplate::new(words(command)).unwrap();
    let spec = ServiceSpec::new(command, "127.0.0.1".parse().unwrap(), ports(count));
    // A server starts slowly beside the other tests, also with limits.
    ServiceSpec { ready_limit: Duration::from_mins(3), ..spec }
}

pub fn ports(count: u16) -> u16 {
    FreePort::find_run(count).unwrap()
}

/// Returns when no other test of this process has instances with a journal. Journals are named after the process, and control
/// groups after journals: tests in other processes are no matter.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A journal in this directory, and a cleanup process that does nothing.
pub fn safeguard(journals: &Path) -> Safeguard {
    let cleanup = Program { path: "cat".into(), arguments: Vec::new() };
    Safeguard { journals: journals.to_owned(), cleanup }
}

pub fn journals(folder: &Path) -> usize {
    manycore_control::journal::pending(folder).unwrap().0.len()
}

pub fn state(pid: u32) -> String {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap()[..1].to_owned()
}

pub fn is_alive(pid: u32) -> bool {
    manycore_linux::tasks::is_alive(pid)
}

pub fn until(condition: impl Fn() -> bool) {
    let deadline = Instant::now() + Duration::from_mins(3);
    while !condition() {
        assert!(Instant::now() < deadline, "not within three minutes");
        thread::yield_now();
    }
}

/// Returns a file of the control group of a process, in the hierarchy that has the controller.
pub fn group_file(pid: u32, controller: &str, names: [&str; 2]) -> Option<String> {
    let groups = fs::read_to_string(format!("/proc/{pid}/cgroup")).unwrap();
    groups.lines().find_map(|line| {
        let (controllers, group) = line.split_once(':')?.1.split_once(':')?;
        let folder = match controllers {
            "" => {
                ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(|point| format!("{point}{group}")).to_vec()
            }
            one if one.split(',').any(|one| one == controller) => {
                vec![format!("/sys/fs/cgroup/{one}{group}")]
            }
            _ => return None,
        };
        let files = folder.iter().flat_map(|folder| names.map(|name| format!("{folder}/{name}")));
        files.filter(|path| path.contains("manycore-")).find_map(|path| fs::read_to_string(path).ok())
    })
}

/// Whether a process is stopped, by its control group or by a signal.
pub fn is_paused(pid: u32) -> bool {
    match group_file(pid, "freezer", ["freezer.state", "cgroup.events"]) {
        Some(text) => text.lines().any(|line| ["FROZEN", "frozen 1"].contains(&line)),
        None => state(pid) == "T",
    }
}
