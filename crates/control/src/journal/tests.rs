use super::{
    directory::{boot_id, namespace},
    *,
};
use crate::{cpuset, group_dir};
use manycore_linux::{affinity, child, tasks};
use manycore_topology::CpuSet;
use rustix::process::{Pid, Signal, kill_process};
use std::{
    fs,
    io::{self, BufRead, Write},
    path::PathBuf,
    process::{Child, Command},
    time::{Duration, Instant},
};

/// A child that ends with its test.
struct Sleeper(Child);

impl Sleeper {
    fn new() -> Self {
        Self(Command::new("sleep").arg("1000").spawn().unwrap())
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn pin(journal: &Journal, pid: u32, new: &CpuSet) -> CpuSet {
    let old = affinity::of_thread(pid).unwrap();
    let start = tasks::start_time(pid).unwrap();
    journal.record(&Change::Process { pid, start, cpus: old.clone() }).unwrap();
    journal.record(&Change::Affinity { pid, tid: pid, old: old.clone(), new: new.clone() }).unwrap();
    affinity::restrict(pid, new).unwrap();
    old
}

/// Undoes the journal of an owner that has ended. A child that another test starts holds the lock as well until it executes
/// its program.
fn undo_when_free(journal: &Pending) -> UndoResult {
    let end = Instant::now() + Duration::from_mins(1);
    loop {
        if let Some(restored) = journal.undo() {
            return restored;
        }
        assert!(Instant::now() < end, "the journal is still locked");
        std::thread::yield_now();
    }
}

fn first_cpu() -> CpuSet {
    CpuSet::single(affinity::allowed().unwrap().first().unwrap())
}

#[test]
fn a_later_process_undoes_the_pin_of_a_killed_owner() {
    let folder = tempfile::tempdir().unwrap();
    let sleeper = Sleeper::new();
    let journal = Journal::begin(folder.path(), "pin", "pin --pid 1", false).unwrap();
    let old = pin(&journal, sleeper.pid(), &first_cpu());
    let running = pending(folder.path()).unwrap().0;
    assert!(running[0].undo().is_none());
    assert!(running.len() == 1 && running[0].owner_is_running && !running[0].is_from_earlier_boot());
    // Same state as after SIGKILL: the lock is released, the file stays.
    drop(journal);
    let (left, problems) = pending(folder.path()).unwrap();
    assert!(problems.is_empty());
    let restored = undo_when_free(&left[0]);
    let tasks = usize::from(old != first_cpu());
    assert_eq!(restored, UndoResult { tasks, ..UndoResult::default() });
    assert_eq!(affinity::of_thread(sleeper.pid()).unwrap(), old);
    assert!(pending(folder.path()).unwrap().0.is_empty());
}

#[test]
fn settings_changed_by_others_stay_unchanged() {
    let cpus = affinity::allowed().unwrap();
    if cpus.len() < 2 {
        return eprintln!("SKIPPED: needs two CPUs");
    }
    let folder = tempfile::tempdir().unwrap();
    let sleeper = Sleeper::new();
    let journal = Journal::begin(folder.path(), "pin", "", false).unwrap();
    pin(&journal, sleeper.pid(), &first_cpu());
    let other = CpuSet::single(cpus.last().unwrap());
    affinity::restrict(sleeper.pid(), &other).unwrap();
    let restored = journal.undo().unwrap();
    assert_eq!((restored.tasks, restored.changed_by_others.len()), (0, 1), "{restored:?}");
    assert_eq!(affinity::of_thread(sleeper.pid()).unwrap(), other);
}

#[test]
fn an_affinity_is_restored_if_its_owner_was_killed_before_the_next_one_was_set() {
    let cpus = affinity::allowed().unwrap();
    if cpus.len() < 2 {
        return eprintln!("SKIPPED: needs two CPUs");
    }
    let folder = tempfile::tempdir().unwrap();
    let sleeper = Sleeper::new();
    let pid = sleeper.pid();
    let journal = Journal::begin(folder.path(), "sched", "", false).unwrap();
    let old = pin(&journal, pid, &first_cpu());
    let new = CpuSet::single(cpus.last().unwrap());
    journal.record(&Change::Affinity { pid, tid: pid, old: old.clone(), new }).unwrap();
    let restored = journal.undo().unwrap();
    assert_eq!(restored, UndoResult { tasks: 1, ..UndoResult::default() });
    assert_eq!(affinity::of_thread(pid).unwrap(), old);
}

#[test]
fn another_process_with_the_same_id_is_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let sleeper = Sleeper::new();
    let (pid, new) = (sleeper.pid(), first_cpu());
    let journal = Journal::begin(folder.path(), "pin", "", false).unwrap();
    let old = affinity::of_thread(pid).unwrap();
    let start = tasks::start_time(pid).unwrap() - 1;
    journal.record(&Change::Process { pid, start, cpus: old.clone() }).unwrap();
    journal.record(&Change::Affinity { pid, tid: pid, old, new: new.clone() }).unwrap();
    affinity::restrict(pid, &new).unwrap();
    assert_eq!(journal.undo().unwrap(), UndoResult::default());
    assert_eq!(affinity::of_thread(pid).unwrap(), new);
}

#[test]
fn children_created_after_the_last_entry_get_the_original_affinity() {
    let cpus = affinity::allowed().unwrap();
    if cpus.len() < 2 {
        return eprintln!("SKIPPED: needs two CPUs");
    }
    let folder = tempfile::tempdir().unwrap();
    let mut shell = Command::new("sh");
    let mut shell =
        shell.args(["-c", "read go; sleep 1000"]).stdin(std::process::Stdio::piped()).spawn().unwrap();
    let journal = Journal::begin(folder.path(), "pin", "", false).unwrap();
    pin(&journal, shell.id(), &first_cpu());
    shell.stdin.take().unwrap().write_all(b"go\n").unwrap();
    let child = loop {
        if let Some(&child) = tasks::children(shell.id()).first() {
            break child;
        }
        std::thread::yield_now();
    };
    assert_eq!(affinity::of_thread(child).unwrap(), first_cpu());
    assert_eq!(journal.undo().unwrap().tasks, 2);
    assert_eq!(affinity::of_thread(child).unwrap(), cpus);
    kill_process(Pid::from_raw(child as i32).unwrap(), Signal::KILL).unwrap();
    let _ = shell.kill();
    shell.wait().unwrap();
}

#[test]
fn a_marked_command_is_found_without_its_parents() {
    let cpus = affinity::allowed().unwrap();
    if cpus.len() < 2 {
        return eprintln!("SKIPPED: needs two CPUs");
    }
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::begin(folder.path(), "run", "", false).unwrap();
    let mark = format!("MANYCORE_TEST={}", std::process::id());
    journal.record(&Change::Command { mark, old: cpus.clone(), new: first_cpu() }).unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "sleep 1000 & echo $!"]).env("MANYCORE_TEST", std::process::id().to_string());
    let start = child::StartPlacement { cpus: Some(first_cpu()), ..Default::default() };
    command.stdout(std::process::Stdio::piped());
    let mut shell = child::spawn_placed(&mut command, &start).unwrap();
    let mut line = String::new();
    io::BufReader::new(shell.stdout.take().unwrap()).read_line(&mut line).unwrap();
    shell.wait().unwrap();
    let orphan: u32 = line.trim().parse().unwrap();
    assert_eq!(journal.undo().unwrap().tasks, 1);
    assert_eq!(affinity::of_thread(orphan).unwrap(), cpus);
    kill_process(Pid::from_raw(orphan as i32).unwrap(), Signal::KILL).unwrap();
}

