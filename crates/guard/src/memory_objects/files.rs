//! Open files and mappings of processes.
#![allow(unsafe_code, reason = "getsockopt(2) with SO_MEMINFO has no safe wrapper")]

use super::ScannedProcess;
use crate::decision::memory_objects::{Holder, MemoryObject, ObjectId, ObjectKind, ObjectMap};
use manycore_linux::pidfd;
use rustix::{
    fs::{AtFlags, CWD, FileType, MemfdFlags, Statx, StatxFlags, fstat, makedev, memfd_create, statx},
    io::ioctl_fionread,
    process::{PidfdGetfdFlags, pidfd_getfd},
};
use std::{
    collections::{BTreeSet, btree_map::Entry},
    fs::{self, File},
    io::{self, Read},
    os::fd::{AsRawFd, OwnedFd},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Largest number of open files of a process that are examined.
const MOST_FILES: usize = 1 << 16;

/// Longest list of mappings that is read, in bytes.
const MOST_MAPS: u64 = 16 << 20;

/// Mappings are examined if the process has at least this much shared memory, in KiB.
const LEAST_SHMEM_KIB: u64 = 1 << 10;

/// What is needed to classify objects.
#[derive(Debug)]
pub(super) struct Classifier {
    /// Devices of `tmpfs` mounts, and [`Self::memfd_device`].
    tmpfs_devices: BTreeSet<u64>,
    /// Mount namespaces whose devices are known.
    namespaces: BTreeSet<std::path::PathBuf>,
    /// Device of shared memory without a name.
    memfd_device: u64,
    /// Files created after this time are new.
    since: SystemTime,
}

impl Classifier {
    pub(super) fn new() -> io::Result<Self> {
        let memfd_device = memfd_create("manycore", MemfdFlags::CLOEXEC)?;
        let memfd_device = fstat(&memfd_device)?.st_dev;
        Ok(Self {
            tmpfs_devices: BTreeSet::new(),
            namespaces: BTreeSet::new(),
            memfd_device,
            since: UNIX_EPOCH,
        })
    }

    /// Begins a scan. The devices are read again, because the number of an unmounted one may be reused by
    /// another file system.
    pub(super) fn begin(&mut self, since: SystemTime) {
        self.since = since;
        self.namespaces.clear();
        self.tmpfs_devices.clear();
        self.tmpfs_devices.insert(self.memfd_device);
    }

    /// Adds what a process has open and mapped.
    pub(super) fn add_process(&mut self, process: &ScannedProcess, objects: &mut ObjectMap) {
        let pid = process.holder.pid;
        self.add_tmpfs_devices(pid);
        let Ok(folder) = fs::read_dir(format!("/proc/{pid}/fd")) else { return };
        let mut handle = None;
        for entry in folder.flatten().take(MOST_FILES) {
            let name = entry.file_name();
            let Some(number) = name.to_str().and_then(|name| name.parse::<i32>().ok()) else { continue };
            let Some(about) = statx_of(&format!("/proc/{pid}/fd/{number}")) else { continue };
            let Some(kind) = self.kind(&about) else { continue };
            let key = ObjectId(kind, device(&about), about.stx_ino);
            if let Entry::Vacant(place) = objects.entry(key) {
                let kib = match kind {
                    ObjectKind::Pipe | ObjectKind::Socket => content_kib(&mut handle, pid, number, kind),
                    _ => Some(about.stx_blocks / 2),
                };
                let Some(kib) = kib else { continue };
                place.insert(self.object(kind, kib, &about));
            }
            let writes = kind == ObjectKind::Socket || is_writable(pid, number);
            add_holder(objects, key, Holder { writes, ..process.holder });
        }
        if process.shmem_kib >= LEAST_SHMEM_KIB {
            self.mappings(&process.holder, objects);
        }
    }

    /// Adds the `tmpfs` devices in the mount namespace of a process.
    fn add_tmpfs_devices(&mut self, pid: u32) {
        let Ok(namespace) = fs::read_link(format!("/proc/{pid}/ns/mnt")) else { return };
        if !self.namespaces.insert(namespace) {
            return;
        }
        let Ok(table) = fs::read_to_string(format!("/proc/{pid}/mountinfo")) else { return };
        self.tmpfs_devices.extend(table.lines().filter_map(parse_device));
    }

    fn kind(&self, about: &Statx) -> Option<ObjectKind> {
        match FileType::from_raw_mode(about.stx_mode.into()) {
            FileType::Fifo => Some(ObjectKind::Pipe),
            FileType::Socket => Some(ObjectKind::Socket),
            FileType::RegularFile if !self.tmpfs_devices.contains(&device(about)) => None,
            FileType::RegularFile if about.stx_nlink == 0 => Some(ObjectKind::Shared),
            FileType::RegularFile => Some(ObjectKind::File),
            _ => None,
        }
    }

    fn object(&self, kind: ObjectKind, kib: u64, about: &Statx) -> MemoryObject {
        let created = Duration::new(about.stx_btime.tv_sec.max(0) as u64, about.stx_btime.tv_nsec);
        let has_creation_time = StatxFlags::from_bits_retain(about.stx_mask).contains(StatxFlags::BTIME);
        MemoryObject {
            kib,
            creator: Some(about.stx_uid),
            is_persistent: kind == ObjectKind::File,
            is_new: has_creation_time && UNIX_EPOCH + created >= self.since,
            holders: Vec::new(),
        }
    }

    /// Adds shared mappings of files in memory.
    fn mappings(&self, holder: &Holder, objects: &mut ObjectMap) {
        let pid = holder.pid;
        let Ok(file) = File::open(format!("/proc/{pid}/maps")) else { return };
        let mut text = String::new();
        if file.take(MOST_MAPS).read_to_string(&mut text).is_err() {
            return;
        }
        for mapping in text.lines().filter_map(Mapping::parse) {
            // System V segments have a list of their own.
            if !self.tmpfs_devices.contains(&mapping.device) || mapping.is_segment {
                continue;
            }
            let found = [ObjectKind::Shared, ObjectKind::File]
                .map(|kind| ObjectId(kind, mapping.device, mapping.inode));
            let key = match found.into_iter().find(|key| objects.contains_key(key)) {
                Some(key) => key,
                None => {
                    let Some(about) = statx_of(&format!("/proc/{pid}/map_files/{}", mapping.range)) else {
                        continue;
                    };
                    let Some(kind) = self.kind(&about) else { continue };
                    let key = ObjectId(kind, mapping.device, mapping.inode);
                    objects.insert(key, self.object(kind, about.stx_blocks / 2, &about));
                    key
                }
            };
            add_holder(objects, key, Holder { writes: mapping.is_writable, ..*holder });
        }
    }
}

/// Adds a holder to an object, once. It is a writer if one of its descriptors or mappings is writable.
fn add_holder(objects: &mut ObjectMap, key: ObjectId, holder: Holder) {
    let Some(object) = objects.get_mut(&key) else { return };
    match object.holders.iter_mut().find(|other| other.pid == holder.pid) {
        Some(other) => other.writes |= holder.writes,
        None => object.holders.push(holder),
    }
}

fn statx_of(path: &str) -> Option<Statx> {
    let flags = AtFlags::STATX_DONT_SYNC | AtFlags::NO_AUTOMOUNT;
    statx(CWD, path, flags, StatxFlags::BASIC_STATS | StatxFlags::BTIME).ok()
}

fn device(about: &Statx) -> u64 {
    makedev(about.stx_dev_major, about.stx_dev_minor)
}

/// Whether an open file may be written to (`O_WRONLY`, `O_RDWR`).
fn is_writable(pid: u32, number: i32) -> bool {
    let info = fs::read_to_string(format!("/proc/{pid}/fdinfo/{number}")).unwrap_or_default();
    let flags = info.lines().find_map(|line| line.strip_prefix("flags:"));
    flags.and_then(|flags| u32::from_str_radix(flags.trim(), 8).ok()).is_some_and(|flags| flags & 3 != 0)
}

/// Returns the KiB in a pipe or in the buffers of a socket.
fn content_kib(handle: &mut Option<OwnedFd>, pid: u32, number: i32, kind: ObjectKind) -> Option<u64> {
    if handle.is_none() {
        *handle = Some(pidfd::open_pidfd(pid).ok()?);
    }
    let copy = pidfd_getfd(handle.as_ref()?, number, PidfdGetfdFlags::empty()).ok()?;
    let bytes = match kind {
        ObjectKind::Pipe => ioctl_fionread(&copy).ok()?,
        _ => socket_buffer_bytes(&copy)?,
    };
    Some(bytes.div_ceil(1024))
}

/// Returns the bytes in a socket's buffers (`SO_MEMINFO`, Linux 4.12; `include/uapi/linux/sock_diag.h`).
fn socket_buffer_bytes(socket: &OwnedFd) -> Option<u64> {
    const FIELDS: usize = 9;
    // SK_MEMINFO_RMEM_ALLOC, _WMEM_ALLOC, _FWD_ALLOC, _WMEM_QUEUED, _BACKLOG. Data queued for sending is in
    // the second of these for some address families and in the fourth for others.
    let mut fields = [0u32; FIELDS];
    let mut length = size_of_val(&fields) as libc::socklen_t;
    // SAFETY: the pointers are to an array and its length in bytes, which outlive the call.
    let result = unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_MEMINFO,
            fields.as_mut_ptr().cast(),
            &raw mut length,
        )
    };
    let field = |at: usize| u64::from(fields[at]);
    (result == 0).then(|| field(0) + field(2).max(field(5)) + field(4) + field(7))
}

