//! `manycore compare`, `scale` and `tune` on real commands: how they end after errors and signals.

use crate::common::study::{WorkFolder, end_of, findings, running, signal, unique, until, words};
use manycore_linux::affinity;
use manycore_topology::CpuSet;
use std::process::Command;

/// Two pairs of a command against itself.
const TWO: [&str; 3] = ["compare", "--pairs", "2"];

fn with<'a>(start: &[&'a str], rest: &[&'a str]) -> Vec<&'a str> {
    [start, rest].concat()
}

#[test]
fn a_command_that_does_not_exist_is_named() {
    let said = WorkFolder::new().refused(3, &with(&TWO, &["--", "no-such-program"]));
    assert!(said.contains("cannot start no-such-program"), "{said}");
    let said = WorkFolder::new().refused(3, &with(&TWO, &["--vs", "no-such-program", "--", "true"]));
    assert!(said.contains("cannot start no-such-program"), "{said}");
}

/// On one CPU, tasks cannot share anything while something else is idle.
#[test]
fn sharing_needs_a_choice_and_names_of_its_own() {
    let cpu = affinity::allowed().unwrap().first().unwrap();
    affinity::restrict(0, &CpuSet::single(cpu)).unwrap();
    for option in ["--sharing", "--sharing=cluster"] {
        let said = WorkFolder::new().refused(2, &with(&TWO, &[option, "--", "true"]));
        assert!(said.contains("have no choice") && said.contains(&format!("CPUs {cpu}")), "{said}");
    }
    let said = WorkFolder::new().refused(2, &with(&TWO, &["--sharing=package", "--", "true"]));
    assert!(said.contains("a level is auto, core, cluster or llc"), "{said}");
}

#[test]
fn an_empty_command_is_refused() {
    for arguments in [&["--", ""][..], &["--vs", "''", "--", "true"], &["--vs", " ", "--", "true"]] {
        let said = WorkFolder::new().refused(2, &with(&TWO, arguments));
        assert!(said.contains("the command is empty"), "{said}");
    }
}

#[test]
fn a_failed_command_is_reported_with_status_and_last_line() {
    let script = "echo something; echo first >&2; echo the disk is gone >&2; exit 7";
    let said = WorkFolder::new().refused(4, &with(&TWO, &["--", "sh", "-c", script]));
    assert!(said.contains("exit status: 7") && said.contains("): the disk is gone"), "{said}");
}

/// Regression test: the message for `gzip t.log`, which removes its input, was only that of gzip.
#[test]
fn a_command_that_fails_after_it_has_succeeded_may_change_its_input() {
    let work = WorkFolder::new();
    std::fs::write(work.path("t.log"), "text").unwrap();
    let said = work.refused(4, &with(&TWO, &["--", "rm", "t.log"]));
    assert!(said.contains("A (rm t.log) failed on its 2nd run (exit status: 1): rm: "), "{said}");
    assert!(said.contains("; the 1st succeeded: does it change its input?"), "{said}");
}

/// Regression test: a command that fails at once was "faster" than one that works.
#[test]
fn ignored_failures_are_counted_and_a_variant_that_always_fails_has_no_verdict() {
    let work = WorkFolder::new();
    let eight = ["compare", "--pairs", "8", "--ignore-failure"];
    let judged = work.evaluated(&with(&eight, &["--vs", "false", "--", "sleep", "0.02"]));
    assert!(judged["comparison"].is_null(), "{judged}");
    assert!(findings(&judged).contains("All 8 runs of B failed: it has no verdict."), "{judged}");
    let samples = work.record()["experiments"][0]["samples"].as_array().unwrap().clone();
    for sample in &samples {
        let exits = if sample["treatment"] == 1 { serde_json::json!([1]) } else { serde_json::Value::Null };
        assert_eq!(sample["exit_codes"], exits, "{sample}");
    }
    // Every third run fails, so no variant always fails, whatever the order of the pairs.
    let script = "n=$(cat n || echo 0); echo $((n + 1)) >n; test $((n % 3)) != 0 || exit 7";
    let judged = work.evaluated(&with(&eight, &["--", "sh", "-c", script]));
    assert!(findings(&judged).contains("failed; they are included in the figures."), "{judged}");
}

#[test]
fn a_record_is_overwritten_with_force_only() {
    let folder = tempfile::tempdir().unwrap();
    let run = |rest: &[&str]| {
        let mut command = Command::new(assert_cmd::cargo::cargo_bin!("manycore"));
        command.args(["compare", "--out", "out", "--pairs", "1", "--quiet"]).args(rest);
        command.args(["--", "true"]).current_dir(folder.path()).output().unwrap()
    };
    let record = || std::fs::read(folder.path().join("out/record.json")).unwrap();
    assert_eq!(run(&[]).status.code(), Some(0));
    let first = record();
    let refused = run(&[]);
    assert_eq!(refused.status.code(), Some(2));
    assert!(words(&refused).contains("out contains an earlier record: give --force to overwrite it"));
    assert_eq!(record(), first);
    assert_eq!(run(&["--force"]).status.code(), Some(0));
    assert_ne!(record(), first);
}

/// Regression test: a slow first run left time for only one analysis, or exceeded the budget.
#[test]
fn a_slow_first_run_does_not_decide_the_plan() {
    let work = WorkFolder::new();
    // The other runs are short, also if they wait for a CPU.
    let script = "test -e warm || { touch warm; sleep 4; }";
    work.evaluated(&["compare", "--budget", "12s", "--", "sh", "-c", script]);
    assert_ne!(work.record()["experiments"][0]["parameters"]["analyses"], "1");
}

#[test]
fn a_command_that_hangs_is_ended() {
    let time = unique();
    let said = WorkFolder::new().refused(4, &with(&TWO, &["--timeout", "300ms", "--", "sleep", &time]));
    assert!(said.contains("did not end within 0.3 s") && !said.contains("did not end on SIGTERM"), "{said}");
    assert!(running(&time).is_empty());
}

#[test]
fn a_command_that_ignores_sigterm_is_killed_with_all_that_it_started() {
    let time = unique();
    let script = format!("trap '' TERM; sleep {time} & setsid sleep {time} & while :; do wait; done");
    let said = WorkFolder::new().refused(4, &with(&TWO, &["--timeout", "300ms", "--", "sh", "-c", &script]));
    assert!(said.contains("it did not end on SIGTERM and was killed"), "{said}");
    assert!(running(&time).is_empty());
}

#[test]
fn a_missing_or_repeated_metric_is_reported() {
    let said =
        WorkFolder::new().refused(4, &with(&TWO, &["--metric", r"rate=none (\d+)", "--", "echo", "hi"]));
    assert!(said.contains("metric rate: ") && said.contains("the last line is \"hi\""), "{said}");
    let twice = ["--metric", r"rate=is (\d+)", "--", "printf", "is 1\nis 2\n"];
    let said = WorkFolder::new().refused(4, &with(&TWO, &twice));
    assert!(said.contains("found 2 times"), "{said}");
}

#[test]
fn an_unknown_primary_metric_is_refused_with_the_known_names() {
    // Before anything is measured where the names are known, and after the first run where the output has them.
    let said = WorkFolder::new().refused(2, &with(&TWO, &["--primary", "p99", "--", "true"]));
    assert!(
        said.contains("--primary p99: there is no such metric; there are wall, cpu and memory"),
        "{said}"
    );
    let line = "General statistics:\n total time: 1.0s\n total number of events: 7";
    let run = ["--metric", "sysbench", "--primary", "p99", "--", "echo", line];
    let said = WorkFolder::new().refused(4, &with(&TWO, &run));
    assert!(said.contains("no metric is called \"p99\""), "{said}");
}

#[test]
fn a_gigabyte_of_output_fills_no_memory() {
    let work = WorkFolder::new();
    let gigabyte = "head -c 1000000000 /dev/zero; head -c 100000000 /dev/zero >&2";
    for (metric, code) in [(&[][..], 0), (&["--metric", r"rate=(\d+)"][..], 4)] {
        let arguments = [&["compare", "--pairs", "1"], metric, &["--", "sh", "-c", gigabyte]].concat();
        let (ended, said, largest) = end_of(work.start(&arguments));
        assert_eq!(ended, Some(code), "{said}");
        assert!(largest < 200 << 20, "{largest}");
        assert_eq!(said.contains("wrote more than 64 MiB"), code == 4, "{said}");
    }
}

#[test]
fn a_command_that_never_stops_writing_is_ended_at_its_time_limit() {
    let work = WorkFolder::new();
    let arguments = ["compare", "--timeout", "500ms", "--metric", r"rate=(\d+)", "--", "yes"];
    let (ended, said, largest) = end_of(work.start(&arguments));
    assert_eq!(ended, Some(4), "{said}");
    assert!(said.contains("did not end within 0.5 s") && largest < 200 << 20, "{said} {largest}");
}

#[test]
fn an_orphan_that_keeps_writing_does_not_block_the_run() {
    let (work, time) = (WorkFolder::new(), unique());
    let script = format!("setsid yes {time} & echo 5");
    let arguments = with(&TWO, &["--metric", r"rate=^(\d)$", "--", "sh", "-c", &script]);
    let (ended, said, _) = end_of(work.start(&arguments));
    assert!(matches!(ended, Some(0 | 4)), "{said}");
    assert!(running(&time).is_empty());
}

#[test]
fn only_processes_left_behind_are_ended_and_reported() {
    let (work, stray, ours) = (WorkFolder::new(), unique(), unique());
    let mut bystander = Command::new("sleep").arg(&ours).spawn().unwrap();
    let script = format!("setsid sleep {stray} & exit 0");
    let judged = work.evaluated(&with(&TWO, &["--", "sh", "-c", &script]));
    assert!(findings(&judged).contains("left a process running ("), "{judged}");
    assert!(running(&stray).is_empty());
    assert_eq!(running(&ours), [bystander.id()]);
    bystander.kill().unwrap();
    bystander.wait().unwrap();
}

#[test]
fn a_budget_too_small_for_an_answer_is_refused_with_a_sufficient_one() {
    for (arguments, fitting) in [
        (
            &["compare", "--budget", "1s", "--", "sleep", "0.15"][..],
            " in 1 s, and 6 are needed: use --budget ",
        ),
        (&["compare", "--budget", "100ms", "--", "sleep", "0.1"], "0 pairs in 0.1 s, and 6 are needed"),
        (
            &["scale", "--copies", "--workers", "1,2", "--budget", "100ms", "--", "sleep", "0.1"],
            "0 rounds in 0.1 s, and 6 are needed: use --budget ",
        ),
        (
            &["tune", "--workers", "1,2", "--budget", "100ms", "--", "sleep", "0.{workers}"],
            "0 rounds in 0.1 s",
        ),
    ] {
        let said = WorkFolder::new().refused(2, arguments);
        assert!(said.contains("too few runs fit: ") && said.contains(fitting), "{arguments:?}: {said}");
        assert_eq!(said.lines().filter(|line| line.contains("--budget ")).count(), 1, "{said}");
    }
}

/// Regression test: warm-up runs were made to their end, however small the budget was.
#[test]
fn warm_up_runs_stop_when_the_budget_is_spent() {
    let work = WorkFolder::new();
    let arguments =
        ["compare", "--budget", "100ms", "--warmup", "500", "--", "sh", "-c", "echo >> runs; sleep 0.15"];
    work.refused(2, &arguments);
    assert_eq!(std::fs::read_to_string(work.path("runs")).unwrap().lines().count(), 1);
}

#[test]
fn a_sufficient_budget_has_an_interval() {
    let work = WorkFolder::new();
    // A run that takes longer than usual may make the first ones too small.
    let suffices = |budget: &&str| {
        let run = work.run(&["compare", "--budget", budget, "--warmup", "1", "--", "sleep", "0.03"]);
        assert!(matches!(run.status.code(), Some(0 | 2)), "{}", words(&run));
        run.status.success()
    };
    assert!(["1s", "4s", "16s"].iter().any(suffices));
    let run = work.run(&["report", "out/record.json", "--format", "json"]);
    let judged: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert!(judged["comparison"]["others"][0]["verdict"]["interval"].is_array(), "{}", judged["comparison"]);
}

#[test]
fn contradictory_command_lines_are_refused() {
    for (arguments, answer) in [
        (&["scale", "--workers", "2", "--", "true"][..], "{workers}"),
        (&["compare", "--a", "cpus=70000", "--", "true"], "70000 not present on this machine"),
        (&["compare", "--vs", "sh -c 'open", "--", "true"], "a quote is not closed"),
        (&["compare", "--service", "sh -c 'open", "--", "true"], "a quote is not closed"),
        (
            &["tune", "--place", "free", "--today", "2", "--workers", "2", "--", "true"],
            "no candidate differs",
        ),
        (&["compare", "--load-cpus", "70000", "--service", "sleep 9", "--", "true"], "--load-cpus 70000"),
        (&["compare", "--a", "memory=bind=900", "--", "true"], "no memory on node 900"),
        (&["compare", "--budget", "0s", "--", "true"], "--budget"),
        (&["compare", "--timeout", "0s", "--", "true"], "--timeout"),
        (&["compare", "--budget", "18446744073709551615s", "--", "true"], "--budget"),
        (&["compare", "--timeout", "18446744073709551615s 999999999ns", "--", "true"], "--timeout"),
        (&["compare", "--precision", "NaN", "--", "true"], "--precision"),
        (&["compare", "--precision", "0", "--", "true"], "--precision"),
        (&["scale", "--copies", "--precision", "1%", "--", "true"], "--precision applies to compare"),
        (&["tune", "--precision", "1%", "--", "true"], "--precision applies to compare"),
        (&["compare", "--pairs", "0", "--", "true"], "--pairs"),
        (&["compare", "--workers", "0", "--", "true"], "--workers"),
        (&["scale", "--copies", "--workers", "0", "--", "true"], "--workers"),
        (&["compare", "--a", "env:=x", "--", "true"], "NAME=VALUE"),
        (&["compare"], "required"),
        (&["compare", "--b", "nice=99", "--", "true"], "is not a niceness"),
        (&["compare", "--variant", "palce=close", "--", "true"], "did you mean place=?"),
        (&["compare", "--variant", "close", "--", "true"], "only one variant is given"),
        (
            &["compare", "--reference", "Z", "--", "true"],
            "no variant is called 'Z'; the variants are A and B",
        ),
        (&["compare", "--parameter", "n=9..1", "--", "true"], "is not a range"),
        (&["compare", "--parameter", "n=1,2", "--", "true"], "no variant uses {n}"),
        (&["compare", "--parameter", "n=1,2", "--", "echo", "{n}", "{m}"], "there is no --parameter 'm'"),
        (&["compare", "--metric", "wall=rate (.*)", "--", "true"], "wall is always measured"),
    ] {
        let said = WorkFolder::new().refused(2, arguments);
        assert!(said.contains(answer), "{arguments:?}: {said}");
    }
}

/// Returns a script that is quick eight times, and then sleeps until it is ended.
fn script_that_hangs_later(time: &str) -> String {
    format!("echo >> runs; test $(wc -l < runs) -le 8 || exec sleep {time}")
}

#[test]
fn ctrl_c_saves_the_finished_pairs_and_ends_the_command() {
    let (work, time) = (WorkFolder::new(), unique());
    let child = work.start(&["compare", "--", "sh", "-c", &script_that_hangs_later(&time)]);
    until("a run that hangs", || !running(&time).is_empty());
    signal(child.id(), "INT");
    let (ended, said, _) = end_of(child);
    assert_eq!(ended, Some(130), "{said}");
    assert!(
        said.contains("interrupted; the results so far are in out (show them with: manycore report out)"),
        "{said}"
    );
    assert_eq!(work.record()["interrupted"], true);
    assert_eq!(work.record()["experiments"][0]["samples"].as_array().unwrap().len(), 4);
    assert!(running(&time).is_empty());
    assert!(work.report().contains("interrupted"), "{}", work.report());
}

#[test]
fn ctrl_c_before_anything_was_measured_leaves_no_folder() {
    let (work, time) = (WorkFolder::new(), unique());
    let child = work.start(&["compare", "--", "sleep", &time]);
    until("the first run", || !running(&time).is_empty());
    signal(child.id(), "INT");
    assert_eq!(end_of(child).0, Some(130));
    assert!(running(&time).is_empty());
    assert!(!work.path("out").exists());
}

#[test]
fn a_failure_in_the_middle_keeps_what_was_measured() {
    let work = WorkFolder::new();
    let script = "echo >> runs; test $(wc -l < runs) -le 8 || { echo worn out >&2; exit 3; }";
    let run = work.run(&["compare", "--", "sh", "-c", script]);
    assert_eq!(run.status.code(), Some(4), "{}", words(&run));
    assert!(words(&run).contains("(exit status: 3): worn out"), "{}", words(&run));
    assert_eq!(work.record()["interrupted"], false);
    assert!(!work.report().is_empty());
}

#[test]
fn a_command_does_not_outlive_a_killed_manycore() {
    let (work, time) = (WorkFolder::new(), unique());
    let mut child = work.start(&["scale", "--copies", "--workers", "3", "--", "sleep", &time]);
    until("the first run", || !running(&time).is_empty());
    child.kill().unwrap();
    child.wait().unwrap();
    until("the end of the command", || running(&time).is_empty());
}

#[test]
fn a_run_of_very_many_pairs_can_be_interrupted() {
    let (work, time) = (WorkFolder::new(), unique());
    let script = script_that_hangs_later(&time);
    let child = work.start(&["compare", "--pairs", "4000000000", "--", "sh", "-c", &script]);
    until("a run that hangs", || !running(&time).is_empty());
    signal(child.id(), "TERM");
    assert_eq!(end_of(child).0, Some(130));
    assert!(!work.report().is_empty());
}
