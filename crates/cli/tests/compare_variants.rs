//! `manycore compare` with more than two variants, on real commands.

use crate::common::study::{WorkFolder, words};

fn with<'a>(start: &[&'a str], rest: &[&'a str]) -> Vec<&'a str> {
    [start, rest].concat()
}

/// Returns the names of the treatments of an experiment.
fn treatments(record: &serde_json::Value, experiment: usize) -> Vec<String> {
    let treatments = record["experiments"][experiment]["treatments"].as_array().unwrap();
    treatments.iter().map(|treatment| treatment["name"].as_str().unwrap().to_owned()).collect()
}

#[test]
fn several_commands_are_ranked_and_compared_with_the_reference() {
    let work = WorkFolder::new();
    // They differ by much more than they wait for a CPU on a busy machine.
    let commands = ["sleep 0.4", "sleep 0.05", "sleep 1.2"];
    let run = work.run(&with(&["compare", "--pairs", "14", "--reference", "C"], &commands));
    let text = String::from_utf8_lossy(&run.stdout).into_owned();
    assert_eq!(run.status.code(), Some(0), "{}", words(&run));
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("Fastest: B; then A; then C. B takes"), "{text}");
    assert_eq!(work.record()["experiments"][0]["samples"].as_array().unwrap().len(), 42);
    let run = work.run(&["report", "out/record.json", "--format", "json"]);
    let judged: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    assert_eq!(judged["comparison"]["ranking"], serde_json::json!([[1], [0], [2]]));
    assert_eq!(judged["comparison"]["reference"], 2);
}

#[test]
fn parameters_multiply_variants_and_name_them() {
    let work = WorkFolder::new();
    let options = ["--parameter", "n=1..4*2", "--variant", "slow=nice=7,env:N={n}", "--variant", "base="];
    let script = "test -z \"$N\" || test $(nice) = 7; sleep 0.0{n}";
    let arguments = [&["compare", "--pairs", "2"], &options[..], &["--", "sh", "-c", script]].concat();
    work.evaluated(&arguments);
    let record = work.record();
    let names: Vec<&str> = record["experiments"][0]["treatments"]
        .as_array()
        .unwrap()
        .iter()
        .map(|treatment| treatment["factors"]["name"].as_str().unwrap())
        .collect();
    assert_eq!(names, ["slow n=1", "slow n=2", "slow n=4", "base n=1", "base n=2", "base n=4"]);
    assert!(treatments(&record, 0)[0].ends_with("(nice 7)"), "{record}");
}

#[test]
fn a_large_product_of_parameters_is_pruned_and_says_so() {
    let work = WorkFolder::new();
    let parameters = ["--parameter", "n=1..100", "--parameter", "m=1..100"];
    let run = work.run(
        &[&["compare", "--pairs", "1"], &parameters[..], &["--", "test", "{n}", "-le", "{m}00"]].concat(),
    );
    let said = words(&run);
    assert!(
        said.contains("10000 variants (m: 100 values, n: 100 values) are too many, so 64 are measured"),
        "{said}"
    );
    let record = work.record();
    assert_eq!(treatments(&record, 0).len(), 64);
    assert_eq!(record["experiments"][0]["treatments"][63]["factors"]["parameter.n"], "100");
    assert!(record["notes"][0].as_str().unwrap().contains("n=1,15,29,43,58,72,86,100"), "{record}");
}

#[test]
fn many_variants_that_do_not_fit_are_raced() {
    let work = WorkFolder::new();
    // What decides is a figure that they print, and not the time that they take on a busy machine.
    let script = "sleep 0.3; case {n} in 2) echo took 1$(($$ % 10)) ;; *) echo took 2$(($$ % 10)) ;; esac";
    let metric = ["--metric", "took:lower=took (.*)"];
    let arguments =
        [&["compare", "--parameter", "n=2..7"], &metric[..], &["--", "sh", "-c", script]].concat();
    let run = work.run_within("50s", &arguments);
    assert_eq!(run.status.code(), Some(0), "{}", words(&run));
    assert!(
        words(&run).contains("of all 6 variants fit into the budget, so the variants are raced"),
        "{}",
        words(&run)
    );
    let record = work.record();
    let id = |index: usize| record["experiments"][index]["id"].as_str().unwrap().to_owned();
    assert_eq!((id(0), id(1)), ("compare-race-1".to_owned(), "compare".to_owned()));
    assert_eq!((treatments(&record, 0).len(), treatments(&record, 1).len()), (6, 4));
    let run = work.run(&["report", "out/record.json", "--format", "json"]);
    let judged: serde_json::Value = serde_json::from_slice(&run.stdout).unwrap();
    let raced: Vec<&str> =
        judged["race"].as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap()).collect();
    assert_eq!((raced.len(), raced.contains(&"n=2")), (5, false), "{raced:?}");
    let text = String::from_utf8_lossy(&work.run(&["report", "out/record.json"]).stdout).into_owned();
    let said = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(said.contains("Best in took: n=2"), "{text}");
    assert!(said.contains("2 of 6 variants were dropped in the race"), "{text}");
    assert!(said.contains("Race, best first"), "{text}");
}
