//! Files that lie in memory (`tmpfs`): which mounts hold how much, and who writes there. Their memory belongs to no
//! process and stays until the files are removed.

use crate::{cgroup::unescape, tasks};
use rustix::fs::{
    AtFlags, CWD, Mode, OFlags, StatVfsMountFlags, StatxFlags, fstatvfs, makedev, openat, statvfs, statx,
};
use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    os::fd::AsFd,
    path::{Path, PathBuf},
};

/// A mounted `tmpfs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Number of the device, by which files are told to be on it.
    pub device: u64,
    /// Where it is mounted, as its processes see it.
    pub point: String,
    /// A process that sees it there, where we do not.
    pub seen_by: Option<u32>,
    /// Bytes in use.
    pub used: u64,
    /// Bytes at most, where it has a limit.
    pub size: Option<u64>,
}

/// A process with a file of such a mount open for writing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Writer {
    /// Process id.
    pub pid: u32,
    /// Device of the mount.
    pub device: u64,
    /// Bytes that it has passed to `write(2)` so far (`wchar` of `/proc/PID/io`), where we may know.
    pub written: Option<u64>,
}

/// All `tmpfs` mounts, in all mount namespaces that processes are in, each device once.
pub fn mounts() -> Vec<Mount> {
    seen_by(tasks::all())
}

/// Those that we or these processes see, each device once.
pub fn seen_by(viewers: impl IntoIterator<Item = u32>) -> Vec<Mount> {
    let mut found: BTreeMap<u64, Mount> = BTreeMap::new();
    let mut namespaces = BTreeSet::new();
    let own = std::process::id();
    for pid in [own].into_iter().chain(viewers) {
        let Ok(namespace) = fs::read_link(format!("/proc/{pid}/ns/mnt")) else { continue };
        if !namespaces.insert(namespace) {
            continue;
        }
        let Ok(table) = fs::read_to_string(format!("/proc/{pid}/mountinfo")) else { continue };
        for (device, point) in table.lines().filter_map(parse_mount) {
            if found.contains_key(&device) {
                continue;
            }
            let path = PathBuf::from(format!("/proc/{pid}/root{point}"));
            let Some((used, size)) = usage(&path) else { continue };
            let seen_by = (pid != own).then_some(pid);
            found.insert(device, Mount { device, point, seen_by, used, size });
        }
    }
    found.into_values().collect()
}

/// Device and mount point of a line of `mountinfo` (`proc(5)`), of a `tmpfs`.
fn parse_mount(line: &str) -> Option<(u64, String)> {
    let (mount, kind) = line.split_once(" - ")?;
    if kind.split(' ').next()? != "tmpfs" {
        return None;
    }
    let mut words = mount.split(' ').skip(2);
    let (major, minor) = words.next()?.split_once(':')?;
    let point = unescape(words.nth(1)?);
    Some((makedev(major.parse().ok()?, minor.parse().ok()?), point))
}

/// Bytes in use, and at most. A mount that another one covers is not seen from its path: its numbers are the other's,
/// which is why the device is compared by whoever looks for writers.
fn usage(path: &Path) -> Option<(u64, Option<u64>)> {
    let folder = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let status = fstatvfs(folder.as_fd()).or_else(|_| statvfs(path)).ok()?;
    let used = (status.f_blocks.saturating_sub(status.f_bfree)).saturating_mul(status.f_frsize);
    let is_writable = !status.f_flag.contains(StatVfsMountFlags::RDONLY);
    let size = status.f_blocks.saturating_mul(status.f_frsize);
    is_writable.then_some((used, (size > 0).then_some(size)))
}

/// Processes that have files on `device` open for writing. Files are asked for what is known of them without asking a
/// server (`AT_STATX_DONT_SYNC`), so that one that does not answer stops nobody.
pub fn writers(device: u64) -> Vec<Writer> {
    let is_there = |path: &Path| {
        let status = statx(CWD, path, AtFlags::STATX_DONT_SYNC, StatxFlags::TYPE).ok();
        status.is_some_and(|status| makedev(status.stx_dev_major, status.stx_dev_minor) == device)
    };
    let writes = |pid: u32, name: &str| {
        let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{name}")).unwrap_or_default();
        let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
        // O_WRONLY and O_RDWR.
        flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| flags & 3 != 0)
    };
    let mut found = Vec::new();
    for pid in tasks::all() {
        let Ok(files) = fs::read_dir(format!("/proc/{pid}/fd")) else { continue };
        let is_writer = files.flatten().any(|file| {
            is_there(&file.path()) && file.file_name().to_str().is_some_and(|name| writes(pid, name))
        });
        if is_writer {
            found.push(Writer { pid, device, written: written(pid) });
        }
    }
    found
}

/// Bytes that a process has passed to `write(2)` so far.
pub fn written(pid: u32) -> Option<u64> {
    let text = fs::read_to_string(format!("/proc/{pid}/io")).ok()?;
    text.lines().find_map(|line| line.strip_prefix("wchar:"))?.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};
    use std::io::{self, Write};

    #[test]
    fn a_line_of_mounts_is_read_with_its_blanks() {
        let line = r"36 35 0:31 / /mnt/a\040b rw,noatime shared:3 - tmpfs tmpfs rw,size=1024k";
        assert_eq!(parse_mount(line), Some((makedev(0, 31), "/mnt/a b".to_owned())));
        assert_eq!(parse_mount("36 35 8:1 / / rw - ext4 /dev/sda rw"), None);
        assert_eq!(parse_mount("nonsense"), None);
        assert_eq!(unescape(r"a\0"), r"a\0");
    }

    struct Mounted(tempfile::TempDir);

    impl Drop for Mounted {
        fn drop(&mut self) {
            let _ = unmount(self.0.path(), UnmountFlags::DETACH);
        }
    }

    fn mounted() -> io::Result<Mounted> {
        let folder = Mounted(tempfile::tempdir()?);
        let data = std::ffi::CString::new("size=8m").unwrap();
        mount("tmpfs", folder.0.path(), "tmpfs", MountFlags::empty(), Some(data.as_c_str()))?;
        Ok(folder)
    }

    #[test]
    fn a_mount_its_usage_and_who_writes_there_are_found() {
        let folder = match mounted() {
            Ok(folder) => folder,
            Err(error) => return eprintln!("SKIPPED: cannot mount: {error}"),
        };
        let mut file = fs::File::create(folder.0.path().join("x")).unwrap();
        file.write_all(&vec![1; 3 << 20]).unwrap();
        let point = folder.0.path().canonicalize().unwrap();
        let all = mounts();
        let mount = all.iter().find(|mount| Path::new(&mount.point) == point).unwrap();
        assert_eq!((mount.used, mount.size, mount.seen_by), (3 << 20, Some(8 << 20), None));
        let own = |writer: &Writer| {
            writer.pid == std::process::id() && writer.written.is_some_and(|bytes| bytes >= 3 << 20)
        };
        assert!(writers(mount.device).iter().any(own));
        drop(file);
        let reader = fs::File::open(folder.0.path().join("x")).unwrap();
        assert!(!writers(mount.device).iter().any(own), "one that reads is no writer");
        drop(reader);
    }
}