#[test]
fn settings_are_restored_unless_changed_by_others() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["ours", "others", "unwritten"].map(|name| folder.path().join(name));
    let journal = Journal::begin(folder.path(), "irq", "", true).unwrap();
    for path in &files {
        fs::write(path, "0-1\n").unwrap();
        journal.record(&Change::Setting { path: path.clone(), old: "0-1".into(), new: "1".into() }).unwrap();
    }
    fs::write(&files[0], "1\n").unwrap();
    fs::write(&files[1], "7\n").unwrap();
    let restored = journal.undo().unwrap();
    assert_eq!((restored.settings, restored.changed_by_others.len()), (1, 1), "{restored:?}");
    assert_eq!(files.map(|path| fs::read_to_string(path).unwrap().trim().to_owned()), ["0-1", "7", "0-1"]);
}

#[test]
fn changes_recorded_after_reading_are_undone() {
    let folder = tempfile::tempdir().unwrap();
    let files = ["first", "second"].map(|name| folder.path().join(name));
    let journal = Journal::begin(folder.path(), "qos", "", true).unwrap();
    let change = |path: &PathBuf| {
        journal.record(&Change::Setting { path: path.clone(), old: "0".into(), new: "1".into() }).unwrap();
        fs::write(path, "1").unwrap();
    };
    change(&files[0]);
    // An undo may read the journal while its owner still writes, and start when the owner has ended.
    let read_early = pending(folder.path()).unwrap().0;
    change(&files[1]);
    drop(journal);
    assert_eq!(undo_when_free(&read_early[0]).settings, 2);
    assert_eq!(files.map(|path| fs::read_to_string(path).unwrap().trim().to_owned()), ["0", "0"]);
    // The journal is gone: nothing is left to be undone.
    assert_eq!(read_early[0].undo(), Some(UndoResult::default()));
}

