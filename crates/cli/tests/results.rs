//! Where results are written, and `manycore report` without arguments, on the real binary.

use crate::common;
use crate::common::{manycore, save, text, write};
use manycore_experiment::Record;
use manycore_testkit::{SyntheticMachine, files::names_in};
use std::fs;
use tempfile::TempDir;

/// Measures something that takes no time.
const MEASURE: [&str; 6] = ["compare", "--pairs", "1", "--quiet", "true", "true"];

#[test]
fn results_go_below_one_directory_with_a_link_to_the_last() {
    let home = TempDir::new().unwrap();
    for _ in 0..2 {
        manycore().args(MEASURE).current_dir(home.path()).assert().success();
    }
    assert_eq!(names_in(home.path()), ["manycore-results"]);
    let base = home.path().join("manycore-results");
    let names = names_in(&base);
    assert!(names.len() == 3 && names[..2].iter().all(|name| name.starts_with("compare-20")), "{names:?}");
    assert_eq!(names[2], "latest");
    assert_eq!(fs::read_link(base.join("latest")).unwrap().to_str(), Some(names[1].as_str()));
    assert!(names_in(&base.join("latest")).contains(&"record.json".to_owned()));

    let other = home.path().join("elsewhere");
    manycore().args(MEASURE).arg("--results").arg(&other).current_dir(home.path()).assert().success();
    assert_eq!(names_in(&other).len(), 2);
    let exact = home.path().join("exact");
    manycore().args(MEASURE).arg("--out").arg(&exact).current_dir(home.path()).assert().success();
    assert!(exact.join("record.json").exists() && names_in(&base).len() == 3);
}

#[test]
fn a_directory_that_cannot_be_written_is_found_before_anything_is_measured() {
    let home = TempDir::new().unwrap();
    write(home.path(), "manycore-results", b"a file");
    let run = manycore().args(["compare", "sleep 60", "sleep 60"]).current_dir(home.path()).output().unwrap();
    let said = text(&run.stderr);
    assert!(run.status.code() == Some(3) && said.contains("--out DIR"), "{said}");
    // The working directory is removed by the time the program starts.
    let gone = home.path().join("gone");
    let program = assert_cmd::cargo::cargo_bin!("manycore").display();
    let script = format!(
        "mkdir {0} && cd {0} && rmdir {0} && exec {program} compare 'sleep 60' 'sleep 60'",
        gone.display()
    );
    let run = common::sh(&script);
    let said = text(&run.stderr);
    assert!(run.status.code() == Some(3) && said.contains("--out DIR"), "{said}");
}

/// Writes twelve results, `eval-11` last, below `manycore-results`.
fn twelve_results(home: &TempDir) {
    let base = home.path().join("manycore-results");
    for number in 0..12 {
        let folder = base.join(format!("eval-{number:02}"));
        fs::create_dir_all(&folder).unwrap();
        let machine = SyntheticMachine { seed: number, blocks: 4, ..SyntheticMachine::guest() };
        let record = Record { subject: format!("run {number}"), ..machine.record() };
        let path = write(&folder, "record.json", &serde_json::to_vec(&record).unwrap());
        let time = std::time::SystemTime::now() - std::time::Duration::from_secs(1000 - number);
        fs::File::options().append(true).open(path).unwrap().set_modified(time).unwrap();
    }
}

fn report(home: &TempDir, arguments: &[&str]) -> String {
    let run = manycore().arg("report").args(arguments).current_dir(home.path()).output().unwrap();
    assert_eq!(run.status.code(), Some(0), "{arguments:?}: {}", text(&run.stderr));
    text(&run.stdout)
}

