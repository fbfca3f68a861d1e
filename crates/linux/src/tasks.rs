//! Reads processes and their threads from `/proc`. A process or thread that has ended meanwhile is not an
//! error; it is left out.

use manycore_text::names::printable;
use manycore_topology::CpuId;
use std::{collections::BTreeSet, fs, path::Path, thread, time::Duration};

/// Maximum time in milliseconds to wait for a process that is executing a new program.
const EXEC_MS: u32 = 100;

/// Returns the children of process `pid`, ascending.
///
/// Reads `/proc/PID/task/TID/children` (`CONFIG_PROC_CHILDREN`), or the parent of every process if the
/// kernel does not have that file.
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

/// Returns the threads of process `pid` that have not ended, ascending; none if it does not exist or is a
/// zombie.
///
/// The kernel lists the first thread until the process is reaped, even if it has ended while other threads
/// run. Then it can neither run nor be placed.
pub fn threads(pid: u32) -> Vec<u32> {
    let mut threads = numbers(Path::new(&format!("/proc/{pid}/task")));
    if has_ended(&pid.to_string()) {
        threads.retain(|tid| *tid != pid);
    }
    threads
}

/// Returns `roots` and all their descendants.
pub fn with_descendants(roots: &[u32]) -> BTreeSet<u32> {
    let mut found = BTreeSet::new();
    let mut open = roots.to_vec();
    while let Some(pid) = open.pop() {
        if found.insert(pid) {
            open.extend(children(pid));
        }
    }
    found
}

/// Returns whether process `pid` runs, that is, one of its threads has not ended.
pub fn is_alive(pid: u32) -> bool {
    let is_listed = read(&format!("/proc/{pid}/stat")).is_some();
    is_listed && (!has_ended(&pid.to_string()) || !threads(pid).is_empty())
}

/// Returns whether a process or a thread (`PID`, `PID/task/TID`) does not exist or is a zombie (state `Z`
/// or `X` in the third field of `stat`).
fn has_ended(task: &str) -> bool {
    let stat = read(&format!("/proc/{task}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
}

/// Returns the name of a process or thread (`/proc/PID/comm`). Unprintable characters are replaced.
pub fn name(pid: u32) -> Option<String> {
    read(&format!("/proc/{pid}/comm")).map(|name| printable(name.trim_end_matches('\n')))
}

/// Returns the name of thread `tid` of process `pid` in the same way; `None` if the process has no such
/// thread.
pub fn thread_name(pid: u32, tid: u32) -> Option<String> {
    read(&format!("/proc/{pid}/task/{tid}/comm")).map(|name| printable(name.trim_end_matches('\n')))
}

/// Returns the start time of process `pid` in clock ticks since boot (`/proc/PID/stat`, field 22). Id and
/// start time together identify a process until the system is shut down: a later process with the same id
/// has another start time.
pub fn start_time(pid: u32) -> Option<u64> {
    stat_field(&pid.to_string(), 22)?.parse().ok()
}

/// Returns the process group of process `pid` (`/proc/PID/stat`, field 5).
pub fn process_group(pid: u32) -> Option<u32> {
    stat_field(&pid.to_string(), 5)?.parse().ok()
}

/// Returns the CPU that thread `tid` of process `pid` runs on or ran on last (`/proc/PID/task/TID/stat`,
/// field 39).
pub fn cpu(pid: u32, tid: u32) -> Option<CpuId> {
    stat_field(&format!("{pid}/task/{tid}"), 39)?.parse().ok()
}

/// Returns the CPU time of thread `tid` of process `pid` in nanoseconds (`/proc/PID/task/TID/schedstat`,
/// first field, up to one tick late; clock ticks of `stat` if the kernel does not have that file).
pub fn cpu_ns(pid: u32, tid: u32) -> Option<u64> {
    let task = format!("{pid}/task/{tid}");
    let schedstat = fs::read_to_string(format!("/proc/{task}/schedstat")).unwrap_or_default();
    schedstat.split_whitespace().next().and_then(|time| time.parse().ok()).or_else(|| {
        let stat = Stat::read(&task)?;
        let ticks = stat.field(14)?.parse::<u64>().ok()? + stat.field(15)?.parse::<u64>().ok()?;
        Some(ticks * (1_000_000_000 / crate::counters::ticks_per_second()))
    })
}

/// How long a thread has run and waited since its start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ThreadTimes {
    /// Time on a CPU in nanoseconds.
    pub run_ns: u64,
    /// Time runnable but waiting for a CPU, in nanoseconds. A wait that has not ended yet is not in it.
    pub wait_ns: u64,
}

/// Returns the times of thread `tid` of process `pid` (`/proc/PID/task/TID/schedstat`, up to one tick late). Without that
/// file, the time on a CPU is in clock ticks, and that of waiting is 0.
pub fn times(pid: u32, tid: u32) -> Option<ThreadTimes> {
    let text = fs::read_to_string(format!("/proc/{pid}/task/{tid}/schedstat")).unwrap_or_default();
    let mut fields = text.split_whitespace().map_while(|field| field.parse().ok());
    match (fields.next(), fields.next()) {
        (Some(run_ns), Some(wait_ns)) => Some(ThreadTimes { run_ns, wait_ns }),
        _ => cpu_ns(pid, tid).map(|run_ns| ThreadTimes { run_ns, wait_ns: 0 }),
    }
}

/// Where and how a thread is scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ThreadScheduling {
    /// The CPU that it runs on or ran on last.
    pub cpu: CpuId,
    /// Whether it has a real-time or deadline policy (`SCHED_FIFO`, `SCHED_RR`, `SCHED_DEADLINE`).
    pub is_realtime: bool,
}