/// Between fork and exec, the child of a killed owner has the owner's lock, but not yet the mark in its
/// environment.
#[test]
fn undo_waits_for_a_child_that_has_not_executed_its_program() {
    let folder = tempfile::tempdir().unwrap();
    let setting = folder.path().join("setting");
    fs::write(&setting, "1").unwrap();
    let journal = Journal::begin(folder.path(), "run", "", false).unwrap();
    journal.record(&Change::Setting { path: setting.clone(), old: "0".into(), new: "1".into() }).unwrap();
    let text = fs::read_to_string(&journal.path).unwrap();
    let (owner, ended) = (format!("{{\"pid\":{},", std::process::id()), "{\"pid\":4194305,");
    assert!(text.contains(&owner), "{text}");
    // While its owner runs, only the owner undoes it.
    assert_eq!(pending(folder.path()).unwrap().0[0].undo(), None);
    fs::write(&journal.path, text.replacen(&owner, ended, 1)).unwrap();
    let child = std::thread::spawn(move || {
        // Longer than undo waited before: then it changed nothing.
        std::thread::sleep(Duration::from_millis(2100));
        drop(journal);
    });
    assert_eq!(pending(folder.path()).unwrap().0[0].undo().unwrap().settings, 1);
    child.join().unwrap();
}

#[test]
fn an_incomplete_last_line_is_ignored() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::begin(folder.path(), "irq", "", false).unwrap();
    let path = folder.path().join("setting");
    journal.record(&Change::Setting { path, old: "0".into(), new: "1".into() }).unwrap();
    let file = journal.path.clone();
    drop(journal);
    let text = fs::read_to_string(&file).unwrap();
    for length in 0..=text.len() {
        fs::write(&file, &text[..length]).unwrap();
        let (found, problems) = pending(folder.path()).unwrap();
        let header = text.find('\n').unwrap() + 1;
        match length {
            // The JSON may be complete one character before its line is.
            _ if length + 1 < header => assert_eq!((found.len(), problems.len()), (0, 1), "{length}"),
            _ if length < text.len() => assert!(found[0].changes.is_empty(), "{length}"),
            _ => assert_eq!(found[0].changes.len(), 1),
        }
    }
}

#[test]
fn a_damaged_line_does_not_hide_the_others() {
    let folder = tempfile::tempdir().unwrap();
    let setting = folder.path().join("setting");
    fs::write(&setting, "1").unwrap();
    let journal = Journal::begin(folder.path(), "irq", "", true).unwrap();
    journal.record(&Change::Setting { path: setting.clone(), old: "0".into(), new: "1".into() }).unwrap();
    fs::write(&journal.path, fs::read_to_string(&journal.path).unwrap() + "garbage\n").unwrap();
    let restored = journal.undo().unwrap();
    assert_eq!((restored.settings, restored.failed.len()), (1, 1), "{restored:?}");
    assert_eq!(pending(folder.path()).unwrap().0.len(), 1);
}

#[test]
fn processes_of_another_namespace_are_not_touched() {
    let folder = tempfile::tempdir().unwrap();
    let journal = Journal::begin(folder.path(), "irq", "", true).unwrap();
    let text = fs::read_to_string(&journal.path).unwrap().replace(&namespace(), "pid:[1]");
    fs::write(&journal.path, text).unwrap();
    assert_eq!(journal.undo().unwrap().failed.len(), 1);
    assert_eq!(pending(folder.path()).unwrap().0.len(), 1);
}

