//! A control group with a memory limit, that is gone with the test.

use std::{
    fs,
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

/// A group with a limit of so many MiB, below the memory controller that this machine has.
pub struct Group {
    /// Its folder.
    pub folder: PathBuf,
    /// Its path below the mount point.
    pub path: String,
}

impl Group {
    /// Makes it; says why where it cannot.
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

    /// Starts a Python program in the group.
    pub fn start(&self, script: &str) -> Child {
        let enter = format!("echo $$ > {}/cgroup.procs && exec python3 -c \"$0\"", self.folder.display());
        Command::new("sh")
            .args(["-c", &enter, script])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    }

    /// Processes in it.
    pub fn members(&self) -> Vec<u32> {
        let text = fs::read_to_string(self.folder.join("cgroup.procs")).unwrap_or_default();
        text.lines().filter_map(|line| line.parse().ok()).collect()
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        let end = Instant::now() + Duration::from_secs(20);
        while fs::remove_dir(&self.folder).is_err() && Instant::now() < end {
            for pid in self.members() {
                let _ = Command::new("kill").args(["-KILL", &pid.to_string()]).status();
            }
            thread::yield_now();
        }
    }
}