#[test]
fn report_without_arguments_lists_the_last_results_and_shows_the_last() {
    let home = TempDir::new().unwrap();
    for arguments in [&["report"][..], &["report", "--list"], &["report", "latest"], &["report", "1"]] {
        let run = manycore().args(arguments).current_dir(home.path()).output().unwrap();
        let said = text(&run.stderr);
        assert!(
            run.status.code() == Some(2) && said.contains("manycore eval") && said.contains("--results"),
            "{said}"
        );
    }
    twelve_results(&home);
    for arguments in [&[][..], &["manycore-results"]] {
        let shown = report(&home, arguments);
        assert!(shown.starts_with("Results in manycore-results, newest first:\n"), "{shown}");
        let list = shown.lines().take_while(|line| !line.starts_with("Another one: "));
        let listed: Vec<&str> = list.filter(|line| line.contains("  run ")).collect();
        assert_eq!(listed.len(), 5, "{shown}");
        assert!(listed[0].trim().starts_with("1 ") && listed[0].ends_with("run 11"), "{shown}");
        assert!(shown.contains("All 12: manycore report --list"), "{shown}");
        assert!(shown.to_lowercase().contains("\nfindings"), "the last one is shown: {shown}");
    }
    let json = report(&home, &["--format", "json"]);
    assert!(serde_json::from_str::<serde_json::Value>(&json).unwrap().is_object());
}

#[test]
fn report_list_has_all_results_with_their_answers() {
    let home = TempDir::new().unwrap();
    twelve_results(&home);
    let shown = report(&home, &["--list"]);
    let listed: Vec<&str> =
        shown.lines().map(str::trim).filter(|line| line.starts_with("manycore-results/eval-")).collect();
    assert_eq!(listed.len(), 12);
    assert_eq!((listed[0], listed[11]), ("manycore-results/eval-11", "manycore-results/eval-00"));
    assert!(!shown.contains("...") && !shown.to_lowercase().contains("findings"), "{shown}");
    assert_eq!(report(&home, &["--list", "--format", "csv"]).lines().count(), 13);
    assert!(report(&home, &["--list", "--format", "markdown"]).contains("| 12 |"));
}

#[test]
fn results_are_named_by_their_number_and_as_latest() {
    let home = TempDir::new().unwrap();
    twelve_results(&home);
    let json = |word: &str| report(&home, &[word, "--format", "json"]);
    let latest = json("manycore-results/eval-11");
    assert_eq!([json("1"), json("latest"), json("eval-11")], [(); 3].map(|()| latest.clone()));
    assert_eq!(json("12"), json("manycore-results/eval-00"));
    let run = manycore().args(["report", "13"]).current_dir(home.path()).output().unwrap();
    let said = text(&run.stderr);
    assert!(run.status.code() == Some(2) && said.contains("has 12 results"), "{said}");
    assert!(report(&home, &["1", "2"]).contains("=== eval-11 ==="));
}

#[test]
fn directories_are_shown_as_their_records() {
    let home = TempDir::new().unwrap();
    for name in ["before", "after"] {
        let folder = home.path().join(name);
        fs::create_dir(&folder).unwrap();
        let record = SyntheticMachine { blocks: 4, ..SyntheticMachine::guest() }.record();
        write(&folder, "record.json", &serde_json::to_vec(&record).unwrap());
    }
    let run = manycore().args(["report", "before", "after/"]).current_dir(home.path()).output().unwrap();
    let shown = text(&run.stdout);
    assert!(
        run.status.success() && shown.contains("=== before ===") && shown.contains("=== after ==="),
        "{shown}"
    );
    let run = manycore().args(["report", "before", "--html"]).current_dir(home.path()).output().unwrap();
    assert!(run.status.success() && home.path().join("report.html").exists(), "{}", text(&run.stderr));
}

#[test]
fn a_record_is_not_replaced_by_a_page() {
    let home = TempDir::new().unwrap();
    let record = save(&home, "record", &SyntheticMachine { blocks: 4, ..SyntheticMachine::guest() }.record());
    let before = fs::read(&record).unwrap();
    let run = manycore().args(["report", "--html", "record.json"]).current_dir(home.path()).output().unwrap();
    let said = text(&run.stderr);
    assert!(run.status.code() == Some(2) && said.contains("manycore report record.json --html"), "{said}");
    assert_eq!(fs::read(&record).unwrap(), before);
}
