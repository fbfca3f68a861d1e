use super::*;
use manycore_experiment::{
    Record,
    record::{Direction, Metric},
};
use manycore_testkit::SyntheticMachine;
use serde_json::Value;

fn compared(ratio: f64) -> Record {
    let machine = SyntheticMachine { blocks: 12, noise: 0.01, steal: 0.0, ..SyntheticMachine::guest() };
    machine.compare(ratio)
}

fn named(record: Record) -> [NamedEvaluation; 1] {
    [NamedEvaluation::new("it".to_owned(), record)]
}

fn text(all: &[NamedEvaluation], format: ExportFormat) -> String {
    Exported { all, sessions: None }.text(format).unwrap()
}

#[test]
fn benchstat_has_a_line_for_each_sample_with_known_units() {
    let all = named(compared(1.2));
    let text = text(&all, ExportFormat::Benchstat);
    assert!(text.starts_with("Unit sec/op better=lower\ngoos: linux\ngoarch: x86_64\n"), "{text}");
    let lines: Vec<&str> = text.lines().filter(|line| line.starts_with("Benchmark")).collect();
    assert_eq!(lines.len(), 24);
    for line in lines {
        let words: Vec<&str> = line.split(' ').collect();
        assert!(words[0].starts_with("BenchmarkCompare/treatment=gzip_-9_-k_-c_big.log"), "{line}");
        assert!(words[0].ends_with("-2") && words[1] == "1" && words[3] == "sec/op", "{line}");
        assert!(words[2].parse::<f64>().unwrap() > 0.0);
    }
}

#[test]
fn a_hostile_command_stays_one_word_of_one_line() {
    let mut record = compared(1.0);
    "a\nBenchmarkX 1 2 ns/op <b>\u{1b}[31m &\"".clone_into(&mut record.experiments[0].treatments[0].name);
    record.machine.system.cpu_model = Some("x\nBenchmarkY 1 2 ns/op".to_owned());
    let all = named(record);
    let lines = text(&all, ExportFormat::Benchstat);
    assert!(
        lines.lines().all(|line| !line.starts_with("BenchmarkX") && !line.starts_with("BenchmarkY")),
        "{lines}"
    );
    for format in EXPORT_FORMATS.map(|(_, format)| format) {
        assert!(!text(&all, format).contains('\u{1b}') || format == ExportFormat::Csv, "{format:?}");
    }
}

#[test]
fn hyperfine_has_its_fields_in_seconds() {
    let all = named(compared(2.0));
    let json: Value = serde_json::from_str(&text(&all, ExportFormat::Hyperfine)).unwrap();
    let results = json["results"].as_array().unwrap();
    assert_eq!(results.len(), 2);
    let first = &results[0];
    assert_eq!(first["command"], "gzip -9 -k -c big.log");
    let times: Vec<f64> =
        first["times"].as_array().unwrap().iter().map(|time| time.as_f64().unwrap()).collect();
    assert_eq!((times.len(), first["exit_codes"].as_array().unwrap().len()), (12, 12));
    let mean = times.iter().sum::<f64>() / 12.0;
    assert!((first["mean"].as_f64().unwrap() - mean).abs() < 1e-9);
    assert!(first["min"].as_f64().unwrap() <= first["median"].as_f64().unwrap());
    assert!(first["user"].is_null() && first["stddev"].as_f64().unwrap() > 0.0);
    let eval = named(
        SyntheticMachine { blocks: 6, ..SyntheticMachine::guest() }
            .spawn(manycore_experiment::spawning::Work::Idle),
    );
    let refused = Exported { all: &eval, sessions: None }.text(ExportFormat::Hyperfine).unwrap_err();
    assert!(refused.contains("runs of commands"), "{refused}");
}

#[test]
fn hyperfine_has_system_time_and_parameters_where_the_record_has_them() {
    let mut record = compared(2.0);
    let experiment = &mut record.experiments[0];
    experiment.metrics.push(Metric {
        name: "cpu".to_owned(),
        unit: "s".to_owned(),
        better: Direction::Lower,
    });
    for sample in &mut experiment.samples {
        sample.values.push(0.5);
        sample.counters.system_ns = Some(200_000_000);
    }
    let factors = &mut experiment.treatments[0].factors;
    factors.insert("parameter.level".to_owned(), "9".to_owned());
    let json: Value = serde_json::from_str(&text(&named(record), ExportFormat::Hyperfine)).unwrap();
    let first = &json["results"][0];
    assert_eq!(first["parameters"], serde_json::json!({ "level": "9" }));
    assert!((first["system"].as_f64().unwrap() - 0.2).abs() < 1e-9, "{first}");
    assert!((first["user"].as_f64().unwrap() - 0.3).abs() < 1e-9, "{first}");
    assert!(json["results"][1].get("parameters").is_none());
}

#[test]
fn junit_has_a_case_for_each_gate_and_is_well_formed() {
    let mut all = named(compared(0.8));
    let gates = ["slower > 3%", "wall > 60%"].map(|gate| gate.parse().unwrap());
    all[0].decide(&gates, false).unwrap();
    let xml = text(&all, ExportFormat::Junit);
    assert!(
        xml.contains("<testsuite name=\"manycore\" tests=\"2\" failures=\"1\" errors=\"0\" skipped=\"0\">"),
        "{xml}"
    );
    assert!(
        xml.contains("name=\"slower &gt; 3%: B against A\"") && xml.contains("<failure message=\"Gate "),
        "{xml}"
    );
    manycore_text::xml::parse(&xml).unwrap();
    // Without gates, the answers are the cases.
    assert!(text(&named(compared(0.8)), ExportFormat::Junit).contains("tests=\"1\" failures=\"0\""));
}

#[test]
fn csv_has_the_figures_of_all_samples() {
    let csv = text(&named(compared(1.0)), ExportFormat::Csv);
    assert!(csv.starts_with("experiment,treatment,block,metric,unit,better,value,record\n"), "{csv}");
    assert_eq!(csv.lines().count(), 25);
    assert!("xml".parse::<ExportFormat>().unwrap_err().contains("there are json, csv, "));
}
