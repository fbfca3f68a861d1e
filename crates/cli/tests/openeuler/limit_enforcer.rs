//! Imitates hardware that enforces the limits of groups by stopping processes: a process with less than half
//! of the bandwidth, or with a lower priority than another one, is stopped for most of the time.

use std::{
    collections::BTreeSet,
    fs,
    path::Path,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    thread::{JoinHandle, sleep, spawn},
    time::Duration,
};

/// In each period, slowed processes are stopped for `STOPPED` and run for `RUNNING`.
const STOPPED: Duration = Duration::from_micros(4500);
const RUNNING: Duration = Duration::from_micros(500);

/// Enforces the limits until it is dropped.
pub struct LimitEnforcer {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The limits of a group on node 0, and its tasks.
struct GroupLimits {
    maximum: u32,
    minimum: u32,
    priority: u32,
    tasks: Vec<i32>,
}

impl LimitEnforcer {
    /// Starts to enforce the limits of the groups below `root`.
    pub fn on(root: &Path) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let (root, must_stop) = (root.to_owned(), Arc::clone(&stop));
        let thread = spawn(move || {
            let mut stopped = BTreeSet::new();
            while !must_stop.load(Relaxed) {
                for pid in slowed(&groups(&root)) {
                    signal(pid, libc::SIGSTOP);
                    stopped.insert(pid);
                }
                sleep(STOPPED);
                while let Some(pid) = stopped.pop_first() {
                    signal(pid, libc::SIGCONT);
                }
                sleep(RUNNING);
            }
        });
        Self { stop, thread: Some(thread) }
    }
}

impl Drop for LimitEnforcer {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        self.thread.take().map(JoinHandle::join);
    }
}

#[allow(unsafe_code, reason = "kill(2)")]
fn signal(pid: i32, signal: i32) {
    // SAFETY: kill(2) only takes two numbers.
    unsafe { libc::kill(pid, signal) };
}

fn groups(root: &Path) -> Vec<GroupLimits> {
    let folders = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    folders
        .filter_map(|folder| {
            let schemata = fs::read_to_string(folder.join("schemata")).ok()?.replace(' ', "");
            let value = |line: &str| {
                let rest = schemata.lines().find_map(|text| text.strip_prefix(&format!("{line}:0=")))?;
                rest.split(';').next()?.parse().ok()
            };
            let tasks = fs::read_to_string(folder.join("tasks")).ok()?;
            Some(GroupLimits {
                maximum: value("MB")?,
                minimum: value("MBMIN")?,
                priority: value("MBPRI")?,
                tasks: tasks.lines().filter_map(|tid| tid.parse().ok()).collect(),
            })
        })
        .collect()
}

/// Returns the tasks that have to be slowed down.
fn slowed(groups: &[GroupLimits]) -> Vec<i32> {
    let preferred = |group: &GroupLimits| (group.priority, group.minimum);
    let best = groups.iter().map(preferred).max();
    let waits = |group: &&GroupLimits| group.maximum < 50 || Some(preferred(group)) < best;
    groups.iter().filter(waits).flat_map(|group| &group.tasks).copied().collect()
}
