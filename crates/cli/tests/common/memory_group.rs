//! A control group with a memory limit, which is removed with the test.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::OnceLock,
    thread,
    time::{Duration, Instant},
};
use tempfile::TempDir;

/// How a program allocates memory: a MiB followed by a pause, repeated.
#[derive(Clone, Copy)]
pub struct AllocationPattern {
    /// Number of MiB; 0 means until the program is killed.
    pub mib: u32,
    pub pause: Duration,
    /// Whether the program ignores SIGTERM.
    pub ignores_sigterm: bool,
}

impl AllocationPattern {
    /// Allocates everything at once, and holds it until standard input ends.
    pub fn at_once(mib: u32) -> Self {
        Self { mib, pause: Duration::ZERO, ignores_sigterm: false }
    }

    /// Allocates at most this many MiB per second, until it is killed.
    pub fn endless(mib_per_second: u32) -> Self {
        Self { mib: 0, pause: Duration::from_secs(1) / mib_per_second, ignores_sigterm: false }
    }

    pub fn ignoring_sigterm(self) -> Self {
        Self { ignores_sigterm: true, ..self }
    }

    /// Returns the arguments of the program.
    pub fn words(self) -> Vec<String> {
        let mut words = vec!["take".into(), self.mib.to_string(), self.pause.as_micros().to_string()];
        words.extend(self.ignores_sigterm.then(|| "deaf".into()));
        words
    }
}

/// Returns the program of lab/eat, built at the first use.
pub fn eat() -> &'static Path {
    static PROGRAM: OnceLock<(TempDir, PathBuf)> = OnceLock::new();
    let (_, program) = PROGRAM.get_or_init(|| {
        let folder = tempfile::tempdir().unwrap();
        let program = folder.path().join("eat");
        let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../lab/eat");
        let sources = ["main", "common", "hogs", "bystanders", "observe"]
            .map(|name| directory.join(name).with_extension("c"));
        let built = Command::new("cc").arg("-O2").args(sources).arg("-o").arg(&program).status();
        assert!(built.unwrap().success(), "cc cannot compile lab/eat");
        (folder, program)
    });
    program
}

/// A group with a memory limit in MiB, below the memory controller of this machine.
pub struct Group {
    /// Its directory.
    pub folder: PathBuf,
    /// Its path below the mount point.
    pub path: String,
}

impl Group {
    /// Creates it; reports why if that is not possible.
    pub fn new(name: &str, mib: u64) -> Option<Self> {
        let path = format!("/manycore-guard-{name}-{}", std::process::id());
        let v1 = Path::new("/sys/fs/cgroup/memory");
        let (mount, limit) = if v1.join("memory.limit_in_bytes").exists() {
            (v1.to_owned(), "memory.limit_in_bytes")
        } else {
            (PathBuf::from("/sys/fs/cgroup"), "memory.max")
        };
        let folder = mount.join(&path[1..]);
        let make =
            fs::create_dir(&folder).and_then(|()| fs::write(folder.join(limit), (mib << 20).to_string()));
        if let Err(error) = make {
            eprintln!("SKIPPED: no control group with a memory limit can be made: {error}");
            let _ = fs::remove_dir(&folder);
            return None;
        }
        Some(Self { folder, path })
    }

    /// Starts a program in the group.
    pub fn start(&self, program: &Path, words: &[&str]) -> Child {
        let enter = format!("echo $$ > {}/cgroup.procs && exec \"$0\" \"$@\"", self.folder.display());
        Command::new("sh")
            .args(["-c", &enter])
            .arg(program)
            .args(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Starts a program in the group that allocates a known amount of memory: see `take` in lab/eat/main.c.
    pub fn eat(&self, pattern: AllocationPattern) -> Child {
        let words = pattern.words();
        self.start(eat(), &words.iter().map(String::as_str).collect::<Vec<_>>())
    }

    /// Returns the processes in it.
    pub fn members(&self) -> Vec<u32> {
        members(&self.folder)
    }
}

/// Returns the processes in the group of this directory.
fn members(folder: &Path) -> Vec<u32> {
    let text = fs::read_to_string(folder.join("cgroup.procs")).unwrap_or_default();
    text.lines().filter_map(|line| line.parse().ok()).collect()
}

/// Kills the processes in the group of this directory. One that was killed before is listed until it has ended, and may be gone
/// when its signal is sent.
pub fn kill_members(folder: &Path) {
    for pid in members(folder) {
        let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).stderr(Stdio::null()).status();
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let end = Instant::now() + Duration::from_mins(1);
        while fs::remove_dir(&self.folder).is_err() && self.folder.exists() && Instant::now() < end {
            kill_members(&self.folder);
            thread::yield_now();
        }
    }
}
