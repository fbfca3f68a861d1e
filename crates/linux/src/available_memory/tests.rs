//! Tests on simulated files and on this machine.

use super::*;
use std::fs;

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let path = folder.join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
}

#[test]
fn a_machine_tells_what_is_left_and_how_long_tasks_stalled() {
    let place = tempfile::tempdir().unwrap();
    let meminfo = "MemTotal: 1000 kB\nMemFree: 10 kB\nMemAvailable:   400 kB\nSwapTotal: 50 kB\nSwapFree: 20 kB\nShmem: 7 kB\n";
    let pressure = |total: u32| {
        format!("some avg10=0.00 total=9\nfull avg10=0.00 avg60=0.00 avg300=0.00 total={total}\n")
    };
    write(place.path(), &[("proc/meminfo", meminfo), ("proc/pressure/memory", &pressure(1000))]);
    let mut room = MachineMemory::open(place.path()).unwrap();
    let reading = room.read(1_000_000_000).unwrap();
    assert_eq!(
        (reading.available_bytes, reading.total_bytes, reading.available_with_swap()),
        (400 << 10, 1000 << 10, 420 << 10)
    );
    assert_eq!((reading.shmem_bytes, reading.stalled), (7 << 10, None));
    write(place.path(), &[("proc/pressure/memory", &pressure(1_001_000))]);
    assert_eq!(room.read(2_000_000_000).unwrap().stalled, Some(0.5));
    write(place.path(), &[("proc/pressure/memory", &pressure(1_001_000))]);
    assert_eq!(room.read(6_000_000_000).unwrap().stalled, Some(0.2));
    assert_eq!(room.read(9_000_000_000).unwrap().stalled, Some(0.0));
}

#[test]
fn a_kernel_without_stalls_or_available_memory_is_told() {
    let place = tempfile::tempdir().unwrap();
    assert!(MachineMemory::open(place.path()).is_err());
    write(place.path(), &[("proc/meminfo", "MemTotal: 1000 kB\n")]);
    assert!(MachineMemory::open(place.path()).unwrap_err().to_string().contains("MemAvailable"));
    write(place.path(), &[("proc/meminfo", "MemTotal: 1000 kB\nMemAvailable: 5 kB\n")]);
    let mut room = MachineMemory::open(place.path()).unwrap();
    assert!(!room.has_pressure() && room.read(5).unwrap().stalled.is_none());
}

#[test]
fn the_tightest_limit_of_a_group_and_those_above_counts() {
    let place = tempfile::tempdir().unwrap();
    let stat = "anon 5\nfile 9\nshmem 3\ninactive_file 100\nactive_file 20\n";
    write(
        place.path(),
        &[
            ("a/memory.current", "900"),
            ("a/memory.max", "1000"),
            ("a/memory.stat", stat),
            ("a/b/memory.current", "500"),
            ("a/b/memory.max", "max"),
            ("a/b/memory.stat", stat),
            ("a/b/memory.swap.current", "10"),
            ("a/b/memory.swap.max", "30"),
        ],
    );
    let mut room = GroupMemory::open(&place.path().join("a/b"), place.path()).unwrap();
    let reading = room.read(7).unwrap();
    assert_eq!(
        (reading.available_bytes, reading.total_bytes, reading.shmem_bytes, reading.at_ns),
        (220, 1000, 3, 7)
    );
    write(place.path(), &[("a/b/memory.max", "600")]);
    assert_eq!(room.read(8).unwrap().available_bytes, 220, "600 - 500 + 120 is the same");
    write(place.path(), &[("a/b/memory.max", "550")]);
    let reading = room.read(8).unwrap();
    assert_eq!(reading.available_bytes, 170);
    assert!(reading.swap_free_bytes <= 20, "at most memory.swap.max less what is used");
}

#[test]
fn groups_of_version_1_have_other_names_and_a_number_for_no_limit() {
    let place = tempfile::tempdir().unwrap();
    let stat = "cache 5\ntotal_shmem 2\ntotal_inactive_file 100\ntotal_active_file 20\n";
    write(
        place.path(),
        &[
            ("g/memory.usage_in_bytes", "900"),
            ("g/memory.limit_in_bytes", "1000"),
            ("g/memory.stat", stat),
            ("memory.usage_in_bytes", "9000"),
            ("memory.limit_in_bytes", "9223372036854771712"),
            ("memory.stat", stat),
        ],
    );
    let mut room = GroupMemory::open(&place.path().join("g"), place.path()).unwrap();
    let reading = room.read(7).unwrap();
    assert_eq!((reading.available_bytes, reading.total_bytes, reading.shmem_bytes), (220, 1000, 2));
    write(place.path(), &[("g/memory.limit_in_bytes", "9223372036854771712")]);
    assert_eq!(room.read(8), None, "no limit is set");
    assert!(GroupMemory::open(&place.path().join("none"), place.path()).is_err());
}

#[test]
fn this_machine_can_be_read() {
    let mut room = MachineMemory::open(Path::new("/")).unwrap();
    let reading = room.read(1).unwrap();
    assert!(reading.available_bytes > 0 && reading.available_bytes <= reading.total_bytes);
}
