//! [`Kernel`] as a FUSE file system.

use super::kernel::Kernel;
use fuser::{
    BackgroundSession, FileAttr, FileType, Filesystem, MountOption, ReplyAttr, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyWrite, Request, TimeOrNow,
};
use libc::{ENOENT, ENOTDIR};
use std::{
    ffi::OsStr,
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

/// Validity of cached entries: the kernel caches nothing, so every access reaches the file system.
const NO_CACHING: Duration = Duration::ZERO;
/// `FOPEN_DIRECT_IO`: as in kernfs, files have no size, and are read until their end.
const FOPEN_DIRECT_IO: u32 = 1;

/// The file system; the inode number of a path is its position in the list, from 1.
struct Fuse {
    kernel: Kernel,
    paths: Vec<String>,
}

/// Mounts the file system; it is unmounted when the result is dropped.
///
/// # Errors
/// `/dev/fuse` or the permission to mount is missing.
pub fn mount(kernel: Kernel, point: &Path) -> std::io::Result<BackgroundSession> {
    let options = [MountOption::FSName("openeuler".to_owned())];
    let fuse = Fuse { kernel: kernel.mount(), paths: vec![String::new()] };
    fuser::spawn_mount2(fuse, point, &options)
}

impl Fuse {
    fn path(&self, number: u64) -> String {
        self.paths.get(number as usize - 1).cloned().unwrap_or_default()
    }

    fn below(&self, parent: u64, name: &OsStr) -> String {
        format!("{}/{}", self.path(parent), name.to_string_lossy()).trim_start_matches('/').to_owned()
    }

    fn number(&mut self, path: &str) -> u64 {
        let at = self.paths.iter().position(|known| known == path).unwrap_or_else(|| {
            self.paths.push(path.to_owned());
            self.paths.len() - 1
        });
        at as u64 + 1
    }

    fn about(&mut self, path: &str) -> Option<FileAttr> {
        let kind = if self.kernel.list(path).is_some() {
            FileType::Directory
        } else {
            self.kernel.read(path).map(|_| FileType::RegularFile)?
        };
        let perm = if kind == FileType::Directory { 0o755 } else { 0o644 };
        Some(FileAttr {
            ino: self.number(path),
            size: 0,
            blocks: 0,
            atime: UNIX_EPOCH,
            mtime: UNIX_EPOCH,
            ctime: UNIX_EPOCH,
            crtime: UNIX_EPOCH,
            kind,
            perm,
            nlink: 1,
            uid: 0,
            gid: 0,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn entry(&mut self, path: &str, reply: ReplyEntry) {
        match self.about(path) {
            Some(about) => reply.entry(&NO_CACHING, &about, 0),
            None => reply.error(ENOENT),
        }
    }

    fn attributes(&mut self, number: u64, reply: ReplyAttr) {
        match self.about(&self.path(number)) {
            Some(about) => reply.attr(&NO_CACHING, &about),
            None => reply.error(ENOENT),
        }
    }
}

impl Filesystem for Fuse {
    fn lookup(&mut self, _: &Request<'_>, parent: u64, name: &OsStr, reply: ReplyEntry) {
        let path = self.below(parent, name);
        self.entry(&path, reply);
    }

    fn getattr(&mut self, _: &Request<'_>, number: u64, _: Option<u64>, reply: ReplyAttr) {
        self.attributes(number, reply);
    }

    /// Truncating changes nothing, as in kernfs.
    fn setattr(
        &mut self,
        _: &Request<'_>,
        number: u64,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<u64>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<u32>,
        reply: ReplyAttr,
    ) {
        self.attributes(number, reply);
    }

    fn open(&mut self, _: &Request<'_>, _: u64, _: i32, reply: ReplyOpen) {
        reply.opened(0, FOPEN_DIRECT_IO);
    }

    fn read(
        &mut self,
        _: &Request<'_>,
        number: u64,
        _: u64,
        offset: i64,
        size: u32,
        _: i32,
        _: Option<u64>,
        reply: ReplyData,
    ) {
        let Some(text) = self.kernel.read(&self.path(number)) else { return reply.error(ENOENT) };
        let from = (offset as usize).min(text.len());
        let upto = (from + size as usize).min(text.len());
        reply.data(&text.as_bytes()[from..upto]);
    }

    fn write(
        &mut self,
        _: &Request<'_>,
        number: u64,
        _: u64,
        _: i64,
        data: &[u8],
        _: u32,
        _: i32,
        _: Option<u64>,
        reply: ReplyWrite,
    ) {
        match self.kernel.write(&self.path(number), &String::from_utf8_lossy(data)) {
            Ok(()) => reply.written(data.len() as u32),
            Err(error) => reply.error(error),
        }
    }

    fn readdir(&mut self, _: &Request<'_>, number: u64, _: u64, offset: i64, mut reply: ReplyDirectory) {
        let path = self.path(number);
        let Some(names) = self.kernel.list(&path) else { return reply.error(ENOTDIR) };
        for (at, name) in names.iter().enumerate().skip(offset as usize) {
            let inside = format!("{path}/{name}").trim_start_matches('/').to_owned();
            let Some(about) = self.about(&inside) else { continue };
            if reply.add(about.ino, at as i64 + 1, about.kind, name) {
                break;
            }
        }
        reply.ok();
    }

    fn mkdir(&mut self, _: &Request<'_>, parent: u64, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        let path = self.below(parent, name);
        match self.kernel.make(&path) {
            Ok(()) => self.entry(&path, reply),
            Err(error) => reply.error(error),
        }
    }

    fn rmdir(&mut self, _: &Request<'_>, parent: u64, name: &OsStr, reply: ReplyEmpty) {
        let path = self.below(parent, name);
        match self.kernel.remove(&path) {
            Ok(()) => {
                // A directory that is created later under this name is another one.
                for known in &mut self.paths {
                    if *known == path || known.starts_with(&format!("{path}/")) {
                        "removed".clone_into(known);
                    }
                }
                reply.ok();
            }
            Err(error) => reply.error(error),
        }
    }
}
