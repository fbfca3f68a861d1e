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

/// In each period, slowed processes are stopped for `STANDS` and run for `RUNS`.
const STANDS: Duration = Duration::from_micros(4500);
const RUNS: Duration = Duration::from_micros(500);

/// Enforces the limits until it is dropped.
pub struct Brake {
    over: Arc<AtomicBool>,
    hand: Option<JoinHandle<()>>,
}

/// The limits of a group on node 0, and its tasks.
struct Seen {
    most: u32,
    least: u32,
    priority: u32,
    tasks: Vec<i32>,
}

impl Brake {
    /// Starts to enforce the limits of the groups below `root`.
    pub fn on(root: &Path) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let (root, told) = (root.to_owned(), Arc::clone(&over));
        let hand = spawn(move || {
            let mut stopped = BTreeSet::new();
            while !told.load(Relaxed) {
                for pid in slowed(&groups(&root)) {
                    signal(pid, libc::SIGSTOP);
                    stopped.insert(pid);
                }
                sleep(STANDS);
                while let Some(pid) = stopped.pop_first() {
                    signal(pid, libc::SIGCONT);
                }
                sleep(RUNS);
            }
        });
        Self { over, hand: Some(hand) }
    }
}

impl Drop for Brake {
    fn drop(&mut self) {
        self.over.store(true, Relaxed);
        self.hand.take().map(JoinHandle::join);
    }
}

#[allow(unsafe_code, reason = "kill(2)")]
fn signal(pid: i32, signal: i32) {
    // SAFETY: kill(2) only takes two numbers.
    unsafe { libc::kill(pid, signal) };
}

fn groups(root: &Path) -> Vec<Seen> {
    let folders = fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    folders
        .filter_map(|folder| {
            let schemata = fs::read_to_string(folder.join("schemata")).ok()?.replace(' ', "");
            let value = |line: &str| {
                let rest = schemata.lines().find_map(|text| text.strip_prefix(&format!("{line}:0=")))?;
                rest.split(';').next()?.parse().ok()
            };
            let tasks = fs::read_to_string(folder.join("tasks")).ok()?;
            Some(Seen {
                most: value("MB")?,
                least: value("MBMIN")?,
                priority: value("MBPRI")?,
                tasks: tasks.lines().filter_map(|tid| tid.parse().ok()).collect(),
            })
        })
        .collect()
}

/// Returns the tasks that have to be slowed down.
fn slowed(groups: &[Seen]) -> Vec<i32> {
    let preferred = |group: &Seen| (group.priority, group.least);
    let best = groups.iter().map(preferred).max();
    let waits = |group: &&Seen| group.most < 50 || Some(preferred(group)) < best;
    groups.iter().filter(waits).flat_map(|group| &group.tasks).copied().collect()
}