/// Returns the device in a line of `mountinfo` (`proc(5)`), if it is a `tmpfs`.
fn parse_device(line: &str) -> Option<u64> {
    let (mount, kind) = line.split_once(" - ")?;
    let (major, minor) = mount.split(' ').nth(2)?.split_once(':')?;
    let is_memory = kind.split(' ').next()? == "tmpfs";
    is_memory.then_some(makedev(major.parse().ok()?, minor.parse().ok()?))
}

/// A shared mapping in `/proc/PID/maps`.
#[derive(Debug, PartialEq, Eq)]
struct Mapping {
    /// Its name in `/proc/PID/map_files`.
    range: String,
    is_writable: bool,
    device: u64,
    inode: u64,
    is_segment: bool,
}

impl Mapping {
    fn parse(line: &str) -> Option<Self> {
        let mut words = line.split_ascii_whitespace();
        let (from, to) = words.next()?.split_once('-')?;
        let rights = words.next()?;
        let (major, minor) = words.nth(1)?.split_once(':')?;
        let inode = words.next()?.parse().ok()?;
        let hex = |word| u32::from_str_radix(word, 16).ok();
        let bare = |word: &str| u64::from_str_radix(word, 16).ok().map(|number| format!("{number:x}"));
        (rights.ends_with('s') && inode > 0).then_some(())?;
        Some(Self {
            range: format!("{}-{}", bare(from)?, bare(to)?),
            is_writable: rights.as_bytes().get(1) == Some(&b'w'),
            device: makedev(hex(major)?, hex(minor)?),
            inode,
            is_segment: words.next().is_some_and(|path| path.starts_with("/SYSV")),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mapping_line_is_parsed() {
        let line =
            "7f0a1c000000-7f0a1c100000 rw-s 00000000 00:01 4711                       /memfd:a b (deleted)";
        let mapping = Mapping::parse(line).unwrap();
        assert_eq!((mapping.range.as_str(), mapping.is_writable), ("7f0a1c000000-7f0a1c100000", true));
        assert_eq!((mapping.device, mapping.inode, mapping.is_segment), (makedev(0, 1), 4711, false));
        assert_eq!(Mapping::parse(&line.replace("rw-s", "rw-p")), None);
        assert!(Mapping::parse(&line.replace("/memfd:a b", "/SYSV00000000")).unwrap().is_segment);
        assert_eq!(
            Mapping::parse("00400000-00401000 r--s 00000000 08:01 3 /x").unwrap().range,
            "400000-401000"
        );
        assert_eq!(Mapping::parse("nonsense"), None);
        assert_eq!(parse_device("36 35 0:31 / /a rw - tmpfs tmpfs rw"), Some(makedev(0, 31)));
        assert_eq!(parse_device("36 35 8:1 / / rw - ext4 /dev/sda rw"), None);
    }
}
