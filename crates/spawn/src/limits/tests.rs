use super::*;
use proptest::prelude::*;
use std::{
    fs,
    io::{BufRead, BufReader, Write},
    os::unix::fs::symlink,
    path::Path,
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

const LIMITS: &str = "\
CountLimit                     Soft CountLimit           Hard CountLimit           Units     \n\
Max data size             unlimited            unlimited            bytes     \n\
Max processes             5000                 8000                 processes \n\
Max open files            1024                 4096                 files     \n\
Max address space         unlimited            unlimited            bytes     \n";

const PLAIN_USER: &str = "Uid:\t1000\t1000\t1000\t1000\nThreads:\t40\nCapEff:\t0000000000000000\n";

fn tree(files: &[(&str, &str)]) -> (tempfile::TempDir, SysTree) {
    let folder = tempfile::tempdir().unwrap();
    let write = |path: &str, text: &str| {
        let path = folder.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    let machine = [
        ("proc/loadavg", "0.27 0.70 1.88 1/500 3527"),
        ("proc/sys/kernel/pid_max", "32768"),
        ("proc/sys/kernel/threads-max", "193102"),
        ("proc/sys/vm/max_map_count", "65530"),
        ("proc/self/limits", LIMITS),
        ("proc/self/status", PLAIN_USER),
        ("proc/self/maps", "a\nb\nc\n"),
        ("proc/12/status", "Uid:\t0\t0\t0\t0\nThreads:\t7\n"),
        ("proc/1234/status", PLAIN_USER),
        ("proc/1235/status", "Uid:\t1000\t0\t0\t0\nThreads:\t2\n"),
    ];
    machine.iter().chain(files).for_each(|(path, text)| write(path, text));
    for (name, number) in [("user", 4_026_531_837u64), ("pid", 4_026_531_836)] {
        fs::create_dir_all(folder.path().join("proc/self/ns")).unwrap();
        symlink(format!("{name}:[{number}]"), folder.path().join("proc/self/ns").join(name)).unwrap();
    }
    let tree = SysTree::open(folder.path()).unwrap();
    (folder, tree)
}

fn rooms(limits: &[CountLimit]) -> Vec<(&str, u64, &str)> {
    limits.iter().map(|limit| (&*limit.name, limit.max_count, &*limit.raise_command)).collect()
}

fn threads(count: u64) -> ResourceNeeds {
    ResourceNeeds::new(Runtime::Threads, "thread", Work::Idle, count)
}

#[test]
fn thread_limits_are_found() {
    let (_folder, tree) = tree(&[]);
    assert_eq!(
        rooms(&find(&tree, "self", Runtime::Threads, &threads(100_000))),
        [
            // User 1000 already has 42 tasks, and the hard limit is too small.
            ("RLIMIT_NPROC", 4958, "prlimit --pid $$ --nproc=101042:101042"),
            // One of 500 tasks has an id below 300.
            ("kernel.pid_max", 32768 - 300 - 499, "sysctl -w kernel.pid_max=4194304"),
            ("vm.max_map_count", 32763, "sysctl -w vm.max_map_count=201003"),
            ("kernel.threads-max", 192_602, "sysctl -w kernel.threads-max=386204"),
        ]
    );
    let lifted = find(&tree, "self", Runtime::Threads, &threads(6000));
    assert_eq!(lifted[0].raise_command, "ulimit -u 8000", "no privilege is needed up to the hard limit");
    assert_eq!(lifted[0].source, "/proc/self/limits: 5000, 42 tasks of user 1000");
}

#[test]
fn processes_have_maps_and_files_of_their_own() {
    let (_folder, tree) = tree(&[("proc/sys/fs/file-nr", "1000\t0\t50000")]);
    let needs = ResourceNeeds::new(Runtime::Processes, "process", Work::Io, 10);
    let limits = find(&tree, "self", Runtime::Processes, &needs);
    let names: Vec<&str> = limits.iter().map(|limit| &*limit.name).collect();
    assert_eq!(names, ["RLIMIT_NPROC", "kernel.pid_max", "fs.file-max", "kernel.threads-max"]);
}

#[test]
fn light_processes_that_wait_have_no_limit_of_the_kernel() {
    let (_folder, tree) = tree(&[]);
    for (runtime, unit) in
        [(Runtime::Go, "goroutine"), (Runtime::Tokio, "task"), (Runtime::Jvm, "virtual thread")]
    {
        assert_eq!(find(&tree, "self", runtime, &ResourceNeeds::new(runtime, unit, Work::Idle, 1 << 20)), []);
    }
    let java = ResourceNeeds::new(Runtime::Jvm, "thread", Work::Idle, 10);
    assert_eq!((java.tasks, java.stack_bytes), (true, Some(1 << 20)));
}

#[test]
fn open_file_limits_have_raise_commands() {
    let files = [("proc/sys/fs/nr_open", "1048576"), ("proc/self/fd/0", ""), ("proc/self/fd/1", "")];
    let (_folder, tree) = tree(&files);
    let raise_command = |count| {
        let needs = ResourceNeeds::new(Runtime::Tokio, "task", Work::Io, count);
        let limits = find(&tree, "self", Runtime::Tokio, &needs);
        assert_eq!((&*limits[0].name, limits[0].max_count), ("RLIMIT_NOFILE", 1022));
        limits[0].raise_command.clone()
    };
    assert_eq!(raise_command(2000), "ulimit -n 3002");
    assert_eq!(raise_command(10_000), "prlimit --pid $$ --nofile=11002:11002");
    assert_eq!(
        raise_command(2_000_000),
        "sysctl -w fs.nr_open=2001002; prlimit --pid $$ --nofile=2001002:2001002"
    );
}

#[test]
fn nproc_exempts_privileged_users_only_in_initial_namespace() {
    let nproc = |status: &str, first: bool| {
        let (folder, tree) = tree(&[("proc/self/status", status)]);
        if !first {
            let link = folder.path().join("proc/self/ns/user");
            fs::remove_file(&link).unwrap();
            symlink("user:[4026532222]", link).unwrap();
        }
        let limits = find(&tree, "self", Runtime::Threads, &threads(10));
        limits.iter().any(|limit| limit.name == "RLIMIT_NPROC")
    };
    let root = "Uid:\t0\t0\t0\t0\nCapEff:\t0000000000000000\n";
    let able = "Uid:\t1000\t1000\t1000\t1000\nCapEff:\t0000000001000000\n";
    assert_eq!([nproc(PLAIN_USER, true), nproc(root, true), nproc(able, true)], [true, false, false]);
    assert_eq!([nproc(root, false), nproc(able, false)], [true, true]);
}

#[test]
fn parent_groups_limit_tasks() {
    let (_folder, tree) = tree(&[
        ("proc/self/cgroup", "8:pids:/a/b\n0::/user.slice/user-1000.slice"),
        (
            "proc/self/mountinfo",
            "1 0 0:1 / /cg/pids rw - cgroup cgroup rw,pids\n2 0 0:2 / /cg/all rw - cgroup2 cgroup2 rw",
        ),
        ("cg/pids/a/pids.max", "100"),
        ("cg/pids/a/pids.current", "60"),
        ("cg/pids/a/b/pids.max", "max"),
        ("cg/pids/a/b/pids.current", "50"),
        ("cg/all/user.slice/user-1000.slice/pids.max", "2000"),
        ("cg/all/user.slice/user-1000.slice/pids.current", "500"),
    ]);
    let limits = find(&tree, "self", Runtime::Threads, &threads(10));
    assert_eq!(
        rooms(&limits)[..2],
        [
            ("pids.max", 40, "echo max > /cg/pids/a/pids.max"),
            ("pids.max", 1500, "systemctl set-property --runtime user-1000.slice TasksMax=infinity"),
        ]
    );
    assert_eq!(limits[0].source, "/cg/pids/a/pids.max: 100, 60 tasks");
}

#[test]
fn stacks_count_against_address_space_and_commit() {
    let limits = LIMITS.replace(
        "Max address space         unlimited            unlimited ",
        "Max address space         1073741824           unlimited ",
    );
    let (_folder, tree) = tree(&[
        ("proc/self/limits", &limits),
        ("proc/self/status", &format!("{PLAIN_USER}VmSize:\t  524288 kB\n")),
        ("proc/sys/vm/overcommit_memory", "2"),
        ("proc/meminfo", "MemAvailable: 9000000 kB\nCommitLimit: 1048576 kB\nCommitted_AS: 524288 kB\n"),
    ]);
    let limits = find(&tree, "self", Runtime::Threads, &threads(1000));
    let of = |name: &str| rooms(&limits).into_iter().find(|limit| limit.0 == name).unwrap();
    assert_eq!(of("RLIMIT_AS"), ("RLIMIT_AS", 256, "ulimit -v unlimited"));
    assert_eq!(of("vm.overcommit_memory"), ("vm.overcommit_memory", 256, "sysctl -w vm.overcommit_memory=0"));
    assert_eq!(available_memory(&tree), Some((512 << 20, "RLIMIT_AS".to_owned())));
}

#[test]
fn a_tenth_of_memory_is_reserved() {
    let (_folder, tree) = tree(&[("proc/meminfo", "MemAvailable: 1000 kB\n")]);
    assert_eq!(available_memory(&tree), Some((102_400 * 9, "available memory less a tenth".to_owned())));
}

#[test]
fn erlang_tables_have_raise_options() {
    let table = erlang_processes(262_144, 44, 1_000_000);
    assert_eq!((&*table.name, table.max_count, &*table.raise_command), ("+P", 262_100, "erl +P 1048576"));
    assert_eq!(erlang_processes(262_144, 44, 100_000).raise_command, "erl +P 524288", "always more than now");
    assert!(erlang_processes(134_217_727, 0, 1 << 40).raise_command.starts_with("impossible"));
}

proptest! {
    #[test]
    fn any_files_are_read(text in "(\\PC|\n|\t){0,80}|[0-9/ ]{0,40}") {
        let paths = ["proc/loadavg", "proc/self/limits", "proc/self/status", "proc/meminfo", "proc/sys/kernel/pid_max"];
        let mut capture = manycore_topology::capture::Capture::default();
        for path in paths {
            capture.add_file(path, &text);
        }
        let tree = SysTree::from_capture(capture);
        let _ = (find(&tree, "self", Runtime::Threads, &threads(u64::MAX)), available_memory(&tree));
    }
}

/// Waits for a line, then starts as many waiting children as possible, ends them, and prints their number.
const FORKS: &str = "
import os, resource, signal, sys
user, most = int(sys.argv[1]), int(sys.argv[2])
if user:
    os.setgroups([]); os.setuid(user)
    resource.setrlimit(resource.RLIMIT_NPROC, (most, most))
print('ready', flush=True)
sys.stdin.readline()
children = []
try:
    while len(children) < 1000:
        child = os.fork()
        if child == 0:
            signal.pause()
            os._exit(0)
        children.append(child)
except BlockingIOError:
    pass
for child in children:
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)
print(len(children), flush=True)
";

/// Starts waiting threads and prints a line when all are running. Ends with its input.
const THREADS: &str = "
import sys, threading
end = threading.Event()
print('ready', flush=True)
sys.stdin.readline()
for _ in range(int(sys.argv[1])):
    threading.Thread(target=end.wait, daemon=True).start()
print('there', flush=True)
sys.stdin.readline()
end.set()
";

/// A Python program that has reported that it is ready.
struct Script {
    child: Child,
    input: ChildStdin,
    output: BufReader<ChildStdout>,
}

impl Script {
    fn start(text: &str, arguments: &[&str]) -> Option<Self> {
        let mut command = Command::new("python3");
        command.args(["-c", text]).args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped());
        let Ok(mut child) = command.spawn() else {
            eprintln!("SKIPPED: python3 is not installed");
            return None;
        };
        let (input, output) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let mut script = Self { child, input, output: BufReader::new(output) };
        assert_eq!(script.line(), "ready");
        Some(script)
    }

    fn id(&self) -> String {
        self.child.id().to_string()
    }

    fn go_on(&mut self) -> String {
        writeln!(self.input).unwrap();
        self.line()
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.output.read_line(&mut line).unwrap();
        line.trim().to_owned()
    }
}

