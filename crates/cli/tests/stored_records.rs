//! `manycore compare` and `report` of stored records, gates and exports, on the real binary.

use crate::common::{manycore, schema, text, write};
use manycore_experiment::Record;
use manycore_testkit::SyntheticMachine;
use std::{fs, process::Output};
use tempfile::TempDir;

/// Saves a record of `compare` in a session that is slower by `slower`, in a directory of its own.
fn session(home: &TempDir, name: &str, seed: u64, slower: f64) {
    let machine = SyntheticMachine { blocks: 12, noise: 0.01, steal: 0.0, seed, ..SyntheticMachine::guest() };
    let mut record = Record { seed, ..machine.compare(1.0) };
    for sample in &mut record.experiments[0].samples {
        sample.values.iter_mut().for_each(|value| *value *= slower);
    }
    fs::create_dir(home.path().join(name)).unwrap();
    fs::write(home.path().join(name).join("record.json"), serde_json::to_vec(&record).unwrap()).unwrap();
}

/// Saves five records of each build; those of the new one are slower by `slower`.
fn ten_sessions(slower: f64) -> TempDir {
    let home = TempDir::new().unwrap();
    for (nth, day) in [0.99, 1.01, 1.0, 1.005, 0.995].into_iter().enumerate() {
        session(&home, &format!("old{nth}"), nth as u64, day);
        session(&home, &format!("new{nth}"), 10 + nth as u64, day * slower);
    }
    home
}

const OLD: [&str; 5] = ["old0", "old1", "old2", "old3", "old4"];
const NEW: [&str; 5] = ["new0", "new1", "new2", "new3", "new4"];

fn run(home: &TempDir, arguments: &[&[&str]]) -> Output {
    manycore().args(arguments.concat()).current_dir(home.path()).output().unwrap()
}

