//! `manycore compare`, `scale` and `tune` on real commands: where they run, and what they report.

use crate::common::{
    allowed, first_cpu, last_cpu,
    study::{WorkFolder, findings, has, words},
};
use std::{collections::BTreeSet, fs, process::Command};

/// Two pairs of a command against itself.
const TWO: [&str; 3] = ["compare", "--pairs", "2"];

/// Returns the number of CPUs that this process may use.
fn cpus() -> usize {
    allowed().len()
}

/// Returns whether a command can be placed in more than one way. Prints a note if it cannot.
fn several_placements_are_possible() -> bool {
    let choice = cpus() > 1;
    if !choice {
        eprintln!("SKIPPED: needs two CPUs");
    }
    choice
}

fn with<'a>(start: &[&'a str], rest: &[&'a str]) -> Vec<&'a str> {
    [start, rest].concat()
}

#[test]
fn a_command_that_sets_its_own_affinity_is_reported() {
    if !has("taskset") {
        return;
    }
    // `close` uses the first CPU first. A command that moves there itself would be indistinguishable from a
    // placed one.
    for (cpu, place) in [(first_cpu(), "free"), (last_cpu(), "close")] {
        if !several_placements_are_possible() {
            return;
        }
        let arguments = ["--a", place, "--b", place, "--", "taskset", "-c", &cpu, "sleep", "0.1"];
        let judged = WorkFolder::new().evaluated(&with(&TWO, &arguments));
        let found = findings(&judged);
        assert!(found.contains("set its own affinity to CPU"), "{cpu} {place}: {found}");
    }
}

#[test]
fn a_command_that_does_not_change_its_affinity_is_not_reported() {
    let script = "sleep 0.02 & sh -c 'sleep 0.05' & wait";
    for arguments in [
        &["compare", "--pairs", "2", "--a", "close", "--b", "spread@core", "--", "sh", "-c", script][..],
        &[
            "scale",
            "--copies",
            "--place",
            "close",
            "--workers",
            "1,2,3",
            "--pairs",
            "2",
            "--",
            "sh",
            "-c",
            script,
        ],
    ] {
        let found = findings(&WorkFolder::new().evaluated(arguments));
        assert!(!found.contains("set its own affinity"), "{found}");
    }
}

#[test]
fn threads_of_a_pinned_command_are_on_one_cpu_each() {
    if !has("python3") {
        return;
    }
    // Threads are pinned as they appear. The script waits for that, not for a fixed time.
    let script = "
import sys, threading, time, glob
count = int(sys.argv[1])
end = threading.Event()
threads = [threading.Thread(target=end.wait) for _ in range(count - 1)]
for thread in threads: thread.start()
def lists():
    texts = [open(path).read() for path in glob.glob('/proc/self/task/*/status')]
    return [line.split()[1] for text in texts for line in text.splitlines() if line.startswith('Cpus_allowed_list')]
deadline = time.time() + 60
while time.time() < deadline and len(set(lists())) < count: time.sleep(0.001)
open('seen', 'a').write(' '.join(lists()) + '\\n')
end.set()
";
    let (work, workers) = (WorkFolder::new(), cpus().to_string());
    let place = ["--a", "close", "--b", "spread", "--workers", &workers];
    work.evaluated(&[&TWO[..], &place, &["--", "python3", "-c", script, "{workers}"]].concat());
    let seen = fs::read_to_string(work.path("seen")).unwrap();
    // A warm-up, a timing run, and two pairs.
    assert_eq!(seen.lines().count(), 8);
    for line in seen.lines() {
        let cpus_seen: BTreeSet<u32> = line.split(' ').map(|cpu| cpu.parse().unwrap()).collect();
        assert_eq!((line.split(' ').count(), cpus_seen.len()), (cpus(), cpus()), "{seen}");
    }
}

#[test]
fn threads_of_a_pinned_copy_stay_on_the_cpus_of_that_copy() {
    if !has("python3") || cpus() < 2 {
        eprintln!("SKIPPED: needs python3 and two CPUs");
        return;
    }
    // The threads must stay where they are in all of many readings.
    let script = "
import threading, glob
end = threading.Event()
threads = [threading.Thread(target=end.wait) for _ in range(3)]
for thread in threads: thread.start()
for _ in range(500):
    texts = [open(path).read() for path in glob.glob('/proc/self/task/*/status')]
    lists = [line.split()[1] for text in texts for line in text.splitlines() if line.startswith('Cpus_allowed_list')]
    open('seen', 'a').write(' '.join(lists) + '\\n')
end.set()
";
    let work = WorkFolder::new();
    let arguments = ["scale", "--copies", "--place", "close", "--workers", "2", "--pairs", "1", "--"];
    work.evaluated(&with(&arguments, &["python3", "-c", script]));
    for line in fs::read_to_string(work.path("seen")).unwrap().lines() {
        let places: BTreeSet<&str> = line.split(' ').collect();
        assert_eq!((line.split(' ').count(), places.len()), (4, 1), "{line}");
    }
}

/// A second is much longer than a copy waits for a CPU on a busy machine.
#[test]
fn two_copies_that_sleep_are_twice_as_fast_as_one() {
    let work = WorkFolder::new();
    work.evaluated(&["scale", "--copies", "--workers", "1,2", "--pairs", "3", "--", "sleep", "1"]);
    let record = work.record();
    let experiment = &record["experiments"][0];
    let samples = experiment["samples"].as_array().unwrap();
    let rate = |treatment: usize| {
        let rates = samples.iter().filter(|sample| sample["treatment"] == treatment);
        let rate = |sample: &serde_json::Value| {
            sample["work"].as_f64().unwrap() / sample["wall_ns"].as_f64().unwrap()
        };
        rates.map(rate).fold(0.0, f64::max)
    };
    assert!(rate(1) / rate(0) > 1.5, "{experiment}");
    for sample in samples {
        let copies = if sample["treatment"] == 0 { 0 } else { 2 };
        assert_eq!(sample["per_worker"].as_array().map_or(0, Vec::len), copies, "{sample}");
    }
    assert!(work.report().contains("speed-up"));
}

#[test]
fn copies_beyond_the_limit_of_open_files_run_with_the_original_limit() {
    let work = WorkFolder::new();
    let (_, most) = limits();
    if most < 4096 {
        eprintln!("SKIPPED: no more than {most} files may be open");
        return;
    }
    let program = assert_cmd::cargo::cargo_bin!("manycore").display().to_string();
    let line = format!("ulimit -S -n 64; exec {program} \"$@\"");
    let arguments = ["scale", "--out", "out", "--copies", "--workers", "40", "--pairs", "1", "--"];
    let run = Command::new("sh")
        .args(["-c", &line, "sh"])
        .args(arguments)
        .args(["sh", "-c", "ulimit -S -n >> limits; sleep 0.2"])
        .current_dir(work.0.path())
        .output()
        .unwrap();
    assert_eq!(run.status.code(), Some(0), "{}", words(&run));
    let seen = fs::read_to_string(work.path("limits")).unwrap();
    assert!(seen.lines().count() == 123 && seen.lines().all(|limit| limit == "64"), "{seen}");
}

/// Returns the limit of open files: the soft and the hard one.
fn limits() -> (u64, u64) {
    let text = fs::read_to_string("/proc/self/limits").unwrap();
    let line = text.lines().find(|line| line.starts_with("Max open files")).unwrap();
    let mut numbers = line.split_whitespace().skip(3).map(|number| number.parse().unwrap_or(u64::MAX));
    (numbers.next().unwrap(), numbers.next().unwrap())
}

/// The commands differ by much more than they wait for a CPU on a busy machine.
#[test]
fn a_slower_command_is_found_slower() {
    let work = WorkFolder::new();
    let run = work.run(&["compare", "--pairs", "8", "--vs", "sleep 1.5", "--", "sleep", "0.3"]);
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert_eq!(run.status.code(), Some(0), "{}", words(&run));
    assert!(text.contains("B is slower than A: it takes "), "{text}");
    let run = work.run(&["report", "out/record.json", "--format", "json"]);
    let judged: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let verdict = &judged["comparison"]["others"][0]["verdict"];
    assert_eq!(verdict["answer"], "a_better", "{verdict}");
    let ratio = verdict["ratio"].as_f64().unwrap();
    assert!((0.1..0.7).contains(&ratio), "{verdict}");
    assert!(work.report().contains("B is slower than A: it takes "));
}

#[test]
fn a_command_compared_with_itself_has_an_answer_in_words() {
    let work = WorkFolder::new();
    let run = work.run(&["compare", "--pairs", "7", "--", "sleep", "0.02"]);
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert!(words(&run).contains("A and B are the same"), "{}", words(&run));
    let said = text.lines().find(|line| line.trim_start().starts_with("ANSWER")).unwrap();
    assert!(said.contains("A and B are the same"), "{said}");
    assert!(!["slower", "faster", "better", "worse"].iter().any(|word| text.contains(word)), "{text}");
    let record = work.record();
    let names: Vec<&str> = record["experiments"][0]["treatments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|treatment| treatment["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["sleep 0.02", "sleep 0.02 (again)"]);
}

#[test]
fn pairs_and_precision_determine_the_end() {
    let work = WorkFolder::new();
    work.evaluated(&["compare", "--pairs", "3", "--budget", "1ms", "--", "sleep", "0.01"]);
    assert_eq!(work.record()["experiments"][0]["samples"].as_array().unwrap().len(), 6);
    let work = WorkFolder::new();
    // Each run takes much longer than it waits for a CPU on a busy machine.
    let arguments = ["--pairs", "60", "--precision", "60%", "--vs", "sleep 0.51", "--", "sleep", "0.5"];
    work.evaluated(&with(&["compare"], &arguments));
    let samples = work.record()["experiments"][0]["samples"].as_array().unwrap().len();
    assert!((14..120).contains(&samples), "{samples}");
}

/// The first runs are quick and all later ones slow, so the time that was planned for the pairs does not
/// suffice.
const SLOW_AFTER_THREE: &str = "echo >> runs; test $(wc -l < runs) -le 3 || sleep 0.1; : {workers}";

#[test]
fn scale_makes_the_requested_number_of_rounds_however_long_they_take() {
    let work = WorkFolder::new();
    let arguments =
        ["scale", "--copies", "--workers", "1,2", "--pairs", "4", "--", "sh", "-c", SLOW_AFTER_THREE];
    work.evaluated(&arguments);
    assert_eq!(work.record()["experiments"][0]["samples"].as_array().unwrap().len(), 8);
}

#[test]
fn tune_makes_the_requested_number_of_pairs_in_each_round() {
    let work = WorkFolder::new();
    let arguments = ["tune", "--workers", "1,2", "--today", "1", "--place", "free", "--pairs", "3", "--"];
    work.evaluated(&with(&arguments, &["sh", "-c", SLOW_AFTER_THREE]));
    let record = work.record();
    for experiment in record["experiments"].as_array().unwrap() {
        let count = |name: &str| experiment[name].as_array().unwrap().len();
        assert_eq!(count("samples"), 3 * count("treatments"), "{}", experiment["id"]);
    }
}

#[test]
fn environments_and_commands_may_differ() {
    let work = WorkFolder::new();
    let script = "test $SIDE = b && sleep 1; sleep 0.1";
    let arguments = ["--a", "env:SIDE=a", "--b", "env:SIDE=b", "--", "sh", "-c", script];
    let judged = work.evaluated(&with(&["compare", "--pairs", "8"], &arguments));
    assert_eq!(
        judged["comparison"]["others"][0]["verdict"]["answer"], "a_better",
        "{}",
        judged["comparison"]
    );
}

#[test]
fn a_search_tries_each_candidate_once_and_confirms_its_winner() {
    let work = WorkFolder::new();
    let arguments = ["tune", "--workers", "1,2", "--today", "1", "--"];
    let script = "test {workers} = 2 || sleep 0.6; sleep 0.1";
    let judged = work.evaluated_within("20s", &with(&arguments, &["sh", "-c", script]));
    let record = work.record();
    for experiment in record["experiments"].as_array().unwrap() {
        let names: Vec<&str> = experiment["treatments"]
            .as_array()
            .unwrap()
            .iter()
            .map(|treatment| treatment["name"].as_str().unwrap())
            .collect();
        let distinct: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!(distinct.len(), names.len(), "{names:?}");
    }
    let winner =
        judged["tuning"]["winner"].as_u64().map(|winner| &judged["tuning"]["finalists"][winner as usize]);
    let name = winner.unwrap()["name"].as_str().unwrap();
    assert!(name.starts_with("2 workers"), "{name}");
    assert_eq!(work.path("out/plan.json").exists(), !name.contains("free"), "{name}");
    let text = work.report();
    assert!(text.contains("Candidates, best first") && text.contains("Finalists against today"), "{text}");
}

#[test]
fn worker_counts_that_the_command_does_not_use_make_no_second_candidate() {
    if !several_placements_are_possible() {
        return;
    }
    let work = WorkFolder::new();
    let twice = (2 * cpus()).to_string();
    let workers = format!("{},{twice}", cpus());
    work.evaluated_within("2s", &["tune", "--place", "close", "--workers", &workers, "--", "sleep", "0.02"]);
    let treatments = work.record()["experiments"][0]["treatments"].as_array().unwrap().len();
    assert_eq!(treatments, 2, "today and one more");
}

#[test]
fn a_search_without_a_winner_writes_no_plan_and_leaves_no_older_one() {
    if !several_placements_are_possible() {
        return;
    }
    let work = WorkFolder::new();
    let search = ["tune", "--place", "close", "--", "sleep", "0.02"];
    work.evaluated_within("2s", &search);
    fs::write(work.path("out/plan.json"), "{}").unwrap();
    let judged = work.evaluated_within("2s", &search);
    assert_eq!(judged["tuning"]["winner"].is_null(), !work.path("out/plan.json").exists(), "{judged}");
    if let Ok(plan) = fs::read_to_string(work.path("out/plan.json")) {
        assert_ne!(plan, "{}");
    }
}

#[test]
fn tune_continues_without_candidates_that_fail() {
    // The command fails with more than two workers.
    let script = "test \"$0\" -le 2 || { echo too many >&2; exit 1; }; exec sleep 0.01";
    let work = WorkFolder::new();
    let start = ["tune", "--workers", "1,2,4", "--", "sh", "-c"];
    work.evaluated_within("4s", &with(&start, &[script, "{workers}"]));
    assert_eq!(work.record()["subject"].as_str().unwrap().split(' ').next(), Some("sh"));
    let missed = work.record()["not_measured"].to_string();
    assert!(missed.contains("too many"), "{missed}");
    assert!(work.report().contains("NOT MEASURED"));
}

#[test]
fn figures_are_read_from_standard_error_and_from_a_file_that_each_run_writes() {
    let work = WorkFolder::new();
    let metrics =
        ["--metric", "rate=stderr:rate (.*)", "--metric", "p99[ms]:lower=file:figures.json:json:p99"];
    let script = "echo rate 7 >&2; echo '{\"p99\": 3}' > figures.json";
    let judged = work.evaluated(&[&TWO[..], &metrics, &["--", "sh", "-c", script]].concat());
    let found = judged["comparison"]["metrics"].as_array().map_or(0, Vec::len)
        + judged["comparison"]["others"][0]["metrics"].as_array().map_or(0, Vec::len);
    assert_eq!(found, 5, "{judged}");
    let record = work.record();
    let experiment = &record["experiments"][0];
    assert_eq!(experiment["metrics"][1]["name"], "p99");
    assert_eq!(experiment["samples"][0]["values"][0], 7.0);
    assert_eq!(experiment["samples"][0]["values"][1], 3.0);
}

/// A file that only the first run writes has figures of that run.
#[test]
fn a_file_of_an_earlier_run_is_an_error() {
    let work = WorkFolder::new();
    fs::write(work.path("figures"), "rate 7").unwrap();
    let said = work.refused(4, &with(&TWO, &["--metric", "rate=file:figures:rate (.*)", "--", "true"]));
    assert!(said.contains("figures is older than the run"), "{said}");
    let copies = ["scale", "--copies", "--metric", "rate=file:figures:rate (.*)", "--", "true"];
    assert!(work.refused(2, &copies).contains("all copies would write one file"));
}
