//! Processes and their threads, as `/proc` shows them. What has vanished meanwhile is no error: it is not
//! there.

use std::{
    collections::BTreeSet,
    fs::{self, File},
    os::unix::fs::FileExt,
    path::Path,
};

/// Children of process `pid`, ascending.
///
/// From `/proc/PID/task/TID/children` (`CONFIG_PROC_CHILDREN`), or from every process's parent where the kernel
/// has no such file.
pub fn children(pid: u32) -> Vec<u32> {
    let listed: Option<Vec<String>> = threads(pid)
        .into_iter()
        .map(|tid| fs::read_to_string(format!("/proc/{pid}/task/{tid}/children")).ok())
        .collect();
    let mut children: Vec<u32> = match listed {
        Some(lists) => {
            lists.iter().flat_map(|list| list.split_whitespace()).filter_map(|pid| pid.parse().ok()).collect()
        }
        None => all().into_iter().filter(|&other| parent(other) == Some(pid)).collect(),
    };
    children.sort_unstable();
    children
}

/// Threads of process `pid`, ascending; none where it is gone.
pub fn threads(pid: u32) -> Vec<u32> {
    numbers(Path::new(&format!("/proc/{pid}/task")))
}

/// `roots` and all below them.
pub fn tree(roots: &[u32]) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut open = roots.to_vec();
    while let Some(pid) = open.pop() {
        if found.insert(pid) {
            open.extend(children(pid));
        }
    }
    found
}

/// Whether process `pid` still runs: it is there and no zombie.
pub fn is_alive(pid: u32) -> bool {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with(['Z', 'X']))
}

/// The name of a process or thread (`/proc/PID/comm`).
pub fn name(pid: u32) -> Option<String> {
    fs::read_to_string(format!("/proc/{pid}/comm")).ok().map(|name| name.trim_end().to_owned())
}

/// When process `pid` was started, in clock ticks since boot (`/proc/PID/stat`, field 22). With the id it names a
/// process for as long as the system runs: another that gets the id has another start.
pub fn start_time(pid: u32) -> Option<u64> {
    stat_field(pid, 22)?.parse().ok()
}

/// All processes, ascending.
pub fn all() -> Vec<u32> {
    numbers(Path::new("/proc"))
}

/// Whether process `pid` was started with `assignment` (`NAME=VALUE`) in its environment
/// (`/proc/PID/environ`).
pub fn has_environment(pid: u32, assignment: &str) -> bool {
    let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
    environment.split(|byte| *byte == 0).any(|one| one == assignment.as_bytes())
}

/// Tells whether anybody has started a process or thread.
pub struct Births {
    /// `/proc/loadavg`, whose last field is the id given last. It stays open: it is read many times a second.
    file: Option<File>,
    last: Option<u64>,
}

impl Default for Births {
    fn default() -> Self {
        Self { file: File::open("/proc/loadavg").ok(), last: None }
    }
}

impl Births {
    /// Whether there was any since the last call; yes at the first one, and where the kernel does not tell.
    pub fn any(&mut self) -> bool {
        let last = self.last_id();
        let any = last.is_none() || last != self.last;
        self.last = last;
        any
    }

    fn last_id(&self) -> Option<u64> {
        let mut text = [0; 128];
        let length = self.file.as_ref()?.read_at(&mut text, 0).ok()?;
        std::str::from_utf8(&text[..length]).ok()?.split_whitespace().last()?.parse().ok()
    }
}

fn parent(pid: u32) -> Option<u32> {
    stat_field(pid, 4)?.parse().ok()
}

/// A field of `/proc/PID/stat`, counted from 1 as in proc(5); the second is a name in brackets that may hold
/// anything, so that only fields from 3 on can be had.
fn stat_field(pid: u32, number: usize) -> Option<String> {
    let text = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    text.rsplit_once(')')?.1.split_whitespace().nth(number - 3).map(str::to_owned)
}

fn numbers(folder: &Path) -> Vec<u32> {
    let Ok(entries) = fs::read_dir(folder) else { return Vec::new() };
    let mut numbers: Vec<u32> =
        entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    numbers.sort_unstable();
    numbers
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_tree_holds_children_of_children() {
        let mut shell = Command::new("sh")
            .args(["-c", "sleep 1000 & echo; wait"])
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = [0];
        std::io::Read::read_exact(shell.stdout.as_mut().unwrap(), &mut line).unwrap();
        let sleeper = children(shell.id());
        assert_eq!(sleeper.len(), 1);
        assert_eq!(tree(&[shell.id()]), BTreeSet::from([shell.id(), sleeper[0]]));
        assert_eq!(parent(sleeper[0]), Some(shell.id()));
        assert!(tree(&[std::process::id()]).contains(&sleeper[0]));
        Command::new("kill").arg(sleeper[0].to_string()).status().unwrap();
        while is_alive(shell.id()) {
            std::thread::yield_now();
        }
        shell.wait().unwrap();
        assert!(threads(shell.id()).is_empty());
    }

    #[test]
    fn threads_of_ours_are_seen_and_are_births() {
        let mut births = Births::default();
        assert!(births.any());
        std::thread::spawn(|| {
            let own = rustix::thread::gettid().as_raw_nonzero().get() as u32;
            assert!(threads(std::process::id()).contains(&own));
        })
        .join()
        .unwrap();
        assert!(births.any());
    }
}
