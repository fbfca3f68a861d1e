//! Tests on this machine, with objects of this process.
#![allow(unsafe_code, reason = "shmget(2) and its like have no safe wrapper")]

use super::*;
use crate::decision::memory_objects::{ObjectId, ObjectKind};
use rustix::fs::{MemfdFlags, fstat, memfd_create};
use std::{
    fs,
    fs::File,
    io::Write,
    os::{
        fd::AsFd,
        unix::{fs::MetadataExt, net::UnixStream},
    },
};

const MIB: usize = 1 << 20;

fn key(kind: ObjectKind, file: &impl AsFd) -> ObjectId {
    let about = fstat(file).unwrap();
    ObjectId(kind, about.st_dev, about.st_ino)
}

/// Returns the KiB of an object of ours, and whether it is shown to belong to this process.
fn found(objects: &ObjectMap, key: ObjectId) -> (u64, bool) {
    let object = objects.get(&key).unwrap_or_else(|| panic!("{key:?} of {:#?}", objects.keys()));
    (object.kib, object.owner().is_some_and(|(pid, _)| pid == std::process::id()))
}

fn scan() -> ObjectMap {
    Scanner::new().unwrap().scan().objects
}

#[test]
fn memfd_belongs_to_its_writer() {
    let mut file = File::from(memfd_create("x", MemfdFlags::CLOEXEC).unwrap());
    file.write_all(&vec![1; 3 * MIB]).unwrap();
    assert_eq!(found(&scan(), key(ObjectKind::Shared, &file)), (3 << 10, true));
}

#[test]
fn removed_tmpfs_file_differs_from_persistent_one() {
    let Ok(mut file) = tempfile::NamedTempFile::new_in("/dev/shm") else {
        return eprintln!("SKIPPED: there is no /dev/shm");
    };
    file.write_all(&vec![1; 2 * MIB]).unwrap();
    let objects = scan();
    let Some(object) = objects.get(&key(ObjectKind::File, file.as_file())) else {
        return eprintln!("SKIPPED: /dev/shm is not a tmpfs");
    };
    assert!(object.is_persistent && object.kib == 2 << 10);
    fs::remove_file(file.path()).unwrap();
    assert_eq!(found(&scan(), key(ObjectKind::Shared, file.as_file())), (2 << 10, true));
}

#[test]
fn pipe_and_socket_contents_belong_to_their_writer() {
    let (reader, mut writer) = io::pipe().unwrap();
    writer.write_all(&vec![1; 60_000]).unwrap();
    let (mut sender, receiver) = UnixStream::pair().unwrap();
    sender.set_nonblocking(true).unwrap();
    while sender.write(&[1; 4096]).is_ok() {}
    let objects = scan();
    let pipe = objects.get(&key(ObjectKind::Pipe, &reader));
    let Some(pipe) = pipe else { return eprintln!("SKIPPED: pidfd_getfd(2) is not permitted") };
    assert_eq!((pipe.kib, pipe.owner().map(|owner| owner.0)), (59, Some(std::process::id())));
    let (kib, is_own) = found(&objects, key(ObjectKind::Socket, &sender));
    assert!(kib >= 64 && is_own, "{kib} KiB");
    drop(receiver);
}

#[test]
fn segment_belongs_to_its_creator() {
    // SAFETY: a new segment is created, attached at an address that the kernel chooses, removed at once (it
    // stays while it is attached), and detached at the end. Its memory is written only in between.
    let (id, place) = unsafe {
        let id = libc::shmget(libc::IPC_PRIVATE, 4 * MIB, 0o600 | libc::IPC_CREAT);
        let place = libc::shmat(id, std::ptr::null(), 0);
        libc::shmctl(id, libc::IPC_RMID, std::ptr::null_mut());
        (id, place)
    };
    if id < 0 || place as isize == -1 {
        return eprintln!("SKIPPED: no System V segment can be created");
    }
    // SAFETY: as above.
    unsafe { std::ptr::write_bytes(place.cast::<u8>(), 1, 4 * MIB) };
    let objects = scan();
    let object = objects.get(&ObjectId(ObjectKind::Segment, 0, id as u64)).cloned();
    // SAFETY: as above.
    unsafe { libc::shmdt(place) };
    let object = object.unwrap();
    assert_eq!((object.kib, object.is_persistent), (4 << 10, false));
    assert_eq!(object.owner().map(|owner| owner.0), Some(std::process::id()));
}

#[test]
fn mapped_shared_memory_is_found() {
    let file = File::from(memfd_create("y", MemfdFlags::CLOEXEC).unwrap());
    file.set_len(2 * MIB as u64).unwrap();
    let about = file.metadata().unwrap();
    // SAFETY: no other code maps this memory.
    let mut map = unsafe { memmap2::MmapMut::map_mut(&file).unwrap() };
    drop(file);
    map.fill(1);
    let objects = scan();
    match objects.get(&ObjectId(ObjectKind::Shared, about.dev(), about.ino())) {
        Some(object) => assert_eq!((object.kib, object.owner().is_some()), (2 << 10, true)),
        None => eprintln!("SKIPPED: /proc/PID/map_files cannot be read"),
    }
}