/// Returns where and how thread `tid` of process `pid` is scheduled (`/proc/PID/task/TID/stat`, fields 39 and 41).
pub fn scheduling(pid: u32, tid: u32) -> Option<ThreadScheduling> {
    const REALTIME: [&str; 3] = ["1", "2", "6"];
    let stat = Stat::read(&format!("{pid}/task/{tid}"))?;
    let is_realtime = stat.field(41).is_some_and(|policy| REALTIME.contains(&policy));
    Some(ThreadScheduling { cpu: stat.field(39)?.parse().ok()?, is_realtime })
}

/// Returns the effective and the real user of process `pid` (`Uid` of `/proc/PID/status`).
pub fn users(pid: u32) -> Option<[u32; 2]> {
    let text = read(&format!("/proc/{pid}/status"))?;
    let mut ids = text.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace();
    let real = ids.next()?.parse().ok()?;
    Some([ids.next()?.parse().ok()?, real])
}

/// Counters of a process that the kernel passes on to its parent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Usage {
    /// Its parent.
    pub parent: u32,
    /// Start time, as returned by [`start_time`].
    pub start: u64,
    /// CPU time in nanoseconds of the process and of its reaped descendants. The part of the descendants is
    /// in whole clock ticks.
    pub cpu_ns: u64,
}

/// Returns the usage of process `pid` (`/proc/PID/stat`, fields 4, 16, 17 and 22, and its CPU-time clock).
pub fn usage(pid: u32) -> Option<Usage> {
    let stat = Stat::read(&pid.to_string())?;
    let number = |field| stat.field(field)?.parse::<u64>().ok();
    let reaped = number(16)?.checked_add(number(17)?)?;
    let reaped_ns = reaped.checked_mul(1_000_000_000 / crate::counters::ticks_per_second())?;
    Some(Usage {
        parent: stat.field(4)?.parse().ok()?,
        start: number(22)?,
        cpu_ns: crate::clock::process_cpu_ns(pid)? + reaped_ns,
    })
}

/// Returns all processes, ascending.
pub fn all() -> Vec<u32> {
    numbers(Path::new("/proc"))
}

/// Returns whether process `pid` was started with `assignment` (`NAME=VALUE`) in its environment
/// (`/proc/PID/environ`).
pub fn has_environment(pid: u32, assignment: &str) -> bool {
    let of = |what: &str| format!("/proc/{pid}/{what}");
    for _ in 0..EXEC_MS {
        let environment = fs::read(of("environ")).unwrap_or_default();
        if environment.split(|byte| *byte == 0).any(|one| one == assignment.as_bytes()) {
            return true;
        }
        // During execve(2) a process has neither environment nor arguments. Kernel threads and zombies have
        // no executable either.
        let is_between = environment.is_empty()
            && fs::read(of("cmdline")).is_ok_and(|arguments| arguments.is_empty())
            && fs::read_link(of("exe")).is_ok();
        if !is_between {
            return false;
        }
        thread::sleep(Duration::from_millis(1));
    }
    false
}

/// Returns whether process `pid` runs and was started at `start` (clock ticks since boot).
pub fn is_same_process(pid: u32, start: u64) -> bool {
    start_time(pid) == Some(start) && is_alive(pid)
}

/// Returns whether process `pid` is a kernel thread (`PF_KTHREAD` in the flags of `/proc/PID/stat`, field
/// 9).
pub fn is_kernel(pid: u32) -> bool {
    const PF_KTHREAD: u32 = 0x0020_0000;
    let flags = stat_field(&pid.to_string(), 9).and_then(|flags| flags.parse::<u32>().ok());
    flags.is_some_and(|flags| flags & PF_KTHREAD != 0)
}

/// Returns the parent of process `pid`.
pub fn parent(pid: u32) -> Option<u32> {
    stat_field(&pid.to_string(), 4)?.parse().ok()
}