impl Drop for Script {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn limit_of(script: &Script, name: &str) -> Option<CountLimit> {
    let tree = SysTree::open(Path::new("/")).unwrap();
    let needs = ResourceNeeds { count: 100, tasks: true, ..ResourceNeeds::default() };
    let limits = find(&tree, &script.id(), Runtime::Processes, &needs);
    limits.into_iter().find(|limit| limit.name == name)
}

/// A control group that is removed on drop, when all its processes have ended.
struct Group(std::path::PathBuf);

impl Drop for Group {
    fn drop(&mut self) {
        let _ = fs::remove_dir(&self.0);
    }
}

#[test]
fn real_group_limit_is_exact() {
    let folders = ["/sys/fs/cgroup/pids", "/sys/fs/cgroup"].map(Path::new);
    let made = folders.into_iter().find_map(|folder| {
        let group = Group(folder.join(format!("manycore-test-{}", std::process::id())));
        fs::create_dir(&group.0).ok()?;
        fs::write(group.0.join("pids.max"), "25").ok()?;
        Some(group)
    });
    let Some(group) = made else {
        eprintln!("SKIPPED: no group with the controller pids can be made here");
        return;
    };
    let Some(mut script) = Script::start(FORKS, &["0", "0"]) else { return };
    fs::write(group.0.join("cgroup.procs"), script.id()).unwrap();
    let limit = limit_of(&script, "pids.max").unwrap();
    assert_eq!(limit.max_count, 24, "{limit:?}");
    assert!(limit.raise_command.ends_with(&format!("{}/pids.max", group.0.display())), "{limit:?}");
    assert_eq!(script.go_on(), "24", "as many can be started as the limit allows");
}

#[test]
fn real_user_limit_is_exact() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: only root can start a program as another user");
        return;
    }
    // A user id that no other process or run of this test has: all its tasks belong to the test.
    let user = (0x4000_0000 + std::process::id()).to_string();
    let Some(mut script) = Script::start(FORKS, &[&user, "20"]) else { return };
    let limit = limit_of(&script, "RLIMIT_NPROC").unwrap();
    assert_eq!(limit.max_count, 19, "{limit:?}");
    assert_eq!(script.go_on(), "19", "as many can be started as the limit allows");
}

#[test]
fn real_stacks_take_predicted_mappings() {
    const COUNT: u64 = 200;
    let Some(mut script) = Script::start(THREADS, &[&COUNT.to_string()]) else { return };
    let tree = SysTree::open(Path::new("/")).unwrap();
    let left = |script: &Script| {
        let limits = find(&tree, &script.id(), Runtime::Threads, &threads(COUNT));
        limits.into_iter().find(|limit| limit.name == "vm.max_map_count").unwrap().max_count
    };
    let before = left(&script);
    assert_eq!(script.go_on(), "there");
    let taken = before - left(&script);
    // Newer systems need no mapping for the guard page, and heaps of threads take some more.
    assert!((COUNT / 2..COUNT + 40).contains(&taken), "{taken} of {COUNT}");
}
