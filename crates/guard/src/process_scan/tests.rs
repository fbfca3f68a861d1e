//! Tests on simulated files and on this machine.

use super::*;
use manycore_linux::process_reader::ProcessName;
use std::fs;

/// Returns a machine with one process of this size in KiB.
fn machine(pid: u32, start: u64, kib: u32) -> tempfile::TempDir {
    let root = tempfile::tempdir().unwrap();
    let folder = root.path().join(format!("proc/{pid}"));
    fs::create_dir_all(&folder).unwrap();
    let pages = kib / 4;
    fs::write(
        folder.join("stat"),
        format!("{pid} (x) S 1 {pid} 7 0 -1 0 1 2 3 4 5 6 7 8 20 0 3 0 {start} 9 {pages} 1"),
    )
    .unwrap();
    fs::write(folder.join("status"), format!("Uid:\t5\t5\nRssAnon:\t{kib} kB\nRssFile:\t0 kB\n")).unwrap();
    root
}

#[test]
fn what_has_not_changed_is_not_looked_at_closely_nor_judged_again() {
    let root = machine(40, 9, 100_000);
    let mut survey = ProcessScanner::open(root.path()).unwrap();
    let mut table = ProcessTable::new(8);
    let mut judged = 0;
    for (pages, expected) in [(25_000, 1), (25_001, 1), (26_000, 2)] {
        let text = format!("40 (x) S 1 40 7 0 -1 0 1 2 3 4 5 6 7 8 20 0 3 0 9 9 {pages} 1");
        fs::write(root.path().join("proc/40/stat"), text).unwrap();
        survey.scan_all(&mut table, 5, false, |_| judged += 1).unwrap();
        assert_eq!((judged, table.processes().len()), (expected, 1));
    }
    assert_eq!((table.processes()[0].reading.kib, table.processes()[0].user), (100_000, 5));
    fs::remove_dir_all(root.path().join("proc/40")).unwrap();
    survey.scan_all(&mut table, 6, false, |_| {}).unwrap();
    assert!(table.processes().is_empty());
}

#[test]
fn no_number_of_processes_is_too_many_to_be_listed() {
    let root = tempfile::tempdir().unwrap();
    for pid in 1..=3000 {
        let folder = root.path().join(format!("proc/{pid}"));
        fs::create_dir_all(&folder).unwrap();
        fs::write(
            folder.join("stat"),
            format!("{pid} (x) S 1 {pid} 7 0 -1 0 1 2 3 4 5 6 7 8 20 0 3 0 9 9 25 1"),
        )
        .unwrap();
        fs::write(folder.join("status"), "Uid:\t5\t5\nRssAnon:\t100 kB\n").unwrap();
    }
    let mut table = ProcessTable::new(4000);
    ProcessScanner::open(root.path()).unwrap().scan_all(&mut table, 5, false, |_| {}).unwrap();
    assert_eq!(table.processes().len(), 3000);
}

#[test]
fn this_process_and_a_child_are_found_with_their_memory() {
    let mut survey = ProcessScanner::open(Path::new("/")).unwrap();
    let mut table = ProcessTable::new(1 << 15);
    let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
    survey.scan_all(&mut table, 5, true, |_| {}).unwrap();
    let own = table.find(std::process::id()).unwrap();
    assert!(own.reading.kib > 100 && own.protection.is_none() && own.reading.start > 0);
    let found = table.find(child.id()).unwrap();
    assert_eq!(found.reading.parent, std::process::id());
    assert_eq!(survey.reader.start_time(child.id()), Some((found.reading.start, false)));
    assert!(survey.reader.oom_score(child.id()).is_some_and(|score| score <= 2000));
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(survey.reader.start_time(child.id()), None);
}

#[test]
fn scan_new_processes_are_found_and_new_threads_are_none() {
    let mut survey = ProcessScanner::open(Path::new("/")).unwrap();
    let mut table = ProcessTable::new(1 << 15);
    survey.scan_new(&mut table, 4, |_| {});
    let mut child = std::process::Command::new("cat").stdin(std::process::Stdio::piped()).spawn().unwrap();
    let (tid, assessment) = std::sync::mpsc::channel();
    let (end, wait) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        tid.send(rustix::thread::gettid().as_raw_nonzero().get() as u32).unwrap();
        let _ = wait.recv();
    });
    let tid = assessment.recv().unwrap();
    survey.scan_new(&mut table, 5, |_| {});
    let found = table.find(child.id()).is_some();
    let thread_found = table.find(tid).is_some();
    drop(end);
    thread.join().unwrap();
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!((found, thread_found), (true, false));
}

#[test]
fn a_process_whose_first_thread_has_ended_still_has_its_memory() {
    let script = "import ctypes, sys, threading\ndef hold():\n global x\n x = bytearray(64 << 20)\n sys.stdout.write('1\\n'); sys.stdout.flush()\n sys.stdin.read(1)\n import os; os._exit(0)\nthreading.Thread(target=hold).start()\nctypes.CDLL(None).pthread_exit(None)";
    let mut python = std::process::Command::new("python3");
    python.args(["-c", script]).stdin(std::process::Stdio::piped()).stdout(std::process::Stdio::piped());
    let Ok(mut child) = python.spawn() else { return eprintln!("SKIPPED: python3 is not installed") };
    let mut line = [0; 2];
    io::Read::read_exact(child.stdout.as_mut().unwrap(), &mut line).unwrap();
    let stat = format!("/proc/{}/stat", child.id());
    while !fs::read_to_string(&stat).unwrap().contains(") Z ") {
        std::thread::yield_now();
    }
    let mut survey = ProcessScanner::open(Path::new("/")).unwrap();
    let mut table = ProcessTable::new(1 << 15);
    let began = survey.reader.start_time(child.id());
    survey.scan_all(&mut table, 5, false, |_| {}).unwrap();
    let found = table.find(child.id()).copied();
    drop(child.stdin.take());
    child.wait().unwrap();
    let found = found.unwrap();
    assert!((64 << 10..96 << 10).contains(&found.reading.kib), "{found:?}");
    assert_eq!(
        (began, found.reading.name),
        (Some((found.reading.start, false)), ProcessName::new(b"python3"))
    );
}