/// Returns the process of thread `tid` (`Tgid` of `/proc/TID/status`).
pub fn process_of(tid: u32) -> Option<u32> {
    let text = read(&format!("/proc/{tid}/status"))?;
    text.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// The fields of `/proc/PID/stat`, or of a task below it, from the third field on. The second field is a
/// name in brackets that may contain any characters.
struct Stat(String);

impl Stat {
    fn read(task: &str) -> Option<Self> {
        let text = read(&format!("/proc/{task}/stat"))?;
        Some(Self(text.rsplit_once(')')?.1.to_owned()))
    }

    /// Returns a field, numbered from 1 as in proc(5).
    fn field(&self, number: usize) -> Option<&str> {
        self.0.split_whitespace().nth(number - 3)
    }
}

fn stat_field(task: &str, number: usize) -> Option<String> {
    Stat::read(task)?.field(number).map(str::to_owned)
}

/// Reads a file whose text need not be UTF-8, because it contains a name chosen by a process.
fn read(path: &str) -> Option<String> {
    fs::read(path).ok().map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
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
    fn invalid_utf8_name_does_not_hide_process() {
        let path = std::env::temp_dir().join(format!("manycore-{}", std::process::id()));
        let mut odd = path.clone().into_os_string();
        odd.push(std::os::unix::ffi::OsStrExt::from_bytes(b"\xe9\n)".as_slice()) as &std::ffi::OsStr);
        std::os::unix::fs::symlink("/bin/sleep", &odd).unwrap();
        let mut sleeper = Command::new(&odd).arg("1000").spawn().unwrap();
        let pid = sleeper.id();
        let seen = (
            is_alive(pid),
            start_time(pid).is_some(),
            parent(pid),
            cpu(pid, pid).is_some(),
            name(pid).is_some(),
        );
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        fs::remove_file(odd).unwrap();
        assert_eq!(seen, (true, true, Some(std::process::id()), true, true));
    }

    #[test]
    fn times_and_scheduling_of_this_thread_are_known() {
        let (pid, tid) = (std::process::id(), rustix::thread::gettid().as_raw_nonzero().get() as u32);
        let before = times(pid, tid).unwrap();
        while times(pid, tid).unwrap().run_ns < before.run_ns + 1_000_000 {}
        assert!(!scheduling(pid, tid).unwrap().is_realtime);
        assert_eq!(users(pid).unwrap()[0], rustix::process::geteuid().as_raw());
        assert_eq!((times(pid, u32::MAX >> 2), scheduling(pid, u32::MAX >> 2)), (None, None));
    }

    #[test]
    fn zombies_are_not_running_tasks() {
        let mut ended = Command::new("true").spawn().unwrap();
        let pid = ended.id();
        let deadline = std::time::Instant::now() + Duration::from_mins(1);
        while is_alive(pid) {
            assert!(std::time::Instant::now() < deadline, "true does not end");
            thread::yield_now();
        }
        let seen = (start_time(pid).is_some(), threads(pid));
        ended.wait().unwrap();
        assert_eq!(seen, (true, vec![]));
    }

    #[test]
    fn a_process_whose_first_thread_has_ended_is_alive() {
        // The first thread ends with the exit system call while the second one sleeps.
        const PROGRAM: &str = "import ctypes, platform, threading, time
threading.Thread(target=time.sleep, args=[1000]).start()
libc = ctypes.CDLL(None)
print(flush=True)
libc.syscall({'x86_64': 60, 'aarch64': 93, 'riscv64': 93}[platform.machine()], 0)
";
        let python = Command::new("python3").args(["-c", PROGRAM]).stdout(Stdio::piped()).spawn();
        let mut child = match python {
            Ok(child) => child,
            Err(error) => return eprintln!("SKIPPED: python3: {error}"),
        };
        let pid = child.id();
        let deadline = std::time::Instant::now() + Duration::from_mins(1);
        while !has_ended(&pid.to_string()) {
            assert!(std::time::Instant::now() < deadline, "its first thread does not end");
            thread::yield_now();
        }
        let seen = (is_alive(pid), threads(pid).len(), threads(pid).contains(&pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(seen, (true, 1, false));
    }

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
        assert_eq!(with_descendants(&[shell.id()]), BTreeSet::from([shell.id(), sleeper[0]]));
        assert_eq!(parent(sleeper[0]), Some(shell.id()));
        assert!(with_descendants(&[std::process::id()]).contains(&sleeper[0]));
        Command::new("kill").arg(sleeper[0].to_string()).status().unwrap();
        while is_alive(shell.id()) {
            thread::yield_now();
        }
        shell.wait().unwrap();
        assert!(threads(shell.id()).is_empty());
    }
}
