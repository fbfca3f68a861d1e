//! `compare` and `tune` with settings of this machine, which are switched between runs. These tests need root. Each
//! changes other files than those beside it, and restores them; those that need the same file are one test.

use crate::common;
use crate::common::study::{WorkFolder, end_of, running, signal, unique, until, words};
use manycore_control::journal;
use std::{
    fs::{self, OpenOptions},
    path::Path,
    process::Command,
};

const THP: &str = "/sys/kernel/mm/transparent_hugepage/enabled";
const ASLR: &str = "/proc/sys/kernel/randomize_va_space";
const SWAPPINESS: &str = "/proc/sys/vm/swappiness";
const DIRTY: &str = "/proc/sys/vm/dirty_ratio";
const MAX_MAPS: &str = "/proc/sys/vm/max_map_count";

/// A file whose contents are restored at the end of a test, whatever happens.
struct Kept(&'static str, String);

impl Kept {
    /// Returns nothing if this process may not write the file.
    fn new(path: &'static str) -> Option<Self> {
        if OpenOptions::new().write(true).open(path).is_err() {
            println!("SKIPPED: {path} cannot be written");
            return None;
        }
        Some(Self(path, value(path)))
    }
}

impl Drop for Kept {
    fn drop(&mut self) {
        let _ = fs::write(self.0, &self.1);
    }
}

/// Returns the value of a file: the word in brackets, if there is one.
fn value(path: &str) -> String {
    let text = fs::read_to_string(path).unwrap();
    let chosen = text.split_whitespace().find_map(|word| word.strip_prefix('[')?.strip_suffix(']'));
    chosen.unwrap_or(text.trim()).to_owned()
}

/// Starts `manycore compare` with its own directory of journals.
fn start(work: &WorkFolder, arguments: &[&str]) -> std::process::Child {
    let mut command = Command::new(common::program());
    command.args(["compare", "--out", "out"]).args(arguments).current_dir(work.0.path());
    command.env(journal::FOLDER_VARIABLE, work.path("state"));
    command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
}

fn undo(work: &WorkFolder) -> String {
    let mut command = Command::new(common::program());
    let run = command.arg("undo").env(journal::FOLDER_VARIABLE, work.path("state")).output().unwrap();
    common::text(&run.stdout) + &words(&run)
}

#[test]
fn variants_run_with_their_settings_and_the_others_with_the_original() {
    let (Some(thp), Some(aslr)) = (Kept::new(THP), Kept::new(ASLR)) else { return };
    let work = WorkFolder::new();
    let other = if thp.1 == "never" { "always" } else { "never" };
    let script = format!("cat {THP} {ASLR} >> seen");
    let a = ["--pairs", "3", "--a", &format!("thp={other}"), "--b", "set:kernel.randomize_va_space=0"];
    let judged = work.evaluated(&[&["compare"], &a[..], &["--", "sh", "-c", &script]].concat());
    let seen = fs::read_to_string(work.path("seen")).unwrap();
    // A warm-up, a timed run and three pairs of each.
    assert_eq!(seen.matches(&format!("[{other}]")).count(), 5, "{seen}");
    assert_eq!(seen.lines().filter(|line| *line == "0").count(), 5, "{seen}");
    for pair in seen.lines().collect::<Vec<_>>().chunks(2) {
        assert_eq!(pair[0].contains(&format!("[{other}]")), pair[1] == aslr.1, "{pair:?}");
    }
    assert_eq!((value(THP), value(ASLR)), (thp.1.clone(), aslr.1.clone()));
    let experiment = work.record()["experiments"][0].clone();
    let factor = |index: usize| experiment["treatments"][index]["factors"]["settings"].clone();
    let (original_thp, original_aslr) = (&thp.1, &aslr.1);
    assert_eq!(factor(0), format!("thp={other}, kernel.randomize_va_space={original_aslr}"));
    assert_eq!(factor(1), format!("thp={original_thp}, kernel.randomize_va_space=0"));
    assert!(work.report().contains(&format!("thp={other}")), "{judged}");

    // A variant that fails, a wrong value, and Ctrl-C restore it, too.
    work_ends(&work, other);
    assert_eq!(value(THP), thp.1);
}

fn work_ends(work: &WorkFolder, other: &str) {
    let before = value(THP);
    fs::remove_dir_all(work.path("out")).unwrap();
    let set = format!("thp={other}");
    work.refused(4, &["compare", "--pairs", "1", "--b", &set, "--", "false"]);
    assert_eq!(value(THP), before);
    let said = work.refused(2, &["compare", "--b", "thp=sometimes", "--", "true"]);
    assert!(said.contains("cannot be 'sometimes'; its values: always, madvise, never"), "{said}");
    let time = unique();
    let child = start(work, &["--pairs", "1", "--a", &set, "--", "sleep", &time]);
    until("the first run", || !running(&time).is_empty());
    assert_eq!(value(THP), other);
    signal(child.id(), "INT");
    assert_eq!(end_of(child).0, Some(130));
    assert_eq!(value(THP), before);
    assert_eq!(undo(work).trim(), "no changes are in force");
}

#[test]
fn settings_are_restored_after_sigkill() {
    let Some(kept) = Kept::new(SWAPPINESS) else { return };
    let (work, time) = (WorkFolder::new(), unique());
    let set = ["--pairs", "1", "--a", "set:vm.swappiness=17", "--", "sleep", &time];
    let mut child = start(&work, &set);
    until("the first run", || !running(&time).is_empty());
    assert_eq!(value(SWAPPINESS), "17");
    child.kill().unwrap();
    child.wait().unwrap();
    // Its cleanup process.
    until("the original value", || value(SWAPPINESS) == kept.1);
    until("an empty directory of journals", || journals(&work.path("state")) == 0);

    // Without a cleanup process, `undo`. Another time: the command of the first measurement may still be ending.
    let time = unique();
    let set = ["--pairs", "1", "--a", "set:vm.swappiness=17", "--", "sleep", &time];
    let mut child = start(&work, &set);
    until("the first run", || !running(&time).is_empty());
    let cleanup = cleanup_of(child.id()).unwrap();
    signal(cleanup, "KILL");
    child.kill().unwrap();
    child.wait().unwrap();
    assert_eq!(value(SWAPPINESS), "17");
    let said = undo(&work);
    assert!(said.contains("1 setting: restored (compare: settings of the machine)"), "{said}");
    assert_eq!(value(SWAPPINESS), kept.1);
}

/// Returns the cleanup process of a measurement. Any of its threads may have started it.
fn cleanup_of(parent: u32) -> Option<u32> {
    let parent = format!("PPid:\t{parent}");
    let is_cleanup = |pid: &u32| {
        let read = |file: &str| fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        read("status").lines().any(|line| line == parent) && read("cmdline").ends_with("\0cleanup\0")
    };
    let processes = fs::read_dir("/proc").unwrap().flatten();
    processes.filter_map(|process| process.file_name().to_str()?.parse().ok()).find(is_cleanup)
}

fn journals(folder: &Path) -> usize {
    journal::pending(folder).map_or(0, |(journals, _)| journals.len())
}

#[test]
fn a_setting_that_another_process_changes_is_an_error_and_stays_as_it_is() {
    let Some(kept) = Kept::new(DIRTY) else { return };
    let work = WorkFolder::new();
    let script = format!("echo 41 > {DIRTY}");
    let said = work
        .refused(4, &["compare", "--pairs", "1", "--b", "set:vm.dirty_ratio=33", "--", "sh", "-c", &script]);
    let expected = format!(
        "another process changed {DIRTY} during the measurement: it was to be '{}' and is '41'",
        kept.1
    );
    assert!(said.contains(&expected), "{said}");
    assert!(said.contains("dirty_ratio was changed to 41 by another program: left unchanged"), "{said}");
    assert_eq!(value(DIRTY), "41");
}

#[test]
fn unknown_and_unwritable_settings_are_refused_before_anything_runs() {
    let work = WorkFolder::new();
    for (code, setting, why) in [
        (2, "set:nonsense=1", "no setting is called 'nonsense'"),
        (2, "set:/etc/passwd=x", "not below /sys, /proc/sys or /proc/irq"),
        (2, "set:/sys/../etc/passwd=x", "not below /sys, /proc/sys or /proc/irq"),
        (2, "turbo=fast", "its values: on, off"),
        (3, "set:vm.no_such_file=1", "this machine has no /proc/sys/vm/no_such_file"),
        (2, "set:vm.overcommit_memory=9", "the kernel refuses '9' for /proc/sys/vm/overcommit_memory"),
        (3, "set:/sys/kernel/mm/transparent_hugepage/hpage_pmd_size=1", "cannot write /sys/kernel/mm"),
        (3, "set:vm.drop_caches=3", "cannot read /proc/sys/vm/drop_caches"),
    ] {
        if !Path::new(THP).exists() || OpenOptions::new().write(true).open(MAX_MAPS).is_err() {
            return println!("SKIPPED: settings cannot be written");
        }
        let said = work.refused(code, &["compare", "--b", setting, "--", "cp", "/dev/null", "ran"]);
        assert!(said.contains(why), "{setting}: {said}");
    }
    assert!(!work.path("ran").exists());
}

#[test]
fn tune_searches_values_of_settings() {
    let Some(kept) = Kept::new("/proc/sys/kernel/numa_balancing") else { return };
    let work = WorkFolder::new();
    let arguments =
        ["tune", "--pairs", "1", "--settings", "numa_balancing", "--place", "free", "--workers", "1"];
    work.evaluated(&[&arguments[..], &["--today", "1", "--", "sleep", "0.01"]].concat());
    let record = work.record().to_string();
    let other = if kept.1 == "0" { "numa_balancing=on" } else { "numa_balancing=off" };
    assert!(
        record.contains(other) && record.contains("| sudo tee /proc/sys/kernel/numa_balancing"),
        "{record}"
    );
    assert_eq!(value(kept.0), kept.1);
}
