//! Tests on plain files: which changes are undone, and when. The kernel's own files are tested in the
//! laboratory.
#![allow(clippy::unwrap_used, reason = "a test may stop anywhere")]

use manycore_control::journal::{Change, Journal, pending};
use manycore_linux::resctrl::schemata::{Schemata, SchemataLine};
use manycore_qos::{
    translate::SchemataWrite,
    write::{WriteError, Writer},
};
use std::{fs, path::Path};
use tempfile::TempDir;

/// A directory with one group of another owner.
fn place() -> TempDir {
    let root = tempfile::tempdir().unwrap();
    fs::create_dir_all(root.path().join("theirs")).unwrap();
    fs::create_dir_all(root.path().join("info")).unwrap();
    fs::create_dir_all(root.path().join("state")).unwrap();
    fs::write(root.path().join("theirs/schemata"), "MB:0=100\n").unwrap();
    root
}

fn now(root: &Path) -> String {
    fs::read_to_string(root.join("theirs/schemata")).unwrap().trim().to_owned()
}

/// Writes a limit as `qos set --group` does.
fn limit(root: &Path, journal: &Journal, text: &str) {
    limit_that_becomes(root, journal, text, text);
}

/// Writes a limit that the kernel changes to another one.
fn limit_that_becomes(root: &Path, journal: &Journal, text: &str, becomes: &str) {
    let before = Schemata::parse(&now(root));
    let line = |text| SchemataLine::parse(text).unwrap();
    let write = SchemataWrite {
        requested: String::new(),
        line: line(text),
        expected: line(becomes).values,
        note: None,
    };
    // The kernel replaces a single line; here the whole file is replaced.
    Writer::new(root, journal).write_limit("theirs", &write, Some(&before)).unwrap();
    fs::write(root.join("theirs/schemata"), format!("{becomes}\n")).unwrap();
}

fn begin(root: &Path) -> Journal {
    Journal::begin(&root.join("state"), "qos", "qos set", true).unwrap()
}

#[test]
fn the_original_limit_is_restored() {
    let root = place();
    let journal = begin(root.path());
    limit(root.path(), &journal, "MB:0=50");
    limit(root.path(), &journal, "MB:0=40");
    let restored = journal.undo().unwrap();
    assert_eq!(
        (restored.limits, restored.changed_by_others.len(), restored.failed.len()),
        (1, 0, 0),
        "{restored:?}"
    );
    assert!(now(root.path()).starts_with("MB:0=100"));
}

#[test]
fn a_rounded_limit_is_recognised_by_the_value_in_force() {
    let root = place();
    let journal = begin(root.path());
    limit(root.path(), &journal, "MB:0=55");
    fs::write(root.path().join("theirs/schemata"), "MB:0=60\n").unwrap();
    let (line, now_is) = (SchemataLine::parse("MB:0=55").unwrap(), Schemata::parse("MB:0=60"));
    let writer = Writer::new(root.path(), &journal);
    writer.record_in_force("theirs", &line, &Schemata::parse("MB:0=100"), &now_is).unwrap();
    assert_eq!(journal.undo().unwrap().limits, 1);
    assert!(now(root.path()).starts_with("MB:0=100"));
}

#[test]
fn a_rounded_limit_is_undone_after_its_writer_was_killed() {
    let root = place();
    let journal = begin(root.path());
    limit_that_becomes(root.path(), &journal, "MB:0=55", "MB:0=60");
    let restored = journal.undo().unwrap();
    assert_eq!((restored.limits, restored.changed_by_others.len()), (1, 0), "{restored:?}");
    assert!(now(root.path()).starts_with("MB:0=100"));
}

#[test]
fn limits_changed_by_others_stay_unchanged() {
    let root = place();
    let journal = begin(root.path());
    limit(root.path(), &journal, "MB:0=50");
    fs::write(root.path().join("theirs/schemata"), "MB:0=70\n").unwrap();
    let restored = journal.undo().unwrap();
    assert_eq!((restored.limits, restored.changed_by_others.len()), (0, 1));
    assert_eq!(now(root.path()), "MB:0=70");
}

