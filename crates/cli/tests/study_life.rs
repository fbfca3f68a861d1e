//! What surrounds the runs of `compare`, `scale` and `tune`: hooks, standard input, shell, caches, ignored failures.

use crate::common::study::{WorkFolder, end_of, findings, running, signal, unique, until, words};
use std::fs;

/// Two pairs of a command against itself.
const TWO: [&str; 3] = ["compare", "--pairs", "2"];

fn with<'a>(start: &[&'a str], rest: &[&'a str]) -> Vec<&'a str> {
    [start, rest].concat()
}

/// Returns what hooks and commands have written, one letter each.
fn log(work: &WorkFolder) -> String {
    fs::read_to_string(work.path("log")).unwrap_or_default().replace('\n', "")
}

#[test]
fn hooks_run_in_their_order_and_are_in_no_sample() {
    let work = WorkFolder::new();
    let hooks =
        ["--setup", "echo S >>log", "--prepare", "echo p >>log; sleep 2", "--conclude", "echo c >>log"];
    let shell = ["--shell", "sh", "--cleanup", "echo C >>log"];
    work.evaluated(&[&TWO[..], &hooks, &shell, &["echo a >>log", "echo b >>log"]].concat());
    let log = log(&work);
    // A setup, a warm-up and a timed run of each variant, two pairs, and a cleanup of each.
    assert!(log.starts_with("SpacpacSpbcpbc") && log.ends_with("CC"), "{log}");
    let runs: String = log.trim_end_matches('C').replace('S', "");
    assert_eq!(runs.len(), 8 * 3);
    assert!(runs.as_bytes().chunks(3).all(|run| run[0] == b'p' && run[2] == b'c'), "{log}");
    let record = work.record();
    let samples = record["experiments"][0]["samples"].as_array().unwrap();
    let fastest = samples.iter().map(|sample| sample["wall_ns"].as_u64().unwrap()).min();
    assert!(fastest.is_some_and(|ns| ns < 2_000_000_000), "{samples:?}");
    let parameters = &record["experiments"][0]["parameters"];
    assert_eq!(parameters["prepare"], "sh -c 'echo p >>log; sleep 2'");
    assert_eq!((&parameters["shell"], parameters["shell_seconds"].is_string()), (&"sh".into(), true));
}

#[test]
fn a_hook_for_each_variant_is_that_of_the_variant() {
    let work = WorkFolder::new();
    let prepare = ["--prepare", "cp /dev/null a", "--prepare", "cp /dev/null b"];
    let check = ["--conclude", "rm a", "--conclude", "rm b"];
    work.evaluated(&[&TWO[..], &prepare, &check, &["test -e a", "test -e b"]].concat());
    let said = work_refused(2, &["--setup", "true", "--setup", "true", "--setup", "true", "--", "true"]);
    assert!(said.contains("--setup is given 3 times: give it once, or 2 times"), "{said}");
    let workers =
        ["scale", "--pairs", "1", "--copies", "--workers", "1,2", "--prepare", "cp /dev/null of-{workers}"];
    let work = WorkFolder::new();
    work.evaluated(&with(&workers, &["--", "true"]));
    assert!(work.path("of-1").exists() && work.path("of-2").exists());
    let work = WorkFolder::new();
    let tune = [
        "tune",
        "--pairs",
        "1",
        "--workers",
        "1,2",
        "--today",
        "1",
        "--prepare",
        "cp /dev/null of-{workers}",
    ];
    work.evaluated(&with(&tune, &["--", "sleep", "0.00{workers}"]));
    assert!(work.path("of-1").exists() && work.path("of-2").exists());
}

fn work_refused(code: i32, arguments: &[&str]) -> String {
    WorkFolder::new().refused(code, &with(&TWO, arguments))
}

#[test]
fn a_hook_that_fails_is_named_with_its_variant_and_last_line() {
    for kind in ["setup", "prepare", "conclude"] {
        let (option, script) = (format!("--{kind}"), "sh -c 'echo first >&2; echo no disk >&2; exit 7'");
        let said = work_refused(4, &[&option, "true", &option, script, "true", "sleep 0.001"]);
        let expected =
            format!("the {kind} command sh -c 'echo first >&2; echo no disk >&2; exit 7' of B (sleep 0.001)");
        assert!(said.contains(&expected) && said.contains("failed (exit status: 7): no disk"), "{said}");
    }
    // What was measured is kept if only the end fails.
    let work = WorkFolder::new();
    let run = work.run(&with(&TWO, &["--cleanup", "sh -c 'exit 3'", "--", "true"]));
    assert_eq!(run.status.code(), Some(4));
    assert!(
        words(&run).contains("the cleanup command sh -c 'exit 3' of A (true) failed (exit status: 3)"),
        "{}",
        words(&run)
    );
    assert_eq!(work.record()["experiments"][0]["samples"].as_array().unwrap().len(), 4);
    let said = work_refused(3, &["--prepare", "no-such-program", "--", "true"]);
    assert!(said.contains("cannot start the prepare command no-such-program of A (true)"), "{said}");
    let said = work_refused(2, &["--prepare", "sync; true", "--", "true"]);
    assert!(said.contains("needs a shell"), "{said}");
}

#[test]
fn a_hook_that_hangs_is_ended_with_what_it_started() {
    let (work, time) = (WorkFolder::new(), unique());
    let script = format!("sh -c 'setsid sleep {time} & sleep {time}'");
    let said = work.refused(4, &with(&TWO, &["--timeout", "300ms", "--prepare", &script, "--", "true"]));
    assert!(said.contains("the prepare command") && said.contains("did not end within 0.3 s"), "{said}");
    assert!(running(&time).is_empty());
    // One that leaves a process running is reported.
    let script = format!("sh -c 'setsid sleep {time} & exit 0'");
    let judged = work.evaluated(&with(&TWO, &["--setup", &script, "--", "true"]));
    assert!(findings(&judged).contains("left a process running ("), "{judged}");
    assert!(running(&time).is_empty());
}

#[test]
fn the_cleanup_runs_after_errors_and_ctrl_c() {
    let work = WorkFolder::new();
    work.refused(4, &with(&TWO, &["--cleanup", "cp /dev/null cleaned", "--", "false"]));
    assert!(work.path("cleaned").exists());
    let (work, time) = (WorkFolder::new(), unique());
    let child = work.start(&with(&TWO, &["--cleanup", "cp /dev/null cleaned", "--", "sleep", &time]));
    until("the first run", || !running(&time).is_empty());
    signal(child.id(), "INT");
    assert_eq!(end_of(child).0, Some(130));
    assert!(work.path("cleaned").exists() && running(&time).is_empty());
}

#[test]
fn each_run_reads_its_input_from_the_start() {
    let work = WorkFolder::new();
    fs::write(work.path("text"), "one\ntwo\n").unwrap();
    let script = ["--input", "text", "--metric", r"lines=(\d+)", "--", "wc", "-l"];
    work.evaluated(&with(&TWO, &script));
    for sample in work.record()["experiments"][0]["samples"].as_array().unwrap() {
        assert_eq!(sample["values"][0], 2.0, "{sample}");
    }
    for (file, why) in
        [("none", "cannot open none as standard input"), (".", "cannot open . as standard input")]
    {
        let said = work_refused(3, &["--input", file, "--", "cat"]);
        assert!(said.contains(why), "{said}");
    }
}

#[test]
fn only_listed_exit_codes_are_ignored() {
    let work = WorkFolder::new();
    let script = "n=$(cat n || echo 0); echo $((n + 1)) >n; test $((n % 3)) != 0 || exit 7";
    let run = ["compare", "--pairs", "6"];
    work.evaluated(&with(&run, &["--ignore-failure=3,7", "--", "sh", "-c", script]));
    assert_eq!(work.record()["experiments"][0]["parameters"]["ignored_failures"], "3,7");
    let said = work_refused(4, &["--ignore-failure=3", "--", "sh", "-c", "exit 7"]);
    assert!(said.contains("exit status: 7"), "{said}");
    for codes in ["0", "x", "1,", "256"] {
        let said = work_refused(2, &[&format!("--ignore-failure={codes}"), "--", "true"]);
        assert!(said.contains("expected exit codes from 1 to 255"), "{said}");
    }
}

#[test]
fn a_shell_reads_commands_and_its_start_is_noted() {
    let work = WorkFolder::new();
    let run = work.run(&with(&TWO, &["--shell", "sh", "true | true", "true && true"]));
    assert_eq!(run.status.code(), Some(0), "{}", words(&run));
    assert!(words(&run).contains("Each run includes the start of sh, which takes"), "{}", words(&run));
    let said = work_refused(2, &["--shell", "no-such-shell", "a", "b"]);
    assert!(said.contains("there is no program 'no-such-shell'"), "{said}");
}

#[test]
fn dropped_caches_need_root() {
    let work = WorkFolder::new();
    let run = work.run(&["compare", "--pairs", "1", "--drop-caches", "--", "true"]);
    let is_allowed = fs::OpenOptions::new().write(true).open("/proc/sys/vm/drop_caches").is_ok();
    assert_eq!(run.status.code(), Some(if is_allowed { 0 } else { 3 }), "{}", words(&run));
    if is_allowed {
        assert_eq!(work.record()["experiments"][0]["parameters"]["drop_caches"], "yes");
    } else {
        assert!(words(&run).contains("--drop-caches needs root"), "{}", words(&run));
    }
}
