//! Properties of the file system under a scratch directory for I/O measurements.

use manycore_topology::cgroup::unescape;
use std::{fs, path::Path};

/// Returns the type of the file system that a directory is on, as named in the mount table (`ext4`, `xfs`,
/// `tmpfs`; `/proc/self/mountinfo`).
pub fn file_system(folder: &Path) -> Option<String> {
    let folder = fs::canonicalize(folder).ok()?;
    let table = fs::read_to_string("/proc/self/mountinfo").ok()?;
    mount_type(&table, &folder)
}

/// Returns the bytes and the number of files that an ordinary user can still add to the file system of a
/// directory. The number of files is absent if the file system does not limit it (`statvfs(3)`).
pub fn free_space(folder: &Path) -> Option<(u64, Option<u64>)> {
    let about = rustix::fs::statvfs(folder).ok()?;
    let files = Some(about.f_favail).filter(|_| about.f_files > 0);
    Some((about.f_bavail.saturating_mul(about.f_frsize), files))
}

/// Returns the type of the mount nearest above a directory. Of several on the same mount point, the last one
/// covers the others.
fn mount_type(table: &str, folder: &Path) -> Option<String> {
    let mounts = table.lines().filter_map(|line| {
        let (place, kind) = line.split_once(" - ")?;
        let point = unescape(place.split(' ').nth(4)?);
        Some((point, kind.split(' ').next()?.to_owned()))
    });
    let above = mounts.filter(|(point, _)| folder.starts_with(point));
    above.max_by_key(|(point, _)| Path::new(point).components().count()).map(|(_, kind)| kind)
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "22 1 254:1 / / rw - ext4 /dev/vda1 rw\n\
                         30 22 0:26 / /tmp rw - tmpfs tmpfs rw\n\
                         31 22 0:27 / /my\\040disk rw - xfs /dev/sdb rw\n\
                         32 22 0:28 / /tmp rw - overlay overlay rw\n";

    #[test]
    fn the_nearest_mount_counts() {
        for (folder, kind) in
            [("/home/x", "ext4"), ("/tmp/a/b", "overlay"), ("/my disk/a", "xfs"), ("/tmpx", "ext4")]
        {
            assert_eq!(mount_type(TABLE, Path::new(folder)).as_deref(), Some(kind), "{folder}");
        }
        assert_eq!(mount_type("nonsense", Path::new("/")), None);
    }

    #[test]
    fn a_folder_is_on_one() {
        // After a change of root (chroot) the mount table does not contain the root directory.
        assert_eq!(file_system(Path::new("/proc")).as_deref(), Some("proc"));
        assert!(free_space(Path::new(".")).is_some_and(|(bytes, _)| bytes > 0));
        assert_eq!(free_space(Path::new("/nonexistent")), None);
    }
}