#[test]
fn the_last_undo_restores_the_original_value() {
    let root = place();
    let (first, second) = (begin(root.path()), begin(root.path()));
    limit(root.path(), &first, "MB:0=50");
    limit(root.path(), &second, "MB:0=30");
    let restored = first.undo().unwrap();
    assert_eq!(
        (restored.limits, restored.changed_by_others.len()),
        (0, 0),
        "the newer journal has the original value: {restored:?}"
    );
    assert_eq!(now(root.path()), "MB:0=30");
    assert_eq!(second.undo().unwrap().limits, 1);
    assert!(now(root.path()).starts_with("MB:0=100"));
}

#[test]
fn a_group_of_another_owner_is_not_removed() {
    let root = place();
    let journal = begin(root.path());
    let refused = Writer::new(root.path(), &journal).create_group("theirs").unwrap_err();
    assert!(matches!(refused, WriteError::Exists(_)), "{refused}");
    // The change was recorded before the kernel refused it.
    let (left, _) = pending(&root.path().join("state")).unwrap();
    assert!(matches!(
        left[0].changes[..],
        [Change::ResctrlGroup { .. }, Change::ResctrlGroupNotCreated { .. }]
    ));
    journal.undo().unwrap();
    assert!(root.path().join("theirs").is_dir());
}

#[test]
fn a_created_group_is_removed() {
    let root = place();
    let journal = begin(root.path());
    Writer::new(root.path(), &journal).create_group("held").unwrap();
    assert!(root.path().join("held").is_dir());
    assert_eq!(journal.undo().unwrap().resctrl_groups, 1);
    assert!(!root.path().join("held").exists());
}

#[test]
fn a_monitoring_group_gets_its_cpus_back() {
    let root = place();
    let list = |group: &str| root.path().join(group).join("cpus_list");
    let shows = |group: &str, cpus: &str| fs::write(list(group), cpus).unwrap();
    for group in ["", "held", "theirs/mon_groups/watched"] {
        fs::create_dir_all(root.path().join(group)).unwrap();
        shows(group, "");
    }
    shows("theirs", "4-5");
    shows("theirs/mon_groups/watched", "5");
    let journal = begin(root.path());
    let (writer, five) = (Writer::new(root.path(), &journal), "5".parse().unwrap());
    writer.record_lost("held", &five, "theirs/mon_groups/watched").unwrap();
    writer.move_cpus("held", &five, "theirs").unwrap();
    // The kernel removes the CPU from the monitoring group as well.
    shows("theirs", "4");
    shows("theirs/mon_groups/watched", "");
    let restored = journal.undo().unwrap();
    assert!(restored.failed.is_empty(), "{restored:?}");
    let now = |group: &str| fs::read_to_string(list(group)).unwrap().trim().to_owned();
    assert_eq!((now("theirs"), now("theirs/mon_groups/watched")), ("4-5".to_owned(), "5".to_owned()));
}

#[test]
fn a_mount_in_use_is_undone_later() {
    let root = place();
    let point = root.path();
    let journal = begin(point);
    journal.record(&Change::Mount { point: point.to_owned() }).unwrap();
    Writer::new(point, &journal).create_group("held").unwrap();
    fs::write(point.join("schemata"), "").unwrap();
    let restored = journal.undo().unwrap();
    assert_eq!(
        (restored.resctrl_groups, restored.mounts, restored.changed_by_others.len()),
        (1, 0, 1),
        "{restored:?}"
    );
    let left = pending(&point.join("state")).unwrap().0;
    assert!(matches!(left[0].changes[..], [Change::Mount { .. }]), "{left:?}");
    assert!(left[0].header.persistent && !left[0].owner_is_running);
    // Another program has unmounted it.
    fs::remove_file(point.join("schemata")).unwrap();
    assert_eq!(left[0].undo().unwrap().changed_by_others.len(), 0);
    assert!(pending(&point.join("state")).unwrap().0.is_empty());
}