#[test]
fn two_records_are_compared_with_the_scatter_of_sessions() {
    let home = ten_sessions(1.05);
    let said = run(&home, &[&["compare", "old0/record.json", "new0"]]);
    let shown = text(&said.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    assert!(shown.contains("Inconclusive") && shown.contains("which is assumed"), "{shown}");
    assert!(!home.path().join("manycore-results").exists(), "nothing is measured");

    let said = run(&home, &[&["compare", "--format", "json"], &NEW, &["--baseline"], &OLD]);
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    let found = schema::parse("sessions", &said.stdout);
    assert_eq!(found["sessions"], serde_json::json!([5, 5]), "{found}");
    let worse = |figure: &&serde_json::Value| figure["is_primary"] == true && figure["change"] == "worse";
    assert!(found["figures"].as_array().unwrap().iter().any(|figure| worse(&figure)), "{found}");
    assert_eq!(found["figures"][0]["spread"]["source"], "repeated");
}

/// Regression test: `--by` was ignored for stored records.
#[test]
fn the_figure_of_stored_records_can_be_chosen() {
    let home = ten_sessions(1.05);
    let said = run(&home, &[&["compare", "--by", "mean"], &NEW, &["--baseline"], &OLD]);
    let shown = text(&said.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert_eq!(said.status.code(), Some(0), "{}", text(&said.stderr));
    assert!(shown.contains("longer by the mean") && shown.contains("wall, mean (s)"), "{shown}");
    let said = run(&home, &[&["compare", "--by", "p99", "new0", "--baseline", "old0"]]);
    let shown = text(&said.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("Inconclusive: p99 needs at least 100 samples in each record"), "{shown}");
}

/// Earlier results of the same work on this machine show how sessions scatter.
#[test]
fn results_of_this_machine_show_the_scatter() {
    let home = ten_sessions(1.0);
    fs::create_dir(home.path().join("manycore-results")).unwrap();
    for name in &OLD[1..] {
        let to = home.path().join(format!("manycore-results/compare-{name}"));
        fs::rename(home.path().join(name), to).unwrap();
    }
    let said = run(&home, &[&["compare", "old0", "new0"]]);
    let shown = text(&said.stdout).split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(shown.contains("earlier results of the same work"), "{shown}");
}

#[test]
fn a_gate_fails_only_where_it_is_proven() {
    let home = ten_sessions(1.08);
    let gated =
        |first: &[&str], gate: &[&str]| run(&home, &[&["compare"], first, gate, &["--baseline"], &OLD]);
    let failed = gated(&NEW, &["--fail-if", "slower > 3%", "--export", "junit=gates.xml"]);
    let said = text(&failed.stderr);
    assert_eq!(failed.status.code(), Some(1), "{said}");
    assert!(said.contains("Gate 'slower > 3%' failed"), "{said}");
    assert!(text(&failed.stdout).contains("Gate 'slower > 3%' failed"));
    assert!(fs::read_to_string(home.path().join("gates.xml")).unwrap().contains("failures=\"2\""));
    assert_eq!(gated(&NEW, &["--fail-if", "slower > 20%"]).status.code(), Some(0));
    let doubtful = ["--fail-if", "slower > 8%"];
    assert_eq!(gated(&NEW, &doubtful).status.code(), Some(0));
    let strict = gated(&NEW, &[&doubtful[..], &["--inconclusive", "fail"]].concat());
    assert_eq!(strict.status.code(), Some(1), "{}", text(&strict.stderr));
    assert!(text(&strict.stderr).contains("is inconclusive"), "{}", text(&strict.stderr));
    // The same with report, of two records.
    let report = run(&home, &[&["report", "old0", "new0", "--fail-if", "wall > 3%"]]);
    assert_eq!(report.status.code(), Some(0), "{}", text(&report.stderr));
}

#[test]
fn a_gate_without_its_metric_and_other_forms_are_refused() {
    let home = ten_sessions(1.0);
    let refused = |arguments: &[&str]| {
        let run = run(&home, &[arguments]);
        assert_eq!(run.status.code(), Some(2), "{}", text(&run.stdout));
        text(&run.stderr)
    };
    let said = refused(&["compare", "old0", "new0", "--fail-if", "p98 > 3%"]);
    assert!(said.contains("there is no p98 here; there is wall"), "{said}");
    let said = refused(&["compare", "--fail-if", "p98 > 3%", "--", "true"]);
    assert!(said.contains("names no metric"), "{said}");
    assert!(!home.path().join("manycore-results").exists(), "refused before anything is measured");
    assert!(refused(&["compare", "--fail-if", "slower 3", "--", "true"]).contains("'slower > 3%'"));
    assert!(refused(&["compare", "old0"]).contains("none of them is named as the baseline"));
    assert!(refused(&["compare", "old0", "true"]).contains("is a record and true is a command"));
    let one = refused(&["compare", "true", "--baseline", "old0"]);
    assert!(one.contains("Type: manycore compare --baseline old0 -- true"), "{one}");
}

#[test]
fn records_that_cannot_be_compared_are_refused_with_the_reason() {
    let home = ten_sessions(1.0);
    let whole = fs::read(home.path().join("old0/record.json")).unwrap();
    write(home.path(), "cut.json", &whole[..whole.len() / 2]);
    write(home.path(), "older.json", b"{\"schema\": \"manycore/record/0\"}");
    let eval = SyntheticMachine { blocks: 6, ..SyntheticMachine::guest() }.record();
    fs::write(home.path().join("eval.json"), serde_json::to_vec(&eval).unwrap()).unwrap();
    for (second, reason) in [
        ("cut.json", "truncated"),
        ("older.json", "manycore/record/0"),
        ("eval.json", "compare records of one subcommand"),
    ] {
        let run = run(&home, &[&["compare", "old0", second]]);
        let said = text(&run.stderr);
        assert!(run.status.code() == Some(2) && said.contains(reason), "{second}: {said}");
    }
    let measured = run(&home, &[&["compare", "--baseline", "eval.json", "--", "true"]]);
    assert!(text(&measured.stderr).contains("is a record of eval"), "{}", text(&measured.stderr));
}

#[test]
fn a_new_measurement_is_compared_with_a_stored_one() {
    let home = TempDir::new().unwrap();
    let measure = ["compare", "--pairs", "6", "--quiet"];
    let command = ["--", "sleep", "0.01"];
    assert_eq!(run(&home, &[&measure, &["--out", "old"], &command]).status.code(), Some(0));
    let summary = home.path().join("summary.md");
    let new = manycore()
        .args([&measure[..], &["--out", "new", "--fail-if", "slower > 1000%"]].concat())
        .args(["--export", "benchstat=new.txt", "--baseline", "old"])
        .args(command)
        .env("GITHUB_STEP_SUMMARY", &summary)
        .current_dir(home.path())
        .output()
        .unwrap();
    let shown = text(&new.stdout);
    assert_eq!(new.status.code(), Some(0), "{shown}{}", text(&new.stderr));
    assert!(shown.contains("baseline") && shown.contains("Gate 'slower > 1000%' passed"), "{shown}");
    let summary = fs::read_to_string(summary).unwrap();
    assert!(
        summary.contains("Gate 'slower &gt; 1000%' passed")
            || summary.contains("Gate 'slower > 1000%' passed")
            || summary.contains("slower \\> 1000"),
        "{summary}"
    );
    let lines = fs::read_to_string(home.path().join("new.txt")).unwrap();
    assert_eq!(lines.lines().filter(|line| line.starts_with("BenchmarkCompare/")).count(), 12, "{lines}");
    let json = run(&home, &[&["compare", "--pairs", "6", "--format", "json", "--baseline", "old"], &command]);
    assert!(schema::parse("evaluation", &json.stdout)["baseline"]["figures"].is_array());
}

/// The record keeps its gates: the page and `report` show them in the words of the terminal, and the exit code of
/// `report` is not that of the earlier run.
#[test]
fn gates_are_in_the_record_on_the_page_and_in_reports() {
    let home = TempDir::new().unwrap();
    // They differ by much more than they wait for a CPU on a busy machine.
    let sleeps = ["sleep 0.1", "sleep 1"];
    let gated = ["compare", "--pairs", "6", "--quiet", "--out", "gated", "--fail-if", "slower > 20%"];
    let measured = run(&home, &[&gated, &sleeps]);
    assert_eq!(measured.status.code(), Some(1), "{}", text(&measured.stderr));
    let record = fs::read(home.path().join("gated/record.json")).unwrap();
    let record = schema::parse("record", &record);
    let said = record["gates"][0]["text"].as_str().unwrap();
    assert!(said.starts_with("Gate 'slower > 20%' failed; B against A: it takes"), "{said}");
    let page = fs::read_to_string(home.path().join("gated/report.html")).unwrap();
    let on_page = said.replace('>', "&gt;").replace(" %", "\u{a0}%");
    assert!(page.contains(&on_page), "{on_page}");
    let report = run(&home, &[&["report", "gated", "--export", "junit=gates.xml"]]);
    assert_eq!(report.status.code(), Some(0), "{}", text(&report.stderr));
    let words = |text: &str| text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(words(&text(&report.stdout)).contains(said), "{}", text(&report.stdout));
    assert!(fs::read_to_string(home.path().join("gates.xml")).unwrap().contains("failures=\"1\""));
    // A gate of the report itself is decided anew.
    let anew = run(&home, &[&["report", "gated", "--fail-if", "slower > 9000%"]]);
    let shown = text(&anew.stdout);
    assert!(
        anew.status.code() == Some(0) && shown.contains("passed") && !shown.contains("failed"),
        "{shown}"
    );
}

#[test]
fn every_format_is_exported_and_an_unknown_one_is_refused() {
    let home = ten_sessions(1.0);
    let formats = ["json", "csv", "markdown", "benchstat", "hyperfine", "junit"];
    let exports: Vec<String> =
        formats.iter().flat_map(|name| ["--export".to_owned(), format!("{name}=out.{name}")]).collect();
    let exports: Vec<&str> = exports.iter().map(String::as_str).collect();
    for first in [&["report", "old0"][..], &["compare", "old0", "new0"]] {
        assert_eq!(run(&home, &[first, &exports]).status.code(), Some(0));
        assert!(
            formats
                .iter()
                .all(|name| home.path().join(format!("out.{name}")).metadata().unwrap().len() > 100)
        );
    }
    let refused = run(&home, &[&["report", "old0", "--export", "xlsx=x"]]);
    assert!(refused.status.code() == Some(2) && text(&refused.stderr).contains("there are json, csv"));
}
