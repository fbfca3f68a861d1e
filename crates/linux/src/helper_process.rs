//! Runs a helper process with the privileges of another process's user, and with none of our own.
//!
//! If root opens a path that a process names, a link can lead it to any file. The helper opens the path as
//! the user of the process, who could open it anyway. It has that user's ids and groups, no capabilities,
//! none of our open files, and small limits for memory, CPU time, files and processes. The user can trace or
//! stop the helper. Its output is therefore untrusted, and it is killed at a deadline.
#![allow(unsafe_code, reason = "a child can be prepared only between fork and exec")]

use crate::child;
use rustix::{
    event::{PollFd, PollFlags, poll},
    fs::{CWD, Mode, OFlags, openat},
    process::{Resource, Rlimit, Signal, getpid, getppid, set_parent_process_death_signal, setrlimit},
    thread::{
        CapabilitySet, CapabilitySets, Gid, Uid, set_capabilities, set_no_new_privs, set_thread_groups,
        set_thread_res_gid, set_thread_res_uid,
    },
};
use std::{
    fs::File,
    io::{self, Read, Write},
    os::{
        fd::{AsFd, OwnedFd},
        unix::process::CommandExt,
    },
    process::{Command, Stdio},
    time::{Duration, Instant},
};

/// Longest `status` that is read, in bytes. That of a user in 65,536 groups has half a MiB.
const LONGEST_STATUS: u64 = 1 << 20;

/// Resource limits of the helper. Those of open files and processes keep it from starting another program.
const LIMITS: [(Resource, u64); 11] = [
    (Resource::As, 512 << 20),
    (Resource::Data, 64 << 20),
    (Resource::Stack, 8 << 20),
    (Resource::Cpu, 5),
    (Resource::Nofile, 32),
    (Resource::Nproc, 0),
    (Resource::Fsize, 0),
    (Resource::Core, 0),
    (Resource::Memlock, 0),
    (Resource::Msgqueue, 0),
    (Resource::Rtprio, 0),
];

/// A process whose files in `/proc` are read. They remain those of this process even if its id is reused.
#[derive(Debug)]
pub struct ProcDir(OwnedFd);

/// The user and groups of a process.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Credentials {
    /// User id: real, effective, saved and file system.
    pub user: u32,
    /// Group id.
    pub group: u32,
    /// Supplementary groups.
    pub groups: Vec<u32>,
}

impl ProcDir {
    /// Opens the process that has this id now.
    ///
    /// # Errors
    /// There is no such process.
    pub fn open(pid: u32) -> io::Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Self(openat(CWD, format!("/proc/{pid}"), flags, Mode::empty())?))
    }

    /// Reads the first `most` bytes of one of its files. The limit is needed for files that a process can
    /// make as long as it likes.
    ///
    /// # Errors
    /// Opening or reading fails; `ESRCH` if the process has exited.
    pub fn read(&self, name: &str, most: u64) -> io::Result<Vec<u8>> {
        let file = openat(&self.0, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut bytes = Vec::new();
        File::from(file).take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Returns its user and groups.
    ///
    /// # Errors
    /// Its ids differ (it has changed its user, or is about to), or it has exited.
    pub fn owner(&self) -> io::Result<Credentials> {
        let text = self.read("status", LONGEST_STATUS)?;
        parse_owner(&String::from_utf8_lossy(&text)).ok_or_else(|| {
            io::Error::new(io::ErrorKind::PermissionDenied, "its real and effective users or groups differ")
        })
    }
}

fn parse_owner(status: &str) -> Option<Credentials> {
    let ids = |key: &str| -> Option<Vec<u32>> {
        let line = status.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_ascii_whitespace().map(|word| word.parse().ok()).collect()
    };
    let single = |key| {
        let all = ids(key)?;
        let first = *all.first()?;
        (all.len() == 4 && all.iter().all(|id| *id == first)).then_some(first)
    };
    Some(Credentials { user: single("Uid:")?, group: single("Gid:")?, groups: ids("Groups:")? })
}

/// The output of a helper process.
#[derive(Debug, Default)]
pub struct HelperOutput {
    /// Standard output.
    pub stdout: String,
    /// Standard error.
    pub stderr: String,
    /// Whether it exited by itself with status 0.
    pub succeeded: bool,
}

/// Runs `command` as `owner` until it exits, for at most `patience`, and returns at most `most` bytes of each
/// output. Its environment is `PATH` and what `command` sets.
///
/// # Errors
/// It cannot be started, or we are not root and `owner` is another user.
pub fn run(
    command: &mut Command,
    owner: &Credentials,
    input: &[u8],
    most: usize,
    patience: Duration,
) -> io::Result<HelperOutput> {
    let end = Instant::now() + patience;
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped()).process_group(0);
    command.current_dir("/");
    child::prefer_oom_kill(command, None);
    drop_privileges(command, owner)?;
    let mut child = command.spawn()?;
    if let Some(mut stdin) = child.stdin.take() {
        // The input fits into the pipe, so this does not block.
        let _ = stdin.write_all(&input[..input.len().min(4096)]);
    }
    let output = match (child.stdout.take(), child.stderr.take()) {
        (Some(out), Some(error)) => read_outputs(out, error, most, end),
        _ => [Vec::new(), Vec::new()],
    };
    let status = child::wait_until(&mut child, end);
    let succeeded = status.is_ok_and(|status| status.is_some_and(|status| status.success()));
    child::kill(&mut child);
    let [out, error] = output.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    Ok(HelperOutput { stdout: out, stderr: error, succeeded })
}

