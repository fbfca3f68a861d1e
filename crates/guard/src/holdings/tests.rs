//! Tests on this machine, with objects of this process.
#![allow(unsafe_code, reason = "shmget(2) and its like have no safe wrapper")]

use super::*;
use crate::decision::holdings::{Key, Kind};
use rustix::fs::{MemfdFlags, fstat, memfd_create};
use std::{
    fs::File,
    io::Write,
    os::{
        fd::AsFd,
        unix::{fs::MetadataExt, net::UnixStream},
    },
};

const MIB: usize = 1 << 20;

fn key(kind: Kind, file: &impl AsFd) -> Key {
    let about = fstat(file).unwrap();
    Key(kind, about.st_dev, about.st_ino)
}

/// Returns the KiB of an object of ours, and whether it is shown to belong to this process.
fn found(objects: &Objects, key: Key) -> (u64, bool) {
    let object = objects.get(&key).unwrap_or_else(|| panic!("{key:?} of {:#?}", objects.keys()));
    (object.kib, object.owner().is_some_and(|(pid, _)| pid == std::process::id()))
}

fn look() -> Objects {
    Scanner::new().unwrap().look().objects
}

#[test]
fn memory_of_a_memfd_that_was_written_is_its_writers() {
    let mut file = File::from(memfd_create("x", MemfdFlags::CLOEXEC).unwrap());
    file.write_all(&vec![1; 3 * MIB]).unwrap();
    assert_eq!(found(&look(), key(Kind::Shared, &file)), (3 << 10, true));
}

#[test]
fn a_removed_file_in_memory_is_told_from_one_that_stays() {
    let Ok(mut file) = tempfile::NamedTempFile::new_in("/dev/shm") else {
        return eprintln!("SKIPPED: there is no /dev/shm");
    };
    file.write_all(&vec![1; 2 * MIB]).unwrap();
    let objects = look();
    let Some(object) = objects.get(&key(Kind::File, file.as_file())) else {
        return eprintln!("SKIPPED: /dev/shm is not a tmpfs");
    };
    assert!(object.stays && object.kib == 2 << 10);
    fs::remove_file(file.path()).unwrap();
    assert_eq!(found(&look(), key(Kind::Shared, file.as_file())), (2 << 10, true));
}

#[test]
fn what_is_in_a_pipe_and_in_a_socket_is_its_writers() {
    let (reader, mut writer) = io::pipe().unwrap();
    writer.write_all(&vec![1; 60_000]).unwrap();
    let (mut sender, receiver) = UnixStream::pair().unwrap();
    sender.set_nonblocking(true).unwrap();
    while sender.write(&[1; 4096]).is_ok() {}
    let objects = look();
    let pipe = objects.get(&key(Kind::Pipe, &reader));
    let Some(pipe) = pipe else { return eprintln!("SKIPPED: pidfd_getfd(2) is not permitted") };
    assert_eq!((pipe.kib, pipe.owner().map(|owner| owner.0)), (59, Some(std::process::id())));
    let (kib, is_own) = found(&objects, key(Kind::Socket, &sender));
    assert!(kib >= 64 && is_own, "{kib} KiB");
    drop(receiver);
}

#[test]
fn a_segment_of_system_v_is_its_makers() {
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
    let objects = look();
    let object = objects.get(&Key(Kind::Segment, 0, id as u64)).cloned();
    // SAFETY: as above.
    unsafe { libc::shmdt(place) };
    let object = object.unwrap();
    assert_eq!((object.kib, object.stays), (4 << 10, false));
    assert_eq!(object.owner().map(|owner| owner.0), Some(std::process::id()));
}

#[test]
fn shared_memory_that_is_only_mapped_is_found() {
    let file = File::from(memfd_create("y", MemfdFlags::CLOEXEC).unwrap());
    file.set_len(2 * MIB as u64).unwrap();
    let about = file.metadata().unwrap();
    // SAFETY: no other code maps this memory.
    let mut map = unsafe { memmap2::MmapMut::map_mut(&file).unwrap() };
    drop(file);
    map.fill(1);
    let objects = look();
    match objects.get(&Key(Kind::Shared, about.dev(), about.ino())) {
        Some(object) => assert_eq!((object.kib, object.owner().is_some()), (2 << 10, true)),
        None => eprintln!("SKIPPED: /proc/PID/map_files cannot be read"),
    }
}
