//! The usage of `tmpfs` mounts, whose files are kept in memory. This memory belongs to no process and stays
//! in use until the files are removed.

use manycore_topology::cgroup::unescape;
use rustix::fs::{CWD, Mode, OFlags, StatVfsMountFlags, fstatvfs, makedev, openat, statvfs};
use std::{collections::BTreeMap, fs, os::fd::AsFd, path::Path};

/// A mounted `tmpfs`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Device number. It identifies the mount that a file is on.
    pub device: u64,
    /// Mount point.
    pub point: String,
    /// Bytes in use.
    pub used: u64,
    /// Limit in bytes, if there is one.
    pub size: Option<u64>,
}

/// Returns the `tmpfs` mounts in our own mount namespace, each device once. Those of other mount namespaces
/// are not examined: their processes choose where the paths lead, which may be a server that never answers.
pub fn mounts() -> Vec<Mount> {
    let mut found: BTreeMap<u64, Mount> = BTreeMap::new();
    let table = fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    for (device, point) in table.lines().filter_map(parse_mount) {
        if found.contains_key(&device) {
            continue;
        }
        if let Some((used, size)) = usage(Path::new(&point)) {
            found.insert(device, Mount { device, point, used, size });
        }
    }
    found.into_values().collect()
}

/// Returns the device and mount point in a line of `mountinfo` (`proc(5)`), if it is a `tmpfs`.
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

/// Returns the bytes in use and the limit. If another mount covers this one, its path leads to the other and
/// so do the numbers.
fn usage(path: &Path) -> Option<(u64, Option<u64>)> {
    let folder = openat(CWD, path, OFlags::PATH | OFlags::CLOEXEC, Mode::empty()).ok()?;
    let status = fstatvfs(folder.as_fd()).or_else(|_| statvfs(path)).ok()?;
    let used = (status.f_blocks.saturating_sub(status.f_bfree)).saturating_mul(status.f_frsize);
    let is_writable = !status.f_flag.contains(StatVfsMountFlags::RDONLY);
    let size = status.f_blocks.saturating_mul(status.f_frsize);
    is_writable.then_some((used, (size > 0).then_some(size)))
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
    fn a_mount_and_its_usage_are_found() {
        let folder = match mounted() {
            Ok(folder) => folder,
            Err(error) => return eprintln!("SKIPPED: cannot mount: {error}"),
        };
        let mut file = fs::File::create(folder.0.path().join("x")).unwrap();
        file.write_all(&vec![1; 3 << 20]).unwrap();
        let point = folder.0.path().canonicalize().unwrap();
        let all = mounts();
        let mount = all.iter().find(|mount| Path::new(&mount.point) == point).unwrap();
        assert_eq!((mount.used, mount.size), (3 << 20, Some(8 << 20)));
    }
}