#[test]
fn a_journal_of_another_boot_is_only_removed() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("setting");
    fs::write(&path, "1").unwrap();
    let journal = Journal::begin(folder.path(), "irq", "", false).unwrap();
    journal.record(&Change::Setting { path: path.clone(), old: "0".into(), new: "1".into() }).unwrap();
    let text = fs::read_to_string(&journal.path).unwrap().replace(&boot_id(), "another");
    fs::write(&journal.path, text).unwrap();
    assert_eq!(journal.undo().unwrap(), UndoResult::default());
    assert_eq!(fs::read_to_string(&path).unwrap(), "1");
    assert!(pending(folder.path()).unwrap().0.is_empty());
}

#[test]
fn processes_leave_a_cpuset_before_it_is_removed() {
    let folder = tempfile::tempdir().unwrap();
    let sleeper = Sleeper::new();
    let journal = Journal::begin(folder.path(), "pin", "", false).unwrap();
    let before = group_dir::cpuset_folder_of(sleeper.pid());
    let group = match cpuset::CpusetGroup::create(&journal, sleeper.pid(), &first_cpu(), &CpuSet::new()) {
        Ok(group) => group,
        Err(why) => {
            journal.undo().unwrap();
            return eprintln!("SKIPPED: {why}");
        }
    };
    group.move_process(&journal, sleeper.pid()).unwrap();
    assert_ne!(group_dir::cpuset_folder_of(sleeper.pid()), before);
    assert_eq!(affinity::of_thread(sleeper.pid()).unwrap(), first_cpu());
    let restored = journal.undo().unwrap();
    assert_eq!(
        (restored.processes_moved_back, restored.control_groups, restored.failed.len()),
        (1, 1, 0),
        "{restored:?}"
    );
    assert_eq!(group_dir::cpuset_folder_of(sleeper.pid()), before);
    assert_eq!(affinity::of_thread(sleeper.pid()).unwrap(), affinity::allowed().unwrap());
}

#[test]
fn an_older_journal_records_originals_in_a_newer_one() {
    let cpus = affinity::allowed().unwrap();
    if cpus.len() < 2 {
        return eprintln!("SKIPPED: needs two CPUs");
    }
    let (first, last) = (first_cpu(), CpuSet::single(cpus.last().unwrap()));
    for older_ends_first in [true, false] {
        let folder = tempfile::tempdir().unwrap();
        let sleeper = Sleeper::new();
        let file = folder.path().join("setting");
        fs::write(&file, "0-1").unwrap();
        let begin = |new: &CpuSet| {
            let journal = Journal::begin(folder.path(), "pin", "", false).unwrap();
            pin(&journal, sleeper.pid(), new);
            let (old, new) = (fs::read_to_string(&file).unwrap(), new.to_string());
            journal.record(&Change::Setting { path: file.clone(), old, new: new.clone() }).unwrap();
            fs::write(&file, new).unwrap();
            journal
        };
        let (older, newer) = (begin(&first), begin(&last));
        let (one, other) = if older_ends_first { (older, newer) } else { (newer, older) };
        for journal in [one, other] {
            let restored = journal.undo().unwrap();
            assert!(restored.changed_by_others.is_empty() && restored.failed.is_empty(), "{restored:?}");
        }
        assert_eq!(affinity::of_thread(sleeper.pid()).unwrap(), cpus);
        assert_eq!(fs::read_to_string(&file).unwrap(), "0-1");
        assert!(pending(folder.path()).unwrap().0.is_empty());
    }
}

#[test]
fn files_writable_by_others_are_rejected() {
    use std::os::unix::fs::PermissionsExt;
    let folder = tempfile::tempdir().unwrap();
    drop(Journal::begin(folder.path(), "pin", "", false).unwrap());
    let file = folder.path().join(format!("pin-{}.journal", std::process::id()));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o666)).unwrap();
    assert_eq!(pending(folder.path()).unwrap().1.len(), 1);
    fs::set_permissions(folder.path(), fs::Permissions::from_mode(0o1777)).unwrap();
    assert!(pending(folder.path()).is_err());
    assert!(Journal::begin(folder.path(), "pin", "", false).is_err());
}