/// Drops all privileges between fork and exec.
fn drop_privileges(command: &mut Command, owner: &Credentials) -> io::Result<()> {
    let own = rustix::process::geteuid().as_raw();
    if own != 0 && own != owner.user {
        let what = format!("only root can run a program as user {}", owner.user);
        return Err(io::Error::new(io::ErrorKind::PermissionDenied, what));
    }
    let (user, group) = (Uid::from_raw(owner.user), Gid::from_raw(owner.group));
    let groups: Vec<Gid> = owner.groups.iter().map(|&id| Gid::from_raw(id)).collect();
    let none = CapabilitySet::empty();
    let none = CapabilitySets { effective: none, permitted: none, inheritable: none };
    let parent = getpid();
    // SAFETY: the closure makes system calls and allocates nothing, as is required between fork and exec.
    unsafe {
        command.pre_exec(move || {
            if own == 0 {
                set_thread_groups(&groups)?;
                set_thread_res_gid(group, group, group)?;
                set_thread_res_uid(user, user, user)?;
            }
            // This also keeps exec from granting capabilities to root again.
            set_no_new_privs(true)?;
            set_capabilities(None, none)?;
            for (resource, most) in LIMITS {
                let most = rustix::process::getrlimit(resource).maximum.map_or(most, |given| given.min(most));
                setrlimit(resource, Rlimit { current: Some(most), maximum: Some(most) })?;
            }
            // It is set last, because a change of the user clears it.
            set_parent_process_death_signal(Some(Signal::KILL))?;
            if getppid() == Some(parent) { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
        });
    }
    Ok(())
}

/// Reads both outputs until both end, one has `most` bytes, or the deadline is reached.
fn read_outputs(
    out: impl Into<OwnedFd>,
    error: impl Into<OwnedFd>,
    most: usize,
    end: Instant,
) -> [Vec<u8>; 2] {
    let mut output = [Vec::new(), Vec::new()];
    let mut open = vec![(0, File::from(out.into())), (1, File::from(error.into()))];
    let mut buffer = [0; 4096];
    while !open.is_empty()
        && output.iter().all(|output: &Vec<u8>| output.len() < most)
        && Instant::now() < end
    {
        let mut all: Vec<PollFd> =
            open.iter().map(|(_, file)| PollFd::from_borrowed_fd(file.as_fd(), PollFlags::IN)).collect();
        if !poll(&mut all, Some(&child::left(end))).is_ok_and(|count| count > 0) {
            break;
        }
        let ready: Vec<bool> = all.iter().map(|one| !one.revents().is_empty()).collect();
        let mut ready = ready.into_iter();
        open.retain_mut(|(at, file)| {
            if ready.next() != Some(true) {
                return true;
            }
            let count = file.read(&mut buffer).unwrap_or(0);
            let room = most - output[*at].len();
            output[*at].extend_from_slice(&buffer[..count.min(room)]);
            count > 0
        });
    }
    output
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Credentials {
        ProcDir::open(std::process::id()).unwrap().owner().unwrap()
    }

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn credentials_need_equal_ids() {
        let status = "Name:\tx\nUid:\t7\t7\t7\t7\nGid:\t8\t8\t8\t8\nGroups:\t8 9 \n";
        let owner = Credentials { user: 7, group: 8, groups: vec![8, 9] };
        assert_eq!(parse_owner(status), Some(owner));
        assert_eq!(parse_owner(&status.replace("7\t7\t7\t7", "7\t0\t0\t0")), None, "a setuid program");
        assert_eq!(parse_owner(""), None);
        assert_eq!(own().user, rustix::process::getuid().as_raw());
    }

    #[test]
    fn endless_output_is_cut_off_and_late_helper_is_killed() {
        // Not these limits end the first two.
        let never = Duration::from_hours(1);
        let output = run(&mut shell("while :; do echo xxxxxxxx; done"), &own(), b"", 9000, never).unwrap();
        assert_eq!((output.stdout.len(), output.succeeded), (9000, false));
        let output = run(&mut shell("read x; echo $x; read y"), &own(), b"hello\n", 9000, never).unwrap();
        assert_eq!(output.stdout, "hello\n");
        let mut cat = Command::new("tail");
        cat.args(["-f", "/dev/null"]);
        assert!(!run(&mut cat, &own(), b"", 9000, Duration::from_millis(50)).unwrap().succeeded);
    }

    #[test]
    fn helper_of_root_has_target_ids_and_no_capabilities() {
        if !rustix::process::geteuid().is_root() {
            return eprintln!("SKIPPED: only root can lower itself to another user");
        }
        let other = Credentials { user: 65534, group: 65533, groups: vec![65532] };
        let script = "while read key rest; do case $key in Uid:|Gid:|Groups:|Cap*|NoNewPrivs:) echo $key $rest;; esac; done </proc/self/status; read score </proc/self/oom_score_adj; echo $score; ulimit -n; : & wait";
        let output = run(&mut shell(script), &other, b"", 9000, Duration::from_mins(1)).unwrap();
        let zero = "0000000000000000";
        for line in [
            "Uid: 65534 65534 65534 65534".to_owned(),
            "Gid: 65533 65533 65533 65533".to_owned(),
            "Groups: 65532".to_owned(),
            "NoNewPrivs: 1".to_owned(),
            format!("CapEff: {zero}"),
            format!("CapPrm: {zero}"),
            "1000".to_owned(),
            "32".to_owned(),
        ] {
            assert!(output.stdout.lines().any(|one| one == line), "{line} in {output:#?}");
        }
        assert!(
            output.stderr.to_lowercase().contains("fork"),
            "it cannot start another program: {output:#?}"
        );
        let root = run(&mut shell(script), &own(), b"", 9000, Duration::from_mins(1)).unwrap();
        assert!(root.stdout.contains(&format!("CapEff: {zero}")), "root has none either: {root:#?}");
    }
}
