//! Finds the mount point of resctrl, or the reason why it is not mounted.

use manycore_topology::{cgroup::unescape, sys_tree::SysTree};
use std::path::{Path, PathBuf};

/// The usual mount point.
pub const DEFAULT: &str = "/sys/fs/resctrl";

/// A mounted resctrl file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// The mount point.
    pub point: PathBuf,
    /// The mount options: `rw`, `cdp`, `mba_MBps`.
    pub options: Vec<String>,
}

/// Why no resctrl file system was found.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FindError {
    /// The kernel supports it, but it is not mounted.
    #[error("cache and bandwidth control is not mounted: mount -t resctrl resctrl {DEFAULT}")]
    NotMounted,
    /// The kernel has not registered the file system.
    #[error(
        "this kernel has no resctrl: the CPUs lack Intel RDT, AMD PQoS or Arm MPAM (as in nearly all virtual \
         machines), or the kernel was built without it; on openEuler for Arm, boot with arm64.mpam (kernel 6.6) or \
         mpam=acpi (5.10)"
    )]
    Unsupported,
    /// The given directory is not a resctrl file system.
    #[error("{0} is not a resctrl file system: expected a file 'schemata' and a directory 'info'")]
    NotResctrl(PathBuf),
}

/// Returns the mounted file system: the one at `wanted`, else the one at [`DEFAULT`], else any. `system` is
/// the root of `/proc`.
///
/// # Errors
/// There is no such file system.
pub fn find(system: &SysTree, wanted: Option<&Path>) -> Result<Mount, FindError> {
    let mounts = mounts(system);
    if let Some(point) = wanted {
        let there = point.join("schemata").is_file() && point.join("info").is_dir();
        let there = there.then(|| point.canonicalize().ok()).flatten();
        let point = there.ok_or_else(|| FindError::NotResctrl(point.to_owned()))?;
        let options = mounts.into_iter().rfind(|(_, mount)| mount.point == point);
        return Ok(Mount { point, options: options.map(|(_, mount)| mount.options).unwrap_or_default() });
    }
    let mut ours: Vec<Mount> =
        mounts.into_iter().filter(|(kind, _)| kind == "resctrl").map(|(_, mount)| mount).collect();
    ours.sort_by_key(|mount| mount.point != Path::new(DEFAULT));
    match ours.into_iter().next() {
        Some(mount) => Ok(mount),
        None if is_supported(system) => Err(FindError::NotMounted),
        None => Err(FindError::Unsupported),
    }
}

/// Whether the kernel has registered the file system (`/proc/filesystems`), which it does only on CPUs that
/// support it.
fn is_supported(system: &SysTree) -> bool {
    let text = system.read("proc/filesystems").unwrap_or_default();
    text.lines().any(|line| line.split_whitespace().last() == Some("resctrl"))
}

/// Returns the file system type and mount point of each mount.
fn mounts(system: &SysTree) -> Vec<(String, Mount)> {
    let text = system.read_part("proc/self/mounts", 4 << 20, str::to_owned);
    let text = text.or_else(|| system.read("proc/mounts")).unwrap_or_default();
    // `resctrl /sys/fs/resctrl resctrl rw,relatime,cdp 0 0`
    let mount = |line: &str| {
        let mut words = line.split(' ').skip(1);
        let (point, kind, options) = (words.next()?, words.next()?, words.next()?);
        let options = options.split(',').map(str::to_owned).collect();
        Some((kind.to_owned(), Mount { point: unescape(point).into(), options }))
    };
    text.lines().filter_map(mount).collect()
}

/// Returns `vendor_id` of the first CPU; absent on Arm.
pub fn vendor(system: &SysTree) -> Option<String> {
    let first = |text: &str| {
        let line = text.lines().find(|line| line.starts_with("vendor_id"));
        line.unwrap_or_default().to_owned()
    };
    let line = system.read_part("proc/cpuinfo", 4096, first)?;
    Some(line.split_once(':')?.1.trim().to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;
    use manycore_topology::capture::Capture;

    fn system(files: &[(&str, &str)]) -> SysTree {
        let mut capture = Capture::default();
        for (path, text) in files {
            capture.add_file(path, text);
        }
        SysTree::from_capture(capture)
    }

    #[test]
    fn mounts_are_found_with_their_options() {
        let tree = system(&[
            (
                "proc/self/mounts",
                "tmpfs /tmp tmpfs rw 0 0\nresctrl /mnt/a\\040b resctrl rw 0 0\nr /sys/fs/resctrl resctrl rw,cdp 0 0",
            ),
            ("proc/cpuinfo", "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6"),
        ]);
        let mount = find(&tree, None).unwrap();
        assert_eq!((mount.point, mount.options), (DEFAULT.into(), vec!["rw".to_owned(), "cdp".to_owned()]));
        assert_eq!(vendor(&tree).as_deref(), Some("GenuineIntel"));
        let elsewhere = system(&[("proc/self/mounts", "resctrl /mnt/a\\040b resctrl rw 0 0")]);
        assert_eq!(find(&elsewhere, None).unwrap().point, Path::new("/mnt/a b"));
    }

    #[test]
    fn the_reason_for_a_missing_mount_is_reported() {
        assert_eq!(find(&system(&[]), None), Err(FindError::Unsupported));
        let tree = system(&[("proc/filesystems", "nodev\tsysfs\nnodev\tresctrl\n\text4")]);
        assert_eq!(find(&tree, None), Err(FindError::NotMounted));
        let folder = tempfile::tempdir().unwrap();
        let missing = FindError::NotResctrl(folder.path().to_owned());
        assert_eq!(find(&tree, Some(folder.path())), Err(missing));
    }
}
