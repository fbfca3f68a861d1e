//! Where resctrl is mounted, and why it is not.

use manycore_topology::{cgroup::unescape, tree::Tree};
use std::path::{Path, PathBuf};

/// Where it is mounted unless somebody chose another place.
pub const DEFAULT: &str = "/sys/fs/resctrl";

/// A mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mount {
    /// Where.
    pub point: PathBuf,
    /// `rw`, `cdp`, `mba_MBps`.
    pub options: Vec<String>,
}

/// Why there is none.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Missing {
    /// The kernel could, but nobody has mounted it.
    #[error("cache and bandwidth control is not mounted: mount -t resctrl resctrl {DEFAULT}")]
    NotMounted,
    /// The kernel has not registered it.
    #[error(
        "this kernel has no resctrl: the CPUs lack Intel RDT, AMD PQoS or Arm MPAM (in virtual machines they nearly \
         always do), or the kernel was built without it; on openEuler for Arm, boot with arm64.mpam (kernel 6.6) or \
         mpam=acpi (5.10)"
    )]
    Unsupported,
    /// The folder that was named is none.
    #[error("{0} is no resctrl file system: it has no 'schemata' and no 'info'")]
    NotThere(PathBuf),
}

/// The mounted file system: that at `wanted`, or else the one at [`DEFAULT`] or anywhere. `system` is the root of
/// `/proc`.
///
/// # Errors
/// Why there is none.
pub fn find(system: &Tree, wanted: Option<&Path>) -> Result<Mount, Missing> {
    let mounts = mounts(system);
    if let Some(point) = wanted {
        let there = point.join("schemata").is_file() && point.join("info").is_dir();
        let there = there.then(|| point.canonicalize().ok()).flatten();
        let point = there.ok_or_else(|| Missing::NotThere(point.to_owned()))?;
        let options = mounts.into_iter().rfind(|(_, mount)| mount.point == point);
        return Ok(Mount { point, options: options.map(|(_, mount)| mount.options).unwrap_or_default() });
    }
    let mut ours: Vec<Mount> =
        mounts.into_iter().filter(|(kind, _)| kind == "resctrl").map(|(_, mount)| mount).collect();
    ours.sort_by_key(|mount| mount.point != Path::new(DEFAULT));
    match ours.into_iter().next() {
        Some(mount) => Ok(mount),
        None if is_supported(system) => Err(Missing::NotMounted),
        None => Err(Missing::Unsupported),
    }
}

/// Whether the kernel knows the file system (`/proc/filesystems`): it does only where it found CPUs that have it.
fn is_supported(system: &Tree) -> bool {
    let text = system.read("proc/filesystems").unwrap_or_default();
    text.lines().any(|line| line.split_whitespace().last() == Some("resctrl"))
}

/// Kind and place of each mount that can be meant.
fn mounts(system: &Tree) -> Vec<(String, Mount)> {
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

/// `vendor_id` of the first CPU; Arm has none.
pub fn vendor(system: &Tree) -> Option<String> {
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

    fn system(files: &[(&str, &str)]) -> Tree {
        let mut capture = Capture::default();
        for (path, text) in files {
            capture.add_file(path, text);
        }
        Tree::from_capture(capture)
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
    fn it_is_told_why_there_is_none() {
        assert_eq!(find(&system(&[]), None), Err(Missing::Unsupported));
        let tree = system(&[("proc/filesystems", "nodev\tsysfs\nnodev\tresctrl\n\text4")]);
        assert_eq!(find(&tree, None), Err(Missing::NotMounted));
        let folder = tempfile::tempdir().unwrap();
        let missing = Missing::NotThere(folder.path().to_owned());
        assert_eq!(find(&tree, Some(folder.path())), Err(missing));
    }
}
